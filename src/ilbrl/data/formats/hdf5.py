"""Writing HDF5 files, opening them and reading their arrays, with errors that name file and field.

A file from a stranger must not make us read other files: HDF5 can point elsewhere by external links, external storage
and virtual datasets, and all three are refused.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import h5py
import h5py.h5l
import numpy as np

from ilbrl.base.errors import IlbrlError
from ilbrl.data.on_disk import hdf5_array


@contextmanager
def opened(path: Path) -> Iterator[h5py.File]:
    """The file, open for reading; anything that is no whole HDF5 file is refused in one sentence."""
    if path.is_dir():
        raise IlbrlError(f"{path}: is a folder; name the file inside it")
    if not path.is_file():
        raise IlbrlError(f"{path}: no such file")
    if path.stat().st_size == 0:
        raise IlbrlError(f"{path}: is an empty file")
    if not h5py.is_hdf5(path):
        raise IlbrlError(f"{path}: is not an HDF5 file, whatever its name says; check how it was written or downloaded")
    with h5py.File(path, "r") as file:
        _refuse_external_links(file, path)
        yield file


@contextmanager
def composed(path: Path, track_order: bool = False) -> Iterator[h5py.File]:
    """A new file, put together in memory and then written: HDF5 takes the whole process down where a disk is full."""
    memory = io.BytesIO()
    with h5py.File(memory, "w", track_order=track_order) as file:
        yield file
    path.write_bytes(memory.getbuffer())


def read_array(group: h5py.Group, name: str) -> np.ndarray:
    """One numeric array, floats as float32: HDF5 converts while it reads, so nothing is held twice.

    A large one may stay in the file (`on_disk.py`).
    """
    dataset = _own(group, name)
    if dataset.dtype.kind not in "biuf":
        where = _where(group, name)
        raise IlbrlError(f"{where} holds {dataset.dtype} values, not numbers; store a plain numeric array")
    mapped = hdf5_array(dataset)
    if mapped is not None:
        return mapped
    array = np.empty(dataset.shape, np.float32 if dataset.dtype.kind == "f" else dataset.dtype)
    if array.size:
        dataset.read_direct(array)
    return array


def _own(group: h5py.Group, name: str) -> h5py.Dataset:
    """One field whose values lie in this file, and may fit into it."""
    dataset, where = group[name], _where(group, name)
    if not isinstance(dataset, h5py.Dataset):
        raise IlbrlError(f"{where} is a group of fields, expected one array")
    if dataset.is_virtual or dataset.external:
        raise IlbrlError(f"{where} keeps its values in another file, which is not read; copy them into this one")
    if dataset.nbytes > max(2**30, 5000 * Path(group.file.filename).stat().st_size):
        raise IlbrlError(f"{where} says it has shape {dataset.shape}, far more than its file can hold")
    return dataset


def _where(group: h5py.Group, name: str) -> str:
    return f"{group.file.filename}: {f'{group.name}/{name}'.lstrip('/')}"


def read_rows(group: h5py.Group, name: str) -> np.ndarray:
    """One array that has a row per step."""
    array = read_array(group, name)
    if not array.ndim:
        raise IlbrlError(f"{_where(group, name)} is a single number; one row per step is needed")
    return array


def leaves(group: h5py.Group) -> dict[str, h5py.Dataset]:
    """The arrays of a group and of the groups in it, by path; what lies deeper is not looked at."""
    found: dict[str, h5py.Dataset] = {}
    for name, item in group.items():
        inside = {f"{name}/{key}": each for key, each in item.items()} if isinstance(item, h5py.Group) else {name: item}
        found |= {path: each for path, each in inside.items() if isinstance(each, h5py.Dataset)}
    return found


def read_text(group: h5py.Group, name: str) -> str:
    """One string, however it was stored."""
    value = _own(group, name)[()]
    return value.decode() if isinstance(value, bytes) else str(value)


def read_texts(group: h5py.Group, name: str) -> list[str]:
    """A list of strings, however they were stored."""
    values = np.atleast_1d(np.asarray(_own(group, name))).tolist()
    return [value.decode() if isinstance(value, bytes) else str(value) for value in values]


def _refuse_external_links(file: h5py.File, path: Path) -> None:
    def look(name: bytes, link: Any) -> str | None:
        return name.decode(errors="replace") if link.type == h5py.h5l.TYPE_EXTERNAL else None

    found = file.id.links.visit(look, info=True)
    if found is not None:
        raise IlbrlError(f"{path}: {found} is a link into another file, which is not followed; copy it into this one")
