"""The fused MLP. Pallas' interpreter with float32 products must give the plain network; a GPU, what bfloat16 allows."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ilbrl.learning import kernels, nets
from ilbrl.learning.kernels import blocks

needs_triton = pytest.mark.skipif(blocks.plgpu is None, reason="this JAX has no Triton backend")
needs_gpu = pytest.mark.skipif(jax.default_backend() != "gpu" or blocks.plgpu is None, reason="needs a GPU")


@pytest.fixture
def exact(monkeypatch):
    """Products in float32 on either side; a GPU would otherwise take tf32."""
    monkeypatch.setattr(blocks, "HALF", jnp.float32)
    with jax.default_matmul_precision("highest"):
        yield partial(kernels.mlp, interpret=True)


def stacked(key, count, sizes, layer_norm):
    """Layers of `count` networks; no scale is 1 and no shift 0."""
    layers = jax.vmap(lambda one: nets.init_mlp(one, sizes, layer_norm))(jax.random.split(key, count))
    return jax.tree.map(lambda leaf: leaf + 0.1 * jax.random.normal(key, leaf.shape), layers)


def values_and_gradients(mlp, seed, rows, sizes, layer_norm, count=2):
    """Of a mean squared error of several networks, in their layers and inputs."""
    key, other = jax.random.split(jax.random.key(seed))
    layers = stacked(key, count, sizes, layer_norm)
    x, wanted = jax.random.normal(key, (rows, sizes[0])), jax.random.normal(other, (rows, sizes[-1]))

    def loss(layers, x, wanted):
        return jnp.square(jax.vmap(lambda one: mlp(one, x))(layers) - wanted).mean()

    return jax.tree.leaves(jax.jit(jax.value_and_grad(loss, argnums=(0, 1)))(layers, x, wanted))


@needs_triton
@pytest.mark.parametrize("layer_norm", [False, True])
@pytest.mark.parametrize(
    ("rows", "sizes", "count"),
    [
        (128, [23, 256, 256, 1], 2),  # several blocks of units
        (77, [35, 128, 128, 8], 1),  # rows that fill no tile
        (192, [23, 64, 64, 64, 1], 3),  # whole tiles of rows, but no power of two; three critics
        (1, [16, 64, 64, 64, 16], 1),  # nothing to mask in inputs and outputs
    ],
)
def test_values_and_gradients_are_the_plain_networks(rows, sizes, count, layer_norm, exact):
    case = (0, rows, sizes, layer_norm, count)
    for ours, theirs in zip(values_and_gradients(exact, *case), values_and_gradients(nets.mlp, *case), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5 * np.abs(theirs).max())


@needs_triton
@pytest.mark.parametrize("layer_norm", [False, True])
@pytest.mark.parametrize("wanted", [0, 1])
def test_gradients_of_layers_or_of_inputs_alone(wanted, layer_norm, exact):
    """Those of an update of a critic, and of the actor through a critic."""
    layers = nets.init_mlp(jax.random.key(0), [23, 64, 64, 64, 1], layer_norm)
    x = jax.random.normal(jax.random.key(1), (64, 23))

    def gradient(mlp):
        return jax.tree.leaves(jax.grad(lambda layers, x: jnp.square(mlp(layers, x)).sum(), wanted)(layers, x))

    for ours, theirs in zip(gradient(exact), gradient(nets.mlp), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)


@needs_triton
@pytest.mark.parametrize(("layer_norm", "fan_out"), [(False, 1), (True, 1), (True, 4)])  # 4: of all discrete actions
def test_the_first_of_stacked_networks(layer_norm, fan_out, exact):
    layers = jax.vmap(lambda key: stacked(key, 2, [23, 128, 128, fan_out], layer_norm))(
        jax.random.split(jax.random.key(0), 3)
    )
    x = jax.random.normal(jax.random.key(1), (3, 64, 23))

    def values_and_gradient(mlp):
        return jax.vmap(jax.value_and_grad(lambda x, layers: mlp(layers, x).sum()))(x, layers)

    ours = values_and_gradient(partial(exact, first=True))
    theirs = values_and_gradient(lambda layers, x: nets.mlp(jax.tree.map(lambda leaf: leaf[0], layers), x))
    for a, b in zip(ours, theirs):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


@needs_gpu
@pytest.mark.parametrize("layer_norm", [False, True])
@pytest.mark.parametrize("hidden", [2, 3])
@pytest.mark.parametrize(
    ("rows", "fan_in", "fan_out"),
    [(64, 11, 3), (256, 23, 1), (256, 17, 12), (1536, 27, 16), (1536, 113, 1), (1001, 23, 1), (77, 35, 8)],
)
def test_on_a_gpu_they_are_close_to_the_plain_networks(rows, fan_in, fan_out, hidden, layer_norm):
    """As close as what XLA makes of the same products in bfloat16."""
    unfused = partial(nets.mlp, activation=lambda z: jnp.maximum(z, 0), dtype="bfloat16")
    for seed in range(2):
        case = (seed, rows, [fan_in, *[256] * hidden, fan_out], layer_norm)
        with jax.default_matmul_precision("highest"):
            plain = values_and_gradients(nets.mlp, *case)
        halved, fused = values_and_gradients(unfused, *case), values_and_gradients(kernels.mlp, *case)
        for ours, theirs, exact in zip(fused, halved, plain, strict=True):
            assert np.linalg.norm(ours - exact) <= 1.5 * np.linalg.norm(theirs - exact) + 1e-3 * np.linalg.norm(exact)


@needs_gpu
@pytest.mark.parametrize("hidden", [2, 3])
def test_on_a_gpu_a_broken_unit_shows(hidden):
    layers = nets.init_mlp(jax.random.key(0), [3, *[128] * hidden, 1])
    layers[1]["w"] = layers[1]["w"].at[:, 5].set(jnp.nan)
    assert np.isnan(kernels.mlp(layers, jnp.ones((128, 3)))).all()


def test_who_runs_them(monkeypatch):
    def supported(*hidden):
        return kernels.supports(nets.init_mlp(jax.random.key(0), [3, *hidden, 1]))

    assert supported(128, 128) == (jax.default_backend() == "gpu" and blocks.plgpu is not None)
    monkeypatch.setattr(blocks, "plgpu", object())
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert supported(128, 128)
    assert supported(256, 256, 256)
    assert not supported(256)
    assert not supported(256, 128)
    assert not supported(96, 96)
    assert not supported(512, 512)
    monkeypatch.setattr(blocks, "plgpu", None)  # a JAX without Pallas' Triton backend
    assert not supported(128, 128)


@pytest.mark.parametrize("layer_norm", [False, True])
def test_without_them_bfloat16_is_left_to_xla(layer_norm, monkeypatch):
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    monkeypatch.setattr(blocks, "plgpu", None)
    case = (0, 64, [23, 64, 64, 1], layer_norm)
    halved = values_and_gradients(partial(nets.mlp, dtype="bfloat16"), *case)
    for ours, theirs in zip(halved, values_and_gradients(nets.mlp, *case), strict=True):
        assert 0 < np.linalg.norm(ours - theirs) < 0.05 * np.linalg.norm(theirs)
