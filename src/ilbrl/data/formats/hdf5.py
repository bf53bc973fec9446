"""Writing HDF5 files, opening them and reading their arrays, with errors that name file and field."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import h5py
import numpy as np

from ilbrl.base.errors import IlbrlError


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
        yield file


@contextmanager
def composed(path: Path, track_order: bool = False) -> Iterator[h5py.File]:
    """A new file, put together in memory and then written: HDF5 takes the whole process down where a disk is full."""
    memory = io.BytesIO()
    with h5py.File(memory, "w", track_order=track_order) as file:
        yield file
    path.write_bytes(memory.getbuffer())


def read_array(group: h5py.Group, name: str) -> np.ndarray:
    """One numeric array, floats as float32: HDF5 converts while it reads, so nothing is held twice."""
    dataset = group[name]
    where = f"{group.file.filename}: {f'{group.name}/{name}'.lstrip('/')}"
    if not isinstance(dataset, h5py.Dataset):
        raise IlbrlError(f"{where} is a group of fields, expected one array")
    if dataset.dtype.kind not in "biuf":
        raise IlbrlError(f"{where} holds {dataset.dtype} values, not numbers; store a plain numeric array")
    array = np.empty(dataset.shape, np.float32 if dataset.dtype.kind == "f" else dataset.dtype)
    if array.size:
        dataset.read_direct(array)
    return array


def read_text(group: h5py.Group, name: str) -> str:
    """One string, however it was stored."""
    value = group[name][()]  # pyright: ignore[reportIndexIssue]
    return value.decode() if isinstance(value, bytes) else str(value)
