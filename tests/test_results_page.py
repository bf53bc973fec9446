"""docs/results.md and docs/discrete.md show what their commands print of the committed results, typed by nobody."""

import json
import re
from argparse import Namespace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from benchmarks import (
    committees,
    demo_seeds,
    discrete_actions,
    imagined_steps,
    kernel_speed,
    learning_plot,
    offline_choice,
    options,
    policy_ladder,
    results_table,
    seeds_together,
    study_regret,
    visited_distances,
)

from ilbrl.data.benchmark import source_score
from ilbrl.envs.tasks import TASKS as BUILT_IN
from ilbrl.report.formats import markdown
from ilbrl.report.scoreboard import selection_regret
from ilbrl.report.summary import summarise
from ilbrl.report.verdict import verdict
from ilbrl.results.folder import read_runs

DOCS = Path(__file__).parents[1] / "docs"
TASKS = ("hopper", "halfcheetah", "walker2d", "ant")
WITH_18, WITH_18_IMAGINED, WITH_2, WITHOUT_IMAGINED = (
    [DOCS / "results" / "locomotion" / f"{task}-{kind}" for task in TASKS]
    for kind in ("18", "18-imagined", "2-imagined", "2")
)


@pytest.fixture(scope="module")
def page():
    return (DOCS / "results.md").read_text().splitlines()


@pytest.fixture(scope="module")
def cells():
    return [read_json(path) for path in sorted((DOCS / "results" / "table").glob("*.json"))]


def test_the_table_of_every_algorithm(page, cells):
    assert len(cells) == 80 + 16
    assert set(results_table.table(cells).splitlines()) <= set(page)
    assert set(results_table.by_logs(cells).splitlines()) <= set(page)


def test_the_table_is_of_todays_defaults():
    asked = Namespace(seeds=6, updates=100_000, episodes=30, dtype="bfloat16")
    paths = sorted((DOCS / "results" / "table").glob("*.json"))
    assert all(results_table.is_current(path, read_json(path)["agent"], asked) for path in paths)
    longer = Namespace(**vars(asked) | {"updates": 200_000})
    assert not results_table.is_current(paths[0], read_json(paths[0])["agent"], longer)


def test_sentences_about_the_table(cells):
    text = flat("docs/results.md")
    mean = {(c["task"], c["expert_episodes"], c["agent"], c["logs"]): np.mean(c["scores"]) for c in cells}
    rows = [(task, count) for task in TASKS for count in (1, 2, 5, 18)]
    better = {row: max(mean[*row, "bc", "medium"], source_score(row[0], "medium")) for row in rows}
    behind = [round(better[row] - own, 1) for row in rows if (own := mean[*row, "ilbrl", "medium"]) < better[row]]
    assert sorted(behind) == [0.1, 0.3]
    assert "cloning in 14 of 16 rows**, and 0.1 and 0.3 points below the better of the two" in text
    assert "above both cloning and the policy behind the logs in 14 of 16 cases" in flat("README.md")
    for agent in ("ilbrl", "bc", "smodice", "ilbrl-unweighted"):
        assert in_words(np.mean([mean[t, n, agent, "medium"] for t in TASKS]) for n in (1, 2, 5, 18)) in text
    assert f"the policy behind the logs has {np.mean([source_score(t, 'medium') for t in TASKS]):.1f}." in text
    few, many = ([np.mean([mean[t, n, "oril", "medium"] for t in TASKS]) for n in some] for some in ((1, 2), (5, 18)))
    assert f"{in_words(few)} with 1 and 2 episodes, but {in_words(many)} with 5 and 18" in text
    oril, ilbrl = ([mean["halfcheetah", n, agent, "medium"] for n in (1, 2, 5, 18)] for agent in ("oril", "ilbrl"))
    assert np.less(ilbrl, oril).all()
    assert in_words(mean[t, 2, "ilbrl", "expert"] for t in TASKS) in text
    assert in_words(source_score(t, "expert") for t in TASKS) in text
    assert f"Cloning the two has {in_words(mean[t, 2, 'bc', 'medium'] for t in TASKS)}" in text
    harmed = [in_words(mean[t, 18, *how] for t in TASKS[:3]) for how in (("ilbrl", "random"), ("bc", "medium"))]
    assert f"ILBRL has {harmed[0]} on hopper, halfcheetah and walker2d, where cloning has {harmed[1]}" in text
    gained = {(t, n): mean[t, n, "ilbrl", "random"] - mean[t, n, "bc", "medium"] for t in TASKS for n in (2, 18)}
    assert f"on ant it gains {gained['ant', 18]:.0f} points. With two it loses {-gained['hopper', 2]:.0f}" in text
    assert f"gains {gained['walker2d', 2]:.0f} and {gained['ant', 2]:.0f} on walker2d and ant" in text


