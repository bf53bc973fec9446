"""True scores over runs, and the verdict in words."""

import json

import numpy as np
import pytest
from scipy import stats

from ilbrl.report import pictures
from ilbrl.report.bootstrap import bootstrap, cautious_difference, comparison, difference, t_interval
from ilbrl.report.formats import latex
from ilbrl.report.scoreboard import aggregates, differences_to_best, scoreboard
from ilbrl.report.selection import selection_regret
from ilbrl.report.statistics import iqm, mean
from ilbrl.report.summary import comparison_sentence, summarise, why_no_scores
from ilbrl.report.tables import score_table
from ilbrl.report.verdict import verdict
from ilbrl.results.folder import read_run, read_runs


def edit(path, change):
    value = json.loads(path.read_text())
    change(value)
    path.write_text(json.dumps(value))


def test_tasks_of_several_runs_make_one_matrix(make_run):
    folders = [make_run(task, task=task, study=task, seed=i, seeds=6) for i, task in enumerate(["hopper", "ant"])]
    runs = read_runs(folders)
    board = scoreboard(runs)
    assert board is not None
    assert (board.unit, board.tasks, board.runs_per_task) == ("score", ("hopper", "ant"), 6)
    expected = [c.true_score for c in runs[1].candidates if c.selected and c.algorithm == "bc"]
    np.testing.assert_allclose(board.matrices["bc"][:, 1], expected)
    assert board.reference("logs") == pytest.approx(59.2)
    found = aggregates(board, np.random.default_rng(0))
    ordered = np.sort(board.matrices["ilbrl"], axis=0)
    assert found["ilbrl"]["iqm"].point == pytest.approx(ordered[1:5].mean())
    gaps = differences_to_best(board, np.random.default_rng(0))
    assert set(gaps) == {"ilbrl-unweighted", "bc", "smodice", "oril"}
    assert gaps["bc"].high < 0  # thirty points apart, five of noise


def test_an_algorithm_in_two_studies_of_one_task_is_two_algorithms(make_run):
    folders = [make_run(name, study=name, algorithms=("ilbrl", "bc")) for name in ("two episodes", "eighteen")]
    board = scoreboard(read_runs(folders))
    assert board is not None
    assert list(board.scores) == [f"{a} · {s}" for s in ("two episodes", "eighteen") for a in ("ilbrl", "bc")]


def test_references_that_differ_within_a_task_are_named_after_their_runs(make_run):
    two, eighteen = (make_run(name, study=name, algorithms=("bc",)) for name in ("two", "eighteen"))
    edit(eighteen / "final.json", lambda final: final["references"]["expert"].update(true_score=99.5))
    expected = {
        "logs": {"hopper": 59.2},
        "expert · two": {"hopper": 110.2},
        "expert · eighteen": {"hopper": 99.5},
    }
    for folders in ([two, eighteen], [eighteen, two]):
        found = summarise(folders)
        assert found.board is not None
        assert found.board.references == expected
        table = score_table(found)
        assert table is not None
        shown = {row[0].text: row[1].text for row in table.rows[table.algorithms :]}
        assert shown == {
            "policy of the logs": "59.2",
            "policy of the expert · two": "110.2",
            "policy of the expert · eighteen": "99.5",
        }
        assert latex(found).count(r"\midrule") == 2
        drawn = pictures.of_scores(found.board, found.aggregates, np.random.default_rng(0))
        assert {line.label: line.value for line in drawn["iqm"].lines} == {n: v["hopper"] for n, v in expected.items()}
        assert set(expected) <= {series.name for series in drawn["per-task"].series}


def test_a_run_that_was_not_played_has_no_reference_beside_those_that_were(make_run):
    folders = [make_run(name, study=name, algorithms=("bc",), played=name == "played") for name in ("played", "not")]
    board = scoreboard(read_runs(folders))
    assert board is not None
    assert board.references == {"logs": {"hopper": 59.2}, "expert": {"hopper": 110.2}}  # not what was logged


def test_returns_of_different_tasks_are_never_averaged(make_run):
    folders = [make_run(task, task=task, study=task, scored=False) for task in ("arm", "leg")]
    summary = summarise(folders)
    assert summary.board is not None
    assert (summary.board.unit, summary.aggregates, summary.board.best) == ("return", {}, None)
    assert any("never averaged" in note for note in summary.board.notes)
    assert "side by side" in comparison_sentence(summary)


def test_unequal_numbers_of_runs_are_said(make_run):
    folders = [make_run(t, task=t, study=t, seeds=n, algorithms=("bc",)) for t, n in (("hopper", 3), ("ant", 5))]
    board = scoreboard(read_runs(folders))
    assert board is not None
    assert board.matrices["bc"].shape == (3, 2)
    assert any("hopper 3, ant 5" in note for note in board.notes)


def test_seeds_that_were_not_played_are_said(make_run):
    folder = make_run(algorithms=("bc",), configurations=1, seeds=3)
    edit(folder / "final.json", lambda final: final["scores"].pop())
    text = (folder / "results.csv").read_text().splitlines()
    at = text[0].split(",").index("true_return")
    last = [row.split(",") for row in text[-3:]]
    text[-3:] = [",".join([*row[:at], "", "", "", *row[at + 3 :]]) for row in last]
    (folder / "results.csv").write_text("\n".join(text))
    board = scoreboard([read_run(folder)])
    assert board is not None
    assert board.runs_per_task == 2
    assert any("1 of 3 seeds of the selected bc (seed 2)" in note for note in board.notes)


def test_nothing_played_is_no_scoreboard(make_run):
    assert scoreboard([read_run(make_run(played=False))]) is None


