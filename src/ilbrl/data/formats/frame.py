"""Tables with named columns, as pandas frames (`tables.py` reads them from files).

| column | meaning |
|---|---|
| `observation_0`, … or `obs_…` | the observation; numbered columns by number, named ones in file order |
| `action_0`, … or `act_…` | a continuous action; one column `action` of whole numbers or names is a discrete one |
| `next_observation_…` or `next_obs_…` | optional, else the next row of the episode |
| `observation`, `action`, `next_observation` | a column of lists, one per row |
| `reward`, `log_prob`, `is_expert` | optional |
| `propensity` | optional: with which probability the discrete action was taken; `propensity_left`, `propensity_right`, … of all choices |
| `terminal` or `terminated`; `timeout` or `truncated` | optional |
| `done` | optional: a terminal, unless the row is also marked as a time-out |
| `episode` or `episode_id` | optional: any label, one per episode |
| `step` or `timestep` | optional: rows are put into its order within each episode |

Other names are told by `--columns` or a mapping file (`ilbrl.data.reading`). Columns that nobody reads are noted.
"""  # noqa: E501 - a table

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from ilbrl.base.errors import IlbrlError
from ilbrl.base.records import shown
from ilbrl.data.choices import numbered_by
from ilbrl.data.dataset import Dataset
from ilbrl.data.formats.arrays import episode_numbers, flags, from_arrays, names_of_columns
from ilbrl.data.on_disk import empty
from ilbrl.data.reading import check_fields, homes, in_order, unused

if TYPE_CHECKING:
    import pandas as pd

Columns = Mapping[str, str | Sequence[str]]
_PREFIXES = {
    "observations": ("observation_", "obs_"),
    "actions": ("action_", "act_"),
    "next_observations": ("next_observation_", "next_obs_"),
    "propensities": ("propensity_",),
}
_USUAL = {
    "observations": ("observation", "observations", "obs"),
    "actions": ("action", "actions"),
    "next_observations": ("next_observation", "next_observations", "next_obs"),
    "rewards": ("reward", "rewards"),
    "terminals": ("terminal", "terminals", "terminated", "done", "dones"),
    "timeouts": ("timeout", "timeouts", "truncated"),
    "log_probs": ("log_prob", "log_probs"),
    "propensities": ("propensity", "propensities", "action_prob", "action_probability"),
    "is_expert": ("is_expert",),
    "episodes": ("episode", "episodes", "episode_id"),
    "steps": ("step", "steps", "timestep"),
}


def from_frame(
    frame: pd.DataFrame,
    columns: Columns | None = None,
    *,
    action_low: ArrayLike | None = None,
    action_high: ArrayLike | None = None,
    max_episode_steps: int | None = None,
    source: str = "frame",
    notes: Sequence[str] = (),
) -> Dataset:
    """A dataset from a pandas frame, by the column names above or by `columns`.

    `columns` maps a field of the Dataset (or `episodes`, `steps`) to its column or columns:
    `{"observations": ["x", "v"], "actions": "force", "episodes": "trial"}`.
    """
    names, doubts, decided = [str(name) for name in frame.columns], [], list(notes)
    check_fields(columns or {}, source)
    told = {**_by_prefix(names, doubts), **(columns or {})}
    found = homes(names, _USUAL, told, source)
    one_column = {field for field in found if isinstance(told.get(field, ""), str)}
    if not len(frame):
        raise IlbrlError(f"{source}: holds no transitions")
    counts, positions = Counter(names), {name: i for i, name in enumerate(names)}
    for field, used in found.items():
        for name in used:
            if counts[name] > 1:
                raise IlbrlError(f"{source}: column {name!r} for {field} stands there twice; name every column once")
    values: dict[str, Any] = {
        field: _values(_Series(frame, [positions[name] for name in used]), used, field, field in one_column, source)
        for field, used in found.items()
    }
    if "terminals" not in told and found.get("terminals", [""])[0] in ("done", "dones"):
        values["terminals"] = _terminals_of_done(values, source, decided)
    decided += unused([name for name in names if name and not name.startswith("Unnamed: ")], found)
    names_of_choices = _choices_with_propensities(values, found.get("propensities", ()), source)
    order = _order(values.pop("steps", None), values.get("episodes"), source, decided)
    if order is not None:
        values = {field: column[order] for field, column in values.items()}
    return from_arrays(
        **values,
        action_names=names_of_choices,
        **names_of_columns(found, values),
        action_low=action_low,
        action_high=action_high,
        source=source,
        source_rows=order,
        notes=decided,
        warnings=doubts,
        max_episode_steps=max_episode_steps,
    )


def _by_prefix(names: list[str], doubts: list[str]) -> dict[str, list[str]]:
    found, taken = {}, {name for names in _USUAL.values() for name in names}
    for field, prefixes in _PREFIXES.items():
        if any(name in names for name in _USUAL[field]):
            continue  # with a column `action`, action_reason is no part of the action
        for prefix in prefixes:
            matching = [name for name in names if name.startswith(prefix) and name not in taken]
            if matching and field not in found:
                found[field], doubtful = in_order(matching, prefix)
                doubts += doubtful
    return found


