"""Scores summed up in one number: of one task, or of several runs on several tasks.

A statistic of several tasks takes [..., runs, tasks] scores and returns [...]: the leading axes are resamples, so that
a bootstrap is one call. Mean, median, pooled IQM, optimality gap and probability of improvement are rliable's
definitions (Agarwal et al. 2021) to the last bits; the IQM within tasks is the paper's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy import stats

from ilbrl.results.schema import NORMAL_95

Statistic = Callable[[np.ndarray], np.ndarray]
"""[..., runs, tasks] scores → [...] or [..., k]."""

OPTIMAL_SCORE = 100.0


def mean(scores: np.ndarray) -> np.ndarray:
    return scores.mean(axis=-2).mean(axis=-1)


def median(scores: np.ndarray) -> np.ndarray:
    """Median over tasks of the mean over runs."""
    return np.median(scores.mean(axis=-2), axis=-1)


def task_iqm(scores: np.ndarray) -> np.ndarray:
    """[..., tasks] mean of each task's runs without its ⌊runs/4⌋ lowest and highest: 4 of 6 stay, 3 of 3."""
    runs = scores.shape[-2]
    cut = runs // 4
    return np.sort(scores, axis=-2)[..., cut : runs - cut, :].mean(axis=-2)


def iqm(scores: np.ndarray) -> np.ndarray:
    """Interquartile mean by the paper's definition: trimmed within each task, then averaged over tasks."""
    return task_iqm(scores).mean(axis=-1)


def pooled_iqm(scores: np.ndarray) -> np.ndarray:
    """Interquartile mean by rliable's definition: the scores of all tasks are trimmed together.

    Where tasks differ in difficulty it leaves out whole tasks, the easiest and the hardest.
    """
    pooled = np.sort(scores.reshape(*scores.shape[:-2], -1), axis=-1)
    cut = pooled.shape[-1] // 4
    return pooled[..., cut : pooled.shape[-1] - cut].mean(axis=-1)


def optimality_gap(scores: np.ndarray, optimal: float = OPTIMAL_SCORE) -> np.ndarray:
    """How far the runs stay below `optimal` on average; what lies above it earns nothing."""
    return optimal - np.minimum(scores, optimal).mean(axis=(-2, -1))


def probability_of_improvement(ours: np.ndarray, theirs: np.ndarray) -> np.ndarray:
    """[..., n, tasks] and [..., m, tasks] → [...] chance that a run of ours beats one of theirs on the same task.

    P = mean over tasks of (#{x > y} + #{x = y} / 2) / (n m)                              Mann and Whitney's U
    """
    x, y = ours[..., :, None, :], theirs[..., None, :, :]
    return 0.5 * ((x > y).mean(axis=(-3, -2, -1)) + (x >= y).mean(axis=(-3, -2, -1)))


def profile(thresholds: np.ndarray, over: str = "runs") -> Statistic:
    """The performance profile as a statistic: [..., runs, tasks] → [..., thresholds] share of scores above each.

    `over` "runs" counts every run of every task, as the paper's main text does; "tasks" counts tasks by their IQM.
    """

    def shares(scores: np.ndarray) -> np.ndarray:
        flat = scores.reshape(*scores.shape[:-2], -1) if over == "runs" else task_iqm(scores)
        return (flat[..., :, None] > thresholds).mean(axis=-2)

    return shares


AGGREGATES: dict[str, Statistic] = {
    "iqm": iqm,
    "pooled_iqm": pooled_iqm,
    "mean": mean,
    "median": median,
    "optimality_gap": optimality_gap,
}


class Mean(NamedTuple):
    """A mean, its standard error and the half width of its normal 95 % interval; NaN where no spread is known."""

    value: float
    std_error: float
    half_width: float
    runs: int

    def clearly_above(self, value: float) -> bool:
        """Whether the whole interval lies above `value`; of an unknown spread, whether the mean does."""
        return self.value - float(np.nan_to_num(self.half_width)) > value

    def differs_from(self, other: Mean) -> bool:
        """Whether the normal 95 % interval of the difference leaves out zero; of an unknown spread it cannot."""
        return bool(abs(self.value - other.value) > NORMAL_95 * np.hypot(self.std_error, other.std_error))


def normal_mean(scores: np.ndarray, std_errors: np.ndarray | None = None) -> Mean:
    """[runs] → mean ± 1.96 s/√n, as the paper's tables have it.

    `std_errors` [runs]: how sure each score is itself, being a mean over episodes. Two runs may agree by chance: the
    error of their mean is then no smaller than √Σ e² / n, which the episodes alone would give.
    """
    scores = np.asarray(scores, np.float64)
    between = scores.std(ddof=1) / np.sqrt(len(scores)) if len(scores) > 1 else np.nan
    within = np.nan if std_errors is None else np.sqrt(np.square(std_errors).sum()) / len(scores)
    error = np.fmax(between, within)
    return Mean(float(scores.mean()), float(error), float(NORMAL_95 * error), len(scores))


def indistinguishable(ours: np.ndarray, best: np.ndarray) -> bool:
    """[n], [m]: whether Welch's t interval (95 %) of the difference of the two means contains zero.

    With a single run on either side nothing can be told apart.
    """
    if min(len(ours), len(best)) < 2:
        return True
    variances = np.array([np.var(ours, ddof=1) / len(ours), np.var(best, ddof=1) / len(best)])
    if variances.sum() == 0:
        return bool(np.mean(ours) == np.mean(best))
    freedom = variances.sum() ** 2 / (variances**2 / [len(ours) - 1, len(best) - 1]).sum()
    return bool(abs(np.mean(ours) - np.mean(best)) <= stats.t.ppf(0.975, freedom) * np.sqrt(variances.sum()))
