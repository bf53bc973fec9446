"""From a short text to a Dataset, and back to a file.

hopper/medium                 a built-in benchmark dataset
hopper/medium@7               other episodes of the same policy, collected with seed 7
logs.hdf5                     a file; its format is told by its suffix and its fields
minari:mujoco/hopper/expert-v0     the format said aloud
robomimic:lift.hdf5#train     one filter (`mask/train`) of a robomimic file
logs.hdf5:18ep                its first 18 episodes
hopper/medium:400000steps     its first 400,000 transitions; a number without a unit is refused
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ilbrl.base.errors import IlbrlError
from ilbrl.base.files import require_readable
from ilbrl.data.dataset import Dataset
from ilbrl.data.formats import FORMATS, detect
from ilbrl.data.reading import Reading

Unit = Literal["transitions", "episodes"]
_COUNT = re.compile(r":(\d{1,15}|\d{1,3}(?:_\d{3}){1,4})(ep|steps)$")
_ALMOST = re.compile(r":\d[\d_]*[a-z]{0,12}$")
_UNITS: dict[str, Unit] = {"ep": "episodes", "steps": "transitions"}


@dataclass(frozen=True)
class DatasetText:
    """What a dataset text says: [format:]where[:count]."""

    where: str
    format: str | None = None
    count: int | None = None
    unit: Unit = "transitions"


def parse(text: str) -> DatasetText:
    prefix, _, rest = text.partition(":")
    format = prefix if rest and prefix in FORMATS else None
    where = text if format is None else rest
    if _exists(where):  # a file may be named like a count
        return DatasetText(where, format)
    counted = _COUNT.search(where)
    if counted is not None:
        return DatasetText(where[: counted.start()], format, int(counted[1]), _UNITS[counted[2]])
    if almost := _ALMOST.search(where):
        number = re.sub(r"\D", "", almost[0])[:15]
        raise IlbrlError(
            f"{text}: after the colon stands how much to take: :{number}ep for the first episodes, :{number}steps for"
            " the first transitions"
        )
    return DatasetText(where, format)


def load(what: str | Path, reading: Reading | None = None, *, quiet: bool = False) -> Dataset:
    """Read a built-in dataset, a file or a prefixed text (see the top of this module).

    `reading` says what the file does not: names of columns, action bounds, the time limit. Asking for more than there
    is is an error, not a shorter dataset.
    """
    spec = parse(str(what))
    if spec.count == 0:
        raise IlbrlError(f"{what}: asks for no {spec.unit} at all")
    reading = (reading or Reading()).with_mapping()
    return _first(reading.completed(_whole(spec, reading, quiet)), spec)


def _exists(where: str) -> bool:
    try:
        return Path(where).exists()
    except (OSError, ValueError):  # a name too long for any file, or with a zero byte in it
        return False


def _whole(spec: DatasetText, reading: Reading, quiet: bool) -> Dataset:
    where, told = Path(spec.where), bool(reading.names) or reading.max_episode_steps is not None
    if spec.format is None and not _exists(spec.where):  # your own folder hopper/medium comes first
        from ilbrl.data import benchmark

        if benchmark.is_benchmark(spec.where):
            _refuse_names(told, spec.where, "a built-in dataset")
            return benchmark.load_benchmark(spec.where, _enough(spec), quiet=quiet)
    _refuse_long_name(where)
    try:
        if where.is_file():
            require_readable(where)
        name = spec.format or detect(where)
        format = FORMATS[name]
        if format.read_as is not None:
            return format.read_as(where, reading)
        _refuse_names(told, spec.where, f"a {name} file")
        return format.read(where)
    except IlbrlError:
        raise
    except Exception as error:  # there is hardly an exception that a damaged file cannot draw from h5py or zipfile
        reason = next(iter(str(error).splitlines()), "") or type(error).__name__
        raise IlbrlError(f"{spec.where}: cannot be read ({reason}); it may be damaged: copy it again") from error


def _refuse_long_name(path: Path) -> None:
    if any(len(part.encode(errors="replace")) > 255 for part in path.parts):
        raise IlbrlError(f"{str(path)[:80]}…: no file or folder has so long a name")


def _refuse_names(told: bool, where: str, kind: str) -> None:
    if told:
        raise IlbrlError(
            f"{where}: {kind} names its own fields and ends; --columns, a mapping of names and --max-episode-steps are"
            " for tables, npz and D4RL files"
        )


def _enough(spec: DatasetText) -> int | None:
    """How many transitions of a built-in dataset to collect: fewer are the first rows of more."""
    per_unit = 1000 if spec.unit == "episodes" else 1  # no episode is longer
    return None if spec.count is None else spec.count * per_unit


def _first(dataset: Dataset, spec: DatasetText) -> Dataset:
    if spec.count is None:
        return dataset
    available = dataset.num_episodes if spec.unit == "episodes" else len(dataset)
    if spec.count > available:
        raise IlbrlError(f"{spec.where}: holds {available:,} {spec.unit}, {spec.count:,} were asked for")
    if spec.unit == "episodes":
        return dataset.episodes(slice(0, spec.count))
    return dataset.transitions(0, spec.count)


def save(dataset: Dataset, path: str | Path, *, overwrite: bool = True) -> Path:
    """Write `dataset` whole or not at all, in the format of the suffix or of a prefix such as `minari:`."""
    spec = parse(str(path))
    where = Path(spec.where)
    if spec.count is not None:
        raise IlbrlError(f"{path}: how much to take is said of what is read, not of what is written")
    _refuse_long_name(where)
    format = spec.format or _format_to_write(where)
    write = FORMATS[format].write
    if write is None:
        able = ", ".join(name for name, candidate in FORMATS.items() if candidate.write)
        raise IlbrlError(f"{where}: {format} files can be read but not written; choose one of {able}")
    if where.exists() and not overwrite:
        raise IlbrlError(f"{where}: exists already; choose another name or say that it may be overwritten (--force)")
    write(dataset, where)
    return where


def _format_to_write(path: Path) -> str:
    for name, format in FORMATS.items():
        if format.suffixes and path.name.lower().endswith(format.suffixes):
            return name
    raise IlbrlError(f"{path}: its name does not tell a format; end it in .npz or .hdf5, or write minari:{path}")
