"""The networks that the kernels run, and the two ends of one that all of them have in common."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from ilbrl.learning.kernels.blocks import Plan, dot, load, over_units, store, zeros


class Net(NamedTuple):
    """The layers by their names in the package's docstring: arrays, or inside a kernel references to them."""

    w1: Any  # [fan_in, hidden]
    w2: Any  # [hidden, hidden] in bfloat16, the one that every program reads whole
    w3: Any  # [hidden, fan_out]
    b1: Any  # [hidden], as all vectors of the hidden layers
    b2: Any
    b3: Any  # [fan_out]
    scale1: Any = None  # None without LayerNorm, as the rest
    shift1: Any = None
    scale2: Any = None
    shift2: Any = None


class Hidden(NamedTuple):
    """What the gradients need of the hidden layers."""

    h1: Any = None  # [B, hidden] bfloat16
    h2: Any = None
    a1: Any = None  # [B, hidden] bfloat16; None without LayerNorm, as the rest
    z2: Any = None
    spread1: Any = None  # [B] 1 / std
    mean2: Any = None
    spread2: Any = None


def widths(net: Net) -> tuple[int, int]:
    """fan_in and fan_out."""
    return net.w1.shape[-2], net.w3.shape[-1]


def write_outputs(y, net: Net, plan: Plan, second_layer) -> None:
    """y = h₂ W₃ + b₃, with h₂ = second_layer(units) block by block.

    A single output is a sum over the units: a product would not be worth its set-up.
    """
    single = plan.fan_out == 1

    def add_units(units, total):
        h2 = second_layer(units)
        if single:
            return total + (h2.astype(jnp.float32) * net.w3[units, 0]).sum(1)
        return total + dot(h2, load(net.w3.at[units, :], plan.fan_out, axis=1))

    total = over_units(net.w2.shape[0], plan, add_units, zeros(y.shape[:1] if single else y.shape))
    if single:
        y[:, 0] = total + net.b3[0]
    else:
        store(y, total + load(net.b3, plan.fan_out, axis=0), plan.fan_out)


def output_gradients(dy, h2: jax.Array, w3, plan: Plan, rows: Any = slice(None)) -> jax.Array:
    """[R, units] gradients at what the second ReLU sees, of those `rows` and of the units in w₃."""
    if plan.fan_out == 1:
        dh2 = dy[rows, 0].astype(jnp.float32)[:, None] * w3[:, 0]
    else:
        dh2 = dot(dy[rows, :], load(w3, plan.fan_out, axis=1).T)
    return jnp.where(h2 > 0, dh2, 0.0)


def first_gradients(units, dz2: jax.Array, h1, net: Net) -> jax.Array:
    """[R, units] gradients at what the first ReLU sees."""
    return jnp.where(h1[:, units] > 0, dot(dz2, net.w2[units, :].T), 0.0)


def write_inputs(dx, net: Net, plan: Plan, first_layer) -> None:
    """dx = dz₁ W₁ᵀ, with dz₁ = first_layer(units) block by block; the blocks alone where no dx is wanted."""

    def add_units(units, total):
        dz1 = first_layer(units)
        return total if dx is None else total + dot(dz1, load(net.w1.at[:, units], plan.fan_in, axis=0).T)

    total = over_units(net.w2.shape[0], plan, add_units, zeros(() if dx is None else dx.shape))
    if dx is not None:
        store(dx, total, plan.fan_in)
