"""Frozen dataclasses ↔ TOML: read with the file and field in every complaint, written with every field.

A field of type dict[str, str] is a table of any depth in the file (`ilbrl.lam = …` or `[search.ranges.ilbrl]`) and flat
in memory (`"ilbrl.lam"`); its values are kept as text.
"""

from __future__ import annotations

import json
import math
import re
import tomllib
import types
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from ilbrl.base.errors import IlbrlError
from ilbrl.base.files import written_whole

T = TypeVar("T")
_BARE = re.compile(r"[A-Za-z0-9_-]+")


def read(cls: type[T], path: Path) -> T:
    """An instance of `cls` from a file; what the file does not name keeps its default."""
    try:
        table = tomllib.loads(path.read_text())
    except OSError as error:
        raise IlbrlError(f"{path}: cannot be read ({error.strerror or error})") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise IlbrlError(f"{path}: not a TOML file: {error}") from None
    try:
        return from_table(cls, table)
    except IlbrlError as error:
        raise IlbrlError(f"{path}: {error}") from None


def from_table(cls: type[T], table: dict[str, Any], prefix: str = "") -> T:
    """An instance of the dataclass `cls` from a parsed table."""
    hints = get_type_hints(cls)
    known = [f.name for f in fields(cls)]  # pyright: ignore[reportArgumentType]
    values = {}
    for name, value in table.items():
        if name not in known:
            raise IlbrlError(f"{prefix}{name}: no such field; there are {', '.join(known)}")
        values[name] = _convert(hints[name], value, f"{prefix}{name}")
    return cls(**values)


def write(instance: Any, path: Path) -> None:
    with written_whole(path) as partial:
        partial.write_text(to_text(instance))


def to_text(instance: Any) -> str:
    """Every field that has a value: plain ones first, tables of text as dotted keys, then the tables below."""
    lines, tables = [], []
    for f in fields(instance):
        value = getattr(instance, f.name)
        if is_dataclass(value):
            tables.append(f"\n[{f.name}]\n{to_text(value)}")
        elif isinstance(value, dict):
            lines += [f"{f.name}.{_key(key)} = {_literal(text)}" for key, text in value.items()]
        elif value is not None:
            lines.append(f"{f.name} = {_literal(value)}")
    return "\n".join([*lines, ""]) + "".join(tables)


def differences(old: Any, new: Any, prefix: str = "") -> list[str]:
    """`field: old → new` for everything in which two instances differ."""
    found = []
    for f in fields(old):
        before, after, where = getattr(old, f.name), getattr(new, f.name), f"{prefix}{f.name}"
        if is_dataclass(before):
            found += differences(before, after, f"{where}.")
        elif isinstance(before, dict):
            names = [name for name in before | after if before.get(name) != after.get(name)]
            found += [f"{where}.{n}: {before.get(n, 'not set')} → {after.get(n, 'not set')}" for n in names]
        elif before != after:
            found.append(f"{where}: {before} → {after}")
    return found


def _key(dotted: str) -> str:
    return ".".join(part if _BARE.fullmatch(part) else json.dumps(part) for part in dotted.split("."))


def _literal(value: Any) -> str:
    """A TOML value; JSON's spelling of texts, finite numbers, truth values and lists is also TOML's."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)  # inf, -inf, nan
    return json.dumps(list(value) if isinstance(value, tuple) else value, ensure_ascii=False)


def _convert(hint: Any, value: Any, where: str) -> Any:
    if is_dataclass(hint):
        if not isinstance(value, dict):
            raise IlbrlError(f"{where}: is a table of settings, not {value!r}; write [{where}] above them")
        return from_table(hint, value, f"{where}.")  # pyright: ignore[reportArgumentType]
    origin = get_origin(hint)
    if origin is dict:
        return _flat(value, where)
    if origin is types.UnionType:
        return None if value is None else _convert(next(t for t in get_args(hint) if t is not type(None)), value, where)
    if origin is Literal:
        if value not in get_args(hint):
            raise IlbrlError(f"{where}: {value!r} is not one of {', '.join(map(str, get_args(hint)))}")
        return value
    if origin is tuple:
        if not isinstance(value, list):
            raise IlbrlError(f"{where}: must be a list, got {value!r}")
        return tuple(_convert(get_args(hint)[0], item, where) for item in value)
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, hint) or (hint is int and isinstance(value, bool)):
        kinds = {int: "a whole number", float: "a number", str: "text in quotes", bool: "true or false"}
        raise IlbrlError(f"{where}: must be {kinds[hint]}, got {value!r}")
    return value


def _flat(table: Any, where: str) -> dict[str, str]:
    if not isinstance(table, dict):
        raise IlbrlError(f"{where}: is a table of settings, not {table!r}; write [{where}] above them")
    flat: dict[str, str] = {}
    for key, value in table.items():
        if isinstance(value, dict):
            flat |= {f"{key}.{name}": text for name, text in _flat(value, f"{where}.{key}").items()}
        else:
            flat[key] = value if isinstance(value, str) else json.dumps(value)
    return flat