def test_the_learning_curves(page):
    folder, text = DOCS / "results" / "curves", flat("docs/results.md")
    assert set(learning_plot.table(folder)) <= set(page)
    scores = {e["task"]: np.array(e["scores"]) for e in learning_plot.curves(folder)}
    last = {e["task"]: np.array(e["scores_of_last_weights"]) for e in learning_plot.curves(folder)}
    gains = {task: found[-1].mean() - found[0].mean() for task, found in scores.items()}
    losses = sorted(-gain for gain in gains.values())
    assert f"bring {gains['walker2d']:.1f} points more on walker2d and {losses[1]:.1f} to {losses[-1]:.1f} less" in text
    moves = {task: [np.abs(np.diff(found[task], axis=0)).mean() for found in (scores, last)] for task in scores}
    assert "{:.1f} points from one evaluation to the next instead of {:.1f}".format(*moves["hopper"]) in text
    assert "by {:.1f} instead of {:.1f} on walker2d".format(*moves["walker2d"]) in text
    apart = [abs(scores[task].mean() - last[task].mean()) for task in ("halfcheetah", "walker2d", "ant")]
    assert max(apart) < 0.55


def test_what_the_papers_hyper_parameters_reach():
    entries = [e for task in TASKS for e in read_json(DOCS / "results" / "learning" / f"{task}.json")]
    last = {e["task"]: (np.array(e["scores"][-1]), e) for e in entries if e["variant"] == "paper"}
    said = {task: f"{s.mean():.1f} ± {1.96 * s.std(ddof=1) / np.sqrt(len(s)):.1f}" for task, (s, _) in last.items()}
    assert f"reach {said['hopper']} on hopper and {said['halfcheetah']} on halfcheetah" in flat("docs/results.md")
    assert min(last["walker2d"][1]["diverged_at"]) >= 0  # all six


def test_the_speed_of_the_kernels():
    page, folder = (DOCS / "performance.md").read_text(), DOCS / "results" / "speed"
    assert set(kernel_speed.table(folder / "profile.json")) <= set(page.splitlines())
    for one in read_json(folder / "kernels.json")["results"]:
        assert f"{one['updates_per_second']:,}" in page


def test_the_speed_of_training():
    rates = read_json(DOCS / "results" / "speed" / "training.json")["rates"]
    titles = ("ilbrl, 1 member", "ilbrl, 6 members together", "the same algorithm as a plain PyTorch loop")
    named = dict(zip((*titles, "d3rlpy's TD3+BC"), rates.values()))
    page = (DOCS.parent / "README.md").read_text().splitlines()
    assert {f"| {name} | {rate:.0f} | {rate / rates[titles[0]]:.2f} |" for name, rate in named.items()} <= set(page)


@pytest.mark.parametrize("folder", ["choice", "choice-earlier"])
def test_how_well_offline_values_choose(page, folder):
    lines = [line for line in offline_choice.table(DOCS / "results" / folder).splitlines() if line]
    assert len(lines) == {"choice": 17, "choice-earlier": 14}[folder]
    assert set(lines) <= set(page)


def judged(folder, how):
    """Cell → what choosing so came to, and what the best configuration of ILBRL has."""
    found = {cell.name: (offline_choice.judge(cell, how), cell) for cell in (DOCS / "results" / folder).iterdir()}
    return {
        name: (one, max(offline_choice.true_scores(cell, "ilbrl").values()))
        for name, (one, cell) in found.items()
        if one is not None
    }


def test_how_far_the_choices_are_from_the_best():
    text, readme = flat("docs/results.md"), flat("README.md")
    closeness, rewards = (judged("choice", how) for how in ("no rewards", "demonstrations"))
    regrets = {name: best - one.chosen for name, (one, best) in closeness.items()}
    assert (round(np.mean(list(regrets.values())), 1), round(max(regrets.values()), 1)) == (1.8, 4.9)
    assert "1.8 points below the best on average (we aimed at 3) and 4.9 at most (10)" in text
    assert all(one.overall[1] == one.chosen for one, _ in closeness.values())  # never worse than always taking ILBRL's
    assert round(min(one.spearman for one, _ in closeness.values()), 2) == 0.48
    by_rewards = {name: best - one.chosen for name, (one, best) in rewards.items()}
    assert (round(np.mean(list(by_rewards.values())), 1), round(by_rewards["hopper-2"])) == (7.4, 31)
    assert "84.3, which is 7.4 below the best on average and 31 on hopper with two episodes" in text
    assert rewards["hopper-2"][0].overall[0] == "bc"
    assert "score 89.9 on average; random ones 76.6, the best there were 91.7" in readme
    assert "Chosen by the logs' rewards they score 84.3, 31 points below the best on hopper" in readme
    for found in (closeness, rewards):
        assert sum((one.ladder or 0) >= 0.89 for one, _ in found.values()) == 7
    better = [
        judged(folder, "no rewards")[name][0].chosen - judged(folder, "demonstrations")[name][0].chosen
        for folder in ("choice", "choice-earlier")
        for name in judged(folder, "no rewards")
    ]
    assert (len(better), sum(d > 0 for d in better), sum(d < 0 for d in better)) == (12, 4, 1)


