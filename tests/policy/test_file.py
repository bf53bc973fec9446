"""Policy files: every bit comes back, damage is found, and a hostile file is a sentence."""

import json
import os
import random
import shutil

import numpy as np
import pytest
import safetensors.numpy

from ilbrl.base.errors import IlbrlError
from ilbrl.data.benchmark import LEVELS, source_policy
from ilbrl.policy import Policy
from ilbrl.policy.file import checksum


@pytest.mark.parametrize("head", ["deterministic", "tanh_gaussian", "categorical"])
@pytest.mark.parametrize("options", [{}, {"layer_norm": True, "normalised": False, "activation": "tanh"}])
def test_round_trip_keeps_every_bit(make_policy, tmp_path, head, options):
    policy = make_policy(
        head, hidden=(7, 6, 5, 4), log_std_bounds=(-20.0, 1.5), mean_bound=9.0,
        obs_low=-np.ones(5), obs_high=np.ones(5), metadata={"seed": 3, "config": {"lam": 0.3}}, **options,
    )  # fmt: skip
    loaded = Policy.load(policy.save(tmp_path / "policy"))
    assert str(loaded) == str(policy)
    for name, value in vars(policy).items():
        if name == "layers":
            for ours, theirs in zip(value, loaded.layers, strict=True):
                for a, b in zip(ours, theirs):
                    np.testing.assert_array_equal(a, b)
        elif isinstance(value, np.ndarray):
            np.testing.assert_array_equal(value, getattr(loaded, name))
        else:
            assert value == getattr(loaded, name)
    observations = np.random.default_rng(0).normal(size=(20, 5))
    np.testing.assert_array_equal(loaded.act(observations), policy.act(observations))
    assert loaded.save(tmp_path / "again").read_bytes() == (tmp_path / "policy.safetensors").read_bytes()


@pytest.mark.parametrize("task", ["hopper", "halfcheetah", "walker2d", "ant"])
def test_files_of_format_1_are_still_read(task):
    for level in LEVELS:
        if level != "random":
            assert source_policy(task, level).head == "tanh_gaussian"


def test_any_flipped_bit_is_found(make_policy, tmp_path):
    data = bytearray(make_policy(metadata={"agent": "ilbrl"}).save(tmp_path / "policy").read_bytes())
    rng, file = random.Random(0), tmp_path / "flipped.safetensors"
    for _ in range(200):
        at = rng.randrange(len(data))
        data[at] ^= 1 << rng.randrange(8)
        file.write_bytes(data)
        with pytest.raises(IlbrlError, match=r"flipped\.safetensors: "):
            Policy.load(file)
        data[:] = (tmp_path / "policy.safetensors").read_bytes()


def forged(file, policy_file, header=None, arrays=(), sha256=None):
    """A policy file with some entries of its header and some arrays replaced, and a checksum that fits."""
    with safetensors.safe_open(policy_file, framework="numpy") as whole:
        text = whole.metadata()["ilbrl"]
        tensors = {name: whole.get_tensor(name) for name in whole.keys()}  # noqa: SIM118 - not a mapping
    if isinstance(header, dict):
        text = json.dumps({**json.loads(text), **header})
    elif header is not None:
        text = header
    for name, array in dict(arrays).items():
        if array is None:
            del tensors[name]
        else:
            tensors[name] = np.asarray(array)
    del tensors["sha256"]
    tensors["sha256"] = checksum(text, tensors) if sha256 is None else sha256
    file.write_bytes(safetensors.numpy.save(tensors, {"ilbrl": text}))
    return file


