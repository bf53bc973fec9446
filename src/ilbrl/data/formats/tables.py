"""Tables in files: Parquet, and CSV with commas, semicolons or tabs. `frame.py` says what their columns mean."""

from __future__ import annotations

import csv
import gzip
import os
import re
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ilbrl.base.errors import IlbrlError
from ilbrl.data.dataset import Dataset
from ilbrl.data.formats.frame import from_frame
from ilbrl.data.on_disk import ParquetColumns
from ilbrl.data.reading import Reading

if TYPE_CHECKING:
    import pandas as pd

_SEPARATORS = (",", ";", "\t")
_LONGEST_LINE = 10_000_000  # bytes


def read_csv(path: Path, reading: Reading = Reading()) -> Dataset:  # noqa: B008 - immutable
    return _read(path, "CSV", reading, _csv_frame)


def read_parquet(path: Path, reading: Reading = Reading()) -> Dataset:  # noqa: B008 - immutable
    def table(pandas: Any, path: Path, notes: list[str]) -> Any:
        return ParquetColumns(path) if ParquetColumns.is_large(path) else pandas.read_parquet(path)

    return _read(path, "Parquet", reading, table)


def _csv_frame(pandas: Any, path: Path, notes: list[str]) -> pd.DataFrame:
    """The table as it is written: pandas renames columns of the same name, and takes a column too many for labels."""
    with gzip.open(path, "rb") if path.suffix.lower() == ".gz" else path.open("rb") as file:
        heading, first = (file.readline(_LONGEST_LINE).decode("utf-8") for _ in range(2))
    separator = max(_SEPARATORS, key=heading.count)
    decimal = "," if separator != "," and re.search(r"\d,\d", first) else "."
    if (separator, decimal) != (",", "."):
        named = {";": "semicolons", "\t": "tabs"}[separator]
        notes.append(f"columns are separated by {named}{', numbers have a decimal comma' * (decimal == ',')}")
    frame = pandas.read_csv(path, sep=separator, decimal=decimal)
    if not isinstance(frame.index, pandas.RangeIndex):
        raise IlbrlError(f"{path}: its rows have more cells than its first line has names; name every column")
    options = {"header": None, "nrows": 1, "dtype": str, "keep_default_na": False}
    frame.columns = pandas.read_csv(path, sep=separator, **options).iloc[0]
    _refuse_cut(frame, path, separator, notes)
    return frame


def _refuse_cut(frame: pd.DataFrame, path: Path, separator: str, notes: list[str]) -> None:
    """A file cut off in its last row: pandas fills up the cells that are not there."""
    packed = path.suffix.lower() == ".gz"
    if not len(frame) or (packed and not frame.iloc[-1].isna().any()):  # unpacking it again only for this takes long
        return
    with gzip.open(path, "rb") if packed else path.open("rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - _LONGEST_LINE))
        text = file.read().decode("utf-8", errors="replace")
    last = re.split(r"[\r\n]", text.rstrip("\r\n"))[-1]
    try:
        cells = len(next(csv.reader([last], delimiter=separator), []))
    except csv.Error:  # a cell of more than 100,000 letters
        return
    if cells < frame.shape[1] and last.count('"') % 2 == 0:  # an odd one: the end of a cell of several lines
        raise IlbrlError(
            f"{path}: row {len(frame) - 1}, the last one, has {cells} of {frame.shape[1]} cells: the file was cut off"
            " there; copy it again, or remove that row"
        )
    if not text.endswith(("\r", "\n")):
        notes.append("the last row has no line end; if the file was cut off there, its last cell is incomplete")


def _read(path: Path, kind: str, reading: Reading, read: Callable[[Any, Path, list[str]], Any]) -> Dataset:
    if not path.is_file():
        raise IlbrlError(f"{path}: {'is a folder; name the file inside it' if path.is_dir() else 'no such file'}")
    try:
        import pandas
    except ImportError:
        raise IlbrlError(f"{path}: reading {kind} needs pandas: pip install 'ilbrl[frames]'") from None
    notes: list[str] = []
    try:
        frame = read(pandas, path, notes)
    except UnicodeDecodeError as error:
        raise IlbrlError(f"{path}: is not UTF-8 text ({error.reason}); save it as UTF-8") from None
    except (EOFError, zlib.error) as error:
        raise IlbrlError(f"{path}: the file is cut off or damaged ({error}); copy it again") from None
    except (ValueError, OSError, ImportError) as error:  # what pandas and pyarrow raise on damaged files
        reason = str(error).splitlines()[0].rstrip(".") if str(error) else type(error).__name__
        raise IlbrlError(f"{path}: cannot be read as {kind} ({reason})") from None
    limit = reading.max_episode_steps
    return from_frame(frame, reading.names, max_episode_steps=limit, source=path.name, notes=notes)