def test_why_rewards_chose_worse():
    """Best and chosen configuration of hopper and the chosen one of ant, with 2 episodes: values, returns, lengths."""
    text = flat("docs/results.md")

    def mean(cell, file, configuration, field):
        folder = DOCS / "results" / "choice" / cell
        groups = offline_choice.by_configuration(read_json(folder / "candidates.json")["candidates"])
        found = read_json(folder / f"{file}.json")
        return np.mean([found.get("values", found.get("scores"))[name][field] for name in groups[configuration]])

    def numbers(cell, configuration):
        told = [("truth", "return"), ("truth", "length"), ("values-demonstrations", "value")]
        told += [("values-demonstrations", "length"), ("values-no-rewards", "value"), ("values-no-rewards", "length")]
        return [mean(cell, file, configuration, field) for file, field in told]

    def picked(cell, how):
        worth = offline_choice.HOW[how].worths(DOCS / "results" / "choice" / cell)
        assert worth is not None
        candidates = read_json(DOCS / "results" / "choice" / cell / "candidates.json")["candidates"]
        groups = offline_choice.by_configuration(candidates)
        own = {key: np.mean([worth[name] for name in names]) for key, names in groups.items() if key[0] == "ilbrl"}
        return max(own, key=own.__getitem__)

    true, steps, value, given, close, played = numbers("hopper-2", picked("hopper-2", "no rewards"))
    assert f"returns {true:,.0f} in {steps:.0f} steps and is given {value:,.0f} in {given:.0f}" in text
    timid = numbers("hopper-2", picked("hopper-2", "demonstrations"))
    assert f"valued nearly right ({timid[2]:,.0f} for {timid[0]:,.0f})" in text
    assert f"({close / played:.2f} a step against {timid[4] / timid[5]:.2f} on hopper; their rewards are" in text
    assert f"are {value / given:.1f} and {timid[2] / timid[3]:.1f})" in text
    fast = numbers("ant-2", picked("ant-2", "demonstrations"))
    assert f"is given {fast[3]:.0f} steps, in truth it has {fast[1]:.0f}" in text


def test_what_the_first_test_showed():
    found = [one for how in ("expert logs", "demonstrations") for one, _ in judged("choice-earlier", how).values()]
    assert len(found) == 16
    assert all(one.overall[1] == one.chosen for one in found)
    assert sum((one.ladder or 0) >= 0.89 for one in found) == 16


def test_the_regret_of_selection(page):
    for folders in (WITH_18 + WITH_2, WITHOUT_IMAGINED):
        runs = read_runs(folders)
        lines = {*study_regret.of_ilbrl(runs), *study_regret.of_every_algorithm(runs), *study_regret.between(runs)}
        assert lines <= set(page)


@pytest.mark.parametrize("folders", [WITH_18, WITH_2, WITHOUT_IMAGINED], ids=["18", "2", "2 without imagined steps"])
def test_the_scores_of_the_studies(page, folders):
    text = markdown(summarise(folders))
    rows = [line for line in text[text.index("## True scores") :].splitlines() if line.startswith(("| ", "|  "))]
    assert len(rows) == 8
    assert set(rows) <= set(page)


def in_words(scores, digits=1):
    *first, last = (f"{score:.{digits}f}" for score in scores)
    return f"{', '.join(first)} and {last}"


def studies(folders):
    return [_study(folder) for folder in folders]


@cache
def _study(folder):
    return read_runs([folder])[0]


def choices(folders, algorithm="ilbrl"):
    """Scores of an algorithm's configurations and which was chosen, per task."""
    found = [selection_regret(run)[algorithm] for run in studies(folders)]
    return [({n: mean.value for n, mean in one.configurations.items()}, one.chosen) for one in found]


def flat(name):
    return " ".join((DOCS.parent / name).read_text().split())


def test_sentences_about_the_studies_have_their_numbers():
    page, readme, imagination = map(flat, ("docs/results.md", "README.md", "docs/imagination.md"))
    for count, folders in ((18, WITH_18), (2, WITH_2)):
        assert in_words(scores[chosen] for scores, chosen in choices(folders)) in page
        for algorithm, name in (("ilbrl", "ILBRL"), ("bc", "cloning (BC)")):
            cells = [f"{scores[chosen]:.1f}" for scores, chosen in choices(folders, algorithm)]
            assert f"| {name}, {count} demonstrations | {' | '.join(cells)} |" in readme
    assert in_words(scores[chosen] for scores, chosen in choices(WITH_2)) in imagination
    for folders, text in ((WITH_18, page), (WITH_2, imagination), (WITHOUT_IMAGINED, imagination)):
        assert in_words(scores[0] for scores, _ in choices(folders)) in text  # the default
    for folders, algorithm in ((WITH_18, "bc"), (WITH_2, "ilbrl"), (WITH_2, "ilbrl-unweighted")):
        assert in_words(max(scores.values()) for scores, _ in choices(folders, algorithm)) in page


