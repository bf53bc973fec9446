"""Several datasets as one, and the same number for the same discrete action in all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ilbrl.base.errors import IlbrlError
from ilbrl.data.dataset import PER_ROW, Dataset

MOST_CHOICES = 1_000_000  # discrete actions that can be told apart


def concatenate(parts: Sequence[Dataset]) -> Dataset:
    """Join datasets row after row; `is_expert` says which rows came from an `as_expert()` part.

    A part whose last episode was cut by its end gets a time-out there, so that it does not run into the next.
    Optional fields survive where every part has them, but for the numbers of rows in their sources; bounds must agree.
    """
    if not parts:
        raise IlbrlError("nothing to concatenate")
    first = parts[0]
    for part in parts[1:]:
        if (part.obs_dim, part.act_dim, part.discrete) != (first.obs_dim, first.act_dim, first.discrete):
            raise IlbrlError(f"cannot join {part!r} with {first!r}: observations and actions must have the same shape")
    arrays: dict[str, np.ndarray | None] = {}
    for name in PER_ROW:
        columns = [getattr(part, name) for part in parts]
        if name == "is_expert" and any(column is not None for column in columns):
            columns = [np.zeros(len(p), bool) if c is None else c for p, c in zip(parts, columns)]
        kept = [column for column in columns if column is not None]
        arrays[name] = np.concatenate(kept) if len(kept) == len(columns) else None
    arrays["source_rows"] = None
    timeouts, ends = arrays["timeouts"], np.cumsum([len(part) for part in parts])
    assert timeouts is not None
    cuts = [end - 1 for part, end in zip(parts[:-1], ends) if len(part) and not part.complete[-1]]
    timeouts[cuts] = True
    notes = tuple(dict.fromkeys(note for part in parts for note in part.notes))
    warnings = tuple(dict.fromkeys(warning for part in parts for warning in part.warnings))
    if cuts:
        notes += (f"rows {', '.join(map(str, cuts))}: an unfinished last episode was closed as a time-out when joined",)
    bounds = {}
    for name in ("action_low", "action_high"):
        known = [getattr(part, name) for part in parts if getattr(part, name) is not None]
        if any(not np.array_equal(bound, known[0]) for bound in known):
            told = "; ".join(f"{part.source} {getattr(part, name)}" for part in parts)
            raise IlbrlError(f"cannot join datasets whose {name} differ ({told}); both need the same bounds")
        bounds[name] = known[0] if known else None
    declared = list(dict.fromkeys(part.action_names for part in parts if part.action_names is not None))
    if len(declared) > 1:
        told = "; ".join(f"{part.source}: {', '.join(part.action_names)}" for part in parts if part.action_names)
        raise IlbrlError(f"cannot join datasets whose actions have different names ({told}); state all names for both")
    policy = first.policy if all(part.policy is first.policy for part in parts) else None
    source = " + ".join(dict.fromkeys(part.source for part in parts))
    about = {"policy": policy, "source": source, "notes": notes, "warnings": warnings}
    about["action_names"] = declared[0] if declared else None
    for name in ("observation_columns", "action_columns"):
        known = {getattr(part, name) for part in parts} - {None}
        about[name] = known.pop() if len(known) == 1 else None
    return Dataset(**arrays, **bounds, **about)  # pyright: ignore[reportArgumentType]


def same_actions(parts: Sequence[Dataset]) -> list[Dataset]:
    """The parts with one list of action names, which holds the names of all; nothing changes where none has names."""
    names = list(dict.fromkeys(name for part in parts for name in part.action_names or ()))
    if not names:
        return list(parts)
    unnamed = next((part for part in parts if part.action_names is None), None)
    if unnamed is not None and names != _numbers(len(names)):
        named = next(part for part in parts if part.action_names is not None)
        raise IlbrlError(
            f"{unnamed.source}: its actions are numbers, those of {named.source} have names ({', '.join(names[:8])}):"
            f" say which is which by stating them in order (--action-names {' '.join(names[:8])})"
        )
    return [with_action_names(part, names) for part in parts]


def same_choices(parts: Sequence[Dataset]) -> list[Dataset]:
    """The same for learning: where no discrete action has a name, their numbers are their names in all parts."""
    if not all(part.discrete for part in parts):
        return list(parts)
    if any(part.action_names is not None for part in parts):
        return same_actions(parts)
    largest = max(parts, key=lambda part: part.num_actions)
    if largest.num_actions > MOST_CHOICES:
        raise IlbrlError(
            f"{largest.source}: its actions are whole numbers up to {largest.num_actions - 1:,}, and {MOST_CHOICES:,}"
            " choices can be told apart; if they are amounts, state their bounds (--action-low, --action-high)"
        )
    names = _numbers(largest.num_actions)
    return [with_action_names(part, names) for part in parts]


def with_action_names(dataset: Dataset, names: Sequence[str]) -> Dataset:
    """The same actions under these names: numbered anew where they have names already, else named by their number."""
    if not dataset.discrete:
        dataset = replace(dataset, actions=_whole_numbers(dataset), action_low=None, action_high=None)
    actions, number_of = dataset.actions, {name: number for number, name in enumerate(names)}
    if dataset.action_names is not None:
        unknown = [name for name in dataset.action_names if name not in number_of]
        if unknown:
            raise IlbrlError(f"{dataset.source}: has actions {', '.join(unknown[:8])}, which are not declared")
        actions = np.array([number_of[name] for name in dataset.action_names])[actions]
    return replace(dataset, actions=actions, action_names=tuple(names))


def _whole_numbers(dataset: Dataset) -> np.ndarray:
    """[N] the integers that a single column of floats holds, as CSV files and D4RL-like ones may."""
    if dataset.act_dim > 1:
        raise IlbrlError(
            f"{dataset.source}: its actions are {dataset.act_dim} real numbers each; names are for discrete actions,"
            " one whole number or name per row"
        )
    column = dataset.actions[:, 0]
    broken = ~(np.isfinite(column) & (column == np.round(column)))
    if broken.any():
        row = int(np.argmax(broken))
        raise IlbrlError(
            f"{dataset.source}: the action {column[row]:g} in row {dataset.source_row(row)} is no whole number; names"
            " are for discrete actions"
        )
    return column.astype(np.int64)


def _numbers(count: int) -> list[str]:
    return list(map(str, range(count)))
