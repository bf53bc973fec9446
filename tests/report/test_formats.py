"""Tables for papers and machines."""

import csv
import io
import json
import re
from dataclasses import replace

import pytest

from ilbrl.envs import NOT_D4RL
from ilbrl.report import summarise
from ilbrl.report.formats import comma_separated, latex, machine_readable, markdown, score_table
from ilbrl.report.statistics import indistinguishable
from ilbrl.report.summary import small_print


def test_the_best_and_what_cannot_be_told_apart_from_it_are_bold(summary):
    table, board = score_table(summary), summary.board
    assert table is not None
    assert table.columns == ("", "hopper", "halfcheetah", "walker2d", "ant", "IQM")
    bold = {row[0].text: [cell.bold for cell in row[1:]] for row in table.rows}
    runs = {name: scores["hopper"] for name, scores in board.scores.items()}
    best = max(runs, key=lambda name: runs[name].mean())
    assert best == "bc"
    assert bold["BC"][0]
    assert bold["ORIL"][0] == indistinguishable(runs["oril"], runs["bc"]) == False  # noqa: E712
    assert bold["policy of the expert"] == [False] * 5  # not a competitor
    assert NOT_D4RL in table.caption


def test_single_runs_are_told_apart_by_their_episodes(summary):
    def first(of):
        return {name: {task: runs[:1] for task, runs in tasks.items()} for name, tasks in of.items()}

    board = replace(summary.board, scores=first(summary.board.scores), errors=first(summary.board.errors))
    table = score_table(replace(summary, board=board, aggregates={}))
    assert table is not None
    assert "a single run: over its episodes" in table.caption
    for task, column in zip(board.tasks, zip(*(row[1:] for row in table.rows))):
        found = {name: board.mean(name, task) for name in board.algorithms}
        best = max(found.values(), key=lambda mean: mean.value)
        assert [cell.bold for cell in column[: len(found)]] == [not mean.differs_from(best) for mean in found.values()]
    assert not all(cell.bold for row in table.rows[: len(board.algorithms)] for cell in row[1:])


def test_markdown_tells_verdict_scores_and_small_print(summary):
    text = markdown(summary)
    assert "## locomotion-hopper (hopper): BC may be no better than the logs" in text
    assert re.search(r"\| BC \| \*\*\d+\.\d ± \d+\.\d\*\* \|", text)
    assert "76 to 85 %" in text
    assert NOT_D4RL in text


def test_small_print_names_the_coverage_for_its_number_of_runs(summary):
    assert any(
        "in simulations with 3 runs per task they held the truth in 76 to 85 %" in e for e in small_print(summary)
    )


def test_latex_has_the_structure_of_a_booktabs_table(summary):
    lines = latex(summary).splitlines()
    for opened, closed in ((r"\begin{table}", r"\end{table}"), (r"\begin{tabular}{lrrrrr}", r"\end{tabular}")):
        assert lines.index(opened) < lines.index(closed)
    body = [line for line in lines if line.endswith(r"\\")]
    assert len(body) == 1 + 5 + 2
    assert all(line.count("&") == 5 for line in body)
    assert lines.count(r"\midrule") == 2


def test_latex_without_scores_is_a_comment(finished):
    assert latex(summarise([finished])).startswith("% No selected policy")


def test_csv_has_one_row_per_trained_policy(summary):
    rows = list(csv.DictReader(io.StringIO(comma_separated(summary))))
    assert len(rows) == 4 * 5 * 4 * 3
    first, candidate = rows[0], summary.runs[0].candidates[0]
    assert first["run"] == "locomotion-hopper"
    assert float(first["offline_value"]) == candidate.offline_value
    assert (first["verdict"], first["selected"]) == (candidate.verdict, str(int(candidate.selected)))
    assert json.loads(first["hyperparameters"]) == candidate.hyperparameters


def test_json_is_strict_and_complete(summary):
    def refuse(word):
        raise AssertionError(f"{word} is not JSON")

    found = json.loads(machine_readable(summary), parse_constant=refuse)
    assert found["unit"] == "score"
    assert len(found["runs"]) == 4
    assert set(found["aggregates"]["bc"]) == {"iqm", "pooled_iqm", "mean", "median", "optimality_gap"}
    assert found["aggregates"]["bc"]["iqm"]["low"] < found["aggregates"]["bc"]["iqm"]["high"]
    hopper = found["runs"][0]["verdict"]
    assert hopper["headline"] == "BC may be no better than the logs"
    assert (hopper["score"]["value"], hopper["score"]["runs"]) == (pytest.approx(66.0, abs=0.1), 30)  # episodes
    assert (hopper["seeds"]["value"], hopper["seeds"]["runs"]) == (pytest.approx(74.7, abs=0.1), 3)
