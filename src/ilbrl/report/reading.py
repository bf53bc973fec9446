"""Files of a run folder as typed values. What cannot be used is noted in a sentence, not raised: the rest counts."""

from __future__ import annotations

import csv
import json
import math
import types
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

T = TypeVar("T")
Note = Callable[[str], None]
"""Takes a sentence about something missing or unusable."""


def read_text(path: Path, note: Note, why_it_matters: str) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        note(f"{path.name} is not there: {why_it_matters}.")
    except (OSError, UnicodeDecodeError) as error:
        note(f"{path.name} cannot be read ({error}): {why_it_matters}.")
    return None


def read_json(path: Path, kind: type[T], note: Note, why_it_matters: str) -> T | None:
    text = read_text(path, note, why_it_matters)
    if text is None:
        return None
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        note(f"{path.name} is damaged at line {error.lineno} ({error.msg}): {why_it_matters}.")
        return None
    if not isinstance(value, dict):
        note(f"{path.name} holds {_kind_of(value)} where an object belongs: {why_it_matters}.")
        return None
    return record(kind, value, path.name, note)


def record(kind: type[T], value: dict[str, Any], where: str, note: Note) -> T:
    """The dataclass `kind` filled from a JSON object; fields that do not fit keep their default and are noted."""
    hints, found = get_type_hints(kind), {}
    for each in fields(kind):  # pyright: ignore[reportArgumentType]
        if each.name in value:
            try:
                found[each.name] = _fit(hints[each.name], value[each.name], f"{where}, {each.name}", note)
            except TypeError as misfit:
                note(f"{misfit}; it is left out.")
    return kind(**found)


def _fit(kind: Any, value: Any, where: str, note: Note) -> Any:
    """`value` as `kind`, or TypeError with a sentence."""
    if kind is Any:
        return value
    if isinstance(kind, types.UnionType):
        if value is None and type(None) in get_args(kind):
            return None
        (kind,) = (option for option in get_args(kind) if option is not type(None))
        if kind is float and isinstance(value, float) and not math.isfinite(value):
            return None  # NaN is how Python's JSON says that there is no number
        return _fit(kind, value, where, note)
    origin = get_origin(kind)
    if origin is dict and isinstance(value, dict):
        return dict(_fitting(get_args(kind)[1], value.items(), where, note))
    if origin is tuple and isinstance(value, list):
        return tuple(item for _, item in _fitting(get_args(kind)[0], enumerate(value), where, note))
    if is_dataclass(kind) and isinstance(value, dict):
        return record(kind, value, where, note)  # pyright: ignore[reportArgumentType]
    if kind is float and isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    if kind is int and isinstance(value, float) and value.is_integer():
        return int(value)
    if kind is bool and value in (0, 1):
        return bool(value)
    if isinstance(kind, type) and isinstance(value, kind) and not (kind is int and isinstance(value, bool)):
        return value
    wanted = {dict: "an object", tuple: "a list", float: "a number", int: "a whole number", str: "text"}
    raise TypeError(f"{where} holds {_kind_of(value)} where {wanted.get(origin or kind, 'an object')} belongs")


def _fitting(kind: Any, items: Any, where: str, note: Note) -> Iterator[tuple[Any, Any]]:
    for key, item in items:
        try:
            yield key, _fit(kind, item, f"{where}[{key}]", note)
        except TypeError as misfit:
            note(f"{misfit}; it is left out.")


def _kind_of(value: Any) -> str:
    names = {dict: "an object", list: "a list", str: "text", bool: "true or false", type(None): "nothing"}
    return names.get(type(value), "a number")


def read_csv(
    path: Path, columns: dict[str, Any], note: Note, why_it_matters: str, optional: Sequence[str] = ()
) -> list[dict[str, Any]]:
    """Rows of a CSV file with the wanted columns as float, int, str or `one_of` some words; empty cells are None.

    The `optional` columns may be missing: older versions did not write them.
    Rows with a cell that does not fit (the last line of a file cut short) are left out, and that is noted once.
    """
    text = read_text(path, note, why_it_matters)
    if text is None:
        return []
    reader = csv.DictReader(text.splitlines())
    absent = [name for name in columns if name not in (*(reader.fieldnames or ()), *optional)]
    if absent:
        note(f"{path.name} has no column {', '.join(absent)}: {why_it_matters}.")
        return []
    rows, bad = [], []
    try:
        for number, cells in enumerate(reader, start=2):
            try:
                rows.append({name: _cell(kind, cells.get(name, "")) for name, kind in columns.items()})
            except (TypeError, ValueError) as misfit:
                bad.append((number, misfit))
    except csv.Error as error:
        note(f"{path.name} cannot be read beyond line {reader.line_num} ({error}).")
    if bad:
        (line, why), found = bad[0], f"{len(bad)} unreadable row{'s' * (len(bad) > 1)}"
        note(f"{path.name}: {found}, first in line {line} ({why}), left out.")
    if not rows and not bad:
        note(f"{path.name} has no rows: {why_it_matters}.")
    return rows


def one_of(*words: str) -> Callable[[str], str]:
    """The kind of a column that holds only these."""

    def kind(cell: str) -> str:
        if cell not in words:
            raise ValueError(f"{cell!r} is none of {', '.join(words)}")
        return cell

    return kind


def _cell(kind: Any, cell: str | None) -> Any:
    if cell is None:
        raise ValueError("the row ends early")
    if cell == "":
        return None
    if kind is dict:
        found = json.loads(cell)
        if not isinstance(found, dict):
            raise ValueError("not an object")
        return found
    if kind is float:
        number = float(cell)
        return number if math.isfinite(number) else None
    return kind(cell)
