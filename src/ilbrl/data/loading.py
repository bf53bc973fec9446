"""From a short text to a Dataset, and back to a file.

hopper/medium                 a built-in benchmark dataset
logs.hdf5                     a file; its format is told by its suffix and its fields
minari:mujoco/hopper/expert-v0     the format said aloud
robomimic:lift.hdf5#train     one filter (`mask/train`) of a robomimic file
logs.hdf5:18ep                its first 18 episodes
hopper/medium:400000          its first 400,000 transitions (or `:400000steps`)
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

Unit = Literal["transitions", "episodes"]
_COUNT = re.compile(r":(\d[\d_]*)(ep|steps)?$")
_UNITS: dict[str, Unit] = {"ep": "episodes", "steps": "transitions"}


@dataclass(frozen=True)
class Spec:
    """What a dataset text says: [format:]where[:count]."""

    where: str
    format: str | None = None
    count: int | None = None
    unit: Unit = "transitions"


def parse(text: str, count_in: Unit = "transitions") -> Spec:
    prefix, _, rest = text.partition(":")
    format = prefix if rest and prefix in FORMATS else None
    where = text if format is None else rest
    counted = _COUNT.search(where)
    if counted is None or Path(where).exists():  # a file may be named like this
        return Spec(where, format)
    unit = _UNITS.get(counted[2], count_in)
    return Spec(where[: counted.start()], format, int(counted[1]), unit)


def load(what: str | Path, *, count_in: Unit = "transitions", quiet: bool = False) -> Dataset:
    """Read a built-in dataset, a file or a prefixed text (see the top of this module).

    `count_in` is the unit of a bare `:N`. Asking for more than there is is an error, not a shorter dataset.
    """
    spec = parse(str(what), count_in)
    if spec.count == 0:
        raise IlbrlError(f"{what}: asks for no {spec.unit} at all")
    return _first(_whole(spec, quiet), spec)


def _whole(spec: Spec, quiet: bool) -> Dataset:
    if spec.format is None and not Path(spec.where).exists():  # your own folder hopper/medium comes first
        from ilbrl.data import benchmark

        if benchmark.is_benchmark(spec.where):
            return benchmark.load_benchmark(spec.where, _enough(spec), quiet=quiet)
    if Path(spec.where).is_file():
        require_readable(Path(spec.where))
    try:
        return FORMATS[spec.format or detect(Path(spec.where))].read(Path(spec.where))
    except IlbrlError:
        raise
    except Exception as error:  # there is hardly an exception that a damaged file cannot draw from h5py or zipfile
        reason = next(iter(str(error).splitlines()), "") or type(error).__name__
        raise IlbrlError(f"{spec.where}: cannot be read ({reason}); it may be damaged: copy it again") from error


def _enough(spec: Spec) -> int | None:
    """How many transitions of a built-in dataset to collect: fewer are the first rows of more."""
    if spec.count is None or spec.unit == "transitions":
        return spec.count
    return spec.count * 1000  # no episode is longer


def _first(dataset: Dataset, spec: Spec) -> Dataset:
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
        if path.suffix.lower() in format.suffixes:
            return name
    raise IlbrlError(f"{path}: its name does not tell a format; end it in .npz or .hdf5, or write minari:{path}")
