"""Rows as 64-bit numbers, so that millions can be compared by sorting."""

from __future__ import annotations

import numpy as np

from ilbrl.data.dataset import Dataset

_ROWS_AT_ONCE = 65_536
_ODD = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9))  # the mixing constants of SplitMix64


def transition_fingerprints(dataset: Dataset) -> np.ndarray:
    """[N] uint64 of (observation, action, next observation): equal rows get equal numbers.

    Different rows share one with probability about N² / 2⁶⁵, 10⁻⁷ at two million rows.
    """
    fingerprints = np.empty(len(dataset), np.uint64)
    for start in range(0, len(dataset), _ROWS_AT_ONCE):
        rows = slice(start, start + _ROWS_AT_ONCE)
        actions = dataset.actions[rows].reshape(-1, dataset.act_dim).astype(np.float32, copy=False)
        numbers = np.concatenate([dataset.observations[rows], actions, dataset.next_observations[rows]], axis=1)
        fingerprints[rows] = _mixed(numbers + np.float32(0))  # −0 becomes 0, which it equals
    return fingerprints


def _mixed(numbers: np.ndarray) -> np.ndarray:
    """[n] uint64 from [n, width] float32, two columns a time."""
    if numbers.shape[1] % 2:
        numbers = np.pad(numbers, ((0, 0), (0, 1)))
    words = np.ascontiguousarray(np.ascontiguousarray(numbers).view(np.uint64).T)
    state = np.zeros(len(numbers), np.uint64)
    for word in words:
        state = (state ^ word) * _ODD[0]
        state = (state ^ (state >> np.uint64(32))) * _ODD[1]
        state ^= state >> np.uint64(29)
    return state
