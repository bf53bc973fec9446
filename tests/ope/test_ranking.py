"""Rank error against brute force over all order-preserving placements; correlations and regret by hand."""

import itertools

import numpy as np
import pytest

from ilbrl.ope import kendall, rank_error, regret, spearman


def brute_force(estimates, truths, diverged):
    """Try every increasing choice of ranks for the surviving estimates."""
    number = len(truths)
    true_rank = {k: 1 + sum(truths[j] < truths[k] for j in range(number)) for k in range(number)}
    survivors = sorted((k for k in range(number) if not diverged[k]), key=lambda k: estimates[k])
    costs = [
        sum(abs(rank - true_rank[k]) for rank, k in zip(ranks, survivors))
        for ranks in itertools.combinations(range(1, number + 1), len(survivors))
    ]
    return min(costs) + number * sum(diverged)


def test_rank_error_is_the_cheapest_order_preserving_placement():
    rng = np.random.default_rng(0)
    for number in range(1, 7):
        for _ in range(60):
            estimates, truths = rng.permutation(number).astype(float), rng.permutation(number).astype(float)
            diverged = rng.random(number) < 0.35
            assert rank_error(estimates, truths, diverged) == brute_force(estimates, truths, diverged)


@pytest.mark.parametrize(
    ("estimates", "diverged", "expected"),
    [
        ([1, 2, 3], [0, 0, 0], 0),
        ([3, 2, 1], [0, 0, 0], 4),
        ([1, 3, 2], [0, 0, 0], 2),
        ([1, 2, 99], [0, 0, 1], 3),  # the survivors fit into their true ranks
        ([2, 1, 99], [0, 0, 1], 3 + 2),  # they keep their wrong order: ranks (1, 2) or (2, 3) cost 2, (1, 3) 3
        ([9, 9, 9], [1, 1, 1], 9),
        ([5, 5, 5], [0, 0, 0], 4),  # equal estimates count as the wrong order
    ],
)
def test_rank_error_by_hand(estimates, diverged, expected):
    assert rank_error(estimates, [10.0, 20.0, 30.0], np.array(diverged, bool)) == expected


def test_correlations():
    truths = np.array([1.0, 2.0, 3.0, 4.0])
    assert spearman(np.array([10.0, 30.0, 20.0, 40.0]), truths) == pytest.approx(1 - 6 * 2 / (4 * 15))
    assert kendall(np.array([10.0, 30.0, 20.0, 40.0]), truths) == pytest.approx((5 - 1) / 6)
    assert np.isnan(spearman(np.ones(4), truths))
    assert np.isnan(kendall(np.ones(1), np.ones(1)))


def test_regret():
    estimates, truths = np.array([5.0, 9.0, 7.0]), np.array([1.0, 4.0, 10.0])
    assert [regret(estimates, truths, k) for k in (1, 2, 3)] == [6.0, 0.0, 0.0]