def test_what_choosing_cost():
    page, readme = map(flat, ("docs/results.md", "README.md"))
    chosen, default, random, best = np.mean(
        [
            (scores[chosen], scores[0], np.mean(list(scores.values())), max(scores.values()))
            for scores, chosen in choices(WITH_18 + WITH_2)
        ],
        axis=0,
    )
    for text in (page, readme):
        assert f"{best - chosen:.1f} points below the best on average" in text
    assert (
        f"{chosen - default:.1f} points above always taking the default, {chosen - random:.1f} above a random" in page
    )
    assert f"{chosen - default:.1f} above always taking the default and {chosen - random:.1f} above a random" in readme
    gains = [scores[chosen] - scores[0] for scores, chosen in choices(WITH_18 + WITH_2)]
    assert (sum(gain > 0 for gain in gains), sum(gain < 0 for gain in gains)) == (5, 3)
    gains += [scores[chosen] - scores[0] for scores, chosen in choices(WITHOUT_IMAGINED)]
    assert f"Over all twelve studies, the earlier ones below among them, it is {np.mean(gains):.1f} above" in page


def test_two_demonstrations_reach_what_was_aimed_at():
    page, runs, deployed = flat("docs/results.md"), read_runs(WITH_2), []
    for run, (scores, number), goal in zip(runs, choices(WITH_2), (90, 60, 90, 76)):
        assert run.final is not None
        assert run.selection.overall is not None
        assert run.selection.overall.algorithm == "ilbrl"
        assert scores[number] >= goal
        chosen = run.selection.algorithms["ilbrl"]
        played = {score.policy_seed: score for score in run.final.scores if score.algorithm == "ilbrl"}
        deployed.append(played[chosen.best_seed].score)
        true = np.mean([score.return_mean for score in played.values()])
        assert re.search(rf"{chosen.value:,.0f} (for|and returns) {true:,.0f}", page)
    assert in_words(deployed) in page


@pytest.mark.parametrize("group", ["18", "2-imagined", "18-imagined", "2"])
def test_the_reports_of_the_studies_are_those_of_their_folders(group):
    folders = [DOCS / "results" / "locomotion" / f"{task}-{group}" for task in TASKS]
    assert (DOCS / "results" / "locomotion" / f"report-{group}.md").read_text() == markdown(summarise(folders))


def test_the_files_of_the_studies():
    """Each is the seed with the highest value; what became of it, and what the report says of it."""
    text, found, worst, doubted = flat("docs/results.md"), [], 0, []
    for folders in (WITH_2, WITH_18_IMAGINED):
        files = []
        for run in read_runs(folders):
            scores = {c.policy_seed: c.true_score for c in run.candidates if c.selected and c.algorithm == "ilbrl"}
            files.append(scores[run.selection.algorithms["ilbrl"].best_seed])
            worst += files[-1] == min(scores.values())
            doubted += [files[-1]] if "may be no better than the logs" in verdict(run).headline else []
        found.append(in_words(files))
    assert f"With 2 episodes these four score {found[0]}, with 18 and imagined steps {found[1]}: three of the" in text
    assert worst == 3
    assert f"of two ({' and '.join(f'{score:.1f}' for score in sorted(doubted, reverse=True))}) the report" in text


def test_no_candidate_was_played_before_selection():
    for commit, folders in (("1da9779", WITH_18 + WITHOUT_IMAGINED), ("ae2e70b", WITH_2)):
        for run in read_runs(folders):
            assert run.audit.environment_calls["candidates_before_selection"] == 0
            assert run.audit.commit == commit


def test_choosing_otherwise_in_the_studies_with_18_episodes_and_imagined_steps(page):
    """Scores, regret, and what the return and Expected SARSA would have chosen among the same candidates."""
    runs, text = read_runs(WITH_18_IMAGINED), flat("docs/results.md")
    assert set(study_regret.ways_of_choosing(runs)) <= set(page)
    rendered = markdown(summarise(WITH_18_IMAGINED)).splitlines()
    rows = {line for line in rendered if line.startswith(("| ILBRL |", "| ILBRL, unweighted |"))}
    assert len(rows & set(page)) == 2
    found = choices(WITH_18_IMAGINED)
    chosen, default, random, best = (
        np.mean([of(scores, number) for scores, number in found])
        for of in (
            lambda scores, number: scores[number],
            lambda scores, _: scores[0],
            lambda scores, _: np.mean(list(scores.values())),
            lambda scores, _: max(scores.values()),
        )
    )
    assert (
        f"**{best - chosen:.1f} points below the best**, {chosen - default:.1f} above the default"
        f" and {chosen - random:.1f} above a random one" in text
    )
    for name in ("docs/results.md", "README.md"):
        assert f"{best - chosen:.1f} in four more" in flat(name)
    assert f"the choice scores {in_words(scores[number] for scores, number in found)}" in text
    for run, earlier, agreed in zip(runs, read_runs(WITH_18), (True, True, True, False)):
        settings, before = (each.selection.algorithms["ilbrl"].hyperparameters for each in (run, earlier))
        assert (settings["agreement"] == 2) == agreed
        assert not agreed or {**before, "agreement": 2} == {**settings}
    scores, number = found[TASKS.index("walker2d")]
    assert f"the worst of eight, {max(scores.values()) - scores[number]:.1f} points below the best" in text
    assert scores[number] == min(scores.values())
    assert runs[2].final is not None
    falling = min((s for s in runs[2].final.scores if s.algorithm == "ilbrl"), key=lambda s: s.return_mean)
    assert f"falls within 150 steps in {sum(n < 150 for n in falling.lengths)} of {falling.episodes} episodes" in text
    for run in runs:
        assert run.selection.overall is not None
        assert run.selection.overall.algorithm == "ilbrl"
        assert run.tuning.trust is not None
        assert run.tuning.trust.verdict == "care"
        assert run.audit.environment_calls["candidates_before_selection"] == 0
        assert run.audit.commit == "0e4ecdd+"


