"""The table of scores, and the small print that goes with it."""

from __future__ import annotations

from dataclasses import dataclass

from ilbrl.envs import NOT_D4RL
from ilbrl.report.bootstrap import MEASURED_COVERAGE
from ilbrl.report.palette import display
from ilbrl.report.pertask import indistinguishable, normal_mean
from ilbrl.report.scoreboard import Scoreboard
from ilbrl.report.summary import Summary
from ilbrl.report.wording import decimals, number, plus_minus

BOLD = "Bold: the best, and whatever cannot be told apart from it."


@dataclass(frozen=True)
class Cell:
    text: str
    bold: bool = False


@dataclass(frozen=True)
class Table:
    """Scores: a row per algorithm, then per reference; a column per task, then the IQM where tasks can be averaged."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    algorithms: int  # how many rows, the first, are algorithms'
    caption: str


def score_table(summary: Summary) -> Table | None:
    board = summary.board
    if board is None:
        return None
    averaged = bool(summary.aggregates)
    rows = []
    for name in board.algorithms:
        cells = [Cell(display(name)), *(_task_cell(board, name, task) for task in board.tasks)]
        rows.append((*cells, _iqm_cell(summary, name)) if averaged else tuple(cells))
    for name, known in board.references.items():
        role, dot, run = name.partition(" · ")
        cells = [Cell(f"policy of the {role}{dot}{run}"), *(Cell(number(known.get(task))) for task in board.tasks)]
        rows.append((*cells, Cell(number(board.reference(name)))) if averaged else tuple(cells))
    columns = ("", *board.tasks, *(["IQM"] if averaged else []))
    return Table(columns, tuple(rows), len(board.algorithms), caption(board))


def caption(board: Scoreboard) -> str:
    said = "Task columns: mean ± normal 95 % interval over runs, compared by Welch's t. IQM: 95 % bootstrap interval,"
    return f"{said} compared by t intervals. {BOLD}" + (f" {NOT_D4RL}" if board.unit == "score" else "")


def _task_cell(board: Scoreboard, name: str, task: str) -> Cell:
    rivals = {other: scores[task] for other, scores in board.scores.items() if task in scores}
    if name not in rivals:
        return Cell("–")
    best = max(rivals.values(), key=lambda runs: float(runs.mean()))
    found = normal_mean(rivals[name])
    text = plus_minus(found.value, found.half_width)
    return Cell(text, rivals[name] is best or indistinguishable(rivals[name], best))


def _iqm_cell(summary: Summary, name: str) -> Cell:
    if name not in summary.aggregates:
        return Cell("–")
    found = summary.aggregates[name]["iqm"]
    gap = summary.to_best.get(name)
    digits = decimals(float(found.point))
    low, middle, high = (number(float(each), digits) for each in (found.low, found.point, found.high))
    return Cell(f"{middle} [{low}, {high}]", gap is None or gap.holds_zero)


def small_print(summary: Summary) -> tuple[str, ...]:
    """What a careful reader must know about the numbers of this report."""
    said = []
    if summary.board is not None:
        runs = summary.board.runs_per_task
        nearest = min(MEASURED_COVERAGE, key=lambda n: abs(n - runs))
        low, high = MEASURED_COVERAGE[nearest]
        said.append(
            "Intervals of the IQM are 95 % percentile bootstraps (10,000 resamples of runs within each task). With few"
            f" runs they are too short: in simulations with {nearest} runs per task they held the truth in {low} to"
            f" {high} % of the cases, not 95 % (docs/statistics.md). The fewest runs per task here: {runs}."
        )
        said.append(
            "Runs are policy seeds on the same logs: intervals say how much seeds matter, and nothing about other logs."
        )
        if summary.board.unit == "score":
            said.append(NOT_D4RL)
        said += summary.board.notes
    said.append(
        "Offline values are discounted and estimated from logs by a method that was itself tuned on known policies;"
        " their standard errors are over seeds and do not include its bias."
    )
    return tuple(said)
