"""The numbers in sentences of docs/results.md, of the README and of pages beside them, recomputed from the results.

Each test computes what sentences say and states them as they stand on the page.
"""

import re
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from benchmarks import (
    default_configurations,
    learning_curves,
    learning_plot,
    offline_choice,
    options,
    study_cost,
    study_goals,
    study_regret,
)
from tests.test_results_page import (
    DOCS,
    TASKS,
    WITH_2,
    WITH_18,
    WITH_18_IMAGINED,
    WITHOUT_IMAGINED,
    choices,
    flat,
    in_words,
    judged,
    read_json,
    studies,
)

from ilbrl.data.benchmark import source_score
from ilbrl.ope import spearman
from ilbrl.report.deployed import file_played
from ilbrl.report.formats import markdown
from ilbrl.report.scoreboard import played_configurations, reference_score
from ilbrl.report.summary import summarise
from ilbrl.results import read_run
from ilbrl.study.selection import among_algorithms

RESULTS = DOCS / "results"
TEXT = flat("docs/results.md")
LINES = (DOCS / "results.md").read_text().splitlines()
PAPER = {  # its Table 1, hopper to ant
    "ILBRL": (64.6, 49.9, 80.7, 104.9),
    "BC": (69.5, 4.9, 27.0, 21.7),
    "SMODICE": (53.2, 42.7, 75.9, 90.1),
    "ORIL": (5.7, 55.1, 25.3, 35.8),
    "logs": (55.6, 42.7, 67.4, 88.3),
    "expert": (111.0, 94.4, 107.7, 121.6),
}


def say(*sentences, text=TEXT):
    assert [sentence for sentence in sentences if sentence not in text] == []


def of_choices(folders, algorithm="ilbrl"):
    """True scores of what was chosen, also where nothing else of the algorithm was played."""
    runs = studies(folders)
    return [
        played_configurations(run)[algorithm][run.selection.algorithms[algorithm].configuration].value for run in runs
    ]


def best(folders, algorithm="ilbrl"):
    return [max(scores.values()) for scores, _ in choices(folders, algorithm)]


def references(folders, role):
    return [score for run in studies(folders) if (score := reference_score(run, role)) is not None]


def listed(scores, digits=1):
    return ", ".join(f"{score:.{digits}f}" for score in scores)


def regret(folders):
    return np.subtract(best(folders), of_choices(folders))


def of_selected(run, algorithm="ilbrl"):
    """The selected policies of an algorithm, as they were played at last."""
    assert run.final is not None
    return [score for score in run.final.scores if score.algorithm == algorithm]


def verdicts(runs):
    return [run.tuning.trust and run.tuning.trust.verdict for run in runs]


def returns(run):
    """Configuration of ILBRL → mean return and mean length of its seeds."""
    found = {}
    for score in [*run.final.scores, *run.reveal.scores]:
        if score.algorithm == "ilbrl":
            found.setdefault(score.configuration, []).append((score.return_mean, np.mean(score.lengths)))
    return {number: np.mean(each, axis=0) for number, each in found.items()}


# --- does it reach the expert? ------------------------------------------------------------------------------------


def test_the_summary():
    closeness, rewards = (
        np.mean([top - one.chosen for one, top in judged("choice", how).values()])
        for how in ("no rewards", "demonstrations")
    )
    entries = [entry for study in read_json(RESULTS / "together.json")["studies"].values() for entry in study]
    together, highest = (np.mean([entry[name] for entry in entries]) for name in ("together", "highest_value"))
    eight, four = (np.mean(regret(folders)) for folders in (WITH_18 + WITH_2, WITH_18_IMAGINED))
    say(
        f"| {eight:.1f} points on average in eight studies, {four:.1f} in four more |",
        f"| all seeds together: {together:.1f}, where the seed with the highest value has {highest:.1f} |",
        f"| by closeness {closeness:.1f} points below the best in a test of its own, {four:.1f} in four later studies;"
        f" by rewards {rewards:.1f}.",
    )


def test_the_same_policies_in_different_tables():
    ant, cheetah, hopper = (
        [source_score(task, level), references(WITH_18, role)[TASKS.index(task)]]
        for task, level, role in (
            ("ant", "medium", "logs"), ("halfcheetah", "expert", "expert"), ("hopper", "medium", "logs")
        )
    )  # fmt: skip
    say(f"ant's logs {in_words(ant)}, halfcheetah's expert {in_words(cheetah)}")
    say(f"hopper's logs {in_words(hopper)}.")


