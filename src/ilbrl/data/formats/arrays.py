"""Plain arrays to a Dataset: the one place where missing fields are completed, and every decision is noted.

| missing | what happens |
|---|---|
| `next_observations` | the next row of the same episode. At a terminal it is never used: the row's own observation stands in. A last row whose successor was not logged is dropped; after a time-out the row before it becomes the time-out |
| `timeouts` | where `episodes` changes; else every `max_episode_steps`; else where an observation does not follow from the row before; else none, with a note |
| `terminals` | none |
"""  # noqa: E501 - a table

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ilbrl.base.errors import IlbrlError
from ilbrl.data.checks import counted
from ilbrl.data.dataset import Dataset
from ilbrl.data.rows import jumps
from ilbrl.policy import Policy


def from_arrays(
    observations: ArrayLike,
    actions: ArrayLike,
    next_observations: ArrayLike | None = None,
    rewards: ArrayLike | None = None,
    terminals: ArrayLike | None = None,
    timeouts: ArrayLike | None = None,
    *,
    episodes: ArrayLike | None = None,
    max_episode_steps: int | None = None,
    log_probs: ArrayLike | None = None,
    is_expert: ArrayLike | None = None,
    action_low: ArrayLike | None = None,
    action_high: ArrayLike | None = None,
    policy: Policy | None = None,
    source: str = "arrays",
    notes: Sequence[str] = (),
) -> Dataset:
    """A dataset from [N, …] arrays, one row per logged step, episode after episode.

    `episodes` is any [N] label that changes where a new episode begins. `max_episode_steps` says when the
    environment stopped an episode, for logs that did not record it.
    """
    given = {
        "observations": observations,
        "actions": actions,
        "next_observations": next_observations,
        "rewards": rewards,
        "terminals": terminals,
        "timeouts": timeouts,
        "log_probs": log_probs,
        "is_expert": is_expert,
    }
    columns = {name: _column(name, array, source) for name, array in given.items() if array is not None}
    labels = None if episodes is None else np.asarray(episodes)
    _check_lengths(columns if labels is None else {**columns, "episodes": labels}, source)
    decided = list(notes)
    if "terminals" not in columns:
        columns["terminals"] = np.zeros(len(columns["observations"]), bool)
        decided.append("no terminals in the logs: no episode is taken to have ended by itself")
    columns["timeouts"] = _timeouts(columns, labels, max_episode_steps, decided)
    if "next_observations" not in columns:
        columns = _with_next_rows(columns, source, decided)
    shape = columns["observations"].shape[-1], 1 if columns["actions"].ndim == 1 else columns["actions"].shape[-1]
    if policy is not None and (policy.obs_dim, policy.act_dim) != shape:
        decided.append(f"the behaviour policy was left out: it maps {policy.obs_dim} numbers to {policy.act_dim}")
        policy = None
    arrays: dict[str, Any] = columns
    bounds = {"action_low": action_low, "action_high": action_high}
    known = {name: np.atleast_1d(np.asarray(bound)) for name, bound in bounds.items() if bound is not None}
    return Dataset(**arrays, **known, policy=policy, source=source, notes=tuple(decided))


def _column(name: str, array: ArrayLike, source: str) -> np.ndarray:
    """Numbers of the shape the Dataset wants: matrices for observations, one number per row for the rest."""
    try:
        column = np.asarray(array)
    except ValueError:  # NumPy's word for rows of different lengths
        raise IlbrlError(f"{source}: the rows of {name} have different lengths; every row needs the same") from None
    if column.dtype.kind not in "biuf":
        raise IlbrlError(f"{source}: {name} holds {column.dtype} values, not numbers; store a plain numeric array")
    if column.ndim == 0:
        raise IlbrlError(f"{source}: {name} is a single number; one row per step is needed")
    if name in ("terminals", "timeouts", "is_expert"):
        return _flags(name, _one_per_row(column), source)
    if name in ("rewards", "log_probs"):
        return _one_per_row(column)
    if name == "actions" and column.dtype.kind in "biu":
        return _one_per_row(column.astype(np.uint8) if column.dtype.kind == "b" else column)
    return column[:, None] if column.ndim == 1 else column


