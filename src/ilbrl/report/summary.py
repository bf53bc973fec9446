"""Everything a report says, computed once: the page, the tables and the figures only lay it out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ilbrl.envs import score_notes
from ilbrl.report.bootstrap import MEASURED_COVERAGE, Interval
from ilbrl.report.deployed import PLAYED_BY_UNKNOWN
from ilbrl.report.pictures import display
from ilbrl.report.scoreboard import Scoreboard, aggregates, differences_to_best, scoreboard
from ilbrl.report.text import listed, number, several
from ilbrl.report.verdict import Verdict, verdict
from ilbrl.results.folder import Run, read_runs


@dataclass(frozen=True)
class Summary:
    runs: tuple[Run, ...]
    verdicts: tuple[Verdict, ...]  # one per run
    board: Scoreboard | None  # None: no selected policy was played
    aggregates: dict[str, dict[str, Interval]]  # algorithm → statistic → interval
    to_best: dict[str, Interval]  # algorithm → difference of its IQM to the best one's

    @property
    def bad_news(self) -> bool:
        """Whether some run has no policy to deploy, or none to rely on."""
        return any(each.grade == "bad" for each in self.verdicts)


def summarise(folders: Sequence[Path], rng: np.random.Generator | None = None) -> Summary:
    """Read run folders and compute; the default generator is fixed, so that a report can be made again."""
    rng = np.random.default_rng(0) if rng is None else rng
    runs = read_runs(folders)
    board = scoreboard(runs)
    return Summary(
        runs,
        tuple(verdict(run) for run in runs),
        board,
        aggregates(board, rng) if board else {},
        differences_to_best(board, rng) if board else {},
    )


def why_no_scores(summary: Summary) -> str:
    """What to say where the table of true scores would stand."""
    if any(run.played for run in summary.runs):
        return f"{PLAYED_BY_UNKNOWN}: there are no true scores to show."
    return "No selected policy was played in an environment: there are no true scores to show."


def comparison_sentence(summary: Summary) -> str:
    """Which algorithm is best over all tasks, and from which it cannot be told apart."""
    board = summary.board
    best = board.best if board is not None else None
    if best is None or board is None:
        return "The runs have no true scores in common, so they stand side by side and are not averaged."
    found = summary.aggregates[best]["iqm"]
    highest = "the highest" if len(summary.aggregates) > 1 else "an"
    said = f"{display(best)} has {highest} interquartile mean over {board.over}: {number(float(found.point))}"
    if board.enough_runs:
        said += f" (95 % interval {number(float(found.low))} to {number(float(found.high))})."
    else:
        said += f", from only {several(board.runs_per_task, 'run')} per task."
    alike = [display(name) for name, each in summary.to_best.items() if each.holds_zero]
    if alike:
        return f"{said} It cannot be told apart from {listed(alike)}."
    return said + (" It can be told apart from all others." if summary.to_best else "")


def small_print(summary: Summary) -> tuple[str, ...]:
    """What a careful reader must know about the numbers of this report."""
    return (*_about_scores(summary.board), *_about_values())


def _about_scores(board: Scoreboard | None) -> Iterator[str]:
    if board is None:
        return
    runs = board.runs_per_task
    if board.enough_runs:
        nearest = min(MEASURED_COVERAGE, key=lambda n: abs(n - runs))
        low, high = MEASURED_COVERAGE[nearest]
        yield (
            "Intervals of the IQM are 95 % percentile bootstraps (10,000 resamples of runs within each task). With few"
            f" runs they are too short: in simulations with {nearest} runs per task they held the truth in {low} to"
            f" {high} % of the cases, not 95 % (docs/statistics.md). The fewest runs per task here: {runs}."
        )
    else:
        yield f"With only {several(runs, 'run')} per task, bootstraps and profiles would say nothing: none is shown."
    yield (
        "The verdict is about one file, and its interval about the episodes that this file played. In tables, runs are"
        " policy seeds on the same logs: their intervals say how much seeds and episodes matter, and nothing about"
        " other logs."
    )
    if board.unit == "score":
        yield from score_notes(board.tasks)
    yield from board.notes


def _about_values() -> Iterator[str]:
    yield (
        "Offline values are estimated from logs by a method that was itself tuned on known policies. The interval in"
        " the verdict contains how far it missed those; standard errors in tables are over seeds alone."
    )
