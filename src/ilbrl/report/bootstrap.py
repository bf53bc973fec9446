"""How sure a statistic is: stratified bootstrap, percentile intervals.

Runs are drawn anew with replacement within each task, independently of the other tasks (the strata): tasks are given,
runs are chance. The interval runs between the percentiles of the statistic over the resamples. With few runs such
intervals are too short, because a resample of n runs spreads √(n/(n−1)) less than n new ones would:
`MEASURED_COVERAGE` says by how much.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy import stats

from ilbrl.base.errors import IlbrlError
from ilbrl.report.statistics import Statistic

RESAMPLES = 10_000
CONFIDENCE = 0.95
MEASURED_COVERAGE = {3: (76, 85), 6: (88, 95), 10: (90, 95), 30: (94, 96)}
"""Runs per task → percent of 95 % intervals of the IQM that contain the truth: lowest and highest of four populations.

From `python -m benchmarks.bootstrap_coverage`; the whole table is in docs/statistics.md.
"""
BLOCK = 1 << 21
"""Numbers gathered at a time: 16 MB, so that a million resamples fit any machine."""


class Interval(NamedTuple):
    """A statistic with its confidence interval: NumPy floats, or [k] arrays for a statistic with k values."""

    point: np.ndarray
    low: np.ndarray
    high: np.ndarray

    @property
    def holds_zero(self) -> bool:
        """Of a difference: whether it may be none."""
        return bool(self.low <= 0 <= self.high)


def draw(shape: tuple[int, ...], rng: np.random.Generator, resamples: int) -> np.ndarray:
    """[resamples, runs, tasks] numbers of runs, drawn with replacement within each task, for scores of `shape`.

    Resamples lie side by side in memory: sums over runs and tasks then add long vectors, ten times faster.
    """
    return np.moveaxis(rng.integers(shape[0], size=(*shape, resamples)), -1, 0)


def resampled(scores: np.ndarray, drawn: np.ndarray) -> np.ndarray:
    """[runs, tasks] scores → [resamples, runs, tasks]."""
    return scores[drawn, np.arange(scores.shape[1])]


def bootstrap(
    scores: np.ndarray, statistic: Statistic, rng: np.random.Generator, resamples: int = RESAMPLES
) -> np.ndarray:
    """[resamples, …] the statistic of every resample of [runs, tasks] scores."""
    scores = checked(scores)
    return _in_blocks(
        lambda count: statistic(resampled(scores, draw(scores.shape, rng, count))), resamples, scores.size
    )


def interval(
    scores: np.ndarray,
    statistic: Statistic,
    rng: np.random.Generator,
    resamples: int = RESAMPLES,
    confidence: float = CONFIDENCE,
) -> Interval:
    """The statistic of [runs, tasks] scores and its percentile interval."""
    scores = checked(scores)
    return Interval(statistic(scores), *percentiles(bootstrap(scores, statistic, rng, resamples), confidence))


def comparison(
    ours: np.ndarray,
    theirs: np.ndarray,
    statistic: Callable[[np.ndarray, np.ndarray], np.ndarray],
    rng: np.random.Generator,
    paired: bool = False,
    resamples: int = RESAMPLES,
    confidence: float = CONFIDENCE,
) -> Interval:
    """A statistic of two algorithms, [n, tasks] and [m, tasks], with its percentile interval.

    `paired`: row i of both belongs together (the same seed, the same split), so both draw the same rows.
    """
    ours, theirs = checked(ours), checked(theirs)
    drawn = _bootstrap_pair(ours, theirs, statistic, rng, paired, resamples)
    return Interval(statistic(ours, theirs), *percentiles(drawn, confidence))


def cautious_difference(
    ours: np.ndarray, theirs: np.ndarray, statistic: Statistic, rng: np.random.Generator, resamples: int = RESAMPLES
) -> Interval:
    """The statistic of ours less that of theirs, with the interval by which two algorithms are told apart.

    `t_interval` instead of percentiles: no percentile lies outside the scores seen, so that two runs of each could
    "prove" anything.
    """
    ours, theirs = checked(ours), checked(theirs)
    drawn = _bootstrap_pair(ours, theirs, difference(statistic), rng, False, resamples)
    return t_interval(difference(statistic)(ours, theirs), drawn, min(len(ours), len(theirs)), ours.shape[1])


def t_interval(point: np.ndarray, drawn: np.ndarray, runs: int, tasks: int, confidence: float = CONFIDENCE) -> Interval:
    """Point ± t s √(n / (n − 1)), with s the standard deviation over [resamples].

    t has tasks (n − 1) degrees of freedom. The root gives back the spread that a resample of n lacks, t allows
    for spreads being estimated (Hesterberg 2015). One run has no spread: the interval is the whole line.
    """
    if runs < 2:
        return Interval(point, np.float64(-np.inf), np.float64(np.inf))  # pyright: ignore[reportArgumentType]
    half = stats.t.ppf(0.5 + confidence / 2, tasks * (runs - 1)) * drawn.std(axis=0) * np.sqrt(runs / (runs - 1))
    return Interval(point, point - half, point + half)


def _bootstrap_pair(
    ours: np.ndarray,
    theirs: np.ndarray,
    statistic: Callable[[np.ndarray, np.ndarray], np.ndarray],
    rng: np.random.Generator,
    paired: bool,
    resamples: int,
) -> np.ndarray:
    if ours.shape[1] != theirs.shape[1] or (paired and ours.shape != theirs.shape):
        raise IlbrlError(
            f"scores of {ours.shape[0]} runs × {ours.shape[1]} tasks and {theirs.shape[0]} × {theirs.shape[1]} cannot"
            f" be compared{' in pairs' if paired else ''}: give both the same tasks{' and runs' if paired else ''}"
        )

    def block(count: int) -> np.ndarray:
        drawn = draw(ours.shape, rng, count)
        return statistic(resampled(ours, drawn), resampled(theirs, drawn if paired else draw(theirs.shape, rng, count)))

    return _in_blocks(block, resamples, max(ours.size + theirs.size, ours.size * len(theirs)))


def difference(statistic: Statistic) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    """The statistic of ours less that of theirs, for `comparison`."""
    return lambda ours, theirs: statistic(ours) - statistic(theirs)


def percentiles(drawn: np.ndarray, confidence: float = CONFIDENCE) -> np.ndarray:
    """[resamples, …] → [2, …] lower and upper end."""
    tail = 50 * (1 - confidence)
    return np.percentile(drawn, [tail, 100 - tail], axis=0)


def checked(scores: np.ndarray) -> np.ndarray:
    scores = np.asarray(scores, np.float64)
    if scores.ndim != 2 or not scores.size:
        raise IlbrlError(f"scores must be a matrix of runs × tasks, this has shape {scores.shape}")
    if not np.isfinite(scores).all():
        run, task = np.argwhere(~np.isfinite(scores))[0]
        raise IlbrlError(f"the score of run {run} on task {task} is {scores[run, task]}: leave that run out or play it")
    return scores


def _in_blocks(draw: Callable[[int], np.ndarray], resamples: int, numbers_each: int) -> np.ndarray:
    block = max(1, BLOCK // numbers_each)
    counts = [min(block, resamples - start) for start in range(0, resamples, block)]
    return np.concatenate([draw(count) for count in counts])