def test_what_seeds_bring_together(page):
    record, text = read_json(DOCS / "results" / "together.json"), flat("docs/results.md")
    studies = record["studies"]
    assert set(seeds_together.lines_of(studies)) <= set(page)
    entries = [entry for study in studies.values() for entry in study]
    members = [np.mean(entry["members"]) for entry in entries]
    together, highest = ([entry[name] for entry in entries] for name in ("together", "highest_value"))
    assert f"{np.mean(highest):.1f} on average, a seed taken at random {np.mean(members):.1f}" in text
    better = sum(one > mean for one, mean in zip(together, members))
    assert f"**Together they have {np.mean(together):.1f}**, above the mean of their members in {better} of 56" in text
    assert f"{better} committees are above" in flat("docs/committees.md")
    assert len(entries) == 56
    worse = sum(one < of_file for one, of_file in zip(together, highest))
    assert f"They are below the seed with the highest value, the file they replace, in {worse} of 56" in text
    assert f"against that mean is {max(mean - one for one, mean in zip(together, members)):.1f} points" in text
    for name, suffix in (
        ("18, imagined steps", "18-imagined"),
        ("18", "18"),
        ("2, imagined steps", "2-imagined"),
        ("2", "2"),
    ):
        folders = [DOCS / "results" / "locomotion" / f"{task}-{suffix}" for task in TASKS]
        assert f"  | {name} | {seeds_together.highest_line(folders)} |" in page
    chosen = [
        next(entry["together"] for entry in studies[f"{task}-18-imagined"] if _is_choice(entry)) for task in TASKS
    ]
    for name in ("docs/results.md", "README.md"):
        assert in_words(chosen) in flat(name)
    said = f"the seeds together have {np.mean(together):.1f}, one by itself {np.mean(members):.1f}"
    assert said in flat("README.md")
    assert f"| ILBRL, its five seeds together | {' | '.join(f'{score:.1f}' for score in chosen)} | |" in page


def _is_choice(entry):
    return entry["algorithm"] == "ilbrl" and entry["selected"]


def test_what_options_bring(page):
    folder, text = DOCS / "results" / "options", flat("docs/results.md")
    assert set(options.lines_of(folder)) <= {*page, ""}
    cells = [read_json(path) for path in folder.glob("*.json")]
    medium, random, cloned = ([cell for cell in cells if cell["logs"] == logs] for logs in ("medium", "random", "no"))
    assert {cell["commit"] for cell in (*medium, *random)} == {"0e4ecdd+"}
    assert {(cell["updates"], len(cell["scores"]["the default"])) for cell in medium} == {(60_000, 3)}
    assert {(cell["updates"], len(cell["scores"]["the default"])) for cell in random} == {(100_000, 6)}
    mean = {name: options.mean_of([cell["scores"][name] for cell in medium]) for name in options.OPTIONS}
    usual, usual_half = mean.pop("the default")
    gains = {name: (score - usual, np.hypot(half, usual_half)) for name, (score, half) in mean.items()}
    best = sorted(gains, key=lambda name: gains[name])[:-4:-1]
    assert set(best) == {"agreement 2", "rewards by rank", "three layers"}
    shown = "{:.1f} ± {:.1f}, {:.1f} ± {:.1f} and {:.1f} ± {:.1f} points above the default"
    chosen = [gains[name] for name in ("agreement 2", "rewards by rank", "three layers")]
    assert shown.format(*(number for gain in chosen for number in gain)) in text
    assert [name for name, (gain, half) in gains.items() if abs(gain) > half] == ["second actor, λ 0.3"]
    lost, half = gains["second actor, λ 0.3"]
    assert f"Only what the second actor loses is ({-lost:.1f} ± {half:.1f})." in text
    with_18 = {cell["task"]: np.mean(cell["scores"]["both"]) for cell in random if cell["expert_episodes"] == 18}
    clones = {cell["task"]: np.mean(cell["scores"]["cloning"]) for cell in cloned}
    assert {(cell["updates"], len(cell["scores"]["cloning"])) for cell in cloned} == {(100_000, 3)}
    both = f"With 18 demonstrations both together have {in_words(with_18[task] for task in TASKS)}"
    assert f"{both}, and cloning {in_words(clones[task] for task in TASKS)}" in text
    assert f"it stays ahead by {clones['halfcheetah'] - with_18['halfcheetah']:.0f} points" in text


