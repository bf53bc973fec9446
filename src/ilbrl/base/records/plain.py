"""Records to plain values and back: dataclasses and NamedTuples as dicts, lists, numbers and text.

Reading checks every value by the type hint of its field. What does not fit is a `Misfit`; a `HowToRead` says what to do
with it. Damaged and hostile values (integers of a thousand bits, lone surrogates, deep nesting) end there too.
"""

from __future__ import annotations

import json
import math
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar, Union, get_args, get_origin, get_type_hints

from ilbrl.base.errors import IlbrlError

T = TypeVar("T")
Note = Callable[[str], None]
"""Takes a sentence about something that could not be used."""

LARGEST_INTEGER = 2**63 - 1
UNIONS = (types.UnionType, Union)
_KINDS = {dict: "an object", tuple: "a list", float: "a number", int: "a whole number", str: "text"}


class Misfit(ValueError):
    """What does not fit, as `field: sentence`."""


class HowToRead(NamedTuple):
    """How to read: what to do with a misfit, with absent fields and with unknown names."""

    file: str
    note: Note | None = None  # None: strict
    whole: bool = False  # every field must be there
    closed: bool = False  # no other names may be there, and tables of text are flat
    renamed: Mapping[str, str] = types.MappingProxyType({})  # field that is no more → what has its place

    def leave_out(self, misfit: Misfit) -> None:
        """Note the misfit, or pass it on where reading is strict."""
        if self.note is None:
            raise misfit
        self.note(f"{self.file}: {misfit}; it is left out.")


