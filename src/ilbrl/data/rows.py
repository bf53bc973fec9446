"""Rows compared with rows: does one follow from the other, and was it logged before?"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ilbrl.data.actions import check_choices_of_expert
from ilbrl.data.checks import ROWS_AT_ONCE, Finding, counted
from ilbrl.data.dataset import Dataset

RECURRENT = 20  # rows per pair of observation and action, from which on steps are said to recur
EXPECTED = "; observations and actions take few values, so that this is to be expected"
_ODD = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9))  # the mixing constants of SplitMix64


def jumps(observations: np.ndarray, next_observations: np.ndarray) -> np.ndarray:
    """[N] bool: row i's next observation is not the observation of row i + 1 (false on the last row).

    Equal up to float32 rounding counts as following; so do two NaNs.
    """
    jump = np.zeros(len(observations), bool)
    for start in range(0, len(observations) - 1, ROWS_AT_ONCE):
        stop = min(start + ROWS_AT_ONCE, len(observations) - 1)
        reached, following = next_observations[start:stop], observations[start + 1 : stop + 1]
        different = np.flatnonzero((reached != following).any(1))  # almost always few: the slow test runs on these
        close = np.isclose(reached[different], following[different], rtol=1e-4, atol=1e-5, equal_nan=True)
        jump[start + different] = ~close.all(1)
    return jump


def transition_fingerprints(dataset: Dataset) -> np.ndarray:
    """[N] uint64 of (observation, action, next observation): equal rows get equal numbers.

    Different rows share one with probability about N² / 2⁶⁵, 10⁻⁷ at two million rows.
    """
    return _fingerprints(dataset.observations, _actions(dataset), dataset.next_observations)


def steps_recur(dataset: Dataset) -> bool:
    """Whether observations and actions take so few values that equal transitions are to be expected, and no copies."""
    distinct = np.unique(_fingerprints(dataset.observations, _actions(dataset)))
    return 0 < len(distinct) * RECURRENT <= len(dataset)


def check_continuity(dataset: Dataset) -> Iterator[Finding]:
    """Observations that do not follow from the row before, inside an episode."""
    inside = jumps(dataset.observations, dataset.next_observations) & ~(dataset.terminals | dataset.timeouts)
    if inside.any():
        row = dataset.source_row(np.argmax(inside))
        message = (
            f"the next observation is not the following row's at {counted(inside.sum(), 'row')} inside episodes"
            f" (first: row {row}): if episodes end there unmarked, returns and first observations are wrong"
        )
        yield Finding("warning", "continuity", "next_observations", row, message)


def check_duplicates(dataset: Dataset) -> Iterator[Finding]:
    """Transitions logged more than once."""
    marks = transition_fingerprints(dataset)
    order = np.argsort(marks, kind="stable")
    again = order[1:][marks[order[1:]] == marks[order[:-1]]]  # every copy but the first
    if len(again):
        row = dataset.source_row(again.min())
        message = f"{counted(len(again), 'transition')} logged before, number for number (first: row {row})"
        if len(again) <= 0.01 * len(dataset):
            yield Finding("note", "duplicates", None, row, message)
        elif steps_recur(dataset):
            yield Finding("note", "duplicates", None, row, message + EXPECTED)
        else:
            yield Finding("warning", "duplicates", None, row, message)


def check_expert(dataset: Dataset, expert: Dataset) -> Iterator[Finding]:
    """Expert rows that also stand in the other logs, and expert data of another kind."""
    shapes = [(d.obs_dim, d.act_dim, d.discrete) for d in (dataset, expert)]
    if shapes[0] != shapes[1]:
        message = f"the expert data does not fit: {expert!r} beside {dataset!r}"
        yield Finding("error", "expert", None, None, message)
        return
    yield from _check_columns_of_expert(dataset, expert)
    if dataset.discrete:
        yield from check_choices_of_expert(dataset, expert)
    shared = np.isin(transition_fingerprints(expert), transition_fingerprints(dataset))
    if shared.any():
        row = expert.source_row(np.argmax(shared))
        message = (
            f"{shared.sum():,} of {len(expert):,} expert transitions also stand in the other logs"
            f" (first: expert row {row})"
        )
        if steps_recur(dataset):
            yield Finding("note", "expert", None, row, message + EXPECTED)
        else:
            message += ": a held-out score on either would not be held out"
            yield Finding("warning", "expert", None, row, message)


def _check_columns_of_expert(dataset: Dataset, expert: Dataset) -> Iterator[Finding]:
    """Columns that the two files name in another order, or otherwise."""
    for field in ("observations", "actions"):
        name = f"{field[:-1]}_columns"
        ours, theirs = getattr(dataset, name), getattr(expert, name)
        if ours is None or theirs is None or ours == theirs:
            continue
        place = next(i for i, (one, other) in enumerate(zip(ours, theirs)) if one != other)
        differ = f"column {place} of the expert's {field} is {theirs[place]}, that of the other logs {ours[place]}"
        if sorted(ours) == sorted(theirs):
            remedy = f"the same names in another order; name them in one order (--columns {field} NAME,NAME …)"
            yield Finding("error", "expert", field, None, f"{differ}: {remedy}")
        else:
            remedy = "make sure that they mean the same"
            yield Finding("warning", "expert", field, None, f"{differ}: {remedy}")


def _actions(dataset: Dataset) -> np.ndarray:
    """[N, A], choices among actions too."""
    return dataset.actions.reshape(-1, dataset.act_dim)


def _fingerprints(*columns: np.ndarray) -> np.ndarray:
    """[N] uint64 of the rows of [N, …] arrays, side by side."""
    fingerprints = np.empty(len(columns[0]), np.uint64)
    for start in range(0, len(fingerprints), ROWS_AT_ONCE):
        rows = slice(start, start + ROWS_AT_ONCE)
        numbers = np.concatenate([column[rows].astype(np.float32, copy=False) for column in columns], axis=1)
        fingerprints[rows] = _mixed(numbers + np.float32(0))  # −0 becomes 0, which it equals
    return fingerprints


def _mixed(numbers: np.ndarray) -> np.ndarray:
    """[n] uint64 from [n, width] float32, two columns at a time."""
    if numbers.shape[1] % 2:
        numbers = np.pad(numbers, ((0, 0), (0, 1)))
    words = np.ascontiguousarray(np.ascontiguousarray(numbers).view(np.uint64).T)
    state = np.zeros(len(numbers), np.uint64)
    for word in words:
        state = (state ^ word) * _ODD[0]
        state = (state ^ (state >> np.uint64(32))) * _ODD[1]
        state ^= state >> np.uint64(29)
    return state
