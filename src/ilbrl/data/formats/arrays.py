"""Plain arrays to a Dataset: the one place where missing fields are completed, and every decision is noted.

| missing | what happens |
|---|---|
| `next_observations` | the next row of the same episode. At a terminal it is never used: the row's own observation stands in. A last row whose successor was not logged is dropped; after a time-out the row before it becomes the time-out |
| `timeouts` | where `episodes` changes; else every `max_episode_steps`; else where an observation does not follow from the row before; else none, with a note |
| `terminals` | none |
"""  # noqa: E501 - a table

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ilbrl.base.errors import IlbrlError
from ilbrl.data.checks import counted
from ilbrl.data.choices import log_propensities, numbered
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
    propensities: ArrayLike | None = None,
    is_expert: ArrayLike | None = None,
    action_low: ArrayLike | None = None,
    action_high: ArrayLike | None = None,
    action_names: Sequence[str] | None = None,
    observation_columns: Sequence[str] | None = None,
    action_columns: Sequence[str] | None = None,
    policy: Policy | None = None,
    source: str = "arrays",
    source_rows: np.ndarray | None = None,
    notes: Sequence[str] = (),
    warnings: Sequence[str] = (),
) -> Dataset:
    """A dataset from [N, …] arrays, one row per logged step, episode after episode.

    `episodes` is any [N] label that changes where a new episode begins. `max_episode_steps` says when the
    environment stopped an episode, for logs that did not record it. `source_rows` says where each row stands in its
    file, for messages about it. Actions may be texts, which are numbered; `action_names` are the names of actions that
    are numbers already. `propensities` are the probabilities of the logged discrete actions, [N], or those of all
    choices, [N, n]; a Dataset keeps their logarithms as `log_probs`. `observation_columns` and `action_columns` are
    what messages and tables call the columns.
    """
    given = {
        "observations": observations,
        "actions": actions,
        "next_observations": next_observations,
        "rewards": rewards,
        "terminals": terminals,
        "timeouts": timeouts,
        "log_probs": log_probs,
        "propensities": propensities,
        "is_expert": is_expert,
    }
    decided, doubted = list(notes), list(warnings)
    if action_names is None:
        given["actions"], action_names = numbered(actions, source, source_rows)
    columns = {name: _column(name, array, source, source_rows) for name, array in given.items() if array is not None}
    labels = None if episodes is None else _one_per_row(np.asarray(episodes))
    _check_lengths(columns if labels is None else {**columns, "episodes": labels}, source)
    if "propensities" in columns:
        if "log_probs" in columns:
            raise IlbrlError(f"{source}: has log_probs and propensities, which say the same; keep one of them")
        logged = columns.pop("propensities")
        columns["log_probs"] = log_propensities(logged, columns["actions"], source, source_rows, doubted)
    columns["source_rows"] = np.arange(len(columns["observations"])) if source_rows is None else source_rows
    if "terminals" not in columns:
        columns["terminals"] = np.zeros(len(columns["observations"]), bool)
        decided.append("no terminals in the logs: no episode is taken to have ended by itself")
    columns["timeouts"] = _timeouts(columns, labels, max_episode_steps, decided, doubted)
    if "next_observations" not in columns:
        columns = _with_next_rows(columns, source, decided)
    if policy is not None and not _fits(policy, columns["observations"], columns["actions"]):
        answers = f"{policy.act_dim}" if policy.num_actions is None else f"one of {policy.num_actions} choices"
        doubted.append(f"the behaviour policy was left out: it maps {policy.obs_dim} numbers to {answers}")
        policy = None
    if (np.diff(columns["source_rows"]) == 1).all() and columns["source_rows"][0] == 0:
        del columns["source_rows"]  # one after the other: nothing to remember
    arrays: dict[str, Any] = columns
    bounds = {"action_low": action_low, "action_high": action_high}
    arrays |= {name: np.atleast_1d(np.asarray(bound)) for name, bound in bounds.items() if bound is not None}
    texts = {"action_names": action_names, "observation_columns": observation_columns, "action_columns": action_columns}
    arrays |= {name: tuple(map(str, words)) for name, words in texts.items() if words is not None}
    return Dataset(**arrays, policy=policy, source=source, notes=tuple(decided), warnings=tuple(doubted))


def _fits(policy: Policy, observations: np.ndarray, actions: np.ndarray) -> bool:
    """Whether a policy could have taken these actions, as far as shapes and numbers of choices tell."""
    if observations.shape[1:] != (policy.obs_dim,):
        return False
    if policy.num_actions is None:
        return actions.shape[1:] == (policy.act_dim,)
    return actions.dtype.kind in "iu" and actions.ndim == 1 and 0 <= actions.min() <= actions.max() < policy.num_actions


