"""Policies inside a compiled program: those of one shape stacked along a leading axis, acting as `Policy.act` does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ilbrl.base.errors import IlbrlError
from ilbrl.policy import Policy


class Shape(NamedTuple):
    """What must agree before policies can share a program: static, so it shapes the compiled one."""

    sizes: tuple[tuple[int, ...], ...]
    head: str
    activation: str
    log_std_bounds: tuple[float, float]
    mean_bound: float | None


class Stacked(NamedTuple):
    """P policies of one shape; every leaf has a leading axis of P."""

    layers: tuple[tuple[jax.Array, jax.Array], ...]
    obs_mean: jax.Array  # [P, obs_dim]
    obs_std: jax.Array
    action_low: jax.Array  # [P, act_dim]
    action_high: jax.Array


def shape_of(policy: Policy) -> Shape:
    sizes = tuple(weight.shape for weight, _ in policy.layers)
    return Shape(sizes, policy.head, policy.activation, tuple(policy.log_std_bounds), policy.mean_bound)


def by_shape(policies: Mapping[str, Policy]) -> dict[Shape, list[str]]:
    """Names of the policies that can share a program."""
    groups: dict[Shape, list[str]] = {}
    for name, policy in policies.items():
        groups.setdefault(shape_of(policy), []).append(name)
    return groups


def stack(policies: Sequence[Policy]) -> Stacked:
    def per_policy(array: np.ndarray | None, otherwise: float, policy: Policy) -> np.ndarray:
        return np.full(policy.obs_dim, otherwise, np.float32) if array is None else array

    return jax.tree.map(
        lambda *leaves: jnp.stack([jnp.asarray(leaf) for leaf in leaves]),
        *(
            Stacked(
                tuple(policy.layers),  # pyright: ignore[reportArgumentType]
                per_policy(policy.obs_mean, 0.0, policy),
                per_policy(policy.obs_std, 1.0, policy),
                policy.action_low,
                policy.action_high,
            )
            for policy in policies
        ),
    )


def act(shape: Shape, policy: Stacked, observations: jax.Array, key: jax.Array | None = None) -> jax.Array:
    """[B, act_dim] actions of one policy (no leading axis) at [B, obs_dim] raw observations.

    key: sample from a stochastic policy; without one its mean action is taken.
    """
    activate = {"relu": jax.nn.relu, "tanh": jnp.tanh}[shape.activation]
    x = (observations - policy.obs_mean) / policy.obs_std
    for weight, bias in policy.layers[:-1]:
        x = activate(x @ weight + bias)
    weight, bias = policy.layers[-1]
    x = x @ weight + bias
    if shape.head == "tanh_gaussian":
        x, log_std = jnp.split(x, 2, axis=-1)
        x = x if shape.mean_bound is None else jnp.clip(x, -shape.mean_bound, shape.mean_bound)
        if key is not None:
            x += jnp.exp(jnp.clip(log_std, *shape.log_std_bounds)) * jax.random.normal(key, x.shape)
    elif key is not None:
        raise IlbrlError("a deterministic policy cannot be sampled")
    centre, half_range = (policy.action_high + policy.action_low) / 2, (policy.action_high - policy.action_low) / 2
    return centre + half_range * jnp.tanh(x)
