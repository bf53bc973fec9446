"""Records in files: JSON objects, TOML tables and CSV rows."""

from __future__ import annotations

import csv
import io
import json
import math
import re
import stat
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args, get_origin

from ilbrl.base.errors import IlbrlError
from ilbrl.base.files import written_whole
from ilbrl.base.records.plain import (
    LARGEST_INTEGER,
    UNIONS,
    HowToRead,
    Note,
    fields_of,
    fit,
    from_json,
    from_table,
    shown,
    to_plain,
)

T = TypeVar("T")
LARGEST_FILE = 2**31  # bytes
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


# --- text -------------------------------------------------------------------------------------------------------------


def read_text(path: Path, remedy: str = "") -> str:
    """The text of a regular file. A folder, a pipe, a device or a name that is too long is refused in a sentence."""
    way_out = f"; {remedy}" if remedy else ""
    try:
        found = path.stat()
        if not stat.S_ISREG(found.st_mode):
            raise IlbrlError(f"{shown(path)}: is not a regular file{way_out}")
        if found.st_size > LARGEST_FILE:
            raise IlbrlError(f"{shown(path)}: is too large ({found.st_size:,} bytes){way_out}")
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise IlbrlError(f"{shown(path)}: cannot be read ({error.strerror or error}){way_out}") from None
    except ValueError as error:  # not UTF-8, or a NUL in the name
        raise IlbrlError(f"{shown(path)}: is not a text file ({shown(error)}){way_out}") from None


def write_text(path: Path, text: str) -> None:
    with written_whole(path) as partial:
        try:
            partial.write_text(text, encoding="utf-8")
        except UnicodeEncodeError:
            raise IlbrlError(f"{path}: cannot be written: its text is not Unicode") from None


# --- JSON -------------------------------------------------------------------------------------------------------------


def parse_json(text: str, file: str, remedy: str = "") -> Any:
    """What a JSON text holds; whatever is wrong with it is one sentence."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        what = f"at line {error.lineno} ({error.msg})"
    except RecursionError:
        what = "(it is nested too deep)"
    except ValueError as error:  # an integer of thousands of digits
        what = f"({shown(error)})"
    raise IlbrlError(f"{file}: is damaged {what}{remedy and '; '}{remedy}")


def read_json(path: Path, kind: type[T], remedy: str = "") -> T:
    """The record in a JSON file, strictly."""
    return from_json(kind, parse_json(read_text(path, remedy), str(path), remedy), str(path), remedy)


def write_json(path: Path, record: Any) -> None:
    write_text(path, json.dumps(to_plain(record), indent=1, ensure_ascii=False, allow_nan=False) + "\n")


# --- TOML -------------------------------------------------------------------------------------------------------------


def read_toml(path: Path, kind: type[T], renamed: Mapping[str, str] | None = None) -> T:
    """The record in a TOML file, strictly; what the file does not name keeps its default.

    renamed: a field that is no more → what has its place.
    """
    text = read_text(path)
    try:
        table = tomllib.loads(text)
    except RecursionError:
        raise IlbrlError(f"{path}: not a TOML file: it is nested too deep") from None
    except ValueError as error:  # also an integer of thousands of digits
        raise IlbrlError(f"{path}: not a TOML file: {shown(error)}") from None
    return from_table(kind, table, str(path), renamed)


def write_toml(path: Path, record: Any) -> None:
    write_text(path, toml_text(record))


def toml_text(record: Any, table: str = "") -> str:
    """Every field that has a value: plain ones first, tables of text as dotted keys, then the tables below `table`."""
    lines, tables = [], []
    for f in fields(record):
        value = getattr(record, f.name)
        if is_dataclass(value):
            tables.append(f"\n[{table}{f.name}]\n{toml_text(value, f'{table}{f.name}.')}")
        elif isinstance(value, dict):
            lines += [f"{f.name}.{_key(key)} = {_literal(text)}" for key, text in value.items()]
        elif value is not None:
            lines.append(f"{f.name} = {_literal(value)}")
    return "\n".join([*lines, ""]) + "".join(tables)


def _key(dotted: str) -> str:
    return ".".join(part if _BARE_KEY.fullmatch(part) else json.dumps(part) for part in dotted.split("."))


def _literal(value: Any) -> str:
    """A TOML value; JSON's spelling of texts, finite numbers, truth values and lists is also TOML's."""
    return json.dumps(list(value) if isinstance(value, tuple) else value, ensure_ascii=False, allow_nan=False)


# --- CSV --------------------------------------------------------------------------------------------------------------


def write_csv(path: Path, kind: type, rows: Iterable[Any]) -> None:
    """Rows of the record `kind` (or sequences in its order), a column per field."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(fields_of(kind))
    writer.writerows([_cell_text(each) for each in row] for row in rows)
    write_text(path, text.getvalue())


