"""The doctor's checks: each a pure function of a dataset that yields findings."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal

import numpy as np

from ilbrl.data.continuity import jumps
from ilbrl.data.dataset import Dataset
from ilbrl.data.findings import Finding, counted
from ilbrl.data.fingerprints import transition_fingerprints

Purpose = Literal["imitation", "evaluation"]
LARGEST = 1e18  # squares of more do not fit float32


def check_finite(dataset: Dataset) -> Iterator[Finding]:
    """NaN, infinity and monstrous numbers in what training reads."""
    for field in ("observations", "actions", "next_observations", "log_probs"):
        yield from _not_finite(dataset, field, "warning" if field == "log_probs" else "error")


def check_rewards(dataset: Dataset, purpose: Purpose) -> Iterator[Finding]:
    """Rewards that are missing or not finite: fatal for evaluation, harmless for imitation."""
    needed = purpose == "evaluation"
    if dataset.rewards is None:
        meaning = "off-policy evaluation needs them" if needed else "imitation does not need them, evaluation does"
        yield Finding("error" if needed else "note", "rewards", "rewards", None, f"no rewards: {meaning}")
    else:
        yield from _not_finite(dataset, "rewards", "error" if needed else "warning")


def check_action_bounds(dataset: Dataset) -> Iterator[Finding]:
    """Actions that no policy within the bounds could take."""
    if dataset.discrete:
        yield Finding(
            "note", "actions", "actions", None, "actions are discrete: for `tabular`, not for the deep agents"
        )
        return
    known = dataset.action_low is not None and dataset.action_high is not None
    low = dataset.action_low if known else np.full(dataset.act_dim, -1, np.float32)
    high = dataset.action_high if known else np.full(dataset.act_dim, 1, np.float32)
    assert low is not None
    assert high is not None
    if not (np.isfinite(low) & np.isfinite(high) & (low < high)).all():
        stated = f"{_short(low)} … {_short(high)}"
        message = f"action bounds {stated}: each must be finite, and the lower one below the upper one"
        yield Finding("error", "actions", "actions", None, message)
        return
    slack = 1e-6 * (high - low)  # float32 rounding of an action on the bound
    outside = ((dataset.actions < low - slack) | (dataset.actions > high + slack)).any(1)
    if outside.any():
        first = np.argmax(outside)
        row = dataset.source_row(first)
        interval = "their stated bounds" if known else "[-1, 1], and no other bounds are stated"
        shown = _short(dataset.actions[first])
        message = f"{counted(outside.sum(), 'action')} outside {interval} (first: row {row}, {shown})"
        yield Finding("warning", "actions", "actions", row, message)


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


def check_lengths(dataset: Dataset) -> Iterator[Finding]:
    """Episodes of one step."""
    single = dataset.episode_lengths == 1
    if single.any():
        row = dataset.source_row(dataset.episode_starts[np.argmax(single)])
        message = f"{single.sum():,} of {counted(len(single), 'episode')} with a single step (first: row {row})"
        yield Finding("warning", "lengths", None, row, message)


def check_duplicates(dataset: Dataset) -> Iterator[Finding]:
    """Transitions logged more than once."""
    marks = transition_fingerprints(dataset)
    order = np.argsort(marks, kind="stable")
    again = order[1:][marks[order[1:]] == marks[order[:-1]]]  # every copy but the first
    if len(again):
        row = dataset.source_row(again.min())
        message = f"{counted(len(again), 'transition')} logged before, number for number (first: row {row})"
        grade = "warning" if len(again) > 0.01 * len(dataset) else "note"
        yield Finding(grade, "duplicates", None, row, message)


def check_policy(dataset: Dataset) -> Iterator[Finding]:
    """A behaviour policy that does not explain the actions it is said to have taken."""
    errors = log_prob_errors(dataset)
    # Where tanh saturates a float32 action has lost its noise, so a few rows may be far off.
    if errors is not None and not np.quantile(errors, 0.95) < 0.01:
        message = f"the behaviour policy does not reproduce the stored log-probabilities (off by {errors.max():.3g})"
        yield Finding("warning", "policy", "log_probs", None, message)


def check_notes(dataset: Dataset) -> Iterator[Finding]:
    """What the reader had to decide."""
    for note in dataset.notes:
        yield Finding("note", "reader", None, None, note)


def check_expert(dataset: Dataset, expert: Dataset) -> Iterator[Finding]:
    """Expert rows that also stand in the other logs, and expert data of another kind."""
    shapes = [(d.obs_dim, d.act_dim, d.discrete) for d in (dataset, expert)]
    if shapes[0] != shapes[1]:
        message = f"the expert data does not fit: {expert!r} beside {dataset!r}"
        yield Finding("error", "expert", None, None, message)
        return
    shared = np.isin(transition_fingerprints(expert), transition_fingerprints(dataset))
    if shared.any():
        row = expert.source_row(np.argmax(shared))
        message = (
            f"{shared.sum():,} of {len(expert):,} expert transitions also stand in the other logs"
            f" (first: expert row {row}): a held-out score on either would not be held out"
        )
        yield Finding("warning", "expert", None, row, message)


def log_prob_errors(dataset: Dataset) -> np.ndarray | None:
    """|log π(a|s) − stored log-probability| of the first 100,000 rows; None where either is missing."""
    policy = dataset.policy
    if policy is None or dataset.log_probs is None or policy.head == "deterministic" or not len(dataset):
        return None
    rows = slice(0, 100_000)
    computed = policy.log_prob(dataset.observations[rows], dataset.actions[rows])
    return np.abs(computed - dataset.log_probs[rows])


def _not_finite(dataset: Dataset, field: str, grade: Literal["error", "warning"]) -> Iterator[Finding]:
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


CHECKS: dict[str, Callable[[Dataset], Iterator[Finding]]] = {
    "finite": check_finite,
    "actions": check_action_bounds,
    "columns": check_columns,
    "ends": check_ends,
    "continuity": check_continuity,
    "lengths": check_lengths,
    "duplicates": check_duplicates,
    "policy": check_policy,
    "reader": check_notes,
}
