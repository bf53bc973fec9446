"""One task at a time: mean ± normal 95 %, and which algorithms cannot be told apart from the best."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import stats

NORMAL_95 = 1.959963984540054


class Mean(NamedTuple):
    """Mean of some runs, its standard error and the half width of its normal 95 % interval; NaN from one run."""

    value: float
    std_error: float
    half_width: float
    runs: int


def normal_mean(scores: np.ndarray) -> Mean:
    """[runs] → mean ± 1.96 s/√n, as the paper's tables have it."""
    scores = np.asarray(scores, np.float64)
    error = scores.std(ddof=1) / np.sqrt(len(scores)) if len(scores) > 1 else np.nan
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