def test_a_row_that_stands_in_several_tables_is_right_in_each():
    """Policies of logs and expert have the same row wherever the studies' scores are shown."""
    expected = Counter()
    for folders in (WITH_18, WITH_2, WITHOUT_IMAGINED):
        text = markdown(summarise(folders))
        expected += Counter(line for line in text[text.index("## True scores") :].splitlines() if "policy of" in line)
    assert sorted(expected.values()) == [3, 3]
    for name, level in (("policy of the logs", "medium"), ("expert", "expert")):  # beside the default
        expected[f"| {name} | | {' | '.join(f'{score:.1f}' for score in by_default(level))} |"] = 1
    assert Counter(line for line in LINES if line.startswith(("| policy of the", "| expert | |"))) == expected
    for name, role in (("policy behind the logs", "logs"), ("expert", "expert")):
        cells = " | ".join(f"{score:.1f}" for score in references(WITH_18, role))
        assert re.findall(rf"\| {name} \| (\d.*) \|\n", (DOCS.parent / "README.md").read_text()) == [cells]


def by_default(level):
    """Built-in policies on the four tasks, and their mean."""
    scores = [source_score(task, level) for task in TASKS]
    return [*scores, np.mean(scores)]


def test_how_near_the_expert_the_choices_are():
    chosen, expert = of_choices(WITH_18), references(WITH_18, "expert")
    short = np.subtract(expert, chosen)
    lam = [run.selection.algorithms["ilbrl"].hyperparameters["lam"] for run in studies(WITH_18)]
    assert lam[0] == lam[1] == lam[2]
    say(
        f"on halfcheetah {short[1]:.0f} points are missing, on ant {short[3]:.0f}.**",
        f"scores {in_words(chosen)}, where the expert has {in_words(expert)}.",
        f"another, with less critic (λ = {lam[3]:.2f}), on ant",
        f"goes {in_words(on_the_way(WITH_2)[1:], 0)} % of the way from the logs to the expert on halfcheetah",
    )
    falling, *others = sorted(score.score for score in of_selected(studies(WITH_18_IMAGINED)[2]))
    assert {round(score) for score in others} <= {107, 108}
    say(f"one of its five seeds has {falling:.1f} and the others 107")
    together = read_json(RESULTS / "together.json")["studies"]
    of_five = [
        next(e["together"] for e in together[f"{task}-18-imagined"] if e["algorithm"] == "ilbrl" and e["selected"])
        for task in TASKS
    ]
    assert max(np.subtract(expert, of_five)) < 5
    say(f"seeds together score {in_words(of_five)}**, within five points of the expert on all four tasks")


def on_the_way(folders):
    """Per cent of the way from the logs' policy to the expert that the choices go."""
    logs, expert = (np.array(references(folders, role)) for role in ("logs", "expert"))
    return 100 * (of_choices(folders) - logs) / (expert - logs)


def test_beside_the_papers_table():
    logs, expert = np.array(PAPER["logs"]), np.array(PAPER["expert"])
    theirs = 100 * (np.array(PAPER["ILBRL"]) - logs) / (expert - logs)
    ways = [" %, ".join(f"{share:.0f}" for share in shares) for shares in (theirs, *map(on_the_way, (WITH_18, WITH_2)))]
    paper, many, few = (" % and ".join(way.rsplit(" %, ", 1)) for way in ways)
    say(
        ", ".join(f"{name} {listed(PAPER[name])}" for name in ("ILBRL", "BC", "SMODICE", "ORIL")),
        f"its exploratory policy {listed(PAPER['logs'])} and its expert {listed(PAPER['expert'])})",
        f"the paper's ILBRL goes {paper} % of the way, ours {many} % with 18 episodes, {few} % with 2",
    )


def interquartile_means(folders):
    """Algorithm → its interquartile mean, as the studies' table has it."""
    text = markdown(summarise(folders))
    rows = [line.split("|") for line in text[text.index("## True scores") :].splitlines() if line.startswith("| ")]
    return {row[1].strip(): row[6].split("[")[0].strip(" *") for row in rows}


def test_what_weights_bring():
    with_18, with_2 = map(interquartile_means, (WITH_18, WITH_2))
    say(
        f"With 18 episodes: {with_18['ILBRL']} with the weights of the reward and"
        f" {with_18['ILBRL, unweighted']} without",
        f"With 2 episodes and imagined steps: {with_2['ILBRL']} and {with_2['ILBRL, unweighted']}, which cannot",
        f"are {in_words(best(WITH_2))} with weights, out of eight, and"
        f" {in_words(best(WITH_2, 'ilbrl-unweighted'))} without, out of six",
    )


def test_how_many_episodes_are_needed():
    cells = {
        (t, n): read_json(RESULTS / "imagined" / f"{t}-{n}.json")["with"]["scores"] for t in TASKS for n in (2, 18)
    }
    more = [np.mean(cells[task, 18]) - np.mean(cells[task, 2]) for task in TASKS[1:]]
    defaults = [scores[0] for scores, _ in choices(WITH_18)]
    say(
        f"elsewhere 18 bring {min(more):.0f} to {max(more):.0f} points more (ant's two hold a fall)",
        f"BC in the studies has {in_words(best(WITH_18, 'bc'))}, the default there, without imagined steps,"
        f" {in_words(defaults)}",
        f"the choice of BC has {in_words(of_choices(WITH_2, 'bc'), 0)} in these studies and"
        f" {in_words(of_choices(WITHOUT_IMAGINED, 'bc'), 0)} in the earlier ones",
    )