HOSTILE = {
    "another checksum": ({"sha256": np.zeros(32, np.uint8)}, "checksum does not fit"),
    "not JSON": ({"header": "{"}, "not a policy file"),
    "no object": ({"header": "[1]"}, "its header is no object"),
    "nothing in it": ({"header": "{}"}, "it lacks 'format'"),
    "a future format": ({"header": {"format": "ilbrl-policy-9"}}, "written in format 'ilbrl-policy-9', this version"),
    "brackets": ({"header": "[" * 100_000}, "nested too deeply"),
    "a huge integer": ({"header": '{"format": 1' + "0" * 5000 + "}"}, "not a policy file"),
    "a number beyond floats": ({"header": {"mean_bound": 10**400}}, "not a policy file"),
    "half a character": ({"header": {"metadata": {"task": "\ud800"}}}, "not a policy file"),
    "metadata of another kind": ({"header": {"metadata": [1]}}, "its metadata is no object"),
    "an unknown head": ({"header": {"head": "gaussian"}}, "head 'gaussian' is not known"),
    "a list as head": ({"header": {"head": ["deterministic"]}}, "is not known"),
    "words as bounds": ({"header": {"log_std_bounds": "no"}}, "not a policy file"),
    "one bound": ({"header": {"log_std_bounds": [1]}}, "not a policy file"),
    "NaN weights": ({"arrays": {"w1": np.full((16, 12), np.nan, np.float32)}}, "w1 holds numbers that are not finite"),
    "integer weights": ({"arrays": {"w1": np.zeros((16, 12), np.int64)}}, "w1 holds int64"),
    "a missing bias": ({"arrays": {"b1": None}}, "it lacks 'b1'"),
    "a missing std": ({"arrays": {"obs_std": None}}, "there is obs_mean but no obs_std"),
    "swapped bounds": ({"arrays": {"action_low": np.full(3, 9, np.float32)}}, r"action_low\[0\] is 9.0, above"),
    "wrong shapes": ({"arrays": {"w1": np.zeros((3, 12), np.float32)}}, "layer 0 gives 16 numbers and layer 1 takes 3"),
    "a stranger's array": ({"arrays": {"extra": np.zeros(1, np.float32)}}, "holds 'extra', which no policy has"),
    "a hole in the layers": ({"arrays": {"w9": np.zeros((1, 1), np.float32)}}, "it lacks 'w3'"),
}


@pytest.mark.parametrize(("change", "said"), HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_file_is_a_sentence(make_policy, tmp_path, change, said):
    good = make_policy().save(tmp_path / "good")
    with pytest.raises(IlbrlError, match=rf"odd\.safetensors: .*{said}"):
        Policy.load(forged(tmp_path / "odd.safetensors", good, **change))
    assert Policy.load(forged(tmp_path / "fine.safetensors", good)).obs_dim == 5


def test_what_is_no_file_is_a_sentence(make_policy, tmp_path):
    with pytest.raises(IlbrlError, match=r"absent\.safetensors: no such policy file"):
        Policy.load(tmp_path / "absent.safetensors")
    with pytest.raises(IlbrlError, match="is a folder"):
        Policy.load(tmp_path)
    with pytest.raises(IlbrlError, match="cannot be read"):
        Policy.load(tmp_path / ("x" * 300))
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(IlbrlError, match="is a device or a pipe"):
        Policy.load(tmp_path / "pipe")
    file = tmp_path / "text.safetensors"
    file.write_text("not a policy")
    with pytest.raises(IlbrlError, match="not a policy file"):
        Policy.load(file)
    shutil.copy(make_policy().save(tmp_path / "good"), file)
    file.write_bytes(file.read_bytes()[:-8])
    with pytest.raises(IlbrlError, match="not a policy file"):
        Policy.load(file)


ODD = [None, True, -1, 0, 1e308, 10**30, "", "relu", "\x00", [], [1, 2], [2, 1], ["a", {}], {}, {"a": 1}, float("nan")]


def test_mutants_are_refused_or_act(make_policy, tmp_path):
    """Any header entry or array replaced by something odd, under a checksum that fits."""
    good, file, rng = make_policy(layer_norm=True).save(tmp_path / "good"), tmp_path / "mutant", random.Random(0)
    arrays, refused = ["w0", "b0", "scale0", "shift1", "w2", "action_low", "action_high", "obs_mean", "obs_std"], 0
    header = ["format", "head", "activation", "log_std_bounds", "mean_bound", "metadata"]
    for _ in range(300):
        shape = [rng.randrange(4) for _ in range(rng.randrange(4))]
        kind = rng.choice([np.float32, np.float32, np.float64, np.int8, np.bool_, np.float16])
        largest = 3e38 if kind == np.float32 else 1
        odd_array = (rng.choice([0, 1, -1, largest]) * np.ones(shape)).astype(kind)
        changes = [{}, {rng.choice(header): rng.choice(ODD)}], [{}, {rng.choice(arrays): rng.choice([None, odd_array])}]
        try:
            policy = Policy.load(forged(file, good, *(rng.choice(choices) for choices in changes)))
            assert np.isfinite(policy.act(np.zeros((2, policy.obs_dim)))).all()
        except IlbrlError:
            refused += 1
    assert 100 < refused < 300
