"""The doctor's checks of values, columns and ends: each a pure function of a dataset that yields findings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from ilbrl.data.dataset import Dataset

Grade = Literal["error", "warning", "note"]
GRADES: tuple[Grade, ...] = ("error", "warning", "note")
LARGEST = 1e18  # squares of more do not fit float32
ROWS_AT_ONCE = 65_536  # keeps the temporaries small on millions of rows
FLATTENED = 10.0  # times that a few extreme rows may stretch a column's standard deviation
SHORT = 0.1  # of the usual length: a demonstration that ends there may be a failure


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
        blocks = (array[i : i + ROWS_AT_ONCE] for i in range(0, len(array), ROWS_AT_ONCE))
        rows = np.concatenate([test(block).reshape(len(block), -1).any(1) for block in blocks])
        if rows.any():
            first = np.argmax(rows)
            row = dataset.source_row(first)
            where = f"row {row}"
            if array.ndim > 1:
                where += f", column {called(dataset, field)[test(array[first]).argmax()]}"
            remedy = "; repair such rows or leave them out" if grade == "error" else ""
            message = f"{field}: {kind} in {counted(rows.sum(), 'row')} (first: {where}){remedy}"
            yield Finding(grade, "finite", field, row, message)


def check_outliers(dataset: Dataset) -> Iterator[Finding]:
    """A few extreme rows that stretch a column's standard deviation, so that standardised values barely differ."""
    rows = len(dataset)
    few = max(1, rows // 1000)
    sample = dataset.observations[:: max(1, rows // 10_000)].astype(np.float64)
    centre = sample.mean(0)
    reach = np.maximum(dataset.observations.max(0) - centre, centre - dataset.observations.min(0))
    for i in np.flatnonzero(reach > min(20, 0.5 * rows**0.5) * sample.std(0)):  # the others need no closer look
        column = dataset.observations[:, i].astype(np.float64)
        if not np.isfinite(column).all():
            continue
        deviation = np.abs(column - column.mean())
        if deviation.max() ** 2 * few < 0.5 * (deviation**2).sum():  # no few rows hold most of the variance
            continue
        rest = column[np.argpartition(deviation, rows - few)[: rows - few]]
        if len(rest) < 2 or not 0 < FLATTENED * rest.std() < column.std():
            continue
        row, name = dataset.source_row(np.argmax(deviation)), called(dataset, "observations")[int(i)]
        without = "it" if few == 1 else f"the {few:,} most extreme rows"
        message = (
            f"observations: column {name} is {column[np.argmax(deviation)]:.4g} in row {row}, far from the others:"
            f" without {without} the standard deviation is {rest.std():.3g} instead of {column.std():.3g}, so that"
            " standardised values barely differ; repair or leave out such rows"
        )
        yield Finding("warning", "outliers", "observations", row, message)


def check_columns(dataset: Dataset) -> Iterator[Finding]:
    """Columns that never change, or repeat another."""
    for field in ("observations", "actions"):
        matrix = getattr(dataset, field).reshape(len(dataset), -1)
        constant = (matrix == matrix[0]).all(0)
        if constant.any() and len(dataset) > 1:
            columns = listed(dataset, field, constant)
            grade = "note" if field == "observations" else "warning"
            yield Finding(grade, "columns", field, None, f"{field}: {columns} constant")
        pairs = [pair for pair in _equal_columns(matrix) if not constant[pair[0]]]
        if pairs:
            names = called(dataset, field)
            same = ", ".join(f"{names[first]} = {names[second]}" for first, second in pairs[:5])
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
        row = dataset.source_row(dataset.episode_starts[-1])
        message = (
            f"the last episode ({dataset.episode_lengths[-1]:,} steps from row {row}) is cut by the end of the data"
        )
        yield Finding("note", "ends", None, row, message)


def check_lengths(dataset: Dataset) -> Iterator[Finding]:
    """Episodes of one step."""
    single = dataset.episode_lengths == 1
    if single.any():
        row = dataset.source_row(dataset.episode_starts[np.argmax(single)])
        message = f"{single.sum():,} of {counted(len(single), 'episode')} with a single step (first: row {row})"
        yield Finding("warning", "lengths", None, row, message)


def check_demonstrations(dataset: Dataset) -> Iterator[Finding]:
    """Of the expert's logs: episodes that end in a terminal long before the usual one is over."""
    last, usual = dataset.episode_starts + dataset.episode_lengths - 1, np.median(dataset.episode_lengths)
    short = dataset.terminals[last] & (dataset.episode_lengths < SHORT * usual)
    if short.any():
        row, steps = dataset.source_row(last[np.argmax(short)]), dataset.episode_lengths[np.argmax(short)]
        message = (
            f"{counted(short.sum(), 'demonstration')} of {len(short):,} ended by a terminal after less than a tenth of"
            f" the usual {usual:,.0f} steps (first: row {row}, after {steps:,}): where that is a failure, leave it out,"
            " or policies may imitate it"
        )
        yield Finding("warning", "demonstrations", "terminals", row, message)


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


def called(dataset: Dataset, field: str) -> Sequence[str]:
    """What messages call the columns of a field: as the source does, or by number."""
    known = dataset.action_columns if field == "actions" else dataset.observation_columns
    return known or [str(i) for i in range(dataset.act_dim if field == "actions" else dataset.obs_dim)]


def listed(dataset: Dataset, field: str, which: np.ndarray) -> str:
    """`columns angle, speed`; which: [k] bool."""
    names = [name for name, chosen in zip(called(dataset, field), which) if chosen]
    return f"column{'s' * (len(names) > 1)} {', '.join(names[:8])}{f' … ({len(names)} in all)' * (len(names) > 8)}"