def _cell_text(value: Any) -> Any:
    value = to_plain(value)
    if isinstance(value, dict | list):
        return json.dumps(value, sort_keys=True, allow_nan=False)
    return int(value) if isinstance(value, bool) else value  # csv writes None as an empty cell, floats exactly


def read_csv(path: Path, kind: type[T], note: Note | None = None, remedy: str = "") -> list[T]:
    """The rows of a CSV file as NamedTuples of type `kind`; columns whose field has a default may be missing.

    Tolerant (`note` is given): rows that do not fit, as the last one of a file cut short, are left out; noted once.
    """
    file, text = str(path) if note is None else path.name, read_text(path, remedy)
    reader = csv.DictReader(io.StringIO(text, newline=""))
    rows, bad = [], []
    try:
        columns = {name: (_cell(name, hint), default) for name, (hint, default) in fields_of(kind).items()}
        present = reader.fieldnames or ()
        if absent := [name for name, (_, default) in columns.items() if not default and name not in present]:
            raise IlbrlError(f"{file}: has no column {', '.join(absent)}{remedy and '; '}{remedy}")
        readers = [(name, read) for name, (read, _) in columns.items() if name in present]
        for cells in reader:
            try:
                rows.append(kind(**{name: read(cells[name]) for name, read in readers}))
            except (ValueError, TypeError, RecursionError) as misfit:
                bad.append((reader.line_num, shown(misfit)))
    except csv.Error as error:
        bad.append((reader.line_num, shown(error)))
    if bad and note is None:
        raise IlbrlError(f"{file}: line {bad[0][0]}: {bad[0][1]}{remedy and '; '}{remedy}")
    if bad and note is not None:
        found = f"{len(bad)} unreadable row{'s' * (len(bad) > 1)}"
        note(f"{file}: {found}, first in line {bad[0][0]} ({bad[0][1]}), left out.")
    return rows


def _cell(name: str, hint: Any) -> Callable[[str | None], Any]:
    """A reader of the cells of one column; raises ValueError where a cell does not fit."""
    optional = get_origin(hint) in UNIONS
    kind = next(t for t in get_args(hint) if t is not type(None)) if optional else hint
    convert = _CELLS.get(get_origin(kind) or kind) or kind

    def read(cell: str | None) -> Any:
        if cell is None:
            raise ValueError("the row ends early")
        value = convert(cell) if cell else None
        if value is None and not optional:
            raise ValueError(f"{name} is {'not finite' if cell else 'empty'}")
        if get_origin(kind) is Literal and value not in (None, *get_args(kind)):
            raise ValueError(f"{shown(value)} is none of {', '.join(get_args(kind))}")
        return value

    return read


def _number(cell: str) -> float | None:
    value = float(cell)
    return value if math.isfinite(value) else None


def _whole(cell: str) -> int:
    value = int(cell)
    if abs(value) > LARGEST_INTEGER:
        raise ValueError("an integer of more than 64 bits")
    return value


def _object(cell: str) -> dict[str, Any]:
    return fit(dict[str, Any], json.loads(cell), "", HowToRead("a cell"))


_CELLS: dict[Any, Callable[[str], Any]] = {
    float: _number, int: _whole, str: str, Literal: str, dict: _object, bool: lambda cell: bool(_whole(cell)),
}  # fmt: skip