def test_the_ladder_of_known_policies():
    page = set((DOCS / "evaluation.md").read_text().splitlines())
    folder = DOCS / "results" / "ladder-models"
    assert set(policy_ladder.lines_of(folder)) <= page
    by_closeness = [read_json(folder / "closeness" / f"{task}.json") for task in TASKS]
    tables = [record["table"][record["chosen"]] for record in by_closeness]
    assert {round(table["seen_check"]["spearman"], 1) for table in tables} == {1.0}
    blind = in_words(table["unseen_check"]["spearman"] for table in tables)
    assert f"1.0 on every task with a policy's own logs, and {blind} without them" in flat("docs/evaluation.md")
    records = [read_json(folder / f"{task}.json") for task in TASKS]
    assert {record["commit"] for record in records + by_closeness} == {"0e4ecdd+"}
    assert [record["trust"]["verdict"] for record in records] == ["distrust", "care", "care", "distrust"]
    stopped = {
        level: [t for t, r in zip(TASKS, records) if r["table"][r["chosen"]]["unseen"][level]["length"] < 11]
        for level in ("medium", "expert", "rung1", "rung2")
    }
    assert stopped == {
        "medium": list(TASKS),
        "expert": ["hopper", "walker2d"],
        "rung1": list(TASKS),
        "rung2": ["hopper", "ant"],
    }


def test_the_tables_of_discrete_actions():
    page, folder = set((DOCS / "discrete.md").read_text().splitlines()), DOCS / "results" / "discrete"
    assert set(discrete_actions.table(folder)) <= page
    seeds = json.loads((folder / "lunarlander-2ep.json").read_text())["seeds"].values()
    apart = np.array([seed["ilbrl"]["score"] - seed["bc"]["score"] for seed in seeds])
    half_width = 1.96 * apart.std(ddof=1) / np.sqrt(len(apart))
    said = f"({apart.mean():.1f} ± {half_width:.1f})".replace("-", "−")
    assert said in "\n".join(page)
    assert (apart > 0).sum() == 2
    seeds = read_json(folder / "committees" / "lunarlander-2ep.json")["seeds"].values()
    bc, ilbrl = (np.mean([seed[name]["score"] for seed in seeds]) for name in ("bc", "ilbrl"))
    assert f"BC {bc:.1f}, ILBRL {ilbrl:.1f} (the first command" in "\n".join(page)
    landers = [f"lunarlander-{seed}" for seed in (31, 32, 33, 51, 52, 53)]
    runs = read_runs([folder / "studies" / study for study in ("cartpole", "acrobot", "clinic", *landers)])
    assert {*study_regret.of_ilbrl(runs), *study_regret.of_every_algorithm(runs), *study_regret.between(runs)} <= page
    assert all(run.audit.environment_calls["candidates_before_selection"] == 0 for run in runs)
    assert all(len(selection_regret(run)["ilbrl"].configurations) == 12 for run in runs)
    found = [(selection_regret(run), overall.algorithm) for run in runs[3:] if (overall := run.selection.overall)]
    chosen = {
        name: [each[name].configurations[each[name].chosen].value for each, _ in found] for name in ("ilbrl", "bc")
    }
    assert {name: round(np.mean(scores), 1) for name, scores in chosen.items()} == {"ilbrl": 91.1, "bc": 79.6}
    better = [name == max(chosen, key=lambda other, i=i: chosen[other][i]) for i, (_, name) in enumerate(found)]
    assert sum(better) == 5
    assert {run.audit.commit for run in runs[3:]} == {"ef51d4d"}
    earlier = read_runs([folder / "studies" / "earlier" / "lunarlander"])
    assert "| lunarlander | 58.6 | 79.8 | 86.9 | 99.2 | −0.49 |" in study_regret.of_ilbrl(earlier)


def test_the_table_of_the_demo():
    page, folder = (DOCS / "protocol.md").read_text(), DOCS / "results" / "demo"
    found = read_json(folder / "clinic.json")
    assert set(demo_seeds.table(found["studies"])) <= set(page.splitlines())
    right, above, better = counts_of(found["studies"])
    assert (right, above, better) == (10, 10, 10)
    assert f"**In {right} of 10 studies the policy that was selected" in page
    assert "It beats the logs' policy in all ten, and is the better of the two in all ten." in page
    assert {study["seed"] for study in found["studies"]} == {*range(350, 360)}
    third = read_json(folder / "third" / "clinic.json")
    assert (third["commit"], counts_of(third["studies"])) == ("9ddc7e8", (10, 10, 10))
    first = read_json(folder / "first" / "clinic.json")["studies"][0]["scores"]
    beside = f"{first['logs']:.1f}, BC {first['bc']:.1f} and the expert {first['expert']:.1f}."
    for text in map(flat, ("README.md", "docs/start.md")):
        assert f"ILBRL, chosen from logs alone, scores {first['ilbrl']:.1f} in the environment." in text
        assert f"Beside it: the policy that made the logs {beside}" in text
        assert "the selected policy beats both the logs' policy and cloning in all ten" in text


