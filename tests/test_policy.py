import json
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import safetensors.numpy
from scipy.stats import norm

from ilbrl.base.errors import IlbrlError
from ilbrl.learning import nets
from ilbrl.policy import Policy


def gaussian(rng, **options):
    layers = tuple(
        (rng.standard_normal(s).astype(np.float32) / 3, np.zeros(s[1], np.float32)) for s in ((4, 8), (8, 4))
    )
    return Policy(layers, np.array([-1.0, -2.0]), np.array([1.0, 4.0]), head="tanh_gaussian", **options)


def test_acts_like_the_training_side_actor():
    layers = nets.init_mlp(jax.random.key(0), [5, 64, 64, 3])
    mean, std = np.arange(5.0, dtype=np.float32), np.arange(1.0, 6.0, dtype=np.float32)
    policy = Policy(
        tuple((np.asarray(layer["w"]), np.asarray(layer["b"])) for layer in layers),
        -2 * np.ones(3, np.float32), 2 * np.ones(3, np.float32), obs_mean=mean, obs_std=std,
    )  # fmt: skip
    observations = np.random.default_rng(0).normal(size=(100, 5)).astype(np.float32)
    trained = 2 * nets.actor(layers, jnp.asarray((observations - mean) / std))
    np.testing.assert_allclose(policy.act(observations), trained, atol=1e-6)
    np.testing.assert_allclose(policy.act(observations[7]), policy.act(observations)[7], atol=1e-6)


def test_round_trip_keeps_every_bit(tmp_path):
    policy = gaussian(
        np.random.default_rng(0),
        activation="tanh",
        log_std_bounds=(-20.0, 2.0),
        metadata={"seed": 3, "config": {"lam": 0.3}},
    )
    loaded = Policy.load(policy.save(tmp_path / "policy"))
    for (w, b), (v, c) in zip(policy.layers, loaded.layers):
        np.testing.assert_array_equal(w, v)
        np.testing.assert_array_equal(b, c)
    assert (loaded.head, loaded.activation, loaded.log_std_bounds) == ("tanh_gaussian", "tanh", (-20.0, 2.0))
    assert loaded.metadata == policy.metadata
    np.testing.assert_array_equal(loaded.act(np.ones((2, 4))), policy.act(np.ones((2, 4))))


def test_loading_and_acting_import_no_jax(tmp_path):
    path = gaussian(np.random.default_rng(0)).save(tmp_path / "policy")
    script = (
        f"import sys, ilbrl; print(ilbrl.Policy.load({str(path)!r}).act([0.0] * 4)); assert 'jax' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script], check=True, capture_output=True)


def test_samples_have_the_stated_density():
    """Mean of −log π under samples equals the entropy of the squashed Gaussian, by quadrature in one dimension."""
    policy = Policy(
        ((np.zeros((1, 2), np.float32), np.array([0.3, -0.5], np.float32)),), -np.ones(1), np.ones(1), "tanh_gaussian"
    )
    actions = policy.act(np.zeros((200_000, 1)), np.random.default_rng(0))
    mean, std = 0.3, np.exp(-0.5)
    grid = np.linspace(-0.9999, 0.9999, 20001)
    density = norm.pdf(np.arctanh(grid), mean, std) / (1 - grid**2)
    np.testing.assert_allclose(
        policy.log_prob(np.zeros((1, 1)), np.array([[0.5]]))[0], np.log(np.interp(0.5, grid, density)), atol=1e-5
    )
    entropy = -np.trapezoid(density * np.log(density), grid)
    np.testing.assert_allclose(-policy.log_prob(np.zeros((200_000, 1)), actions).mean(), entropy, atol=0.01)


def test_actions_stay_within_bounds():
    actions = gaussian(np.random.default_rng(0)).act(100 * np.ones((50, 4)), np.random.default_rng(1))
    assert (actions >= [-1, -2]).all()
    assert (actions <= [1, 4]).all()


def test_errors_say_what_to_do(tmp_path):
    policy = gaussian(np.random.default_rng(0))
    with pytest.raises(IlbrlError, match="observations of 4 numbers, got 3"):
        policy.act(np.zeros(3))
    with pytest.raises(IlbrlError, match="no such policy file"):
        Policy.load(tmp_path / "absent.safetensors")
    bad = tmp_path / "bad.safetensors"
    bad.write_text("not a policy")
    with pytest.raises(IlbrlError, match="not a policy file"):
        Policy.load(bad)
    bad.write_bytes(safetensors.numpy.save({"w0": np.zeros(1)}, {"ilbrl": json.dumps({"format": "ilbrl-policy-9"})}))
    with pytest.raises(IlbrlError, match="ilbrl-policy-9"):
        Policy.load(bad)
    bad.write_bytes(policy.save(tmp_path / "good").read_bytes()[:-8])
    with pytest.raises(IlbrlError, match="not a policy file"):
        Policy.load(bad)


@pytest.mark.parametrize(
    ("header", "said"),
    [
        ({}, "it lacks 'format'"),
        ({"format": "ilbrl-policy-1"}, "it lacks 'b0'"),
        ([1], "not a policy file of ilbrl"),
    ],
)
def test_a_file_that_lacks_something_is_a_sentence(tmp_path, header, said):
    file = tmp_path / "odd.safetensors"
    file.write_bytes(safetensors.numpy.save({"w0": np.zeros((1, 1))}, {"ilbrl": json.dumps(header)}))
    with pytest.raises(IlbrlError, match=said):
        Policy.load(file)