def test_the_t_interval_of_a_mean_is_student_s():
    """For the mean of one task the bootstrap's standard deviation is known: s √((n − 1) / n) / √n."""
    scores = np.array([[3.0], [5.0], [10.0], [14.0]])
    drawn = bootstrap(scores, mean, np.random.default_rng(0), 200_000)
    found = t_interval(mean(scores), drawn, runs=4, tasks=1)
    low, high = stats.t.interval(0.95, 3, loc=8.0, scale=stats.sem(scores[:, 0]))
    assert found.low == pytest.approx(low, abs=0.05)
    assert found.high == pytest.approx(high, abs=0.05)
    assert t_interval(mean(scores), drawn, runs=1, tasks=1).holds_zero


def test_two_runs_of_each_prove_nothing():
    ours, theirs = np.array([[80.0], [82.0]]), np.array([[65.0], [75.0]])
    rng = np.random.default_rng(0)
    assert not comparison(ours, theirs, difference(iqm), rng).holds_zero  # percentiles stay within what was seen
    assert cautious_difference(ours, theirs, iqm, rng).holds_zero


def test_the_regret_of_selection(make_run):
    folder = make_run(algorithms=("bc",), configurations=3, seeds=2, revealed=True)
    run = read_run(folder)
    means = [np.mean([c.true_score for c in run.candidates if c.configuration == i]) for i in range(3)]
    chosen = next(c.configuration for c in run.candidates if c.selected)
    found = selection_regret(run)["bc"]
    assert found.regret == pytest.approx(max(means) - means[chosen])
    assert selection_regret(read_run(make_run("hidden", algorithms=("bc",), revealed=False))) == {}


def test_the_verdict_answers_its_four_questions(make_run):
    said = verdict(read_run(make_run(trust="trust")))
    assert (said.grade, said.headline) == ("good", "Deploy ILBRL")
    assert "configuration 0, seed 1" in said.which
    assert "above the policy that made the logs (59.2)" in said.how_good
    assert "of the way to the expert (110.2)" in said.how_good
    assert said.trust.startswith("The offline numbers can be trusted. Both known policies")
    assert any("came second" in change for change in said.what_would_change)
    assert any("only 2 known policies" in change for change in said.what_would_change)
    assert any("1 of 60 candidates diverged" in change for change in said.what_would_change)
    assert any("1 warning" in change for change in said.what_would_change)


def test_a_rival_with_a_higher_value_that_had_not_converged_is_named(make_run):
    folder = make_run()

    def ahead(selection):
        selection["algorithms"]["bc"]["value"] = selection["overall"]["value"] + 7

    edit(folder / "selection.json", ahead)
    changes = verdict(read_run(folder)).what_would_change
    assert changes[0] == "BC is 7.00 ahead in offline value, from evaluations that had not converged."


def test_the_share_of_the_way_to_the_expert_is_right(make_run):
    folder = make_run(algorithms=("bc",), configurations=1, seeds=1)
    edit(folder / "final.json", lambda final: final["scores"][0].update(score=84.7))  # half of 59.2 … 110.2
    assert "25.5 above the policy that made the logs (59.2), 50 % of the way" in verdict(read_run(folder)).how_good


def test_a_policy_below_the_logs_is_bad_news(make_run):
    said = verdict(read_run(make_run(algorithms=("bc",), trust="trust")))  # 45 against 59.2
    assert (said.grade, said.headline) == ("bad", "BC is no better than the logs")


def test_returns_are_compared_with_the_measured_return_of_the_logging_policy(make_run):
    folder = make_run(algorithms=("bc",), configurations=1, seeds=1, scored=False, trust="trust")
    edit(folder / "final.json", lambda final: final["scores"][0].update(return_mean=1860.0))  # logged 1815.1, true 1904
    said = verdict(read_run(folder))
    assert (said.grade, said.headline) == ("bad", "BC is no better than the logs")
    assert "44.0 below the policy that made the logs (1,904.0)" in said.how_good
    edit(folder / "final.json", lambda final: final.update(references={}))
    said = verdict(read_run(folder))
    assert (said.grade, said.headline) == ("good", "Deploy BC")
    assert "44.9 above the policy that made the logs (1,815.1)" in said.how_good


def test_a_run_that_was_played_does_not_deny_it_without_its_results(make_run):
    folder = make_run()
    (folder / "results.csv").unlink()
    found = summarise([folder])
    assert "An environment was played, but results.csv" in found.verdicts[0].how_good
    assert why_no_scores(found).startswith("An environment was played, but results.csv")


def test_distrust_and_no_selection_are_bad_news(make_run):
    distrusted = summarise([make_run("a", trust="distrust", played=False)])
    assert distrusted.bad_news
    assert distrusted.verdicts[0].headline == "ILBRL, but do not rely on it"
    assert "this estimate is all there is" in distrusted.verdicts[0].how_good
    folder = make_run("b")
    edit(folder / "selection.json", lambda s: s.update(overall=None, nothing="every candidate diverged"))
    nothing = verdict(read_run(folder))
    assert (nothing.headline, nothing.which) == ("No policy to deploy", "Every candidate diverged.")
    (folder / "selection.json").unlink()
    assert "continue it with the same command" in verdict(read_run(folder)).which


def test_a_close_second_is_named_as_such(make_run):
    folder = make_run(algorithms=("ilbrl", "bc"))

    def close(selection):
        selection["algorithms"]["bc"]["value"] = selection["algorithms"]["ilbrl"]["value"] - 1.7 * 2**0.5

    edit(folder / "selection.json", close)  # both standard errors are 1.7
    assert any("(1.0 standard errors: another seed" in c for c in verdict(read_run(folder)).what_would_change)