# --- choosing offline ---------------------------------------------------------------------------------------------


def test_what_there_was_to_choose_from_in_the_studies():
    lost = regret(WITH_18 + WITH_2)
    found = {task: sorted(scores.values()) for task, (scores, _) in zip(TASKS, choices(WITH_2))}
    low, *hopper = found["hopper"]
    spans = {task: f"{scores[0]:.0f} to {scores[-1]:.0f}" for task, scores in (found | {"hopper": hopper}).items()}
    orders, runs = rank_correlations(WITH_2), studies(WITH_2 + WITH_18)
    values = study_regret.values_of(runs[0], "ilbrl")
    scores, _ = choices(WITH_2)[0]
    assert min(values, key=values.__getitem__) == min(scores, key=scores.__getitem__)
    value, returned = (
        [run.selection.algorithms["ilbrl"].value for run in runs],
        [np.mean([score.return_mean for score in of_selected(run)]) for run in runs],
    )
    at_random = np.mean(list(choices(WITH_2)[3][0].values()))
    say(
        f"{np.mean(lost):.1f} points below the best on average**, {max(lost):.1f} at most",
        f"have {spans['ant']} on ant, {spans['halfcheetah']} on halfcheetah, {spans['walker2d']} on walker2d, and"
        f" {spans['hopper']} on hopper but for one of {low:.0f}, which is valued lowest",
        f"{min(orders):.2f} to {max(orders):.2f}; on ant the choice is below a random one,"
        f" {of_choices(WITH_2)[3]:.1f} against {at_random:.1f}",
        f"hopper's choice is valued at {value[0]:,.0f} and returns {returned[0]:,.0f}",
        f"walker2d's at {value[2]:,.0f} for {returned[2]:,.0f}, and with 18 at {value[6]:,.0f} for {returned[6]:,.0f}",
        f"({value[1]:,.0f} for {returned[1]:,.0f} and {value[3]:,.0f} for {returned[3]:,.0f})",
    )
    assert verdicts(runs) == ["care", "care", "distrust", "care", *["care"] * 4]


def rank_correlations(folders):
    found = []
    for run, (scores, _) in zip(studies(folders), choices(folders)):
        values = study_regret.values_of(run, "ilbrl")
        found.append(spearman(*(np.array([table[n] for n in scores]) for table in (values, scores))))
    return found


def test_what_choosing_cost_with_18_episodes_and_imagined_steps():
    runs, hopper_to_ant = studies(WITH_18_IMAGINED), choices(WITH_18_IMAGINED)
    walker = sorted(hopper_to_ant[2][0].values())
    assert sum(score > walker[-1] - 4 for score in walker) == 6
    unweighted = of_choices(WITH_18_IMAGINED, "ilbrl-unweighted")
    better = [theirs for theirs, own in zip(unweighted, of_choices(WITH_18_IMAGINED)) if theirs > own]
    sarsa = [study_regret.values_of(run, "ilbrl") for run in studies([f"{run.path}-sarsa" for run in runs])]
    chosen = [scores[max(values, key=values.__getitem__)] for (scores, _), values in zip(hopper_to_ant, sarsa)]
    say(
        f"its ablation's choice was better on two ({in_words(better)})",
        f"Expected SARSA again prefers what falls on ant ({chosen[3]:.1f})",
        f"on other candidates: {np.mean(chosen):.1f}, closeness {np.mean(of_choices(WITH_18_IMAGINED)):.1f}",
        f"it is {np.mean(regret(WITH_18_IMAGINED)):.1f} below the best, and has the wrong order on walker2d"
        f" ({rank_correlations(WITH_18_IMAGINED)[2]:.2f})".replace("-", "−"),
    )


def test_what_seeds_together_bring_most():
    studies, obs, act = read_json(RESULTS / "together.json")["studies"], 17, 6  # of halfcheetah
    gains = [
        np.mean([e["together"] - np.mean(e["members"]) for e in studies["ant-18-imagined"] if e["algorithm"] == name])
        for name in ("ilbrl", "ilbrl-unweighted")
    ]
    megabytes = [4 * sum((n + 1) * m for n, m in pairwise((obs, width, width, act))) / 1e6 for width in (1280, 256)]
    say(
        f"most on ant ({in_words(gains)} points) and halfcheetah",
        "its file has {:.1f} MB instead of {:.1f}".format(*megabytes),
    )


