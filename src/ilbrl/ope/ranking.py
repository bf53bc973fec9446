"""How well estimates order policies: rank error, rank correlations, regret. Pure functions of [K] arrays."""

from __future__ import annotations

import numpy as np


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