def episode_numbers(labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """([N] number of each row's label, in order of appearance; [N] bool: the row has no label).

    Neighbouring rows without a label (None or NaN) share a number of their own.
    """
    if labels.dtype.kind in "OfM":
        missing = np.array([label is None or label != label for label in labels.tolist()], bool)
    else:
        missing = np.zeros(len(labels), bool)
    known = np.where(missing, labels[np.argmin(missing)], labels)
    _, codes = np.unique(known if known.dtype.kind in "biufU" else known.astype(str), return_inverse=True)
    block = np.cumsum(missing & ~np.append(False, missing[:-1]))
    codes = np.where(missing, codes.max() + block, codes)
    _, first, codes = np.unique(codes, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[codes], missing


def joined(arrays: list[np.ndarray], name: str, source: object) -> np.ndarray:
    """One field that a file keeps in several arrays: their columns side by side."""
    if len(arrays) == 1:
        return arrays[0]
    if len({len(array) if array.ndim else -1 for array in arrays}) > 1:
        raise IlbrlError(f"{source}: the parts of {name} have different numbers of rows")
    return np.concatenate([array.reshape(len(array), -1) for array in arrays], axis=1)


def names_of_columns(homes: Mapping[str, Sequence[str]], values: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """`observation_columns` and `action_columns`, where every column has a name of its own in the file.

    homes: field → the names that its columns were found under; values: field → [N] or [N, k].
    """
    widths = {field: values[field].shape[1] if values[field].ndim > 1 else 1 for field in ("observations", "actions")}
    named = [field for field, width in widths.items() if len(homes[field]) == width and list(homes[field]) != [field]]
    return {f"{field[:-1]}_columns": list(homes[field]) for field in named}


def flags(name: str, column: np.ndarray, source: str, rows: np.ndarray | None = None) -> np.ndarray:
    """[…] bool of true/false or 1/0. Anything else is an error: text and NaN would be a silent True."""
    if column.dtype.kind not in "biuf":
        raise IlbrlError(f"{source}: {name} holds {column.dtype} values, not true/false or 1/0")
    if column.dtype != bool:
        odd = np.argwhere((column != 0) & (column != 1))
        if len(odd):
            row = odd[0][0] if rows is None else rows[odd[0][0]]
            raise IlbrlError(f"{source}: {name} must be true/false or 1/0, found {column[tuple(odd[0])]} in row {row}")
    return column.astype(bool, copy=False)


def _column(name: str, array: ArrayLike, source: str, rows: np.ndarray | None) -> np.ndarray:
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
        return flags(name, _one_per_row(column), source, rows)
    if name in ("rewards", "log_probs", "propensities"):
        return _one_per_row(column)
    if name == "actions" and column.dtype.kind in "biu":
        return _one_per_row(column.astype(np.uint8) if column.dtype.kind == "b" else column)
    return column[:, None] if column.ndim == 1 else column


def _one_per_row(column: np.ndarray) -> np.ndarray:
    return column[:, 0] if column.ndim == 2 and column.shape[1] == 1 else column


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
    columns: dict[str, np.ndarray],
    labels: np.ndarray | None,
    max_episode_steps: int | None,
    decided: list[str],
    doubted: list[str],
) -> np.ndarray:
    """[N] where the log stops without a terminal: as logged, or by the best evidence there is."""
    terminals, logged = columns["terminals"], columns.get("timeouts")
    if labels is not None:
        marked = terminals if logged is None else terminals | logged
        ends = _ends_of_labels(labels, terminals, columns["source_rows"], doubted)
        doubted += _cut_off(ends, marked, columns["source_rows"])
        return (ends & ~terminals) if logged is None else (ends & ~terminals) | logged
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
    remedy = "say where they do: --columns episodes NAME, or --max-episode-steps (max_episode_steps)"
    if terminals.any():
        decided.append(
            "neither timeouts nor next_observations in the logs: episodes are taken to end at terminals alone; if some"
            f" end otherwise, {remedy}"
        )
    else:
        doubted.append(f"nothing in the logs shows where episodes end: all rows are taken as one episode; {remedy}")
    return np.zeros_like(terminals)


def _ends_of_labels(labels: np.ndarray, terminals: np.ndarray, rows: np.ndarray, doubted: list[str]) -> np.ndarray:
    """[N] the last row of every label; doubts about labels are told."""
    numbers, missing = episode_numbers(labels)
    ends = np.append(numbers[1:] != numbers[:-1], True)
    if missing.any():
        doubted.append(
            f"{counted(missing.sum(), 'row')} without an episode label (first: row {rows[np.argmax(missing)]}):"
            " neighbouring ones are taken as an episode of their own; label every row"
        )
    inside = terminals & ~ends
    if inside.any():
        doubted.append(
            f"{counted(inside.sum(), 'terminal')} inside a labelled episode (first: row {rows[np.argmax(inside)]}):"
            " what follows is taken as a new episode; mend the labels or the terminals"
        )
    return ends


def _cut_off(ends: np.ndarray, marked: np.ndarray, rows: np.ndarray) -> list[str]:
    """A doubt about the last episode: it alone has no end, or it alone is shorter where no ends are marked."""
    last = np.flatnonzero(ends)
    lengths = np.diff(last, prepend=-1)
    unmarked = marked[last[:-1]].all() and not marked[last[-1]]
    shorter = not marked.any() and len(last) > 2 and (lengths[:-1] == lengths[0]).all() and lengths[-1] < lengths[0]
    if len(last) < 2 or not (unmarked or shorter):
        return []
    what = "without an end mark" if unmarked else f"of fewer than {lengths[0]:,} rows"
    return [
        f"the last episode ({lengths[-1]:,} rows, from row {rows[last[-2] + 1]}) is the only one {what}: if the logs"
        " were cut off there, copy them again or leave it out"
    ]


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
    first = columns["source_rows"][np.argmax(unknown)]
    dropped = f"; dropped {counted(unknown.sum(), 'row')} without one (first: row {first})"
    decided.append("no next_observations in the logs: taken from the following row" + dropped * bool(unknown.any()))
    successors = np.where(terminals[rows], rows, rows + 1)
    kept = {name: column[rows] for name, column in {**columns, "timeouts": timeouts}.items()}
    return {**kept, "next_observations": columns["observations"][successors]}
