"""Alias tables: rows worked out by hand, every distribution recovered from its table, and draws that follow it."""

import numpy as np
import pytest
from scipy.stats import chisquare

from ilbrl.tabular.alias import alias_row, alias_table, draw


def distributions(table):
    """[P, K] what `draw` returns and how often, read off the table's words."""
    columns = np.arange(table.shape[1])
    keep = (table >> 16) / 2**48
    alias = columns ^ (table & 0xFFFF).astype(int)
    found = keep.copy()
    for row, other, rest in zip(found, alias, 1 - keep):
        np.add.at(row, other, rest)
    return found / columns.size


@pytest.mark.parametrize(
    ("odds", "keep", "alias"),
    [
        ([0.7, 0.3], [1, 0.6], {1: 0}),
        ([0.5, 0.25, 0.25, 0], [1, 1, 1, 0], {3: 0}),
        # outcome 0 has 0.5 to give and gives 0.8 to outcome 2; outcome 1 makes up for 0.3 and gives 0.4 to outcome 3
        ([0.375, 0.425, 0.05, 0.15], [0.7, 1, 0.2, 0.6], {0: 1, 2: 0, 3: 1}),
    ],
)
def test_rows_by_hand(odds, keep, alias):
    kept, found = alias_row(np.array(odds))
    np.testing.assert_allclose(kept, keep, atol=1e-15)
    assert {column: found[column] for column in alias} == alias


@pytest.mark.parametrize("outcomes", [1, 2, 3, 8, 300, 1024])
@pytest.mark.parametrize("concentration", [0.01, 1.0, 1_000.0])
def test_a_table_gives_back_its_distributions(outcomes, concentration):
    odds = np.random.default_rng(0).dirichlet(np.full(outcomes, concentration), 20)
    odds = np.concatenate([odds, np.full((1, outcomes), 1 / outcomes), np.eye(outcomes)[:3]])
    found = distributions(alias_table(odds))
    np.testing.assert_allclose(found[:, :outcomes], odds, rtol=0, atol=1e-14)
    assert not found[:, outcomes:].any()
    assert not found[:, :outcomes][odds == 0].any()


def test_draws_follow_every_row():
    odds = np.random.default_rng(1).dirichlet(np.ones(50), 40)
    odds[:, ::7] = 0
    odds /= odds.sum(axis=1, keepdims=True)
    drawn = draw(alias_table(odds), 100_000, np.random.default_rng(2))
    counts = np.stack([np.bincount(row, minlength=50) for row in drawn])
    assert counts.shape == odds.shape
    assert not counts[odds == 0].any()
    p_values = [chisquare(row[p > 0], 100_000 * p[p > 0] / p.sum()).pvalue for row, p in zip(counts, odds)]
    assert min(p_values) > 1e-3 / 40
    assert 0.3 < np.mean(p_values) < 0.7  # too good a fit would be as suspicious


def test_draws_are_independent_of_one_another():
    drawn = draw(alias_table(np.array([[0.2, 0.5, 0.3]])), 300_000, np.random.default_rng(3))[0]
    pairs = np.bincount(3 * drawn[::2] + drawn[1::2], minlength=9).reshape(3, 3) / 150_000
    np.testing.assert_allclose(pairs, np.outer([0.2, 0.5, 0.3], [0.2, 0.5, 0.3]), atol=0.005)
