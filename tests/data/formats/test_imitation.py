"""The flat npz of the `imitation` library."""

from pathlib import Path

import numpy as np
import pytest

from ilbrl.base.errors import IlbrlError
from ilbrl.data import load

# Two trajectories, 0 → 1 → 2 (terminal) and 10 → 11 (cut).
FIELDS = {
    "obs": np.array([[0], [1], [2], [10], [11]], np.float32),
    "acts": np.array([[5], [6], [7]], np.float32),
    "rews": np.array([1.0, 2.0, 3.0]),
    "indices": np.array([2]),
    "terminal": np.array([True, False]),
}


def test_observations_are_cut_at_the_trajectories(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", **FIELDS)
    dataset = load(tmp_path / "a.npz")
    assert dataset.observations.ravel().tolist() == [0, 1, 10]
    assert dataset.next_observations.ravel().tolist() == [1, 2, 11]
    assert dataset.actions.ravel().tolist() == [5, 6, 7]
    assert dataset.terminals.tolist() == [False, True, False]
    assert dataset.timeouts.tolist() == [False, False, True]
    assert dataset.returns().tolist() == [3, 3]
    assert dataset.notes == ()


def test_a_real_file_whose_infos_are_pickled(others_files: Path) -> None:
    dataset = load(others_files / "imitation_pendulum_rollouts.npz")
    assert (len(dataset), dataset.num_episodes) == (11_200, 56)
    assert dataset.notes == ("infos was skipped: it is a pickled object array, and nothing is ever unpickled",)
    cosine, sine = dataset.observations[:, 0], dataset.observations[:, 1]
    assert cosine**2 + sine**2 == pytest.approx(1, abs=1e-5)
    same_episode = np.flatnonzero(~dataset.terminals)
    assert np.array_equal(dataset.next_observations[same_episode], dataset.observations[same_episode + 1])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"indices": np.array([0])}, "trajectory 0 no steps"),
        ({"terminal": np.array([True])}, "terminal has shape"),
        ({"terminal": np.array(["True", "False"])}, "terminal holds <U5 values, not true/false or 1/0"),
        ({"terminal": np.array([1.0, np.nan])}, "terminal must be true/false or 1/0, found nan in row 1"),
        ({"indices": np.array([np.nan])}, "indices has float64 values"),
        ({"obs": FIELDS["obs"][:4]}, "obs has 4 rows; 3 acts in 2 trajectories need 5"),
        ({"obs": np.array([{}] * 5, object)}, "obs is a pickled object array"),
    ],
)
def test_errors(tmp_path: Path, change: dict[str, np.ndarray], message: str) -> None:
    np.savez(tmp_path / "a.npz", **{**FIELDS, **change})
    with pytest.raises(IlbrlError, match=message):
        load(tmp_path / "a.npz")
