"""The doctor's checks of values, columns and ends: each a pure function of a dataset that yields findings."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from ilbrl.data.dataset import Dataset

Grade = Literal["error", "warning", "note"]
GRADES: tuple[Grade, ...] = ("error", "warning", "note")
LARGEST = 1e18  # squares of more do not fit float32
FLATTENED = 10.0  # times that a few extreme rows may stretch a column's standard deviation
UNUSED_RANGE = 1e-3  # share of their stated range that actions must use at least


@dataclass(frozen=True)
class Finding:
    """One thing worth knowing about a dataset.

    An error makes training or evaluation meaningless, a warning probably makes it worse than it should be, and
    a note is only good to know.
    """

    grade: Grade
    check: str  # the name of the check, as in `doctor.CHECKS`
    field: str | None  # the field concerned, None: the dataset as a whole
    row: int | None  # the first row concerned, as the file counts
    message: str  # one sentence for a person

    def __str__(self) -> str:
        return f"{self.grade}: {self.message}"


def counted(number: int | np.integer, noun: str) -> str:
    """`1 row`, `2,000 rows`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def check_finite(dataset: Dataset) -> Iterator[Finding]:
    """NaN, infinity and monstrous numbers in what training reads."""
    for field in ("observations", "actions", "next_observations", "log_probs"):
        yield from not_finite(dataset, field, "warning" if field == "log_probs" else "error")


def not_finite(dataset: Dataset, field: str, grade: Literal["error", "warning"]) -> Iterator[Finding]:
    array = getattr(dataset, field)
    if array is None or array.dtype.kind != "f":
        return

    def is_monstrous(values: np.ndarray) -> np.ndarray:
        return np.isfinite(values) & (np.abs(values) > LARGEST)

    kinds = {"NaN": np.isnan, "infinity (or more than float32 holds)": np.isinf, f"more than {LARGEST:g}": is_monstrous}
    for kind, test in kinds.items():
        table = test(array).reshape(len(array), -1)
        rows = table.any(1)
        if rows.any():
            first = np.argmax(rows)
            row = dataset.source_row(first)
            where = f"row {row}" + (f", column {table[first].argmax()}" if array.ndim > 1 else "")
            message = f"{field}: {kind} in {counted(rows.sum(), 'row')} (first: {where})"
            yield Finding(grade, "finite", field, row, message)


def check_action_bounds(dataset: Dataset) -> Iterator[Finding]:
    """Bounds that are no bounds, and actions that no policy within them could take."""
    if dataset.discrete:
        message = (
            "actions are whole numbers, taken as choices: for `tabular`, not for the deep agents; if they are amounts,"
            " state their bounds (--action-low, --action-high)"
        )
        yield Finding("note", "actions", "actions", None, message)
        return
    low, high = dataset.action_low, dataset.action_high
    if low is None or high is None:
        yield from _outside(dataset, np.full(dataset.act_dim, -1.0), np.full(dataset.act_dim, 1.0), stated=False)
        return
    if not ((np.abs(low) < LARGEST) & (np.abs(high) < LARGEST) & (low < high)).all():
        message = (
            f"action bounds {_short(low)} … {_short(high)}: each must be finite and below {LARGEST:g}, and the lower"
            " one below the upper one; state true bounds (--action-low, --action-high)"
        )
        yield Finding("error", "actions", "actions", None, message)
        return
    yield from _outside(dataset, low, high, stated=True)
    spread = np.ptp(dataset.actions, axis=0)
    narrow = (spread > 0) & (spread < UNUSED_RANGE * (high - low))
    if narrow.any():
        message = (
            f"actions: {_listed(np.flatnonzero(narrow))} within less than {UNUSED_RANGE:.1%} of the stated bounds"
            f" {_short(low)} … {_short(high)}: scaled by them, all actions are nearly the same; state true bounds"
        )
        yield Finding("warning", "actions", "actions", None, message)


def _outside(dataset: Dataset, low: np.ndarray, high: np.ndarray, stated: bool) -> Iterator[Finding]:
    slack = 1e-6 * (high - low)  # float32 rounding of an action on the bound
    outside = ((dataset.actions < low - slack) | (dataset.actions > high + slack)).any(1)
    if not outside.any():
        return
    row, shown = dataset.source_row(np.argmax(outside)), _short(dataset.actions[np.argmax(outside)])
    message = f"{counted(outside.sum(), 'action')} outside their stated bounds (first: row {row}, {shown})"
    if not stated:
        reach = " … ".join(map(_short, dataset.action_range))
        message = (
            f"{counted(outside.sum(), 'action')} outside [-1, 1], and no bounds are stated (first: row {row}, {shown}):"
            f" policies will act within the range of the logs, {reach}; if more is allowed, state it"
            " (--action-low, --action-high)"
        )
    yield Finding("warning", "actions", "actions", row, message)


