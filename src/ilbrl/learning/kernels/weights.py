"""The kernel whose programs each own a block of a layer's units: gradients of weights, biases, scales and shifts.

A program passes over all rows once. Its sums over rows stay in registers.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl

from ilbrl.learning.kernels import blocks
from ilbrl.learning.kernels.blocks import Plan, Tile, add_up, call, columns, dot, like, rows, store, whole, zeros
from ilbrl.learning.kernels.rows import ALL, Kept, Slope, activation, masked, output_gradients, through_norm

TILE = Tile(32, 64, 4, 3)


def weight_gradients(layers, x, dy, kept: tuple[Kept, ...], slopes: tuple[Slope, ...], fan_out: int, interpret: bool):
    """The layers' gradients, without the biases of the outputs; those of inner weights in bfloat16."""
    *hidden, last = layers
    plan = Plan(len(x), layers[0]["w"].shape[0], fan_out, TILE, interpret)
    units = hidden[0]["w"].shape[1]
    norms = [{name: layer[name] for name in ("scale", "shift") if name in layer} for layer in hidden]
    vectors = [(keep.spread, slope.mean, slope.tilt) for keep, slope in zip(kept, slopes)]
    wide = [Kept(keep.h, keep.a) for keep in kept], [slope.da for slope in slopes]
    own, part = columns(TILE.units), rows(TILE.units)
    gradients = [
        {name: like(array.shape, array.dtype if name == "w" else jnp.float32) for name, array in layer.items()}
        for layer in hidden
    ]
    *inner, outer = call(
        weight_kernel,
        plan,
        grid=(units // TILE.units, len(hidden)),
        inputs=[
            ((x, *(keep.h for keep in kept[:-1])), whole()),
            (dy, whole()),
            (vectors, whole()),
            (wide, own),
            (norms, own),
            (last["w"], part),
        ],
        outputs=[*((one, own) for one in gradients), (like(last["w"].shape), part)],
    )
    return [jax.tree.map(lambda array: array.astype(jnp.float32), one) for one in inner], outer


def weight_kernel(inputs, dy, vectors, wide, norms, w_out, *outputs, plan: Plan):
    *gradients, to_outputs = outputs
    for depth, gradient in enumerate(gradients):
        spread, mean, tilt = vectors[depth]
        keep = wide[0][depth]._replace(spread=spread)
        slope = Slope(wide[1][depth], mean, tilt)

        @pl.when(pl.program_id(1) == depth)
        def _(depth=depth, gradient=gradient, keep=keep, slope=slope):
            top = depth == len(gradients) - 1
            _one_layer(inputs[depth], dy, keep, slope, norms[depth], w_out, gradient, to_outputs, depth, top, plan)


def _one_layer(below, dy, keep, slope, norm, w_out, gradient, to_outputs, depth, top, plan: Plan):
    """Gradients of a layer's block of units; the top layer's program also does the outputs' weights."""
    step, block = plan.tile.rows, (plan.tile.rows, plan.tile.units)
    single, normed = plan.fan_out == 1, slope.mean is not None

    def add_rows(some, sums):
        sums, at = dict(sums), (some, ALL)
        da = (
            slope.da[at].astype(jnp.float32)
            if not top
            else masked(output_gradients(dy, w_out, at, plan), norm, keep, at)
        )
        dz = through_norm(da, norm, keep, slope, at).astype(blocks.HALF)
        if depth == 0:
            sums["w"] += dot(dz.T, below[at])  # transposed: hidden units fill a tile
        else:
            sums["w"] += dot(below[at].T, dz)
        sums["b"] += dz.astype(jnp.float32)
        if normed:
            sums["scale"] += da * keep.a[at].astype(jnp.float32)
            sums["shift"] += da
        if top:
            h = activation(norm, keep, at)
            if single:
                sums["out"] += h.astype(jnp.float32) * dy[some, 0].astype(jnp.float32)[:, None]
            else:
                sums["out"] += dot(h.T, dy[at])
        return sums

    start = {name: zeros(block) for name in gradient}
    start["w"] = zeros(gradient["w"].shape[::-1] if depth == 0 else gradient["w"].shape)
    if top:
        start["out"] = zeros(block if single else to_outputs.shape)
    sums = add_up(plan.rows, step, add_rows, start)
    if depth == 0:
        store(gradient["w"], sums["w"].T, plan.fan_in, axis=0)
    else:
        gradient["w"][...] = sums["w"].astype(gradient["w"].dtype)
    for name in gradient.keys() - {"w"}:
        gradient[name][...] = sums[name].sum(0)
    if top and single:
        to_outputs[:, 0] = sums["out"].sum(0)
    elif top:
        store(to_outputs, sums["out"], plan.fan_out)