class _Series:
    """Columns of a frame, each taken when it is asked for: a large file is never in memory as a whole."""

    def __init__(self, frame: Any, positions: list[int]) -> None:
        self._frame, self._positions = frame, positions

    def __len__(self) -> int:
        return len(self._positions)

    def __getitem__(self, i: int) -> Any:
        column = self._frame.iloc[:, self._positions[i]]
        return column.astype(np.float64) if _holds_decimals(column) else column  # None becomes NaN

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))


def _values(columns: _Series, names: list[str], field: str, alone: bool, source: str) -> np.ndarray:
    """[N] values of one column, [N, k] of one column of lists, or [N, k] float32 of several columns."""
    if len(columns) == 1 and _holds_lists(columns[0]):
        try:
            return np.stack([np.asarray(each, np.float32) for each in columns[0]])
        except (TypeError, ValueError):
            raise IlbrlError(
                f"{source}: the lists in column {names[0]!r} must be of numbers, all equally long"
            ) from None
    if field == "episodes":
        if len(columns) > 1:
            raise IlbrlError(f"{source}: episodes must be one column, got {', '.join(names)}")
        return columns[0].astype(object).where(columns[0].notna(), None).to_numpy()
    if field == "actions" and alone and columns[0].dtype.kind not in "biuf":
        return _names_of_choices(columns[0], names[0], source)
    if len(columns) == 1 and alone:
        column = _numeric(columns[0], names[0], source)
        whole = column.dtype.kind in "biu" and not column.isna().any()
        return column.to_numpy() if whole else column.to_numpy(np.float64, na_value=np.nan)
    matrix = empty((len(columns[0]), len(columns)), np.float32)
    for i, (name, column) in enumerate(zip(names, columns)):
        matrix[:, i] = _numeric(column, name, source).to_numpy(np.float32, na_value=np.nan)
    return matrix


def _names_of_choices(column: Any, name: str, source: str) -> np.ndarray:
    row = next((row for row, value in enumerate(column) if _is_number(value) and value == value), None)  # NaN: missing
    if row is not None:
        raise IlbrlError(
            f"{source}: column {name!r} holds {_first_text(column)} and {column.iloc[row]!r} in row {row}: actions are"
            " all names or all numbers"
        )
    return column.astype(object).where(column.notna(), None).to_numpy()


def _numeric(column: Any, name: str, source: str) -> Any:
    if column.dtype.kind not in "biuf":
        raise IlbrlError(f"{source}: column {name!r} holds {_first_text(column)}, not numbers")
    return column


def _choices_with_propensities(values: dict[str, Any], columns: Sequence[str], source: str) -> list[str] | None:
    """Names of the choices as the columns of their propensities have them; named actions are then numbered alike."""
    prefix = _PREFIXES["propensities"][0]
    if len(columns) < 2 or not all(name.startswith(prefix) for name in columns):
        return None
    names = [name.removeprefix(prefix) for name in columns]
    if values["actions"].dtype == object:
        values["actions"] = numbered_by(names, values["actions"].tolist(), source)
    return names if values["actions"].dtype.kind in "iu" else None


def _holds_lists(column: Any) -> bool:
    return column.dtype == object and isinstance(column.iloc[0], list | tuple | np.ndarray)


def _holds_decimals(column: Any) -> bool:
    """The exact numbers of databases."""
    if column.dtype != object or not isinstance(next(iter(column), ""), Decimal | None):
        return False
    return bool(column.notna().any()) and all(isinstance(value, Decimal | None) for value in column)


def _first_text(column: Any) -> str:
    """The first value that is no number; of texts that Python would take for numbers (1_000) the very first."""
    row = next((row for row, value in enumerate(column) if not _is_number(value)), 0)
    return f"{shown(column.iloc[row])} in row {row}"


def _is_number(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True


def _terminals_of_done(values: dict[str, Any], source: str, notes: list[str]) -> np.ndarray:
    done = flags("done", values["terminals"], source)
    if "timeouts" in values:
        notes.append("done is taken as a terminal where the row is not marked as a time-out")
        return done & ~flags("timeouts", values["timeouts"], source)
    notes.append("done is taken as a terminal; if it also marks the time limit, mark those rows in a column timeout")
    return done


def _order(steps: np.ndarray | None, episodes: np.ndarray | None, source: str, notes: list[str]) -> np.ndarray | None:
    """[N] rows sorted by episode (in order of appearance), then step; None where they already are."""
    if steps is not None and episodes is None:
        notes.append("the step column was not used: without an episode column it cannot order rows")
    if episodes is None:
        return None
    if steps is not None and not np.isfinite(steps).all():
        raise IlbrlError(f"{source}: the step in row {np.argmin(np.isfinite(steps))} is not a number")
    number, _ = episode_numbers(episodes)
    order = np.lexsort((np.arange(len(number)) if steps is None else steps, number))
    if (np.diff(order) == 1).all():
        return None
    notes.append("rows were put into the order of their episodes and steps")
    return order
