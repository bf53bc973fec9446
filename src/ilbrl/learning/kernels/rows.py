"""The kernels whose programs each own a tile of rows: values of a network, and gradients down to its inputs.

A tile holds all units of a layer. The next layer's weights pass through in blocks of that layer's inputs, and its sums
stay in registers until they are complete: normalisation and ReLU then need no second pass.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from ilbrl.learning.kernels import blocks
from ilbrl.learning.kernels.blocks import Plan, add_up, dot, load, meet, store, zeros
from ilbrl.policy.network import LAYER_NORM_EPSILON

ALL = slice(None)


class Kept(NamedTuple):
    """What the gradients need of a hidden layer; None where they do not need it."""

    h: Any = None  # [B, units] bfloat16
    a: Any = None  # [B, units] bfloat16, with LayerNorm only
    spread: Any = None  # [B] 1 / std, with LayerNorm only


class Slope(NamedTuple):
    """The loss's gradients at a hidden layer; None where nobody reads them."""

    da: Any = None  # [B, units] bfloat16, before the ReLU
    mean: Any = None  # [B] mean of scale · da, with LayerNorm only
    tilt: Any = None  # [B] mean of scale · da · a, with LayerNorm only


def forward_kernel(x, layers, y, kept: tuple[Kept, ...], *, plan: Plan):
    *hidden, last = layers
    h: Any = None
    for depth, (layer, keep) in enumerate(zip(hidden, kept, strict=True)):
        if depth == 0:
            z = dot(x[...], load(layer["w"], plan.fan_in, axis=0))
        else:
            meet(plan)
            z = _inner_product(kept[depth - 1].h, layer["w"], plan)
        z = z + layer["b"][...]
        if "scale" in layer:
            z = z - row_mean(z)
            spread = jax.lax.rsqrt(row_mean(jnp.square(z)) + LAYER_NORM_EPSILON)
            z = z * spread
            if keep.a is not None:
                keep.a[...], keep.spread[...] = z.astype(blocks.HALF), spread[:, 0]
            z = z * layer["scale"][...] + layer["shift"][...]
        h = relu(z).astype(blocks.HALF)
        if keep.h is not None:
            keep.h[...] = h
    if plan.fan_out == 1:  # a sum over the units: a product would not be worth its set-up
        y[:, 0] = (h.astype(jnp.float32) * last["w"][:, 0]).sum(1) + last["b"][0]
    else:
        total = dot(h, load(last["w"], plan.fan_out, axis=1))
        store(y, total + load(last["b"], plan.fan_out, axis=0), plan.fan_out)


def _inner_product(h, w, plan: Plan) -> jax.Array:
    def add_units(units, total):
        return total + dot(h[:, units], w[units, :])

    return add_up(w.shape[0], plan.tile.units, add_units, zeros(h.shape))


def input_kernel(dy, kept: tuple[Kept, ...], layers, dx, slopes: tuple[Slope, ...], *, plan: Plan):
    *hidden, last = layers
    top, dy_tile = len(hidden) - 1, dy[...]
    upstream: Any = None  # [R, units] gradients of the layer's h
    for depth in reversed(range(len(hidden))):
        layer, keep, slope = hidden[depth], kept[depth], slopes[depth]

        def before_relu(units, depth=depth, slope=slope, layer=layer, keep=keep):
            """[R, units] da, as the product that follows reads it."""
            if depth < top:
                return slope.da[:, units].astype(jnp.float32)
            return masked(output_gradients(dy_tile, last["w"], units, plan), layer, keep, (ALL, units))

        da = before_relu(ALL) if depth == top else masked(upstream, layer, keep, (ALL, ALL))
        if slope.da is not None:
            slope.da[...] = da.astype(blocks.HALF)
        if keep.a is not None:
            scaled = da * layer["scale"][...]
            slope.mean[...] = row_mean(scaled)[:, 0]
            slope.tilt[...] = row_mean(scaled * keep.a[...].astype(jnp.float32))[:, 0]
        meet(plan)
        means = read_means(keep, slope, ALL)
        if depth > 0:

            def add_units(units, total, before_relu=before_relu, layer=layer, keep=keep, means=means):
                dz = through_norm(before_relu(units), layer, keep, means, (ALL, units))
                return total + dot(dz, layer["w"][:, units].T)

            upstream = add_up(layer["w"].shape[1], plan.tile.units, add_units, zeros(da.shape))
        elif dx is not None:
            dz = through_norm(da, layer, keep, means, (ALL, ALL))
            store(dx, dot(dz, load(layer["w"], plan.fan_in, axis=0).T), plan.fan_in)


def relu(z: jax.Array) -> jax.Array:
    """max(z, 0), but NaN stays NaN: Triton's maximum would make a broken unit look like a dead one."""
    return jnp.where(z < 0, 0.0, z)


def row_mean(z: jax.Array) -> jax.Array:
    return z.sum(1, keepdims=True) / z.shape[1]


def activation(layer, keep: Kept, at) -> jax.Array:
    """h at these (rows, units), from what was kept."""
    if keep.a is None:
        return keep.h[at]
    return relu(keep.a[at].astype(jnp.float32) * layer["scale"][at[1]] + layer["shift"][at[1]])


def masked(dh: jax.Array, layer, keep: Kept, at) -> jax.Array:
    """da: the gradients that pass the ReLU."""
    return jnp.where(activation(layer, keep, at) > 0, dh, 0.0)


def output_gradients(dy: jax.Array, w, units, plan: Plan) -> jax.Array:
    """[R, units] gradients of the top layer's h from those of the outputs, [R] of a single one or [R, outputs]."""
    if plan.fan_out == 1:
        return dy.astype(jnp.float32)[:, None] * w[units, 0]
    return dot(dy, load(w.at[units, :], plan.fan_out, axis=1).T)


def read_means(keep: Kept, slope: Slope, rows) -> list[jax.Array] | None:
    """[R, 1] spread, mean and tilt of these rows; None without LayerNorm."""
    if keep.a is None:
        return None
    return [vector[rows][:, None] for vector in (keep.spread, slope.mean, slope.tilt)]


def through_norm(da: jax.Array, layer, keep: Kept, means: list[jax.Array] | None, at) -> jax.Array:
    """dz = (scale · da − mean(scale · da) − a · mean(scale · da · a)) / std; da itself without LayerNorm."""
    if means is None:
        return da
    spread, mean, tilt = means
    return spread * (da * layer["scale"][at[1]] - mean - keep.a[at].astype(jnp.float32) * tilt)