def test_two_episodes_without_imagined_steps():
    runs, logs = studies(WITHOUT_IMAGINED), references(WITHOUT_IMAGINED, "logs")
    lost, values = regret(WITHOUT_IMAGINED), study_regret.values_of(runs[0], "ilbrl")
    timid, better = choices(WITHOUT_IMAGINED)[0][1], 0
    truth, on_ant = returns(runs[0]), returns(runs[3])
    frail, steady = on_ant[choices(WITHOUT_IMAGINED)[3][1]], max(on_ant.values(), key=lambda each: each[0])
    tried = runs[2].tuning.configurations[runs[2].tuning.chosen]
    say(
        f"**Choosing fails on hopper ({lost[0]:.0f} points) and ant ({lost[3]:.0f})**",
        f"({values[timid]:,.0f} for a true return of {truth[timid][0]:,.0f})",
        f"({values[better]:,.0f} for {truth[better][0]:,.0f})",
        f"({frail[0] / frail[1]:.2f} a step, {frail[1]:.0f} steps) to steady ones (the best:"
        f" {steady[0] / steady[1]:.2f} a step, {steady[1]:.0f} steps)",
    )
    assert max(choices(WITHOUT_IMAGINED)[0][0].values()) == choices(WITHOUT_IMAGINED)[0][0][better]
    assert verdicts(runs) == ["care", "care", "distrust", "care"]
    say(f"the expert is valued at {tried.policies['expert'].estimate:.0f}".replace("-", "−"))
    chosen = [overall for run in runs if (overall := run.selection.overall)]
    scores = [played_configurations(run)[one.algorithm][one.configuration].value for run, one in zip(runs, chosen)]
    apart = np.subtract(scores, of_choices(WITHOUT_IMAGINED))
    assert [one.algorithm for one in chosen] == ["ilbrl-unweighted", "oril", "ilbrl", "ilbrl"]
    say(
        f"{apart[0]:.0f} points better (hopper) and {-apart[1]:.0f} points worse (halfcheetah)",
        f"On ant ILBRL was chosen with {scores[3]:.1f}, although the ablation's choice has"
        f" {of_choices(WITHOUT_IMAGINED, 'ilbrl-unweighted')[3]:.1f} and the policy behind the logs {logs[3]:.1f}",
    )
    first, second, closeness = (
        judged(*how)
        for how in (("choice-earlier", "demonstrations"), ("choice", "demonstrations"), ("choice", "no rewards"))
    )
    points = [second[cell][1] - second[cell][0].chosen for cell in ("hopper-2", "ant-2")]
    again = [closeness[cell][1] - closeness[cell][0].chosen for cell in ("hopper-2", "ant-2")]
    say(
        f"chose {first['hopper-2'][0].chosen:.1f} on hopper with 2 episodes, with a correlation of"
        f" {first['hopper-2'][0].spearman:.2f}",
        f"({points[0]:.0f} points on hopper, {points[1]:.0f} on ant)",
        f"the same candidates lose {again[0]:.0f} and {again[1]:.0f}",
    )


def test_what_fails():
    ant, oril, smodice = choices(WITH_2)[3], choices(WITH_2, "oril")[0], choices(WITH_18, "smodice")[2]
    fallen = np.mean(read_json(RESULTS / "imagined" / "ant-2.json")["with"]["scores"])
    say(
        f"the choice is {ant[0][ant[1]] - references(WITH_2, 'logs')[3]:.0f} points above the logs' policy",
        f"Where one of two demonstrations is a fall the default has {fallen:.0f}",
        f"its choice has {oril[0][oril[1]]:.1f}, the best of its six {max(oril[0].values()):.1f}",
        f"the chosen one scores {smodice[0][smodice[1]]:.0f}, the best {max(smodice[0].values()):.0f}",
    )


# --- goals --------------------------------------------------------------------------------------------------------


def test_the_goals_of_scores():
    found = {
        name: (np.array(reached), np.array(aimed)) for name, reached, aimed in study_goals.goals(RESULTS / "locomotion")
    }
    assert set(study_goals.table(RESULTS / "locomotion")) <= set(LINES)
    met = [name for name, (reached, aimed) in found.items() if (reached >= aimed).all()]
    assert met == [
        "chosen offline, 18 episodes",
        "chosen offline, 2 episodes, imagined steps",
        "best configuration, 18 episodes, imagined steps",
        "the default, 18 episodes, imagined steps",
    ]
    plain, imagined = (np.mean(found[f"the default, 18 episodes{more}"][0]) for more in ("", ", imagined steps"))
    cloning = np.mean(best(WITH_18, "bc"))
    assert min(plain, imagined) > cloning
    say(f"({plain:.1f} and {imagined:.1f}, BC's best {cloning:.1f})")


