"""The fused MLP, run by Pallas' interpreter with float32 products: the algebra must be the plain network's."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ilbrl import kernels, nets


@pytest.mark.parametrize("layer_norm", [False, True])
@pytest.mark.parametrize(("fan_in", "fan_out"), [(23, 1), (35, 8)])
def test_values_and_gradients_are_the_plain_networks(fan_in, fan_out, layer_norm, monkeypatch):
    monkeypatch.setattr(kernels, "HALF", jnp.float32)
    key = jax.random.key(0)
    twins = nets.init_twin(key, [fan_in, 128, 128, fan_out], layer_norm)
    twins = jax.tree.map(lambda leaf: leaf + 0.1 * jax.random.normal(key, leaf.shape), twins)  # no scale is 1
    x = jax.random.normal(key, (128, fan_in))
    wanted = jax.random.normal(jax.random.key(1), (128, fan_out))

    def loss(mlp):
        return lambda layers, x: jnp.square(jax.vmap(lambda one: mlp(one, x))(layers) - wanted).mean()

    plain, gradients = jax.value_and_grad(loss(nets.mlp), argnums=(0, 1))(twins, x)
    fused, fused_gradients = jax.value_and_grad(loss(lambda layers, x: kernels.mlp(layers, x, True)), argnums=(0, 1))(
        twins, x
    )
    np.testing.assert_allclose(fused, plain, rtol=1e-6)
    for ours, theirs in zip(jax.tree.leaves(fused_gradients), jax.tree.leaves(gradients)):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-7)


def test_only_a_gpu_runs_them():
    layers = nets.init_mlp(jax.random.key(0), [3, 128, 128, 1])
    assert kernels.supports(layers, 128) == (jax.default_backend() == "gpu")
