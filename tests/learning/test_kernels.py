"""The fused MLP, run by Pallas' interpreter with float32 products: the algebra must be the plain network's."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ilbrl.learning import kernels, nets
from ilbrl.learning.kernels import blocks


def values_and_gradients(mlp, seed, rows, sizes, layer_norm):
    """Of a mean squared error of twins, in their layers and inputs."""
    key, other = jax.random.split(jax.random.key(seed))
    twins = nets.init_critics(key, sizes, layer_norm=layer_norm)
    twins = jax.tree.map(lambda leaf: leaf + 0.1 * jax.random.normal(key, leaf.shape), twins)  # no scale is 1
    x, wanted = jax.random.normal(key, (rows, sizes[0])), jax.random.normal(other, (rows, sizes[-1]))

    def loss(layers, x):
        return jnp.square(jax.vmap(lambda one: mlp(one, x))(layers) - wanted).mean()

    return jax.tree.leaves(jax.jit(jax.value_and_grad(loss, argnums=(0, 1)))(twins, x))


@pytest.mark.parametrize("layer_norm", [False, True])
@pytest.mark.parametrize(("fan_in", "fan_out"), [(23, 1), (35, 8), (27, 16)])
def test_values_and_gradients_are_the_plain_networks(fan_in, fan_out, layer_norm, monkeypatch):
    monkeypatch.setattr(blocks, "HALF", jnp.float32)
    units = 256 if fan_out == 1 else 128  # several blocks of them, or one
    case = (0, 384, [fan_in, units, units, fan_out], layer_norm)  # rows: whole tiles, but no power of two
    fused = values_and_gradients(partial(kernels.mlp, interpret=True), *case)
    for ours, theirs in zip(fused, values_and_gradients(nets.mlp, *case)):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize("layer_norm", [False, True])
@pytest.mark.parametrize("wanted", [0, 1])
def test_gradients_of_layers_or_of_inputs_alone(wanted, layer_norm, monkeypatch):
    """Those of an update of a critic, and of the actor through a critic."""
    monkeypatch.setattr(blocks, "HALF", jnp.float32)
    layers = nets.init_mlp(jax.random.key(0), [23, 128, 128, 1], layer_norm)
    x = jax.random.normal(jax.random.key(1), (128, 23))

    def gradient(mlp):
        return jax.tree.leaves(jax.grad(lambda layers, x: jnp.square(mlp(layers, x)).sum(), wanted)(layers, x))

    for ours, theirs in zip(gradient(partial(kernels.mlp, interpret=True)), gradient(nets.mlp), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("layer_norm", [False, True])
def test_the_first_of_stacked_networks(layer_norm, monkeypatch):
    monkeypatch.setattr(blocks, "HALF", jnp.float32)
    keys = jax.random.split(jax.random.key(0), 3)
    stacked = jax.vmap(lambda key: nets.init_critics(key, [23, 128, 128, 1], layer_norm=layer_norm))(keys)
    x = jax.random.normal(jax.random.key(1), (3, 128, 23))

    def values_and_gradient(mlp):
        return jax.vmap(jax.value_and_grad(lambda x, twins: mlp(twins, x).sum()))(x, stacked)

    ours = values_and_gradient(partial(kernels.mlp, first=True, interpret=True))
    theirs = values_and_gradient(lambda twins, x: nets.mlp(jax.tree.map(lambda leaf: leaf[0], twins), x))
    for a, b in zip(ours, theirs):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.skipif(jax.default_backend() != "gpu", reason="needs a GPU")
@pytest.mark.parametrize("layer_norm", [False, True])
@pytest.mark.parametrize("rows", [64, 256, 1536])
@pytest.mark.parametrize(("fan_in", "fan_out"), [(11, 3), (17, 12), (23, 1), (27, 16), (113, 1)])
def test_on_a_gpu_they_are_close_to_the_plain_networks(fan_in, fan_out, rows, layer_norm):
    """As close as what XLA makes of the same products in bfloat16."""
    unfused = partial(nets.mlp, activation=lambda z: jnp.maximum(z, 0), dtype="bfloat16")
    for seed in range(5):
        case = (seed, rows, [fan_in, 256, 256, fan_out], layer_norm)
        with jax.default_matmul_precision("highest"):
            plain = values_and_gradients(nets.mlp, *case)
        halved, fused = values_and_gradients(unfused, *case), values_and_gradients(kernels.mlp, *case)
        for ours, theirs, exact in zip(fused, halved, plain, strict=True):
            assert np.linalg.norm(ours - exact) <= 1.5 * np.linalg.norm(theirs - exact) + 1e-3 * np.linalg.norm(exact)


@pytest.mark.skipif(jax.default_backend() != "gpu", reason="needs a GPU")
def test_on_a_gpu_a_broken_unit_shows():
    layers = nets.init_mlp(jax.random.key(0), [3, 128, 128, 1])
    layers[1]["w"] = layers[1]["w"].at[:, 5].set(jnp.nan)
    assert np.isnan(kernels.mlp(layers, jnp.ones((128, 3)))).all()


def test_without_triton_nobody_runs_them(monkeypatch):
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    layers = nets.init_mlp(jax.random.key(0), [3, 128, 128, 1])
    assert kernels.supports(layers, 128)
    monkeypatch.setattr(blocks, "plgpu", None)
    assert not kernels.supports(layers, 128)


def test_only_a_gpu_runs_them():
    layers = nets.init_mlp(jax.random.key(0), [3, 128, 128, 1])
    assert kernels.supports(layers, 128) == (jax.default_backend() == "gpu")