def test_the_table_of_the_hopper_demo():
    page, folder = (DOCS / "protocol.md").read_text(), DOCS / "results" / "demo"
    found = read_json(folder / "hopper.json")
    studies = found["studies"]
    assert (found["commit"], [study["seed"] for study in studies]) == ("df3dcc7", [*range(520, 530)])
    assert set(demo_seeds.table(studies)) <= set(page.splitlines())
    right, above, _ = counts_of(studies)
    assert f"right in {right} of {len(studies)} studies" in page
    assert above == 9
    mean = {name: np.mean([study["scores"][name] for study in studies]) for name in ("logs", "expert", "ilbrl", "bc")}
    said = (
        "the logs scores {logs:.1f}, the expert {expert:.1f}, ILBRL's files {ilbrl:.1f} on average and BC's {bc:.1f}."
    )
    assert said.format(**mean) in page
    tied = [study for study in studies if study["offline"]["bc"] > study["offline"]["ilbrl"]]
    assert [study["seed"] for study in tied] == [522, 526, 529]
    assert counts_of(tied)[0] == 3
    assert "it would have been right in five" in page
    assert right - len(tied) == 5
    assert f"{min(study['scores']['ilbrl'] for study in studies):.1f} with seed 527" in page
    first = [read_json(folder / name / "hopper.json")["studies"] for name in ("three-demonstrations", "earlier")]
    assert [(counts_of(each)[0], len(each)) for each in first] == [(2, 4), (1, 4)]
    for text in map(flat, ("README.md", "docs/start.md")):
        assert "the same with a robot (three minutes): right in eight of ten." in text


def test_the_hopper_demo_with_one_demonstration():
    text = flat("docs/protocol.md")
    studies = read_json(DOCS / "results" / "demo" / "one-demonstration" / "hopper.json")["studies"]
    assert [study["seed"] for study in studies] == [420, 421, 422, 423, 430, 431, 432]
    ours, clones = ([study["scores"][name] for study in studies] for name in ("ilbrl", "bc"))
    assert f"ILBRL's file has {min(ours):.0f} to {max(ours):.0f} in seven studies" in text
    assert all(one > other for one, other in zip(ours, clones))
    logs = {study["scores"]["logs"] for study in studies}
    assert sum(one > max(logs) for one in ours) == 6
    shown = (
        f"({min(clones):.0f} to {max(clones):.0f}) and above the logs' policy ({max(logs):.1f} in ten episodes) in six"
    )
    assert f"above cloning in all seven {shown}" in text
    assert sum(study["selected"] == "bc" for study in studies) == 4
    (study,) = (study for study in studies if study["seed"] == 430)
    (alone,) = re.findall(r"by themselves at ([\d.]+)", study["deployed"])
    assert f"({study['offline']['bc']:.0f} and {float(alone):.0f} in study 430)" in text


def counts_of(studies):
    """In how many the selected policy beats logs and cloning; beats the logs; is the better of the two."""
    scores = [(study["scores"], study["selected"]) for study in studies]
    right = [demo_seeds.beats(of, name) for of, name in scores]
    above = [of[name] > of["logs"] for of, name in scores]
    better = [max("ilbrl", "bc", key=of.__getitem__) == name for of, name in scores]
    return sum(right), sum(above), sum(better)


def test_what_the_earlier_recipes_of_the_demo_came_to():
    page, folder, clinic = flat("docs/protocol.md"), DOCS / "results" / "demo", BUILT_IN["clinic"]
    low, high = clinic.random_return, clinic.expert_return
    assert low is not None
    assert high is not None
    earlier, second, together, third, last = (
        read_json(folder / name / "clinic.json")["studies"]
        for name in ("earlier", "second", "second-together", "third", "")
    )
    cloning = [
        study["seed"]
        for studies in (earlier, second, together, third, last)
        for study in studies
        if study["scores"]["bc"] > study["scores"]["ilbrl"]
    ]
    assert cloning == [335]
    assert sum(map(len, (earlier, second, together, third, last))) == 50
    assert "In one of fifty studies (335)" in page
    assert [counts_of(studies)[0] for studies in (earlier, second, together)] == [7, 9, 8]
    assert all(study["scores"]["ilbrl"] > max(study["scores"][name] for name in ("bc", "logs")) for study in earlier)
    behind = [study["offline"]["bc"] - study["offline"]["ilbrl"] for study in earlier if study["selected"] == "bc"]
    assert len(behind) == 3
    assert max(behind) < 0.035

    missed = [
        np.mean(
            [abs(study["offline"]["ilbrl"] - low - study["scores"]["ilbrl"] / 100 * (high - low)) for study in studies]
        )
        for studies in (second, together, third, last)
    ]
    assert f"seeds missed what its file returned by {missed[0]:.3f} and {missed[1]:.3f}" in page
    apart = (last[0]["scores"]["expert"] - last[0]["scores"]["logs"]) / 100 * (high - low)
    of_which = f"of which logs and expert are {apart:.2f} apart"
    assert f"they miss by {missed[2]:.3f} (340 to 349) and {missed[3]:.3f}, {of_which}" in page
    (truly,) = (study["scores"] for study in together if study["seed"] == 335)
    assert f"cloning was truly better ({truly['bc']:.1f}, ILBRL {truly['ilbrl']:.1f})" in page


