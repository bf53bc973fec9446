"""D4RL HDF5: true layouts, old and new, and a real excerpt."""

import time
from dataclasses import replace
from pathlib import Path

import h5py
import numpy as np
import pytest

from ilbrl.base.errors import IlbrlError
from ilbrl.data import Dataset, Reading, load
from ilbrl.data.actions import log_prob_errors
from ilbrl.data.formats import d4rl


def test_a_real_excerpt(others_files: Path) -> None:
    dataset = load(others_files / "d4rl_excerpt" / "hopper_medium-v2.hdf5")
    assert len(dataset) == 911
    assert dataset.returns().round().tolist() == [1465, 1413]
    assert dataset.policy is not None
    assert dataset.policy.log_std_bounds == (-20, 2)
    errors = log_prob_errors(dataset)
    assert errors is not None
    assert errors.max() < 1e-4


def test_an_old_file_without_next_observations_and_timeouts(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "old.hdf5", "w") as file:
        file["observations"] = np.arange(6.0)[:, None]  # float64, as in the first releases
        file["actions"] = np.zeros((6, 2))
        file["rewards"] = np.ones(6)
        file["terminals"] = np.array([0, 0, 0, 0, 0, 1], np.uint8)
    assert load(tmp_path / "old.hdf5").episode_lengths.tolist() == [6]
    dataset = load(tmp_path / "old.hdf5", Reading(max_episode_steps=3))
    assert dataset.observations.dtype == np.float32
    assert dataset.next_observations.ravel().tolist() == [1, 2, 4, 5, 5]
    assert dataset.episode_lengths.tolist() == [2, 3]


def test_a_policy_it_does_not_understand_is_left_out_with_a_note(full: Dataset, tmp_path: Path) -> None:
    d4rl.write(full, tmp_path / "a.hdf5")
    with h5py.File(tmp_path / "a.hdf5", "a") as file:
        del file["metadata/policy/output_distribution"]
        file["metadata/policy/output_distribution"] = np.bytes_(b"gaussian_mixture")
    dataset = load(tmp_path / "a.hdf5")
    assert dataset.policy is None
    assert "left out: a policy with output 'gaussian_mixture'" in dataset.warnings[0]


def test_the_behaviour_policy_is_rlkits_network(tmp_path: Path) -> None:
    """Against the network written out by hand: [out, in] weights, mean and log-std heads apart, ReLU between."""
    rng = np.random.default_rng(3)
    w0, b0 = rng.normal(size=(4, 2)), rng.normal(size=4)
    w_mean, b_mean, w_std, b_std = rng.normal(size=(1, 4)), rng.normal(size=1), rng.normal(size=(1, 4)), [-30.0]
    with h5py.File(tmp_path / "p.hdf5", "w") as file:
        file["observations"], file["actions"] = rng.normal(size=(3, 2)), rng.uniform(-0.9, 0.9, (3, 1))
        file["terminals"], file["timeouts"] = np.zeros(3, bool), np.array([False, False, True])
        for name, (weight, bias) in {
            "fc0": (w0, b0),
            "last_fc": (w_mean, b_mean),
            "last_fc_log_std": (0 * w_std, b_std),
        }.items():
            file[f"metadata/policy/{name}/weight"], file[f"metadata/policy/{name}/bias"] = weight, bias
        file["metadata/policy/nonlinearity"], file["metadata/policy/output_distribution"] = b"relu", b"tanh_gaussian"
    policy = load(tmp_path / "p.hdf5").policy
    assert policy is not None
    observation = np.array([0.3, -1.2])
    expected = np.tanh(w_mean @ np.maximum(w0 @ observation + b0, 0) + b_mean)
    assert policy.act(observation) == pytest.approx(expected, abs=1e-6)
    noisy = policy.act(observation, np.random.default_rng(0))  # log std clipped at −20, not −30: σ = 2e-9
    assert noisy == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(
    ("field", "value", "reason"),
    [
        ("fc1/weight", np.zeros((4, 9)), "its layers do not fit together"),
        ("fc1/weight", np.zeros((9, 4)), "others [fan_in, fan_out]"),
        ("fc1/weight", np.zeros((3, 3)), "fc1 has weights of shape (3, 3) for a bias of shape (4,)"),
        ("fc1/bias", np.zeros((4, 1)), "for a bias of shape (4, 1)"),
        ("fc0/weight", np.full((5, 3), np.nan), "fc0 holds numbers that are not finite"),
        ("last_fc_log_std/weight", np.zeros((2, 9)), "last_fc and last_fc_log_std have different shapes"),
        ("obs_std", np.ones(7), "the shapes (3,) and (7,), expected (3,)"),
        ("log_std_bounds", np.ones(3), "two numbers are needed"),
        ("metadata", np.bytes_(b"[1]"), "its metadata is not a table"),
        ("metadata", np.bytes_(b"{"), "Expecting property name"),
        ("fc0/weight", np.zeros((5, 9)), "the shapes (3,) and (3,), expected (9,)"),
        ("last_fc/bias", None, "last_fc/bias missing"),
    ],
)
def test_a_policy_that_does_not_fit_is_left_out(
    full: Dataset, tmp_path: Path, field: str, value: np.ndarray | None, reason: str
) -> None:
    d4rl.write(full, tmp_path / "a.hdf5")
    with h5py.File(tmp_path / "a.hdf5", "a") as file:
        del file[f"metadata/policy/{field}"]
        if value is not None:
            file[f"metadata/policy/{field}"] = value
    dataset = load(tmp_path / "a.hdf5")
    assert dataset.policy is None
    assert reason in dataset.warnings[0]
    assert len(dataset) == len(full)


