"""Walker's alias method: draws from many discrete distributions at a cost that does not grow with their size.

A distribution over k outcomes is spread over K ≥ k equally likely columns, K a power of two. Column c keeps its own
outcome with probability q_c and gives the rest to one other outcome, its alias:

    p(x) = (1/K) [q_x + Σ_c (1 − q_c) 1{alias_c = x}].

One random word draws one outcome: its low 16 bits choose the column, its high 48 decide between column and alias.
A table entry is such a word too: ⌊2⁴⁸ q_c⌋ in the high bits, c XOR alias_c in the low ones. Every probability is
therefore right to 2⁻⁴⁸, and an impossible outcome is never drawn.
"""

from __future__ import annotations

import numpy as np

MAX_OUTCOMES = 2**16
LOW = np.uint64(MAX_OUTCOMES - 1)


def alias_table(odds: np.ndarray) -> np.ndarray:
    """[P, K] table words of [P, k] distributions, k ≤ 2¹⁶."""
    outcomes = odds.shape[1]
    columns = np.arange(1 << (outcomes - 1).bit_length())
    table = np.empty((len(odds), columns.size), np.uint64)
    padded = np.zeros(columns.size)
    for row, padded[:outcomes] in zip(table, odds):
        keep, alias = alias_row(padded)
        alias[keep >= 1] = columns[keep >= 1]
        row[:] = np.minimum(keep * 2**48, 2**48 - 1).astype(np.uint64) << 16 | (columns ^ alias).astype(np.uint64)
    return table


def alias_row(odds: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """[K] q and [K] alias of one distribution: likely outcomes, in order, fill the columns of unlikely ones.

    An outcome has the weight w = K p. A light one (w < 1) needs 1 − w more; a heavy one has w − 1 to give. Needs and
    gifts are laid end to end on one line. A light column takes all it needs from the heavy outcome at the point where
    its need begins. If that need reaches beyond the gift, the heavy outcome gave too much; its own column then takes
    the difference from the next heavy outcome.
    """
    weight = odds * (odds.size / odds.sum())
    is_heavy = weight >= min(1.0, weight.max())  # rounding may leave no weight at 1
    light, heavy = np.flatnonzero(~is_heavy), np.flatnonzero(is_heavy)
    needed = np.concatenate([[0.0], np.cumsum(1 - weight[light])])
    given = np.cumsum(weight[heavy] - 1)
    last = heavy.size - 1
    keep, alias = weight, np.empty(odds.size, np.int64)
    alias[light] = heavy[np.minimum(np.searchsorted(given, needed[:-1], side="right"), last)]
    exhausted = np.minimum(np.searchsorted(needed, given), light.size)
    keep[heavy] = np.clip(1 + given - needed[exhausted], 0, 1)
    alias[heavy] = heavy[np.minimum(np.arange(heavy.size) + 1, last)]
    return keep, alias


def draw(table: np.ndarray, samples: int, rng: np.random.Generator) -> np.ndarray:
    """[P, samples] outcomes, row i from the i-th distribution of the table."""
    rows, columns = table.shape
    bits = rng.integers(2**64, size=(rows, samples), dtype=np.uint64)
    column = bits & np.uint64(columns - 1)
    row_start = columns * np.arange(rows)[:, None]
    word = table.ravel()[row_start + column.view(np.int64)]
    to_alias = word <= (bits | LOW)  # with all low bits set, only the high bits decide
    return (column ^ (word & LOW) * to_alias).view(np.int64)