def to_plain(value: Any) -> Any:
    """Records, arrays and numbers as dicts, lists and plain numbers; a number that is not finite becomes None."""
    if is_dataclass(value):
        return {f.name: to_plain(getattr(value, f.name)) for f in fields(value)}
    if hasattr(value, "_asdict"):
        return {name: to_plain(each) for name, each in value._asdict().items()}
    if isinstance(value, Mapping):
        return {str(name): to_plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [to_plain(each) for each in value]
    if hasattr(value, "tolist"):  # NumPy's arrays and numbers
        return to_plain(value.tolist())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return str(value) if isinstance(value, Path) else value


def from_json(kind: type[T], value: Any, file: str, remedy: str = "") -> T:
    """The record `kind` from a plain value, strictly: every field must be there and fit."""
    return _strictly(kind, value, HowToRead(file, whole=True), remedy)


def from_json_tolerantly(kind: type[T], value: Any, file: str, note: Note) -> T | None:
    """The record as far as it can be used; None where the whole of it cannot."""
    reading = HowToRead(file, note)
    try:
        return fit(kind, value, "", reading)
    except Misfit as misfit:
        reading.leave_out(misfit)
    except RecursionError:
        note(f"{file}: is nested too deep; it is left out.")
    return None


def from_table(kind: type[T], table: Mapping[str, Any], file: str, renamed: Mapping[str, str] | None = None) -> T:
    """The record from a table that a person wrote: what is absent keeps its default, unknown names are refused.

    renamed: a field that is no more → what has its place, for files of earlier days.
    """
    return _strictly(kind, table, HowToRead(file, closed=True, renamed=renamed or {}), "")


def _strictly(kind: type[T], value: Any, reading: HowToRead, remedy: str) -> T:
    try:
        return fit(kind, value, "", reading)
    except (Misfit, IlbrlError) as error:  # the record's own checks raise IlbrlError
        sentence = str(error)
    except RecursionError:
        sentence = "is nested too deep"
    raise IlbrlError(f"{reading.file}: {sentence}{remedy and '; '}{remedy}")


def _record(kind: type[T], value: Mapping[str, Any], where: str, reading: HowToRead) -> T:
    known = fields_of(kind)
    prefix = f"{where}." if where else ""
    if reading.closed and (unknown := [name for name in value if name not in known]):
        name = f"{prefix}{shown(unknown[0], bare=True)}"
        if name in reading.renamed:
            raise Misfit(f"{name}: is no longer a field; write {reading.renamed[name]} instead")
        raise Misfit(f"{name}: no such field; there are {', '.join(known)}")
    found = {}
    for name, (hint, default) in known.items():
        if name in value:
            try:
                found[name] = fit(hint, value[name], f"{prefix}{name}", reading)
            except Misfit as misfit:
                if not default:  # nothing can stand in for it: the whole record is left out
                    raise
                reading.leave_out(misfit)
    needed = [name for name, (_, default) in known.items() if reading.whole or not default]
    if lacking := [f"{prefix}{name}" for name in needed if name not in found]:
        raise Misfit(f"{', '.join(lacking)}: not there")
    return kind(**found)


@cache
def fields_of(kind: type) -> dict[str, tuple[Any, bool]]:
    """Field → its type, and whether it has a default."""
    hints = get_type_hints(kind)
    if is_dataclass(kind):
        return {
            f.name: (hints[f.name], f.default is not MISSING or f.default_factory is not MISSING)
            for f in fields(kind)
            if f.init
        }
    names, defaults = kind._fields, kind._field_defaults  # pyright: ignore[reportAttributeAccessIssue]
    return {name: (hints[name], name in defaults) for name in names}


def _is_record(kind: Any) -> bool:
    return isinstance(kind, type) and (is_dataclass(kind) or hasattr(kind, "_field_defaults"))


def fit(kind: Any, value: Any, where: str, reading: HowToRead) -> Any:
    """`value` as `kind`, or a misfit."""
    origin, inner = get_origin(kind), get_args(kind)
    if kind is Any:
        return _anything(value, where)
    if origin in UNIONS:  # X | None
        if value is None or _is_not_finite(value):
            return None
        return fit(next(t for t in inner if t is not type(None)), value, where, reading)
    if origin is Literal and value in inner:
        return value
    if origin is dict and isinstance(value, dict):
        if reading.closed and inner[1] in (str, Any):
            return _flat(value, where)
        return dict(_each(inner[1], value.items(), where, reading))
    if origin is tuple and isinstance(value, list):
        if inner[-1] is not Ellipsis and len(value) != len(inner):
            raise Misfit(_said(where, f"must be a list of {len(inner)}, got {len(value)}"))
        found = tuple(item for _, item in _each(inner[0], enumerate(value), where, reading))
        if inner[-1] is not Ellipsis and len(found) != len(inner):
            raise Misfit(_said(where, f"must be a list of {len(inner)}, of which {len(found)} can be used"))
        return found
    if _is_record(kind) and isinstance(value, dict):
        return _record(kind, value, where, reading)
    if kind is float and isinstance(value, int | float) and not isinstance(value, bool):
        if abs(value) <= LARGEST_INTEGER or (isinstance(value, float) and math.isfinite(value)):
            return float(value)
        raise Misfit(_said(where, f"must be a finite number, got {shown(value)}"))
    if kind is int and _is_whole(value):
        if abs(value) <= LARGEST_INTEGER:
            return int(value)
        raise Misfit(_said(where, f"must be a whole number of at most 64 bits, got {shown(value)}"))
    if kind is str and isinstance(value, str):
        return _text(value, where)
    if kind is bool and isinstance(value, bool):
        return value
    raise Misfit(_said(where, _wanted(kind, where, value, reading)))


def _each(kind: Any, items: Iterable[tuple[Any, Any]], where: str, reading: HowToRead) -> Iterator[tuple[Any, Any]]:
    for key, item in items:
        try:
            name = _text(key, where) if isinstance(key, str) else key
            yield name, fit(kind, item, f"{where}[{shown(key, bare=True)}]", reading)
        except Misfit as misfit:
            reading.leave_out(misfit)


def _anything(value: Any, where: str) -> Any:
    """Any plain value, made safe to print and to write again."""
    if isinstance(value, dict):
        return {_text(name, where): _anything(each, f"{where}.{name}") for name, each in value.items()}
    if isinstance(value, list):
        return [_anything(each, where) for each in value]
    if isinstance(value, str):
        return _text(value, where)
    if isinstance(value, int) and abs(value) > LARGEST_INTEGER:
        raise Misfit(_said(where, f"must be a number of at most 64 bits, got {shown(value)}"))
    return None if _is_not_finite(value) else value


def _flat(table: Mapping[str, Any], where: str) -> dict[str, str]:
    """A table of any depth with dotted keys and values as text: `[ranges.ilbrl] lam = 1` is {"ilbrl.lam": "1"}."""
    flat: dict[str, str] = {}
    for key, value in table.items():
        if isinstance(value, dict):
            flat |= {f"{key}.{name}": text for name, text in _flat(value, f"{where}.{key}").items()}
        elif isinstance(value, str | int | float | list):
            flat[key] = value if isinstance(value, str) else json.dumps(_anything(value, f"{where}.{key}"))
        else:
            raise Misfit(_said(f"{where}.{key}", f"must be text, a number or a list, got {shown(value)}"))
    return flat


def _text(value: str, where: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError:
        raise Misfit(_said(where, f"must be Unicode text, got {shown(value)}")) from None
    return value


def _is_not_finite(value: Any) -> bool:
    return isinstance(value, float) and not math.isfinite(value)


def _is_whole(value: Any) -> bool:
    return (isinstance(value, int) and not isinstance(value, bool)) or (isinstance(value, float) and value.is_integer())


def _wanted(kind: Any, where: str, value: Any, reading: HowToRead) -> str:
    if get_origin(kind) is Literal:
        return f"must be one of {', '.join(map(str, get_args(kind)))}, got {shown(value)}"
    if reading.closed and (_is_record(kind) or get_origin(kind) is dict):
        return f"is a table of settings, not {shown(value)}; write [{where}] above them"
    wanted = "true or false" if kind is bool else _KINDS.get(get_origin(kind) or kind, "an object")
    return f"must be {wanted}, got {shown(value)}"


def _said(where: str, sentence: str) -> str:
    return f"{where}: {sentence}" if where else sentence


def shown(value: Any, bare: bool = False) -> str:
    """A value in a sentence: short, and printable whatever it is."""
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list"
    if isinstance(value, int) and abs(value) > LARGEST_INTEGER:
        return f"an integer of {value.bit_length()} bits"
    text = str(value) if bare or not isinstance(value, str) else repr(value)
    text = text.encode(errors="backslashreplace").decode()
    return text if len(text) <= 80 else f"{text[:77]}…"


def differences(old: Any, new: Any, prefix: str = "") -> list[str]:
    """`field: old → new` for everything in which two records of one kind differ."""
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
