"""Policies inside a compiled program: those of one shape stacked along a leading axis, acting as `Policy.act` does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ilbrl.base.errors import IlbrlError
from ilbrl.learning.nets import layer_normalised
from ilbrl.policy import Layer, Policy


class Shape(NamedTuple):
    """What must agree before policies can share a program: static, so it shapes the compiled one."""

    sizes: tuple[tuple[int, ...], ...]
    normalised: tuple[bool, ...]  # which layers have LayerNorm
    head: str
    activation: str
    log_std_bounds: tuple[float, float]
    mean_bound: float | None


class Stacked(NamedTuple):
    """P policies of one shape; every leaf has a leading axis of P."""

    layers: tuple[Layer, ...]
    obs_mean: jax.Array  # [P, obs_dim]
    obs_std: jax.Array
    centre: jax.Array  # [P, act_dim] of the bounds of actions
    half_range: jax.Array


def shape_of(policy: Policy) -> Shape:
    sizes = tuple(layer.weight.shape for layer in policy.layers)
    normalised = tuple(layer.scale is not None for layer in policy.layers)
    return Shape(sizes, normalised, policy.head, policy.activation, policy.log_std_bounds, policy.mean_bound)


def by_shape(policies: Mapping[str, Policy]) -> dict[Shape, list[str]]:
    """Names of the policies that can share a program."""
    groups: dict[Shape, list[str]] = {}
    for name, policy in policies.items():
        groups.setdefault(shape_of(policy), []).append(name)
    return groups


def stack(policies: Sequence[Policy]) -> Stacked:
    """Policies of one shape, as one pytree."""

    def one(policy: Policy) -> Any:
        mean = np.zeros(policy.obs_dim, np.float32) if policy.obs_mean is None else policy.obs_mean
        std = np.ones(policy.obs_dim, np.float32) if policy.obs_std is None else policy.obs_std
        return policy.layers, mean, std, *policy.action_affine

    return Stacked(*jax.tree.map(lambda *leaves: jnp.asarray(np.stack(leaves)), *map(one, policies)))


def act(shape: Shape, policy: Stacked, observations: jax.Array, key: jax.Array | None = None) -> jax.Array:
    """[B, act_dim] actions of one policy (no leading axis) at [B, obs_dim] raw observations; one-hot if categorical.

    key: sample from a stochastic policy; without one its mean, or most probable, action is taken.
    """
    activate = {"relu": jax.nn.relu, "tanh": jnp.tanh}[shape.activation]
    x = (observations - policy.obs_mean) / policy.obs_std
    for layer in policy.layers[:-1]:
        x = x @ layer.weight + layer.bias
        if layer.scale is not None and layer.shift is not None:
            x = layer_normalised(x) * layer.scale + layer.shift
        x = activate(x)
    x = x @ policy.layers[-1].weight + policy.layers[-1].bias
    if shape.head == "categorical":
        x = x if key is None else x + jax.random.gumbel(key, x.shape)  # the largest is then a draw from the softmax
        return jax.nn.one_hot(x.argmax(-1), x.shape[-1])
    if shape.head == "tanh_gaussian":
        x, log_std = jnp.split(x, 2, axis=-1)
        x = x if shape.mean_bound is None else jnp.clip(x, -shape.mean_bound, shape.mean_bound)
        if key is not None:
            x += jnp.exp(jnp.clip(log_std, *shape.log_std_bounds)) * jax.random.normal(key, x.shape)
    elif key is not None:
        raise IlbrlError("a deterministic policy cannot be sampled")
    return policy.centre + policy.half_range * jnp.tanh(x)
