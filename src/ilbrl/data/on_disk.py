"""Logs larger than memory: large arrays stay in their file, and the system brings the pages that are used.

An array of at least `LARGE` bytes in an npz file that is not compressed, or in an HDF5 file that is neither compressed
nor chunked, is mapped instead of read. The Dataset is the same; nobody may change its file while it is in use.
Parquet files are unpacked column by column into a temporary file, which is mapped.
"""

from __future__ import annotations

import mmap
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from ilbrl.data.dataset import PER_ROW, Dataset

LARGE = 2**28  # bytes of an array
CHUNK = 2**24


def npz_array(archive: zipfile.ZipFile, path: Path, name: str) -> np.ndarray | None:
    """An array of an open npz archive, mapped; None: it is small, compressed, or not laid out as it is in memory."""
    entry = archive.getinfo(f"{name}.npy")
    if entry.file_size < LARGE or entry.compress_type != zipfile.ZIP_STORED:
        return None
    with archive.open(entry) as file:
        version = np.lib.format.read_magic(file)
        if version not in ((1, 0), (2, 0)):
            return None
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, fortran_order, dtype = read(file)
        heading = file.tell()
        while file.read(CHUNK):  # to the end, where the archive compares checksums: damage must not go unnoticed
            pass
    if fortran_order:
        return None
    with path.open("rb") as file:  # the entry's own header, whose length the archive's directory does not know
        file.seek(entry.header_offset + 26)
        lengths = np.frombuffer(file.read(4), "<u2")
    return _mapped(path, dtype, entry.header_offset + 30 + int(lengths.sum()) + heading, shape)


def hdf5_array(dataset: h5py.Dataset) -> np.ndarray | None:
    """A float32 array of an HDF5 file, mapped; None: it is small, of another type, or not in one piece."""
    offset = dataset.id.get_offset()
    if dataset.nbytes < LARGE or dataset.dtype != np.float32 or dataset.chunks is not None or offset is None:
        return None
    return _mapped(Path(dataset.file.filename), dataset.dtype, offset, dataset.shape)


def empty(shape: tuple[int, ...], dtype: type) -> np.ndarray:
    """An array to be filled; a large one lies in a temporary file, which is gone when nobody needs it any more."""
    if np.dtype(dtype).itemsize * int(np.prod(shape, dtype=object)) < LARGE:
        return np.empty(shape, dtype)
    with tempfile.TemporaryFile() as file:
        return np.memmap(file, dtype, "w+", shape=shape)


class ParquetColumns:
    """A Parquet file, used as a pandas frame is in `formats/frame.py`: a column is read when it is asked for."""

    def __init__(self, path: Path) -> None:
        import pyarrow.parquet

        self._file = pyarrow.parquet.ParquetFile(path)
        self.columns = [name for name in self._file.schema_arrow.names if not name.startswith("__index_level_")]

    @staticmethod
    def is_large(path: Path) -> bool:
        import pyarrow.parquet

        metadata = pyarrow.parquet.read_metadata(path)
        return sum(metadata.row_group(i).total_byte_size for i in range(metadata.num_row_groups)) >= LARGE

    def __len__(self) -> int:
        return self._file.metadata.num_rows

    @property
    def iloc(self) -> ParquetColumns:
        return self

    def __getitem__(self, place: tuple[slice, int]) -> Any:
        name = self.columns[place[1]]
        return self._file.read(columns=[name]).to_pandas()[name]


def _mapped(path: Path, dtype: np.dtype, offset: int, shape: tuple[int, ...]) -> np.ndarray | None:
    size = dtype.itemsize * int(np.prod(shape, dtype=object))
    if dtype.kind not in "biuf" or not dtype.isnative or offset + size > path.stat().st_size:
        return None
    return np.memmap(path, dtype, "r", offset, shape)


def is_mapped(dataset: Dataset) -> bool:
    """Whether a part of the dataset is still in its file."""
    return bool(_maps(dataset))


def release(dataset: Dataset) -> None:
    """Give back the memory of pages that were used; they come again from the file."""
    for pages in _maps(dataset):
        if hasattr(pages, "madvise"):  # not on Windows
            pages.madvise(mmap.MADV_DONTNEED)


def _maps(dataset: Dataset) -> list[mmap.mmap]:
    found = []
    for name in PER_ROW:
        array = getattr(dataset, name)
        while isinstance(array, np.ndarray):
            array = array.base
        found += [array] if isinstance(array, mmap.mmap) else []
    return found