def test_weights_stored_the_other_way_round_are_read(full: Dataset, tmp_path: Path) -> None:
    """As in D4RL's adroit files: [fan_in, fan_out]; a square layer follows the others."""
    assert full.policy is not None
    first, _, last = full.policy.layers
    middle = np.random.default_rng(1).normal(size=(5, 5)), np.ones(5)
    last = np.random.default_rng(2).normal(size=(5, 4)), last[1]
    square = replace(full, policy=replace(full.policy, layers=(first, middle, last)))
    d4rl.write(square, tmp_path / "a.hdf5")
    with h5py.File(tmp_path / "a.hdf5", "a") as file:
        group = file["metadata/policy"]
        assert isinstance(group, h5py.Group)
        for layer in ("fc0", "fc1", "last_fc", "last_fc_log_std"):
            weight = np.array(group[f"{layer}/weight"]).T
            del group[f"{layer}/weight"]
            group[f"{layer}/weight"] = weight
    policy = load(tmp_path / "a.hdf5").policy
    assert policy is not None
    assert square.policy is not None
    assert np.array_equal(policy.act(full.observations), square.policy.act(full.observations))


def test_files_that_point_into_other_files_are_refused(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "secret.hdf5", "w") as file:
        file["observations"] = np.ones((4, 1))
    other = str(tmp_path / "secret.hdf5")
    for name, point in {
        "link": lambda file: file.__setitem__("observations", h5py.ExternalLink(other, "observations")),
        "soft": lambda file: file.update(
            {"a": h5py.ExternalLink(other, "/"), "observations": h5py.SoftLink("/a/observations")}
        ),
        "stored": lambda file: file.create_dataset("observations", (4, 1), "f4", external=[(other, 0, 16)]),
        "virtual": lambda file: file.create_virtual_dataset("observations", _virtual(other)),
        "text": lambda file: file.create_dataset("metadata/action_names", (4,), "S4", external=[(other, 0, 16)]),
    }.items():
        with h5py.File(tmp_path / f"{name}.hdf5", "w") as file:
            point(file)
            if name == "text":
                file["observations"] = np.ones((4, 1))
            file["actions"] = np.arange(4)
        with pytest.raises(IlbrlError, match=r"(link into|keeps its values in) another file"):
            load(tmp_path / f"{name}.hdf5")


def _virtual(other: str) -> h5py.VirtualLayout:
    layout = h5py.VirtualLayout((4, 1), "f4")
    layout[:] = h5py.VirtualSource(other, "observations", (4, 1))
    return layout


def test_names_of_your_own_and_several_arrays_for_one_field(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.hdf5", "w") as file:
        file["pos"], file["vel"], file["u"], file["note"] = np.zeros((4, 2)), np.ones(4), np.zeros((4, 1)), np.ones(3)
    reading = Reading(columns={"observations": "pos,vel", "actions": "u"}, max_episode_steps=2)
    dataset = load(tmp_path / "a.hdf5", reading)
    assert dataset.observations.tolist() == [[0, 0, 1]] * 2
    assert "not used: note" in dataset.notes
    with pytest.raises(IlbrlError, match="only the rows of tables are put in order"):
        load(tmp_path / "a.hdf5", Reading(columns={"observations": "pos", "actions": "u", "steps": "vel"}))


def test_many_groups_inside_one_another_take_no_time(full: Dataset, tmp_path: Path) -> None:
    d4rl.write(full, tmp_path / "a.hdf5")
    with h5py.File(tmp_path / "a.hdf5", "a") as file:
        group = file["metadata/policy"]
        assert isinstance(group, h5py.Group)
        for _ in range(1000):
            group = group.create_group("g")
    started = time.monotonic()
    assert load(tmp_path / "a.hdf5").policy is not None
    assert time.monotonic() - started < 15  # a moment; visiting each group from each other took half a minute