def test_what_committees_bring():
    page = (DOCS / "committees.md").read_text().splitlines()
    assert set(committees.table(DOCS / "results" / "committees")) <= set(page)


def test_what_distances_between_visited_and_expert_steps_bring():
    page, folder = flat("docs/evaluation.md"), DOCS / "results" / "distances"
    found = visited_distances.records(folder)
    assert set(visited_distances.table(found)) <= set((DOCS / "evaluation.md").read_text().splitlines())
    seeds = {task: [study["seed"] for study in of_task] for task, of_task in found.items()}
    assert seeds == {"clinic": list(range(360, 366)), "hopper": [360, 361]}

    def judged(task, way, algorithm=None):
        return [visited_distances.judge(study, way, algorithm) for study in found[task]]

    def chosen(task, way, algorithm=None):
        return np.mean([one.chosen for one in judged(task, way, algorithm)])

    def correlation(task, way):
        return np.mean([one.spearman for one in judged(task, way, "ilbrl")])

    ways = [way for way in visited_distances.WAYS if way not in visited_distances.HIGHER_IS_BETTER]
    assert len(ways) == 9
    for task in found:
        for algorithm in ("ilbrl", None):
            assert max(chosen(task, way, algorithm) for way in ways) <= chosen(task, "closeness", algorithm)
            without = [one.chosen for one in judged(task, "closeness_unpenalised", algorithm)]
            assert without == [one.chosen for one in judged(task, "closeness", algorithm)]
    three = [chosen("clinic", way) for way in ("closeness", "energy", "mmd")]
    assert "closeness has {:.1f}, the energy distance {:.1f} and MMD {:.1f}".format(*three) in page
    pairs = zip(*(judged("clinic", way, "ilbrl") for way in ("energy_ends", "closeness")))
    signs = [np.sign(round(own.spearman - closeness.spearman, 9)) for own, closeness in pairs]
    better, worse = signs.count(1), signs.count(-1)
    assert f"better than closeness does in {better} of {len(signs)} studies (worse in {worse})" in page
    ended, lived = (correlation("clinic", way) for way in ("energy_ends", "energy"))
    assert f"better than without ({ended:.2f} instead of {lived:.2f})" in page
    both = zip(judged("clinic", "energy_ends"), found["clinic"])
    worst, best = min((one.chosen, max(visited_distances.scores(study))) for one, study in both)
    assert f"it prefers a clone of {worst:.1f} in one study, where the best has {best:.1f}" in page
    highest = max(correlation("hopper", way) for way in visited_distances.WAYS)
    assert f"no mean correlation is above {highest:.2f}, that of rewards included" in page
    same = [[one.chosen for one in judged("hopper", way, "ilbrl")] for way in ("rewards", "closeness")]
    assert same[0] == same[1]


def test_what_imagined_steps_bring():
    page, readme = flat("docs/imagination.md"), flat("README.md")
    folder = DOCS / "results" / "imagined"
    lines = imagined_steps.table(folder).splitlines()
    assert set(lines) <= set((DOCS / "imagination.md").read_text().splitlines())
    assert set(lines) <= set((DOCS / "results.md").read_text().splitlines())
    assert imagined_steps.table(DOCS / "results" / "imagined-small") in (DOCS / "imagination.md").read_text()
    cells = {(task, count): read_json(folder / f"{task}-{count}.json") for task in TASKS for count in (2, 18)}
    older = {(task, 2) for task in TASKS if task != "ant"}
    assert all(cell["commit"] == ("c33fb05" if where in older else "ae2e70b") for where, cell in cells.items())
    means = {where: [np.mean(cell[kind]["scores"]) for kind in ("without", "with")] for where, cell in cells.items()}
    assert all(min(cell["with"]["scores"]) > means[where][0] for where, cell in cells.items() if where[1] == 2)
    assert min(cells["hopper", 2]["with"]["scores"]) > 110.2 - 3
    (two, two_with), (many, many_with) = (np.mean([means[t, n] for t in TASKS], axis=0) for n in (2, 18))
    assert f"{two:.1f} on average without imagined steps and to {two_with:.1f} with them" in readme
    assert f"from eighteen to {many:.1f} and {many_with:.1f}" in readme
    assert f"{two_with - two:.0f} points more on average" in page
    before = read_json(folder / "earlier" / "ant-2.json")
    without, imagined = (np.mean(before[kind]["scores"]) for kind in ("without", "with"))
    assert f"scored {imagined:.1f} with imagined steps and {without:.1f} without" in page
    beside = [cell for where, cell in cells.items() if where != ("ant", 2)]  # four tasks side by side
    took = [[cell["with"][f"seconds_of_{what}"] for cell in beside] for what in ("imagining", "training")]
    assert f"took {min(took[0]):.0f} to {max(took[0]):.0f} seconds there" in page
    assert f"({cells['ant', 2]['with']['seconds_of_imagining']:.0f} with ant alone)" in page
    assert f"training with it {min(took[1]):.0f} to {max(took[1]):.0f}" in page


def read_json(path):
    return json.loads(path.read_text())
