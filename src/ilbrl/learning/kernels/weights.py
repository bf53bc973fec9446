"""Gradients of weights and biases: a program per block of hidden units, one pass over all rows."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl

from ilbrl.learning.kernels import blocks
from ilbrl.learning.kernels.blocks import Plan, Tile, call, columns, dot, like, rows, store, whole, zeros
from ilbrl.learning.kernels.network import Hidden, Net, output_gradients, widths

TILE = Tile(32, 64, 4, 3)


def weight_gradients(net: Net, x, hidden: Hidden, dz, dy, interpret: bool):
    """Of w₁, b₁, w₂ (in bfloat16), b₂ and w₃."""
    fan_in, units = net.w1.shape
    cut, vector = columns(TILE.units), like((units,))
    return call(
        weight_kernel,
        Plan(len(x), *widths(net), TILE, interpret),
        grid=units // TILE.units,
        inputs=[((x, dy, hidden.h1), whole()), ((hidden.h2, dz), cut), (net.w3, rows(TILE.units))],
        outputs=[
            (like((fan_in, units)), cut),
            (vector, cut),
            (like((units, units), blocks.HALF), cut),
            (vector, cut),
            (like(net.w3.shape), rows(TILE.units)),
        ],
    )


def weight_kernel(full, own, w3, dw1, db1, dw2, db2, dw3, *, plan: Plan):
    (x, dy, h1), (h2, dz), step = full, own, plan.tile.rows

    def add_rows(i, sums):
        to_w1, to_b1, to_w2, to_b2, to_w3 = sums
        some = pl.ds(pl.multiple_of(i * step, step), step)
        dz1, h2_some = dz[0][some, :], h2[some, :]
        dz2 = dz[1][some, :] if len(dz) == 2 else output_gradients(dy, h2_some, w3, plan, some).astype(blocks.HALF)
        return (
            to_w1 + dot(dz1.T, x[some, :]),  # transposed: hidden units fill a tile
            to_b1 + dz1.astype(jnp.float32),
            to_w2 + dot(h1[some, :].T, dz2),
            to_b2 + dz2.astype(jnp.float32),
            to_w3 + dot(h2_some.T, dy[some, :]),
        )

    block = (step, plan.tile.units)
    nothing = tuple(map(zeros, (dw1.shape[::-1], block, dw2.shape, block, dw3.shape)))
    to_w1, to_b1, to_w2, to_b2, to_w3 = jax.lax.fori_loop(0, plan.rows // step, add_rows, nothing)
    store(dw1, to_w1.T, plan.fan_in, axis=0)
    store(dw3, to_w3, plan.fan_out)
    db1[...], dw2[...], db2[...] = to_b1.sum(0), to_w2.astype(dw2.dtype), to_b2.sum(0)
