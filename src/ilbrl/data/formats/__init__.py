"""File formats, each by the field names of its own ecosystem. One file per format; this dict is the registry."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ilbrl.data.dataset import Dataset
from ilbrl.data.formats import d4rl, npz
from ilbrl.errors import IlbrlError


@dataclass(frozen=True)
class Format:
    """What a prefix such as `d4rl:` stands for."""

    what: str
    suffixes: tuple[str, ...]
    read: Callable[[Path], Dataset]
    write: Callable[[Dataset, Path], None] | None = None


FORMATS = {
    "npz": Format("NumPy npz with the names of a Dataset", (".npz",), npz.read, npz.write),
    "d4rl": Format("D4RL HDF5", (".hdf5", ".h5"), d4rl.read, d4rl.write),
}


def detect(path: Path) -> str:
    """The format of a file, from its suffix and, where several share one, from its fields."""
    for name, fmt in FORMATS.items():
        if path.suffix.lower() in fmt.suffixes:
            return name
    raise IlbrlError(
        f"{path}: cannot tell its format; say one of {', '.join(f'{n}:' for n in FORMATS)} before the path"
    )
