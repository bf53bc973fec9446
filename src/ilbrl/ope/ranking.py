"""How well estimates order policies: rank error, rank correlations, regret, bias. Pure functions of [K] arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Check:
    """Estimates of K known policies against the truth; errors are in units of the spread of the true values.

    With a single policy the unit is the magnitude of its true value, and there is no order to get right.
    """

    rank_error: float
    spearman: float  # nan with fewer than three policies: the correlation of two says nothing
    kendall: float
    bias: float  # mean of V − truth
    value_error: float  # mean |V − truth|; infinite where a value is void
    regret_at_k: tuple[float, ...]  # k = 1 … K: what choosing by these estimates would lose
    spread: float  # the unit, in the units of the values

    @staticmethod
    def of(estimates: Sequence[float], truths: Sequence[float], void: Sequence[bool] | None = None) -> Check:
        """void: [K] bool: estimates that say nothing; such a policy is never chosen."""
        values, true = np.asarray(estimates, float), np.asarray(truths, float)
        lost = np.zeros(len(true), bool) if void is None else np.asarray(void, bool)
        spread = float(np.ptp(true)) if len(true) > 1 else abs(float(true[0]))
        unit = max(spread, 1e-12)
        errors, ranked = (values - true)[~lost], np.where(lost, -np.inf, values)
        several = len(errors) > 2
        return Check(
            rank_error=rank_error(np.where(lost, 0.0, values), true, lost),
            spearman=spearman(values[~lost], true[~lost]) if several else float("nan"),
            kendall=kendall(values[~lost], true[~lost]) if several else float("nan"),
            bias=float(errors.mean()) / unit if len(errors) else float("nan"),
            value_error=float("inf") if lost.any() else float(np.abs(errors).mean()) / unit,
            regret_at_k=tuple(regret(ranked, true, k) / unit for k in range(1, len(true) + 1)),
            spread=spread,
        )


def rank_error(estimates: np.ndarray, truths: np.ndarray, diverged: np.ndarray) -> float:
    """RankError = Σ_k |rank(V_k) − rank(V^{π_k})|, with ranks 1 … K from the lowest value.

    A diverged policy contributes K. The others keep their estimated order and are placed into the ranks 1 … K in the
    order-preserving way that costs least. Equal estimates tell nothing apart and count as the wrong order.

    estimates, truths: [K] values; diverged: [K] bool.
    """
    estimates, truths, diverged = np.asarray(estimates, float), np.asarray(truths, float), np.asarray(diverged, bool)
    number = len(truths)
    true_ranks = np.empty(number, int)
    true_ranks[np.argsort(truths, kind="stable")] = np.arange(1, number + 1)
    survivors = np.flatnonzero(~diverged)
    survivors = survivors[np.lexsort((-truths[survivors], estimates[survivors]))]
    cheapest = np.zeros(number + 1)  # [r] least cost of the survivors so far, placed within the first r ranks
    for k in survivors:
        placed = np.full(number + 1, np.inf)
        for rank in range(1, number + 1):  # k takes this rank, or an earlier one
            placed[rank] = min(placed[rank - 1], cheapest[rank - 1] + abs(rank - true_ranks[k]))
        cheapest = placed
    return float(cheapest[number] + number * diverged.sum())


def spearman(estimates: np.ndarray, truths: np.ndarray) -> float:
    """Spearman's rank correlation; nan for fewer than two policies, or where all estimates are equal."""
    return _correlation("spearmanr", estimates, truths)


def kendall(estimates: np.ndarray, truths: np.ndarray) -> float:
    """Kendall's τ_b, with nan as above."""
    return _correlation("kendalltau", estimates, truths)


def regret(estimates: np.ndarray, truths: np.ndarray, k: int = 1) -> float:
    """The best policy's true value minus that of the truly best among the k with the highest estimates."""
    estimates, truths = np.asarray(estimates, float), np.asarray(truths, float)
    chosen = np.argsort(-estimates, kind="stable")[:k]
    return float(truths.max() - truths[chosen].max())


def _correlation(name: str, estimates: np.ndarray, truths: np.ndarray) -> float:
    if len(estimates) < 2 or np.ptp(estimates) == 0 or np.ptp(truths) == 0:
        return float("nan")
    from scipy import stats

    return float(getattr(stats, name)(estimates, truths).statistic)
