"""Large arrays stay in their file: the same dataset, page by page."""

import io
import mmap
import zipfile

import h5py
import numpy as np
import pytest

from ilbrl.base.errors import IlbrlError
from ilbrl.data import concatenate, load, on_disk, save, to_frame


@pytest.fixture(autouse=True)
def everything_is_large(monkeypatch):
    monkeypatch.setattr(on_disk, "LARGE", 1)


def lies_in_a_file(array: np.ndarray) -> bool:
    held = array
    while isinstance(held, np.ndarray):
        held = held.base
    return isinstance(held, mmap.mmap)


@pytest.mark.parametrize("suffix", ["npz", "hdf5"])
def test_a_mapped_dataset_is_the_same(suffix, full, tmp_path, monkeypatch):
    path = save(full, tmp_path / f"logs.{suffix}")
    mapped = load(path)
    assert all(lies_in_a_file(array) for array in (mapped.observations, mapped.actions, mapped.next_observations))
    assert mapped.content_hash == full.content_hash
    assert on_disk.is_mapped(mapped)
    assert not on_disk.is_mapped(concatenate([mapped, mapped]))
    on_disk.release(mapped)
    on_disk.release(full)
    assert np.array_equal(mapped.observations, full.observations)  # its pages come again
    monkeypatch.setattr(on_disk, "LARGE", 10**6)
    assert not on_disk.is_mapped(load(path))


def test_parquet_is_unpacked_column_by_column(full, tmp_path, monkeypatch):
    path = tmp_path / "logs.parquet"
    to_frame(full.episodes([0, 1])).to_parquet(path)
    mapped = load(path)
    assert all(lies_in_a_file(array) for array in (mapped.observations, mapped.actions, mapped.next_observations))
    monkeypatch.setattr(on_disk, "LARGE", 10**6)
    assert not on_disk.is_mapped(load(path))
    assert mapped.content_hash == load(path).content_hash


def test_float64_is_converted_from_the_file(tmp_path):
    path = tmp_path / "logs.npz"
    columns = {"observations": np.arange(6.0).reshape(3, 2), "actions": np.ones((3, 1)), "terminals": [0, 0, 1]}
    np.savez(path, **columns)
    assert load(path).observations.dtype == np.float32
    assert load(path).observations.tolist() == columns["observations"].tolist()


@pytest.mark.parametrize("kind", ["compressed npz", "column by column", "chunked hdf5"])
def test_what_cannot_be_mapped_is_read(kind, full, tmp_path):
    path = tmp_path / ("logs.hdf5" if "hdf5" in kind else "logs.npz")
    columns = {name: getattr(full, name) for name in ("observations", "actions", "terminals", "timeouts")}
    if "hdf5" in kind:
        with h5py.File(path, "w") as file:
            for name, column in columns.items():
                file.create_dataset(name, data=column, compression="gzip")
    elif "compressed" in kind:
        np.savez_compressed(path, **columns)
    else:
        np.savez(path, **{name: np.asfortranarray(column) for name, column in columns.items()})
    found = load(path)
    assert not on_disk.is_mapped(found)
    assert np.array_equal(found.observations[0], full.observations[0])


def test_a_file_that_claims_more_than_it_holds_is_not_mapped(tmp_path):
    path = tmp_path / "logs.npz"
    heading = io.BytesIO()
    np.lib.format.write_array_header_1_0(heading, {"descr": "<f4", "fortran_order": False, "shape": (9, 9)})
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("observations.npy", heading.getvalue() + bytes(8))
    with zipfile.ZipFile(path) as archive:
        assert on_disk.npz_array(archive, path, "observations") is None


def test_damage_is_noticed(full, tmp_path):
    path = save(full, tmp_path / "logs.npz")
    damaged = bytearray(path.read_bytes())
    place = damaged.index(full.observations.tobytes())
    damaged[place] ^= 1
    path.write_bytes(damaged)
    with pytest.raises(IlbrlError, match="it may be damaged"):
        load(path)
