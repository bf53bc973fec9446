"""Nearest neighbours against brute force in float64, where float32 searches go wrong."""

from importlib.util import find_spec

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from ilbrl.rewards import neighbours

RNG = np.random.default_rng(0)


def friendly():
    return RNG.standard_normal((3000, 23)), RNG.standard_normal((2500, 23))


def near_constant():
    return 1e4 + 1e-3 * RNG.standard_normal((2000, 11)), 1e4 + 1e-3 * RNG.standard_normal((1500, 11))


def badly_scaled():
    scale = np.logspace(-6, 6, 9)
    return scale * RNG.standard_normal((2000, 9)), scale * RNG.standard_normal((1500, 9))


def duplicated():
    points = np.repeat(RNG.standard_normal((300, 5)), 5, axis=0)
    return np.concatenate([points, RNG.standard_normal((1000, 5))]), points


def almost_the_experts():
    points = RNG.standard_normal((1500, 6))
    return points + 1e-7 * RNG.standard_normal(points.shape), points


def on_a_lattice():
    return RNG.integers(0, 4, (2000, 3)), RNG.integers(0, 4, (1200, 3))


def constant_features():
    return np.ones((50, 3)), np.ones((7, 3))


def one_expert_row():
    return RNG.standard_normal((50, 3)), RNG.standard_normal((1, 3))


CASES = [
    friendly, near_constant, badly_scaled, duplicated, almost_the_experts, on_a_lattice, constant_features,
    one_expert_row,
]  # fmt: skip


needs_faiss = pytest.mark.skipif(find_spec("faiss") is None, reason="faiss is not installed")


@pytest.mark.parametrize(
    "proposer", [pytest.param(neighbours._faiss_proposer, marks=needs_faiss), neighbours._jax_proposer]
)
@pytest.mark.parametrize("case", CASES)
def test_agrees_with_brute_force(case, proposer, monkeypatch):
    monkeypatch.setattr(neighbours, "_proposer", proposer)
    monkeypatch.setattr(neighbours, "BLOCK", 700)
    monkeypatch.setattr(neighbours, "GROUP", 128)
    queries, points = (array.astype(np.float32) for array in case())
    distance, number = neighbours.nearest(queries, points, quiet=True)
    table = cdist(queries.astype(np.float64), points.astype(np.float64))
    np.testing.assert_array_equal(number, table.argmin(1))
    np.testing.assert_allclose(distance, table.min(1), rtol=1e-12, atol=0)


@needs_faiss
def test_a_float32_search_alone_is_wrong_here():
    """The reason for the second step: remove it, and this data gives other distances."""
    queries, points = (array.astype(np.float32) for array in almost_the_experts())
    number, _ = neighbours._faiss_proposer(points)(queries)
    computed = np.square(queries).sum(1) + np.square(points[number]).sum(1) - 2 * (queries * points[number]).sum(1)
    exact, _ = neighbours.nearest(queries, points, quiet=True)
    assert (np.abs(np.sqrt(np.maximum(computed, 0)) - exact) > 0.5 * exact).mean() > 0.5


def test_few_rows_need_brute_force(monkeypatch):
    searched = []
    brute_force = neighbours._brute_force
    monkeypatch.setattr(neighbours, "_brute_force", lambda q, p: searched.append(len(q)) or brute_force(q, p))
    queries, points = (array.astype(np.float32) for array in friendly())
    neighbours.nearest(queries, points, quiet=True)
    assert sum(searched) < 0.01 * len(queries)