def _one_per_row(column: np.ndarray) -> np.ndarray:
    return column[:, 0] if column.ndim == 2 and column.shape[1] == 1 else column


def _flags(name: str, column: np.ndarray, source: str) -> np.ndarray:
    if column.dtype != bool:
        odd = np.argwhere((column != 0) & (column != 1))  # NaN is odd too: bool(NaN) would be a silent True
        if len(odd):
            raise IlbrlError(
                f"{source}: {name} must be true/false or 1/0, found {column[tuple(odd[0])]} in row {odd[0][0]}"
            )
    return column.astype(bool, copy=False)


def _check_lengths(columns: dict[str, np.ndarray], source: str) -> None:
    n = len(columns["observations"])
    for name, column in columns.items():
        if len(column) != n:
            raise IlbrlError(
                f"{source}: {name} has {len(column):,} rows, observations {n:,}; every field needs one row per step"
            )
    if n == 0:
        raise IlbrlError(f"{source}: holds no transitions")


def _timeouts(
    columns: dict[str, np.ndarray], labels: np.ndarray | None, max_episode_steps: int | None, decided: list[str]
) -> np.ndarray:
    """[N] where the log stops without a terminal: as logged, or by the best evidence there is."""
    terminals, logged = columns["terminals"], columns.get("timeouts")
    if labels is not None:
        ends = np.append(labels[1:] != labels[:-1], True) & ~terminals
        return ends if logged is None else ends | logged
    if logged is not None:
        return logged
    if max_episode_steps is not None:
        decided.append(f"no timeouts in the logs: placed after every {max_episode_steps} steps without a terminal")
        return _every(max_episode_steps, terminals)
    if "next_observations" in columns:
        ends = jumps(columns["observations"], columns["next_observations"]) & ~terminals
        decided.append(
            f"no timeouts in the logs: placed on {counted(ends.sum(), 'row')}"
            " whose next observation is not the observation of the following row"
        )
        return ends
    decided.append(
        "neither timeouts nor next_observations in the logs: episodes are taken to end at terminals alone"
        " (from_arrays and the readers take max_episode_steps)"
    )
    return np.zeros_like(terminals)


def _every(steps: int, terminals: np.ndarray) -> np.ndarray:
    if steps < 1:
        raise IlbrlError(f"max_episode_steps must be at least 1, got {steps}")
    starts = np.append(0, np.flatnonzero(terminals[:-1]) + 1)
    step = np.arange(len(terminals)) - np.repeat(starts, np.diff(np.append(starts, len(terminals))))
    return (step % steps == steps - 1) & ~terminals


def _with_next_rows(columns: dict[str, np.ndarray], source: str, decided: list[str]) -> dict[str, np.ndarray]:
    """Take each next observation from the following row, dropping the rows that have none."""
    terminals, timeouts = columns["terminals"], columns["timeouts"].copy()
    unknown = timeouts & ~terminals
    earlier = np.flatnonzero(unknown) - 1  # after a dropped time-out the row before it ends its episode …
    earlier = earlier[earlier >= 0]
    timeouts[earlier[~(terminals | timeouts)[earlier]]] = True  # … unless the dropped row stood alone
    unknown[-1] = not terminals[-1]
    rows = np.flatnonzero(~unknown)
    if not len(rows):
        raise IlbrlError(f"{source}: without next_observations no row has a successor; nothing can be learnt from it")
    dropped = f"; dropped {counted(unknown.sum(), 'row')} without one (first: row {np.argmax(unknown)})"
    decided.append("no next_observations in the logs: taken from the following row" + dropped * bool(unknown.any()))
    successors = np.where(terminals[rows], rows, rows + 1)
    kept = {name: column[rows] for name, column in {**columns, "timeouts": timeouts}.items()}
    if unknown.any():
        kept["source_rows"] = rows
    return {**kept, "next_observations": columns["observations"][successors]}