def test_the_goals_of_ranks():
    closeness, rewards = (
        {cell: one.spearman for cell, (one, _) in judged("choice", how).items()}
        for how in ("no rewards", "demonstrations")
    )
    means, least = ([of(list(found.values())) for found in (closeness, rewards)] for of in (np.mean, np.min))
    both = f"closeness has {means[0]:.2f} and {least[0]:.2f}, rewards {means[1]:.2f} and {least[1]:.2f}"
    say(f"{both}. All cells below 0.8 are of hopper, walker2d and ant")
    say(both, text=flat("docs/evaluation.md"))
    cheetah = [found[f"halfcheetah-{count}"] for found in (closeness, rewards) for count in (2, 18)]
    say(f"where it cannot, both have {min(cheetah):.2f} and more")
    for cell in ("halfcheetah-2", "halfcheetah-18"):
        played = read_json(RESULTS / "choice" / cell / "truth.json")["scores"].values()
        assert {score["length"] for score in played} == {1000}


def test_the_goal_of_updates():
    """Mean over the four tasks after 100,000 and after 200,000 updates."""
    first, second = np.mean(
        [np.mean(entry["scores"], 1) for entry in learning_plot.curves(RESULTS / "curves")], axis=0
    )[:2]
    say(f"bring {second - first:.1f} points on average over the four tasks ({second:.1f} instead of {first:.1f})")


# --- the two tests of choices -------------------------------------------------------------------------------------


def test_what_the_two_tests_came_to():
    """Mean over eight cells: chosen, at random and the best there was; and the known policies."""
    second, first = judged("choice", "no rewards"), judged("choice-earlier", "demonstrations")
    chosen, top, at_random = {}, {}, {}
    for folder, found in (("choice", second), ("choice-earlier", first)):
        chosen[folder] = np.mean([one.chosen for one, _ in found.values()])
        top[folder] = np.mean([each for _, each in found.values()])
        scores = [offline_choice.true_scores(RESULTS / folder / cell, "ilbrl").values() for cell in found]
        at_random[folder] = np.mean([np.mean([*of]) for of in scores])
    say(
        f"{chosen['choice']:.1f} on average, where a random configuration has {at_random['choice']:.1f} and the best"
        f" of all twenty {top['choice']:.1f}.",
        f"The chosen configuration scores {chosen['choice-earlier']:.0f}, a random one"
        f" {at_random['choice-earlier']:.0f}, the best of all twenty {top['choice-earlier']:.0f}:",
        f"the best configuration of all ({second['walker2d-2'][1]:.1f})",
    )
    for how in ("no rewards", "demonstrations"):
        ladders = {cell: round(one.ladder or 0, 1) for cell, (one, _) in judged("choice", how).items()}
        assert {rho for cell, rho in ladders.items() if cell != "walker2d-2"} == {0.9, 1.0}
        say(f"with {ladders['walker2d-2']} on walker2d with 2 episodes; without rewards likewise")


def candidates_of(cell):
    groups = offline_choice.by_configuration(read_json(cell / "candidates.json")["candidates"])
    return {key: names for key, names in groups.items() if key[0] == "ilbrl"}


def seeds_of_choice(cell, how):
    """True scores of the seeds of ILBRL's chosen configuration; none where nothing was valued so."""
    worth = offline_choice.HOW[how].worths(cell)
    if worth is None:
        return []
    names = max(candidates_of(cell).values(), key=lambda names: np.mean([worth[name] for name in names]))
    return [read_json(cell / "truth.json")["scores"][name]["score"] for name in names]


def test_no_choice_fell_apart():
    cells = [
        RESULTS / folder / f"{task}-{n}" for folder in ("choice", "choice-earlier") for task in TASKS for n in (2, 18)
    ]
    ways = ("no rewards", "demonstrations", "expert logs")
    worst = min(score for cell in cells for how in ways for score in seeds_of_choice(cell, how))
    chosen = [of_selected(run) for run in studies(WITH_18 + WITH_2 + WITHOUT_IMAGINED + WITH_18_IMAGINED)]
    lowest = min(policy.score for policies in chosen for policy in policies)
    say(f"in both tests, the worst seed has {worst:.1f}. In the sixteen studies above it has {lowest:.1f}.")
    avoided = [
        min(
            score["score"]
            for name, score in read_json(RESULTS / folder / "walker2d-2" / "truth.json")["scores"].items()
            if name.startswith("ilbrl-")
        )
        for folder in ("choice", "choice-earlier")
    ]
    say(f"seeds of other configurations have {max(avoided):.0f} and less on walker2d with 2 episodes")
    for how in ("demonstrations", "no rewards"):
        say(f"walker2d with 2 have {in_words(seeds_of_choice(RESULTS / 'choice-earlier' / 'walker2d-2', how), 0)}.")


