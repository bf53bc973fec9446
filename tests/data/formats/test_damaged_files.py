"""Files that are not what they seem: one clear sentence each, never a traceback."""

import gzip
import zipfile
from pathlib import Path

import h5py
import numpy as np
import pytest

from ilbrl.base.errors import IlbrlError
from ilbrl.data import Dataset, load, save

SUFFIXES = ["npz", "hdf5", "csv", "parquet"]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_an_empty_file(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"a.{suffix}"
    path.touch()
    with pytest.raises(IlbrlError, match=str(path)):
        load(path)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_text_under_another_name(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"a.{suffix}"
    path.write_text("<html>404 not found</html>\n" * 50)
    with pytest.raises(IlbrlError, match=path.name):
        load(path)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_folder(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"a.{suffix}"
    path.mkdir()
    for what in (path, f"{'d4rl' if suffix == 'hdf5' else suffix}:{path}"):
        with pytest.raises(IlbrlError, match="is a folder"):
            load(what)


@pytest.mark.parametrize("suffix", [*SUFFIXES, "unheard-of"])
def test_a_file_that_is_not_there(tmp_path: Path, suffix: str) -> None:
    with pytest.raises(IlbrlError, match="neither a file nor a built-in dataset"):
        load(tmp_path / f"a.{suffix}")


@pytest.mark.parametrize("suffix", ["npz", "hdf5"])
@pytest.mark.parametrize("kept", [0.1, 0.5, 0.9, 0.99])
def test_a_truncated_file(full: Dataset, tmp_path: Path, suffix: str, kept: float) -> None:
    path = save(full, tmp_path / f"a.{suffix}")
    content = path.read_bytes()
    path.write_bytes(content[: int(kept * len(content))])
    with pytest.raises(IlbrlError, match=str(path)):
        load(path)


@pytest.mark.parametrize("kept", [0.1, 0.5, 0.9, 0.99])
def test_a_truncated_table(tmp_path: Path, kept: float) -> None:
    rows = "".join(f"{k},{k % 7},0.1,{k // 50}\n" for k in range(500))
    content = gzip.compress(f"observation_0,observation_1,action_0,episode\n{rows}".encode())
    path = tmp_path / "a.csv.gz"
    path.write_bytes(content[: int(kept * len(content))])
    with pytest.raises(IlbrlError, match=r"a\.csv\.gz: the file is cut off or damaged .*; copy it again"):
        load(path)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("suffix", ["npz", "hdf5"])
def test_flipped_bytes_give_data_or_a_sentence(full: Dataset, tmp_path: Path, suffix: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    path = save(full, tmp_path / f"a.{suffix}")
    content = bytearray(path.read_bytes())
    for position in rng.integers(0, len(content), 30):
        content[position] = rng.integers(256)
    path.write_bytes(content)
    try:
        load(path)
    except IlbrlError as error:
        assert path.name in str(error)  # noqa: PT017 - either outcome is right


def test_a_field_of_objects(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.hdf5", "w") as file:
        file["observations"], file["actions"] = np.zeros((3, 1)), np.array(["left", "right", "left"], object)
    with pytest.raises(IlbrlError, match="actions holds object values, not numbers"):
        load(tmp_path / "a.hdf5")
    np.savez(tmp_path / "a.npz", observations=np.zeros((3, 1)), actions=np.array([None, 1, 2], object))
    with pytest.raises(IlbrlError, match="actions is a pickled object array"):
        load(tmp_path / "a.npz")


def test_one_name_for_two_arrays(full: Dataset, tmp_path: Path) -> None:
    """Only one of them would be read, and which one depends on the reader."""
    path = save(full, tmp_path / "a.npz")
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("observations", b"others")  # NumPy gives it the name of observations.npy
    with pytest.raises(IlbrlError, match=r"a\.npz: holds 'observations' twice"):
        load(path)


def test_missing_and_misshapen_fields(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", states=np.zeros((3, 1)), actions=np.zeros((3, 1)))
    with pytest.raises(IlbrlError, match="has no field 'observations', only states, actions"):
        load(tmp_path / "a.npz")
    with h5py.File(tmp_path / "a.hdf5", "w") as file:
        file["observations"], file["actions"], file["rewards"] = np.zeros((3, 1)), np.zeros((3, 1)), np.zeros(4)
    with pytest.raises(IlbrlError, match=r"a.hdf5: rewards has 4 rows, observations 3"):
        load(tmp_path / "a.hdf5")
