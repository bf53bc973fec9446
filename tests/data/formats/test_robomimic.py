"""robomimic HDF5 in its true layout."""

from pathlib import Path

import h5py
import numpy as np
import pytest

from ilbrl.base.errors import IlbrlError
from ilbrl.data import load


@pytest.fixture
def lift(tmp_path: Path) -> Path:
    """demo_2 (solved at its second of three steps) and demo_10 (never solved), with two vectors and one camera."""
    path = tmp_path / "lift.hdf5"
    with h5py.File(path, "w") as file:
        for name, first, dones in (("demo_10", 100, [0, 0]), ("demo_2", 0, [0, 1, 1])):
            steps = np.arange(len(dones)) + first
            demo = file.create_group(f"data/{name}")
            for group, at in (("obs", steps), ("next_obs", steps + 1)):
                demo[f"{group}/robot0_pos"] = np.stack([at, -at], 1)
                demo[f"{group}/object"] = at[:, None] + 0.5
                demo[f"{group}/camera_image"] = np.zeros((len(at), 4, 4, 3), np.uint8)
            demo["actions"], demo["rewards"], demo["dones"] = np.zeros((len(at), 7)), np.array(dones), np.array(dones)
        file["mask/train"] = np.array([b"demo_10"])
    return path


def test_vectors_are_joined_in_sorted_order(lift: Path) -> None:
    dataset = load(lift)
    assert dataset.observations.tolist() == [
        [0.5, 0, 0], [1.5, 1, -1], [2.5, 2, -2], [100.5, 100, -100], [101.5, 101, -101]
    ]  # fmt: skip
    assert dataset.next_observations[-1].tolist() == [102.5, 102, -102]
    assert dataset.terminals.tolist() == [False, False, True, False, False]
    assert dataset.timeouts.tolist() == [False, False, False, False, True]
    assert "object, robot0_pos" in dataset.notes[0]
    assert "camera_image were left out" in dataset.notes[1]


def test_a_filter_picks_its_demos(lift: Path) -> None:
    for what in (f"{lift}#train", f"robomimic:{lift}#train:2steps"):
        dataset = load(what)
        assert dataset.observations[:, 1].tolist() == [100, 101]
        assert dataset.source == "lift.hdf5#train"


def test_without_next_obs_the_following_row_is_used(lift: Path) -> None:
    with h5py.File(lift, "a") as file:
        del file["data/demo_2/next_obs"], file["data/demo_10/next_obs"]
    dataset = load(lift)
    assert dataset.next_observations[:, 1].tolist() == [1, 2, 2, 101]


def test_a_demo_is_an_episode_whatever_it_is_called(lift: Path) -> None:
    with h5py.File(lift, "a") as file:
        for old, new in (("demo_2", "alice"), ("demo_10", "bob")):
            file.move(f"data/{old}", f"data/{new}")
    assert load(lift).episode_lengths.tolist() == [3, 2]


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("mask/test", None, "has no filter 'valid' under 'mask', only test, train"),
        ("data/demo_10/obs/object", None, "/data/demo_10 has no obs/object"),
        ("data/demo_10/actions", np.zeros((2, 6)), r"actions of /data/demo_10 has rows of shape \(6,\)"),
        ("data/demo_10/actions", np.zeros((3, 7)), "3 actions but 2 observations"),
        ("data/demo_10/dones", np.array([0, np.nan]), "demo_10: dones must be true/false or 1/0, found nan in row 1"),
        ("data/demo_10/dones", np.float32(1), "dones is a single number"),
        ("data/demo_2/actions", None, "/data/demo_2 has no field 'actions'"),
    ],
)
def test_errors(lift: Path, path: str, value: np.ndarray | None, message: str) -> None:
    with h5py.File(lift, "a") as file:
        if path in file:
            del file[path]
        if value is not None:
            file[path] = value
        elif path.startswith("mask"):
            file[path] = np.array([b"demo_2"])
    with pytest.raises(IlbrlError, match=message):
        load(f"{lift}#valid" if path.startswith("mask") else lift)