def test_expected_sarsa_in_the_second_test():
    sarsa, rewards, closeness = (judged("choice", how) for how in ("Expected SARSA", "demonstrations", "no rewards"))
    few = [f"{task}-2" for task in TASKS]
    own = [sarsa[cell][0].chosen for cell in few]
    at_random = [np.mean([*offline_choice.true_scores(RESULTS / "choice" / cell, "ilbrl").values()]) for cell in few]
    others = [np.mean([found[cell][0].chosen for cell in few]) for found in (rewards, closeness)]
    say(
        f"with 2 episodes: {in_words(own)}, mean {np.mean(own):.1f}; rewards in models {others[0]:.1f},"
        f" closeness {others[1]:.1f}, a random configuration {np.mean(at_random):.1f}",
        f"the wrong way round ({sarsa['ant-2'][0].spearman:.2f})".replace("-", "−"),
    )
    gain = np.mean([closeness[cell][0].chosen - rewards[cell][0].chosen for cell in closeness])
    cloned, not_cloned = rewards["hopper-2"][0].overall[1], rewards["hopper-2"][0].chosen
    say(f"And {gain:.1f} points more on average", f"preferred BC ({cloned:.1f}) to ILBRL ({not_cloned:.1f})")


def test_sentences_about_the_first_test():
    by_logs, by_demonstrations, closeness = (
        judged("choice-earlier", how) for how in ("expert logs", "demonstrations", "no rewards")
    )
    lost = {
        how: [top - one.chosen for one, top in found.values()]
        for how, found in (("logs", by_logs), ("few", by_demonstrations), ("close", closeness))
    }
    order = {
        how: np.mean([one.spearman for one, _ in found.values()])
        for how, found in (("logs", by_logs), ("few", by_demonstrations))
    }
    assert min(one.spearman for found in (by_logs, by_demonstrations) for one, _ in found.values()) > 0.7
    assert set(closeness) == {f"{task}-2" for task in TASKS}
    ladders = {cell: one.ladder for cell, (one, _) in closeness.items()}
    assert sum((rho or 0) > 0.89 for rho in ladders.values()) == 3
    chosen = [np.mean([one.chosen for one, _ in found.values()]) for found in (by_logs, by_demonstrations)]
    assert {round(score) for score in chosen} == {88}
    ant, top = by_demonstrations["ant-2"]
    cell = RESULTS / "choice-earlier" / "ant-2"
    values, truth = (read_json(cell / f"{name}.json") for name in ("values-demonstrations", "truth"))
    names = max(candidates_of(cell).values(), key=lambda names: np.mean([values["values"][n]["value"] for n in names]))
    steps = [np.mean([each[name]["length"] for name in names]) for each in (truth["scores"], values["values"])]
    say(
        f"The mean correlation is {order['logs']:.2f} with expert logs and {order['few']:.2f} with the demonstrations",
        f"it is {np.mean(lost['logs']):.1f} and {np.mean(lost['few']):.1f} points below the best on average",
        f"is {np.mean(lost['close']):.1f} below the best on average and {max(lost['close']):.1f} at most",
        f"ant with two episodes here too: {top - ant.chosen:.0f} points",
        f"({steps[0]:.0f} true steps, {steps[1]:.0f} in the models)",
        f"in three cells of four, and {ladders['walker2d-2']:.1f} on walker2d with 2 episodes",
    )


def test_values_of_the_first_test_are_low():
    """Walker2d with two demonstrations: the six best configurations, and the three that fall at once."""
    cell = RESULTS / "choice-earlier" / "walker2d-2"
    truth = read_json(cell / "truth.json")["scores"]
    values = read_json(cell / "values-demonstrations.json")["values"]
    mean = {
        key: [
            np.mean([of[name][field] for name in names])
            for of, field in ((truth, "score"), (truth, "return"), (values, "value"), (truth, "length"))
        ]
        for key, names in candidates_of(cell).items()
    }
    ranked = sorted(mean.values(), reverse=True)
    shares = [100 * value / returned for _, returned, value, _ in ranked[:6]]
    say(f"the six best configurations {min(shares):.0f} to {max(shares):.0f} % of their true return")
    assert [length < 50 for *_, length in ranked] == [False] * 17 + [True] * 3
    tops = {
        key: max(offline_choice.true_scores(RESULTS / "choice-earlier" / key, "ilbrl").values())
        for key in (f"{t}-18" for t in TASKS)
    }
    short = {task: source_score(task, "expert") - tops[f"{task}-18"] for task in TASKS}
    assert max(abs(short[task]) for task in ("hopper", "walker2d")) < 1
    experts = {task: f"{source_score(task, 'expert'):.1f}" for task in TASKS}
    say(
        f"expert on hopper ({experts['hopper']}) and walker2d ({experts['walker2d']}), and is"
        f" {short['halfcheetah']:.1f} and {short['ant']:.1f} points below it on halfcheetah ({experts['halfcheetah']})"
        f" and ant ({experts['ant']})"
    )


