"""Everything a report says, computed once: the page, the tables and the figures only lay it out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ilbrl.report.bootstrap import Interval
from ilbrl.report.palette import display
from ilbrl.report.scoreboard import Scoreboard, aggregates, differences_to_best, scoreboard
from ilbrl.report.verdict import PLAYED_BY_UNKNOWN, Verdict, verdict
from ilbrl.report.wording import number
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
    said += f" (95 % interval {number(float(found.low))} to {number(float(found.high))})."
    alike = [display(name) for name, each in summary.to_best.items() if each.holds_zero]
    if alike:
        return f"{said} It cannot be told apart from {', '.join(alike)}."
    return said + (" It can be told apart from all others." if summary.to_best else "")
