"""Networks as raw pytrees: MLPs, stacked critics, actors, and Adam.

Layers are dictionaries {"w": [fan_in, fan_out], "b": [fan_out]} (and {"scale", "shift"} under LayerNorm);
a network is a tuple of layers. Everything is float32; matrix products may run in bfloat16 with float32
accumulation (`dtype`), the parameters and the optimiser never do.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from ilbrl.learning import kernels
from ilbrl.policy.network import LAYER_NORM_EPSILON

Layers = kernels.Layers
Params = Any  # a pytree of arrays


def init_mlp(key: jax.Array, sizes: Sequence[int], layer_norm: bool = False) -> Layers:
    """An MLP with PyTorch's initial ranges: weights and biases uniform in ±1/√fan_in.

    With `layer_norm` each hidden layer carries a scale and a shift, applied before its non-linearity.
    """

    shapes = list(itertools.pairwise(sizes))
    ends = list(itertools.accumulate((fan_in + 1) * fan_out for fan_in, fan_out in shapes))
    noise = jax.random.uniform(key, (ends[-1],), minval=-1.0, maxval=1.0)  # one draw: each costs time to compile
    layers = []
    for i, ((fan_in, fan_out), end) in enumerate(zip(shapes, ends)):
        weights = end - fan_out - fan_in * fan_out
        bound = fan_in**-0.5
        layer = {
            "w": bound * noise[weights : end - fan_out].reshape(fan_in, fan_out),
            "b": bound * noise[end - fan_out : end],
        }
        if layer_norm and i < len(shapes) - 1:
            layer |= {"scale": jnp.ones(fan_out), "shift": jnp.zeros(fan_out)}
        layers.append(layer)
    return tuple(layers)


def mlp(layers: Layers, x: jax.Array, activation=jax.nn.relu, dtype: str = "float32") -> jax.Array:
    """[B, fan_in] → [B, fan_out] float32; no non-linearity after the last layer."""
    if dtype == "bfloat16" and activation is jax.nn.relu and kernels.supports(layers):
        return kernels.mlp(layers, x)
    for layer in layers[:-1]:
        x = _dense(layer, x, dtype)
        if "scale" in layer:
            x = layer_normalised(x) * layer["scale"] + layer["shift"]
        x = activation(x)
    return _dense(layers[-1], x, dtype)


def _dense(layer: dict[str, jax.Array], x: jax.Array, dtype: str) -> jax.Array:
    if dtype == "float32":
        return x @ layer["w"] + layer["b"]
    product = jnp.matmul(x.astype(dtype), layer["w"].astype(dtype), preferred_element_type=jnp.float32)
    return product + layer["b"]


def layer_normalised(x: jax.Array) -> jax.Array:
    """[..., units] with mean 0 and variance 1 over the units: LayerNorm before its scale and shift."""
    mean = x.mean(-1, keepdims=True)
    variance = jnp.square(x - mean).mean(-1, keepdims=True)
    return (x - mean) * jax.lax.rsqrt(variance + LAYER_NORM_EPSILON)


def init_critics(key: jax.Array, sizes: Sequence[int], count: int = 2, layer_norm: bool = False) -> Layers:
    """Independent MLPs, stacked along a leading axis of `count`."""
    return jax.vmap(lambda k: init_mlp(k, sizes, layer_norm))(jax.random.split(key, count))


def stacked(layers: Layers, x: jax.Array, dtype: str = "float32") -> jax.Array:
    """[C, B, fan_out] outputs of stacked networks."""
    return jax.vmap(lambda one: mlp(one, x, dtype=dtype))(layers)


def first_stacked(layers: Layers, x: jax.Array, dtype: str = "float32") -> jax.Array:
    """[B, fan_out] outputs of the first of stacked networks, where it lies; no gradient reaches its layers."""
    layers = jax.lax.stop_gradient(layers)
    if dtype == "bfloat16" and kernels.supports(layers):
        return kernels.mlp(layers, x, first=True)
    return mlp(jax.tree.map(operator.itemgetter(0), layers), x, dtype=dtype)


def critics(layers: Layers, observations: jax.Array, actions: jax.Array, dtype: str = "float32") -> jax.Array:
    """[C, B] values Q₁ … Q_C of stacked critics."""
    return stacked(layers, jnp.concatenate([observations, actions], -1), dtype)[..., 0]


def first_critic(layers: Layers, observations: jax.Array, actions: jax.Array, dtype: str = "float32") -> jax.Array:
    """[B] values Q₁ of stacked critics, for an actor to learn from."""
    return jnp.squeeze(first_stacked(layers, jnp.concatenate([observations, actions], -1), dtype), -1)


def actor(layers: Layers, observations: jax.Array, dtype: str = "float32") -> jax.Array:
    """[B, act_dim] deterministic actions tanh(MLP(s)), in units of the action bounds."""
    return jnp.tanh(mlp(layers, observations, dtype=dtype))


def categorical(layers: Layers, observations: jax.Array, dtype: str = "float32") -> jax.Array:
    """[B, A] log-probabilities log π(a | s) of a policy that chooses among A actions, log softmax(MLP(s))."""
    return jax.nn.log_softmax(mlp(layers, observations, dtype=dtype))


def tanh_gaussian(
    layers: Layers,
    observations: jax.Array,
    mean_bound: float,
    log_std_bounds: tuple[float, float],
    dtype: str = "float32",
) -> tuple[jax.Array, jax.Array]:
    """[B, act_dim] μ and log σ of a policy a = tanh(u), u ~ N(μ, σ²), each clipped to its bounds."""
    mean, log_std = jnp.split(mlp(layers, observations, dtype=dtype), 2, axis=-1)
    return jnp.clip(mean, -mean_bound, mean_bound), jnp.clip(log_std, *log_std_bounds)


def tanh_gaussian_log_prob(mean: jax.Array, log_std: jax.Array, actions: jax.Array) -> jax.Array:
    """[B] Σ_d log N(u_d; μ_d, σ_d) − log(1 − tanh² u_d) of actions in [−1, 1], u = artanh(a).

    ±1 counts as ±(1 − 10⁻⁶).
    """
    return _squashed_log_prob(mean, log_std, jnp.arctanh(jnp.clip(actions, -1 + 1e-6, 1 - 1e-6)))


def tanh_gaussian_sample(key: jax.Array, mean: jax.Array, log_std: jax.Array) -> tuple[jax.Array, jax.Array]:
    """[B, act_dim] actions tanh(μ + σ ε) and their [B] log-densities, differentiable in μ and σ."""
    before = mean + jnp.exp(log_std) * jax.random.normal(key, mean.shape)
    return jnp.tanh(before), _squashed_log_prob(mean, log_std, before)


def _squashed_log_prob(mean: jax.Array, log_std: jax.Array, before: jax.Array) -> jax.Array:
    normal = -0.5 * jnp.square((before - mean) * jnp.exp(-log_std)) - log_std - 0.5 * jnp.log(2 * jnp.pi)
    squash = 2 * (jnp.log(2.0) - before - jax.nn.softplus(-2 * before))  # log(1 − tanh² u), without cancellation
    return (normal - squash).sum(-1)


class Optimised(NamedTuple):
    """Parameters with their Adam state."""

    params: Params
    adam: optax.OptState


OVERFLOWING = 1e15  # times itself through a few layers it leaves float32
_ADAM = optax.scale_by_adam()  # PyTorch's defaults: β = (0.9, 0.999), ε = 1e-8


def optimised(params: Params) -> Optimised:
    return Optimised(params, _ADAM.init(params))


def descend(net: Optimised, gradients: Params, learning_rate: float | jax.Array) -> Optimised:
    """One Adam step; the learning rate may be a traced member of a population.

    A step that is not finite moves no parameter, so that a broken loss leaves them sound; the moments show it.
    """
    steps, adam = _ADAM.update(gradients, net.adam)
    moved = jax.tree.map(lambda p, s: jnp.where(jnp.isfinite(s), p - learning_rate * s, p), net.params, steps)
    return Optimised(moved, adam)


def updates_of(net: Optimised) -> jax.Array:
    """How many Adam steps these parameters have made."""
    return net.adam.count  # pyright: ignore[reportAttributeAccessIssue]


def is_sound(net: Optimised) -> np.ndarray:
    """[P] whether parameters and moments of each member of a population (NumPy leaves) are finite, and no parameter so
    large that a layer overflows. A GPU's tanh makes a number of what does, so that losses stay finite there."""
    finite = [np.isfinite(leaf).reshape(len(leaf), -1).all(1) for leaf in jax.tree.leaves(net)]
    small = [(np.abs(leaf) < OVERFLOWING).reshape(len(leaf), -1).all(1) for leaf in jax.tree.leaves(net.params)]
    return np.all([*finite, *small], axis=0)


def polyak(target: Params, online: Params, tau: float | jax.Array) -> Params:
    """target ← (1 − τ) target + τ online."""
    return jax.tree.map(lambda t, p: t + tau * (p - t), target, online)