def test_what_the_order_of_algorithms_would_have_changed():
    runs = [read_run(path.parent) for path in sorted(RESULTS.rglob("selection.json"))]
    runs = [run for run in runs if len(run.selection.algorithms) > 1]
    changed = []
    for run in runs:
        before, after = run.selection.overall, among_algorithms(run.selection, run.candidates).overall
        assert before is not None
        assert after is not None
        if before.algorithm != after.algorithm:
            assert after.algorithm == "ilbrl"
            changed.append([file_played(run, each.algorithm) for each in (after, before)])
    (clinic, lander, hopper) = [[f"{each.mean.value:.1f}" for each in both if each is not None] for both in changed]
    say(
        f"In {len(runs)} committed studies of two or more algorithms it would have changed three choices, to ILBRL's,"
        f" and the files score {' in place of '.join(clinic)}, {' of '.join(lander)} and {' of '.join(hopper)}.",
        text=flat("docs/protocol.md"),
    )


# --- options, curves, defaults, costs -----------------------------------------------------------------------------


def test_sentences_about_options():
    cells = [cell for path in (RESULTS / "options").glob("*.json") if (cell := read_json(path))["logs"] == "medium"]
    mean = {name: np.mean([np.mean(cell["scores"][name]) for cell in cells]) for name in options.OPTIONS}
    gain = {name: score - mean["the default"] for name, score in mean.items()}
    hurting = {"second actor, λ 0.3", "four critics", "exponential rewards", "rewards on (s, a, s′)"}
    assert {name for name in gain if gain[name] < 0} == hurting
    (ant,) = (cell["scores"] for cell in cells if (cell["task"], cell["expert_episodes"]) == ("ant", 2))
    on_ant = {name: np.mean(ant[name]) for name in options.OPTIONS}
    assert max(on_ant, key=on_ant.__getitem__) == "second actor, λ 0.3"
    say(
        f"less constrained actor hurts** ({mean['second actor, λ 0.3']:.1f})",
        f"with two demonstrations ({on_ant['second actor, λ 0.3']:.1f})",
        f"penalty is worth {gain['critic_penalty 0.01']:.1f} points",
    )
    random = {
        (cell["task"], cell["expert_episodes"]): {name: np.mean(scores) for name, scores in cell["scores"].items()}
        for path in (RESULTS / "options").glob("*-random.json")
        for cell in [read_json(path)]
    }
    many, few = random["ant", 18], random["ant", 2]
    say(
        f"with 18 demonstrations both have {many['both']:.1f} instead of {many['the default']:.1f}, with two"
        f" {few['both']:.1f} instead of {few['the default']:.1f}",
        f"Agreement alone leaves walker2d at {random['walker2d', 18]['agreement 2']:.1f}",
    )


def test_sentences_about_the_curves():
    found = {entry["task"]: entry for entry in learning_plot.curves(RESULTS / "curves")}
    averaged, last = (np.mean(found["hopper"][field]) for field in learning_plot.SERIES)
    say(f"the mean of weights has {averaged:.1f} on hopper where the last weights have {last:.1f}")
    moves = {task: np.abs(np.diff(entry["scores"], axis=0)).mean() for task, entry in found.items()}
    assert [task for task, move in moves.items() if 9.5 < move < 12.5] == ["hopper", "walker2d", "ant"]
    at_zero = (np.array(found["walker2d"]["scores"]).round() == 0).sum(0)
    assert sorted(at_zero) == [0, 0, 0, 0, 0, 3]  # one seed, three evaluations
    assert [round(entry["seconds"] / 60) for entry in found.values()] == [7, 6, 7, 8]


def test_what_keeps_ilbrl_from_diverging():
    assert set(learning_curves.stability_table(RESULTS / "learning")) <= set(LINES)
    entries = read_json(RESULTS / "learning" / "stability.json")
    assert {entry["commit"] for entry in entries} == {"b9a9cb1+"}
    say(f"The policy behind the logs scores {source_score('ant', 'medium'):.1f}. Rewards in [0, 1]")


@pytest.mark.parametrize("task", TASKS)
def test_bfloat16_cannot_be_told_from_float32(task):
    entries = {entry["variant"]: entry["scores"][-1] for entry in read_json(RESULTS / "learning" / f"{task}.json")}
    half, full = (
        f"{np.mean(scores):.1f} ± {1.96 * np.std(scores, ddof=1) / np.sqrt(len(scores)):.1f}"
        for scores in (entries["bfloat16"], entries["default"])
    )
    say(f"{task} {half} against {full}", text=flat("docs/performance.md"))


def test_how_the_default_of_smodice_was_chosen():
    lines = default_configurations.table(RESULTS / "defaults")
    assert set(lines) <= set(LINES)
    average = {line: np.mean([float(line.split("|")[column]) for column in (3, 5)]) for line in lines[2:]}
    assert max(average, key=average.__getitem__).startswith("| 0.1 | 1 × 10⁻⁴ |")
    walker, hopper = (source_score(task, "medium") for task in ("walker2d", "hopper"))
    say(f"the policy behind the logs scores {walker:.1f} on walker2d and {hopper:.1f} on hopper")


