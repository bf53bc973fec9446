"""File formats, each by the field names of its own ecosystem. One file per format; the dict is the registry."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import h5py

from ilbrl.base.errors import IlbrlError
from ilbrl.data.dataset import Dataset
from ilbrl.data.formats import d4rl, hdf5, imitation, minari, npz, robomimic, tables
from ilbrl.data.reading import Reading


@dataclass(frozen=True)
class Format:
    """What a prefix such as `d4rl:` stands for. Where formats share a suffix, the first is the one written."""

    what: str
    suffixes: tuple[str, ...]
    read: Callable[[Path], Dataset]
    write: Callable[[Dataset, Path], None] | None = None
    read_as: Callable[[Path, Reading], Dataset] | None = None  # takes names of fields and a time limit


FORMATS = {
    "npz": Format("NumPy npz with the names of a Dataset, or D4RL's", (".npz",), npz.read, npz.write, npz.read),
    "d4rl": Format("D4RL HDF5", (".hdf5", ".h5"), d4rl.read, d4rl.write, d4rl.read),
    "minari": Format("a Minari folder or id", (), minari.read, minari.write),
    "imitation": Format("flat npz of the imitation library", (".npz",), imitation.read),
    "robomimic": Format("robomimic HDF5, #FILTER for one of its masks", (".hdf5", ".h5"), robomimic.read),
    "csv": Format(
        "CSV with named columns, also .csv.gz", (".csv", ".csv.gz", ".tsv"), tables.read_csv, read_as=tables.read_csv
    ),
    "parquet": Format(
        "Parquet with named columns", (".parquet", ".pq"), tables.read_parquet, read_as=tables.read_parquet
    ),
}


def detect(path: Path) -> str:
    """The format of a file or folder, from its suffix and, where several share one, from its fields."""
    if path.is_dir():
        if (path / "data" / minari.MAIN_FILE).is_file() or (path / minari.MAIN_FILE).is_file():
            return "minari"
        raise IlbrlError(f"{path}: is a folder, but not of a Minari dataset; name a file inside it")
    bare = path if path.exists() else Path(str(path).split("#")[0])
    if not bare.exists():
        raise IlbrlError(f"{path}: neither a file nor a built-in dataset (such as hopper/medium)")
    if not bare.is_file():
        raise IlbrlError(f"{path}: is neither a file nor a folder; pipes and devices are not read")
    name = bare.name.lower()
    if name.endswith(".npz") and zipfile.is_zipfile(bare):
        return "imitation" if {"obs.npy", "acts.npy"} <= _entries(bare) else "npz"
    if name.endswith((".hdf5", ".h5")) and h5py.is_hdf5(bare):
        return _hdf5_dialect(bare)
    for format_name, format in FORMATS.items():
        if name.endswith(format.suffixes) and format.suffixes:
            return format_name
    prefixes = ", ".join(f"{name}:" for name in FORMATS)
    raise IlbrlError(f"{path}: its name does not tell a format; put one of {prefixes} before it")


def _entries(path: Path) -> set[str]:
    with zipfile.ZipFile(path) as archive:
        return set(archive.namelist())


def _hdf5_dialect(path: Path) -> str:
    with hdf5.opened(path) as file:
        if isinstance(file.get("data"), h5py.Group):
            return "robomimic"
        return "minari" if "episode_0" in file else "d4rl"
