"""True scores over runs: matrices, references, what is averaged and what is not."""

import json

import numpy as np
import pytest

from ilbrl.envs import TASKS
from ilbrl.report import summarise
from ilbrl.report.formats import latex, score_table
from ilbrl.report.pictures.scores import of_scores
from ilbrl.report.scoreboard import aggregates, differences_to_best, played, scoreboard, selection_regret
from ilbrl.report.summary import comparison_sentence, small_print, why_no_scores
from ilbrl.results import read_run, read_runs


@pytest.fixture
def board(committed):
    found = scoreboard(read_runs(list(committed.values())))
    assert found is not None
    return found


def final(folder, algorithm):
    """[seeds] scores of an algorithm, straight from final.json."""
    scores = json.loads((folder / "final.json").read_text())["scores"]
    return [each["score"] for each in scores if each["algorithm"] == algorithm]


def only_seeds(row, count):
    """Empty the true scores of a row of results.csv beyond the first seeds."""
    if int(row["policy_seed"]) >= count:
        row.update(true_return="", true_score="", true_episodes="")


def test_tasks_of_several_runs_make_one_matrix(board, committed):
    assert (board.unit, board.tasks, board.runs_per_task) == ("score", tuple(committed), 3)
    expected = [final(folder, "bc") for folder in committed.values()]
    np.testing.assert_allclose(board.matrices["bc"], np.transpose(expected))
    references = [json.loads((f / "final.json").read_text())["references"] for f in committed.values()]
    logs = [found.get("logs", found.get("exploratory"))["true_score"] for found in references]
    assert board.reference("logs") == pytest.approx(np.mean(logs))
    found = aggregates(board, np.random.default_rng(0))
    assert found["bc"]["iqm"].point == pytest.approx(np.mean(expected))  # of three runs none is trimmed
    gaps = differences_to_best(board, np.random.default_rng(0))
    assert set(gaps) == set(board.algorithms) - {board.best}


def test_a_policy_is_as_sure_as_its_episodes(committed):
    run = read_run(committed["hopper"])
    candidate = next(c for c in run.candidates if c.selected)
    recorded = json.loads((committed["hopper"] / "final.json").read_text())["scores"][0]
    task = TASKS["hopper"]
    assert task.expert_return is not None
    assert task.random_return is not None
    spread = 100 * recorded["return_std"] / (task.expert_return - task.random_return)
    found = played(run, candidate)
    assert found is not None
    assert found.spread == pytest.approx(spread)
    assert found.mean.half_width == pytest.approx(1.96 * spread / np.sqrt(30), rel=1e-3)


def test_an_algorithm_in_two_studies_of_one_task_is_two_algorithms(committed, copy, edit):
    other = copy(committed["hopper"])
    edit(other / "results.csv", lambda row: row.update(study="eighteen"))
    board = scoreboard(read_runs([committed["hopper"], other]))
    assert board is not None
    assert list(board.scores)[::5] == ["ilbrl · locomotion-hopper", "ilbrl · eighteen"]
    assert len(board.scores) == 10


def test_references_that_differ_within_a_task_are_named_after_their_runs(committed, copy, edit):
    two, eighteen = (copy(committed["hopper"], name) for name in ("two", "eighteen"))
    for folder in (two, eighteen):
        edit(folder / "results.csv", lambda row, name=folder.name: row.update(study=name))
    edit(eighteen / "final.json", lambda final: final["references"]["expert"].update(true_score=99.5))
    for folders in ([two, eighteen], [eighteen, two]):
        found = summarise(folders)
        assert found.board is not None
        assert set(found.board.references) == {"logs", "expert · two", "expert · eighteen"}
        table = score_table(found)
        assert table is not None
        shown = {row[0].text: row[1].text for row in table.rows[table.algorithms :]}
        assert shown == {
            "policy of the logs": "58.6",
            "policy of the expert · two": "110.3",
            "policy of the expert · eighteen": "99.5",
        }
        assert latex(found).count(r"\midrule") == 2
        drawn = of_scores(found.board, found.aggregates, np.random.default_rng(0))
        assert set(found.board.references) <= {series.name for series in drawn["per-task"].series}


def test_a_run_that_was_not_played_has_no_reference_beside_those_that_were(played, finished):
    board = scoreboard(read_runs([played, finished]))
    assert board is not None
    assert set(board.references["logs"]) == {"Pendulum-v1"}


def test_returns_of_different_tasks_are_never_averaged(played, copy, edit):
    other = copy(played)
    edit(other / "results.csv", lambda row: row.update(task="leg", study="leg"))
    summary = summarise([played, other])
    assert summary.board is not None
    assert (summary.board.unit, summary.aggregates, summary.board.best) == ("return", {}, None)
    assert any("never averaged" in note for note in summary.board.notes)
    assert "side by side" in comparison_sentence(summary)


def test_seeds_that_were_not_played_are_said(committed, copy, edit):
    folder = copy(committed["hopper"])
    edit(folder / "results.csv", lambda row: only_seeds(row, 2))
    edit(folder / "final.json", lambda final: final.update(scores=[s for s in final["scores"] if s["policy_seed"] < 2]))
    board = scoreboard(read_runs([folder, committed["ant"]]))
    assert board is not None
    assert board.matrices["bc"].shape == (2, 2)
    assert any("1 of 3 seeds of the selected BC (seed 2)" in note for note in board.notes)
    assert any("BC has unequal numbers of runs (hopper 2, ant 3)" in note for note in board.notes)


def test_few_runs_have_no_bootstrap(committed, played):
    one_task = summarise([committed["hopper"]])  # three seeds
    assert one_task.board is not None
    assert "from only 3 runs per task. It cannot be told apart from" in comparison_sentence(one_task)
    assert any("bootstraps and profiles would say nothing" in each for each in small_print(one_task))
    table = score_table(one_task)
    assert table is not None
    assert table.columns == ("", "hopper")
    assert set(of_scores(one_task.board, one_task.aggregates, np.random.default_rng(0))) == {"per-task"}
    assert "only 2 runs" in comparison_sentence(summarise([played]))


def test_nothing_played_is_no_scoreboard(finished):
    summary = summarise([finished])
    assert summary.board is None
    assert why_no_scores(summary).startswith("No selected policy was played")
    assert not any("bootstraps" in each for each in small_print(summary))


def test_the_regret_of_selection(committed, copy, edit):
    run = read_run(committed["hopper"])
    means = [np.mean([c.true_score for c in run.candidates if c.key[:2] == ("ilbrl", i)]) for i in range(4)]
    chosen = next(c.configuration for c in run.candidates if c.selected and c.algorithm == "ilbrl")
    assert selection_regret(run)["ilbrl"].regret == pytest.approx(max(means) - means[chosen])
    hidden = copy(committed["hopper"])
    (hidden / "reveal.json").unlink()

    def hide(row):
        if row["selected"] != "1":
            row.update(true_return="", true_score="", true_episodes="")

    edit(hidden / "results.csv", hide)
    assert selection_regret(read_run(hidden)) == {}