def test_what_the_studies_cost():
    folder, scaling = RESULTS / "locomotion", flat("docs/scaling.md")
    assert set(study_cost.table(folder)) <= set(LINES)
    costs = {kind: study_cost.of_kind(folder, kind) for kind in study_cost.KINDS}
    plain = costs["18"] + costs["2"]
    eight, many, few = map(study_cost.minutes_of_all, (plain, costs["18-imagined"], costs["2-imagined"]))
    rates = [sum(cost.updates_per_second() for cost in costs[kind]) for kind in ("18", "2")]
    rounded = " and ".join(f"{round(rate, -2):,.0f}" for rate in rates)
    full = " and ".join(f"{300e6 / rate / 60:.0f}" for rate in rates)
    say(
        f"The eight studies without imagined steps took {eight:.1f} minutes of one GPU with their reveals,"
        f" {eight / 8:.1f} each",
        f"took {many:.1f} minutes with 18 episodes, {many / 4:.1f} each, and {few:.1f} with 2, {few / 4:.1f} each",
        f"At the {rounded} updates/s",
        f"that is {full} minutes",
        "four to six minutes of a GPU for each task and study",
    )
    assert [round(minutes) for minutes in (eight / 8, many / 4, few / 4)] == [4, 5, 6]
    say(
        f"took {eight:.1f} minutes of one H200",
        f"{eight / 8:.1f} minutes per task and study",
        f"at {rounded} updates/s",
        f"would then take {full.replace('and', 'to')} minutes a task",
        f"took {few:.1f} minutes side by side, {few / 4:.1f} per task",
        text=scaling,
    )
    shares = [
        np.mean([cost.seconds[phase] / sum(cost.seconds.values()) for cost in plain])
        for phase in ("training", "tuning")
    ]
    assert np.round(shares, 2).tolist() == [0.67, 0.19]  # two thirds and a fifth


def test_what_evaluation_cost():
    files = {
        kind: [*RESULTS.glob(f"choice/*/values-{kind}.json")] for kind in ("demonstrations", "no-rewards", "sarsa")
    }
    seconds = {kind: [read_json(path)["seconds"] for path in paths] for kind, paths in files.items()}
    in_models = [*seconds["demonstrations"], *seconds["no-rewards"]]
    critics = [read_json(path)["seconds_of_rollouts"] for path in files["sarsa"]]
    few, many = read_json(RESULTS / "evaluation-cost.json")["policies"].values()
    say(
        f"rollouts of 77 policies took {min(in_models):.0f} to {max(in_models):.0f} seconds",
        f"took {min(seconds['sarsa']):.0f} to {max(seconds['sarsa']):.0f} seconds for 72 policies, of which its"
        f" critics learned for {min(critics):.0f} to {max(critics):.0f};",
        f"60 policies took {few['first']:.0f} seconds and of 240 policies {many['first']:.0f}, compilation included"
        f" ({few['again']:.1f} and {many['again']:.1f} without)",
        f"would take {few['expected_sarsa']:.0f} and {many['expected_sarsa']:.0f} (",
        text=flat("docs/evaluation.md"),
    )


def test_what_evaluation_costs_on_two_cores():
    found = read_json(RESULTS / "evaluation-cost-small.json")
    many = found["policies"]["18"]
    say(
        f"four small models take {found['models']:.0f} seconds at halfcheetah's sizes, rollouts of 18 policies"
        f" {many['first']:.0f} more, and Expected SARSA would take {many['expected_sarsa']:,.0f} for them",
        text=flat("docs/evaluation.md"),
    )


def test_the_speeds_of_the_readme():
    folder = RESULTS / "speed"
    one, two = (read_json(folder / f"labelling-{threads}.json") for threads in ("one-thread", "two-threads"))
    collection = read_json(folder / "collection.json")
    (fused,) = [
        each["updates_per_second"]
        for each in read_json(folder / "kernels.json")["results"]
        if each["fused"] and each["layer_norm"] and each["hidden_layers"] == 2
    ]
    assert (one["threads"], two["threads"]) == (1, 2)
    assert {(record["processor"], record["cores"]) for record in (one, two, collection)} == {("AMD EPYC", 2)}
    assert max(record["load"] for record in (one, two)) < 1
    assert collection["load"] > 2  # other work ran beside it
    say(
        f"{two['rows']:,} × {two['expert_rows']:,} rows takes {two['seconds']:.0f} s, {two['ratio']:.1f} times a bare",
        f"with one thread {one['seconds']:.0f} s, {one['ratio']:.1f} times (",
        f"a policy runs at {collection['ratio']:.2f} of a bare environment loop per core",
        f"60 members of ILBRL reach {fused / 1000:.0f},000 updates/s together",
        text=flat("README.md"),
    )
    rate = one["rows"] / one["seconds"]
    say(
        f"at {round(rate, -3):,.0f} rows/s on one core (README) | {1e9 / rate / 2 / 3600:.1f} hours, if cores add up"
        f" | {1e9 / rate / 1600:.0f} s, if cores add up",
        text=flat("docs/scaling.md"),
    )
