"""Pictures of true scores over all runs: the paper's intervals and profiles, task by task, and who beats whom."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

import numpy as np

from ilbrl.report.bootstrap import Interval, comparison, interval
from ilbrl.report.pictures import LINE_POINTS, NEUTRAL, Line, Picture, Series, by_name, display, styles
from ilbrl.report.pictures.runs import ABLATION
from ilbrl.report.scoreboard import Scoreboard
from ilbrl.report.statistics import probability_of_improvement, profile
from ilbrl.report.text import OF_RUN


def of_scores(board: Scoreboard, found: dict[str, dict[str, Interval]], rng: np.random.Generator) -> dict[str, Picture]:
    """Every picture of the true scores over all runs, by name; of few runs only the means by task."""
    if not board.enough_runs:
        return by_name([per_task(board)])
    drawn = [iqm_intervals(board, found), performance_profiles(board, rng), per_task(board), improvement(board, rng)]
    if set(ABLATION) <= set(board.matrices):
        drawn += [iqm_intervals(board, found, ABLATION), performance_profiles(board, rng, ABLATION)]
    return by_name(drawn)


def unit_label(board: Scoreboard) -> str:
    return "normalised score" if board.unit == "score" else "return"


def iqm_intervals(
    board: Scoreboard, found: dict[str, dict[str, Interval]], only: Sequence[str] | None = None
) -> Picture | None:
    """Interval bars of the IQM, with lines for the policy behind the logs and the expert."""
    shown = [name for name in found if only is None or name in only]
    if not shown:
        return None
    look = styles(list(board.scores))
    series = []
    for i, name in enumerate(shown):
        x, low, high = map(np.atleast_1d, found[name]["iqm"])
        y = np.atleast_1d(len(shown) - 1 - i)
        series.append(Series(display(name), look[name], x, y, "points", low, high, (display(name),)))
    return Picture(
        "iqm" if only is None else "ablation-iqm",
        f"Interquartile mean, {board.over}",
        "Each dot is the mean of the middle runs of each task; the bar is its 95 % bootstrap interval.",
        unit_label(board), "", tuple(series), tuple(_references(board, "x")), sideways=True,
        y_names=tuple(display(name) for name in reversed(shown)),
    )  # fmt: skip


def _references(board: Scoreboard, axis: Literal["x", "y"]) -> Iterator[Line]:
    for name in board.references:
        value = board.reference(name)
        if value is not None:
            yield Line(axis, value, name)


def performance_profiles(
    board: Scoreboard, rng: np.random.Generator, only: Sequence[str] | None = None
) -> Picture | None:
    matrices = {name: matrix for name, matrix in board.matrices.items() if only is None or name in only}
    if not matrices:
        return None
    everything = np.concatenate([matrix.ravel() for matrix in matrices.values()])
    margin = 0.02 * (everything.max() - everything.min()) or 1.0
    thresholds = np.linspace(min(0.0, everything.min() - margin), everything.max() + margin, LINE_POINTS)
    look, series = styles(list(board.scores)), []
    for name, matrix in matrices.items():
        found = interval(matrix, profile(thresholds), rng, resamples=2_000)
        bounds = np.asarray(found.low), np.asarray(found.high)
        series.append(Series(display(name), look[name], thresholds, np.asarray(found.point), "line", *bounds))
    return Picture(
        "profile" if only is None else "ablation-profile",
        "Performance profile",
        "The share of runs that score above the value below; farther to the upper right is better. Bands are 95 %.",
        unit_label(board), "share of runs above", tuple(series), tuple(_references(board, "x")),
    )  # fmt: skip


def per_task(board: Scoreboard) -> Picture:
    """Mean ± normal 95 % of every algorithm, task by task, side by side."""
    look, count = styles(list(board.scores)), len(board.scores)
    series = []
    for i, (name, scores) in enumerate(board.scores.items()):
        tasks = [task for task in board.tasks if task in scores]
        means = [board.mean(name, task) for task in tasks]
        x = np.array([board.tasks.index(task) for task in tasks]) + (i - (count - 1) / 2) * 0.7 / count
        y, half = np.array([m.value for m in means]), np.nan_to_num([m.half_width for m in means])
        labels = tuple(f"{display(name)}, {task}, {m.runs} runs" for task, m in zip(tasks, means))
        series.append(Series(display(name), look[name], x, y, "points", y - half, y + half, labels))
    for name, values in board.references.items():
        places = [board.tasks.index(task) for task in values]
        x = np.concatenate([[place - 0.45, place + 0.45, np.nan] for place in places])
        y = np.concatenate([[value, value, np.nan] for value in values.values()])
        of_logs = name.partition(OF_RUN)[0] == "logs"
        series.append(Series(name, NEUTRAL._replace(dash="--" if of_logs else ":"), x, y))
    return Picture(
        "per-task", "Task by task", "Mean over runs with its normal 95 % interval.",
        "", unit_label(board), tuple(series), x_names=board.tasks,
    )  # fmt: skip


def improvement(board: Scoreboard, rng: np.random.Generator) -> Picture | None:
    """How likely a run of the algorithm with the highest IQM beats a run of each other one."""
    matrices, best = board.matrices, board.best
    if len(matrices) < 2 or best is None:
        return None
    others, look = [name for name in matrices if name != best], styles(list(board.scores))
    series = []
    for i, name in enumerate(others):
        found = comparison(matrices[best], matrices[name], probability_of_improvement, rng)
        x, low, high = (np.atleast_1d(100 * value) for value in found)
        y = np.atleast_1d(float(len(others) - 1 - i))
        label = f"{display(best)} against {display(name)}"
        series.append(Series(display(name), look[name], x, y, "points", low, high, (label,)))
    return Picture(
        "improvement", f"How often {display(best)} wins",
        f"The chance that a run of {display(best)} scores higher than one of the other on the same task.",
        "percent", "", tuple(series), (Line("x", 50.0, "a draw"),), sideways=True,
        y_names=tuple(display(name) for name in reversed(others)),
    )  # fmt: skip
