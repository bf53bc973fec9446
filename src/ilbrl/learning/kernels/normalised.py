"""An MLP with LayerNorm, which needs all units of a row before it can normalise one.

What a block of units gives is put aside in bfloat16 while its sums over the row add up, and taken up in a second pass.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from ilbrl.learning.kernels import blocks
from ilbrl.learning.kernels.blocks import Plan, dot, load, meet, over_units, relu, row_mean, row_sum, zeros
from ilbrl.learning.kernels.network import Hidden, Net, first_gradients, output_gradients, write_inputs, write_outputs

EPSILON = 1e-5


def forward_kernel(x, net: Net, y, kept: Hidden, *, plan: Plan):
    z1 = dot(x[...], load(net.w1, plan.fan_in, axis=0)) + net.b1[...]
    mean1 = row_mean(z1)
    spread1 = _spread(row_mean(jnp.square(z1 - mean1)))
    a1 = (z1 - mean1) * spread1
    h1 = relu(a1 * net.scale1[...] + net.shift1[...]).astype(blocks.HALF)
    if kept.h1 is not None:
        kept.h1[...], kept.a1[...], kept.spread1[...] = h1, a1.astype(blocks.HALF), spread1[:, 0]

    def put_aside(units, sums):
        z2 = dot(h1, net.w2[:, units]) + net.b2[units]
        kept.z2[:, units] = z2.astype(blocks.HALF)
        return sums[0] + row_sum(z2), sums[1] + row_sum(jnp.square(z2))

    mean2, squares = _row_means(net, plan, put_aside)
    spread2 = _spread(relu(squares - jnp.square(mean2)))
    if kept.h2 is not None:
        kept.mean2[...], kept.spread2[...] = mean2[:, 0], spread2[:, 0]
    meet(plan)

    def take_up(units):
        a2 = (kept.z2[:, units].astype(jnp.float32) - mean2) * spread2
        h2 = relu(a2 * net.scale2[units] + net.shift2[units]).astype(blocks.HALF)
        if kept.h2 is not None:
            kept.h2[:, units] = h2
        return h2

    write_outputs(y, net, plan, take_up)


def input_kernel(dy, hidden: Hidden, net: Net, dx, dz, sums, *, plan: Plan):
    da = output_gradients(dy, hidden.h2[...], net.w3, plan)
    a2 = (hidden.z2[...].astype(jnp.float32) - hidden.mean2[...][:, None]) * hidden.spread2[...][:, None]
    if sums:
        sums[2][0], sums[3][0] = (da * a2).sum(0), da.sum(0)
    da = da * net.scale2[...]
    dz2 = _through_norm(da, a2, hidden.spread2, (row_mean(da), row_mean(da * a2))).astype(blocks.HALF)
    if sums:
        dz[1][...] = dz2

    def put_aside(units, totals):
        da = first_gradients(units, dz2, hidden.h1, net)
        a1 = hidden.a1[:, units].astype(jnp.float32)
        if sums:
            sums[0][0, units], sums[1][0, units] = (da * a1).sum(0), da.sum(0)
        da = da * net.scale1[units]
        dz[0][:, units] = da.astype(blocks.HALF)
        return totals[0] + row_sum(da), totals[1] + row_sum(da * a1)

    centre = _row_means(net, plan, put_aside)
    meet(plan)

    def take_up(units):
        da, a1 = dz[0][:, units].astype(jnp.float32), hidden.a1[:, units].astype(jnp.float32)
        dz1 = _through_norm(da, a1, hidden.spread1, centre).astype(blocks.HALF)
        if sums:
            dz[0][:, units] = dz1
        return dz1

    write_inputs(dx, net, plan, take_up)


def _row_means(net: Net, plan: Plan, add_units) -> list[jax.Array]:
    """Two [R, 1] means over the hidden units, of what `add_units` adds up."""
    nothing = zeros((plan.tile.rows, 1)), zeros((plan.tile.rows, 1))
    return [total / net.w2.shape[0] for total in over_units(net.w2.shape[0], plan, add_units, nothing)]


def _spread(variance: jax.Array) -> jax.Array:
    """1 / std."""
    return jax.lax.rsqrt(variance + EPSILON)


def _through_norm(da: jax.Array, a: jax.Array, spread, centre) -> jax.Array:
    """dz = (da − mean da − a · mean(da · a)) / std, the means being the `centre`."""
    return spread[...][:, None] * (da - centre[0] - a * centre[1])