def check_outliers(dataset: Dataset) -> Iterator[Finding]:
    """A few extreme rows that stretch a column's standard deviation, so that standardised values barely differ."""
    rows = len(dataset)
    few = max(1, rows // 1000)
    for i in range(dataset.obs_dim):
        column = dataset.observations[:, i].astype(np.float64)
        if not np.isfinite(column).all():
            continue
        deviation = np.abs(column - column.mean())
        if deviation.max() ** 2 * few < 0.5 * (deviation**2).sum():  # no few rows hold most of the variance
            continue
        rest = column[np.argpartition(deviation, rows - few)[: rows - few]]
        if len(rest) < 2 or not 0 < FLATTENED * rest.std() < column.std():
            continue
        row = dataset.source_row(np.argmax(deviation))
        without = "it" if few == 1 else f"the {few:,} most extreme rows"
        message = (
            f"observations: column {i} is {column[np.argmax(deviation)]:.4g} in row {row}, far from the others: without"
            f" {without} the standard deviation is {rest.std():.3g} instead of {column.std():.3g}, so that standardised"
            " values barely differ; repair or leave out such rows"
        )
        yield Finding("warning", "outliers", "observations", row, message)


def check_columns(dataset: Dataset) -> Iterator[Finding]:
    """Columns that never change, or repeat another."""
    for field in ("observations", "actions"):
        matrix = getattr(dataset, field).reshape(len(dataset), -1)
        constant = (matrix == matrix[0]).all(0)
        if constant.any() and len(dataset) > 1:
            columns = _listed(np.flatnonzero(constant))
            grade = "note" if field == "observations" else "warning"
            yield Finding(grade, "columns", field, None, f"{field}: {columns} constant")
        pairs = [pair for pair in _equal_columns(matrix) if not constant[pair[0]]]
        if pairs:
            same = ", ".join(f"{first} = {second}" for first, second in pairs[:5])
            yield Finding("note", "columns", field, None, f"{field}: equal columns {same}")


def check_ends(dataset: Dataset) -> Iterator[Finding]:
    """Terminals and time-outs taken for one another."""
    last = dataset.episode_starts + dataset.episode_lengths - 1
    by_terminal = dataset.terminals[last]
    longest = dataset.episode_lengths.max()
    at_limit = dataset.episode_lengths == longest
    suspects = at_limit & by_terminal
    near = (dataset.episode_lengths >= 0.9 * longest) & ~at_limit
    # A time limit shows as a spike: several episodes of exactly the greatest length, few just below it.
    if suspects.sum() >= 2 and longest > 1 and suspects.sum() > max(near.sum(), (at_limit & ~by_terminal).sum()):
        row = dataset.source_row(last[np.argmax(suspects)])
        message = (
            f"{counted(suspects.sum(), 'episode')} ended by a terminal after exactly {longest:,} steps, the greatest"
            f" length: if that is the time limit, mark them as timeouts (first: row {row}), or values stop there"
        )
        yield Finding("warning", "ends", "terminals", row, message)
    both = dataset.terminals & dataset.timeouts
    if both.any():
        message = f"{counted(both.sum(), 'row')} marked terminal and timed out at once, and taken as terminal"
        yield Finding("note", "ends", "terminals", dataset.source_row(np.argmax(both)), message)
    if not dataset.complete[-1]:
        message = f"the last episode ({dataset.episode_lengths[-1]:,} steps) is cut by the end of the data"
        yield Finding("note", "ends", None, dataset.source_row(dataset.episode_starts[-1]), message)


def check_lengths(dataset: Dataset) -> Iterator[Finding]:
    """Episodes of one step."""
    single = dataset.episode_lengths == 1
    if single.any():
        row = dataset.source_row(dataset.episode_starts[np.argmax(single)])
        message = f"{single.sum():,} of {counted(len(single), 'episode')} with a single step (first: row {row})"
        yield Finding("warning", "lengths", None, row, message)


def check_policy(dataset: Dataset) -> Iterator[Finding]:
    """A behaviour policy that does not explain the actions it is said to have taken."""
    errors = log_prob_errors(dataset)
    # Where tanh saturates a float32 action has lost its noise, so a few rows may be far off.
    if errors is not None and not np.quantile(errors, 0.95) < 0.01:
        message = f"the behaviour policy does not reproduce the stored log-probabilities (off by {errors.max():.3g})"
        yield Finding("warning", "policy", "log_probs", None, message)


def log_prob_errors(dataset: Dataset) -> np.ndarray | None:
    """|log π(a|s) − stored log-probability| of the first 100,000 rows; None where either is missing."""
    policy = dataset.policy
    if policy is None or dataset.log_probs is None or policy.head == "deterministic" or not len(dataset):
        return None
    rows = slice(0, 100_000)
    computed = policy.log_prob(dataset.observations[rows], dataset.actions[rows])
    return np.abs(computed - dataset.log_probs[rows])


def check_notes(dataset: Dataset) -> Iterator[Finding]:
    """What the reader doubted, and what it had to decide."""
    for warning in dataset.warnings:
        yield Finding("warning", "reader", None, None, warning)
    for note in dataset.notes:
        yield Finding("note", "reader", None, None, note)


def _equal_columns(matrix: np.ndarray) -> list[tuple[int, int]]:
    """Pairs (i, j > i) of identical columns, each j with its first equal."""
    probe = matrix[:: max(1, len(matrix) // 1000)]  # cheap: columns that differ here need no full comparison
    groups: dict[bytes, list[int]] = {}
    pairs = []
    for j in range(matrix.shape[1]):
        earlier = groups.setdefault(probe[:, j].tobytes(), [])
        twin = next((i for i in earlier if np.array_equal(matrix[:, i], matrix[:, j])), None)
        pairs += [] if twin is None else [(twin, j)]
        earlier.append(j)
    return pairs


def _listed(columns: np.ndarray) -> str:
    shown = ", ".join(map(str, columns[:8]))
    return f"column{'s' * (len(columns) > 1)} {shown}{f' … ({len(columns)} in all)' * (len(columns) > 8)}"


def _short(row: np.ndarray) -> str:
    return "[" + ", ".join(f"{value:.3g}" for value in row[:6]) + (", …]" if len(row) > 6 else "]")
