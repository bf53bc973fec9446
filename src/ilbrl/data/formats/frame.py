"""Tables with named columns: a pandas frame, CSV or Parquet.

| column | meaning |
|---|---|
| `observation_0`, … or `obs_…` | the observation; numbered columns by number, named ones in file order |
| `action_0`, … or `act_…` | a continuous action; one integer column named `action` is a discrete one |
| `next_observation_…` or `next_obs_…` | optional, else the next row of the episode |
| `reward`, `terminal`, `timeout`, `log_prob`, `is_expert` | optional |
| `episode` | optional: any label, one per episode |
| `step` | optional: rows are put into its order within each episode |
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ilbrl.base.errors import IlbrlError
from ilbrl.data.dataset import Dataset
from ilbrl.data.formats.arrays import from_arrays

if TYPE_CHECKING:
    import pandas as pd

Columns = Mapping[str, str | Sequence[str]]
_VECTORS = {
    "observations": ("observation_", "obs_"),
    "actions": ("action_", "act_"),
    "next_observations": ("next_observation_", "next_obs_"),
}
_SCALARS = {
    "rewards": "reward",
    "terminals": "terminal",
    "timeouts": "timeout",
    "log_probs": "log_prob",
    "is_expert": "is_expert",
    "episodes": "episode",
    "steps": "step",
}


def from_frame(
    frame: pd.DataFrame,
    columns: Columns | None = None,
    *,
    max_episode_steps: int | None = None,
    source: str = "frame",
) -> Dataset:
    """A dataset from a pandas frame, by the column names above or by `columns`.

    `columns` maps a field of the Dataset (or `episodes`, `steps`) to its column or columns:
    `{"observations": ["x", "v"], "actions": "force", "episodes": "trial"}`.
    """
    homes = {**_by_convention([str(name) for name in frame.columns]), **(columns or {})}
    for field in ("observations", "actions"):
        if field not in homes:
            raise IlbrlError(
                f"{source}: no columns for {field}, found only {', '.join(map(str, frame.columns))};"
                f" name them {_VECTORS[field][0]}0, {_VECTORS[field][0]}1, … or pass `columns`"
            )
    if not len(frame):
        raise IlbrlError(f"{source}: holds no transitions")
    fields: dict[str, Any] = {field: _values(frame, field, home, source) for field, home in homes.items()}
    order, notes = _order(fields.pop("steps", None), fields.get("episodes"))
    if order is not None:
        fields = {field: values[order] for field, values in fields.items()}
    return from_arrays(**fields, source=source, notes=notes, max_episode_steps=max_episode_steps)


def read_csv(path: Path) -> Dataset:
    return _read(path, "CSV", lambda pandas: _csv_frame(pandas, path))


def read_parquet(path: Path) -> Dataset:
    return _read(path, "Parquet", lambda pandas: pandas.read_parquet(path))


def _csv_frame(pandas: Any, path: Path) -> pd.DataFrame:
    """The table as it is written: pandas renames columns of the same name, and takes a column too many for labels."""
    frame = pandas.read_csv(path)
    if not isinstance(frame.index, pandas.RangeIndex):
        raise IlbrlError(f"{path}: its rows have more cells than its first line has names; name every column")
    frame.columns = pandas.read_csv(path, header=None, nrows=1, dtype=str, keep_default_na=False).iloc[0]
    return frame


def _read(path: Path, kind: str, read: Any) -> Dataset:
    if not path.is_file():
        raise IlbrlError(f"{path}: {'is a folder; name the file inside it' if path.is_dir() else 'no such file'}")
    try:
        import pandas
    except ImportError:
        raise IlbrlError(f"{path}: reading {kind} needs pandas: pip install 'ilbrl[frames]'") from None
    try:
        frame = read(pandas)
    except UnicodeDecodeError as error:
        raise IlbrlError(f"{path}: is not UTF-8 text ({error.reason}); save it as UTF-8") from None
    except (ValueError, OSError, ImportError) as error:  # what pandas and pyarrow raise on files they cannot read
        reason = str(error).splitlines()[0].rstrip(".") if str(error) else type(error).__name__
        raise IlbrlError(f"{path}: cannot be read as {kind} ({reason})") from None
    return from_frame(frame, source=path.name)


def _by_convention(names: list[str]) -> dict[str, str | list[str]]:
    homes: dict[str, str | list[str]] = {field: name for field, name in _SCALARS.items() if name in names}
    for field, prefixes in _VECTORS.items():
        for prefix in prefixes:
            found = [name for name in names if name.startswith(prefix)]
            if found and field not in homes:
                numbered = all(name.removeprefix(prefix).isdigit() for name in found)
                homes[field] = sorted(found, key=lambda n: int(n.rpartition("_")[2])) if numbered else found
    if "actions" not in homes and "action" in names:
        homes["actions"] = "action"
    return homes


def _values(frame: pd.DataFrame, field: str, home: str | Sequence[str], source: str) -> np.ndarray:
    """[N] values of one column, or [N, k] float32 of several."""
    names = [home] if isinstance(home, str) else list(home)
    for name in names:
        if name not in frame.columns:
            raise IlbrlError(f"{source}: no column {name!r} for {field}, found {', '.join(map(str, frame.columns))}")
        if list(frame.columns).count(name) > 1:
            raise IlbrlError(f"{source}: column {name!r} stands there twice; name every column once")
        if field != "episodes" and frame[name].dtype.kind not in "biuf":
            raise IlbrlError(f"{source}: column {name!r} holds {_first_text(frame[name])}, not numbers")
    if isinstance(home, str):
        column: Any = frame[home]
        whole = column.dtype.kind in "biu" and not column.isna().any()
        return column.to_numpy() if whole or field == "episodes" else column.to_numpy(np.float64, na_value=np.nan)
    return np.stack([frame[name].to_numpy(np.float32, na_value=np.nan) for name in names], axis=1)


def _first_text(column: Any) -> str:
    for row, value in enumerate(column):
        try:
            float(value)
        except (TypeError, ValueError):
            return f"{value!r} in row {row}"
    return f"{column.dtype} values"


def _order(steps: np.ndarray | None, episodes: np.ndarray | None) -> tuple[np.ndarray | None, list[str]]:
    """Rows sorted by episode (in order of appearance), then step; None where they already are."""
    if steps is None and episodes is None:
        return None, []
    if episodes is None:
        return None, ["the step column was not used: without an episode column it cannot order rows"]
    _, first, code = np.unique(episodes.astype(str), return_index=True, return_inverse=True)
    rank = np.argsort(np.argsort(first))[code]
    order = np.lexsort((np.arange(len(rank)) if steps is None else steps, rank))
    if (np.diff(order) == 1).all():
        return None, []
    return order, ["rows were put into the order of their episodes and steps"]
