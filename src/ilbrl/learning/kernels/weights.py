"""The kernel whose programs each own a block of a layer's units: gradients of weights, biases, scales and shifts.

A program passes over all rows once. Its sums over rows stay in registers.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl

from ilbrl.learning.kernels import blocks
from ilbrl.learning.kernels.blocks import Plan, Tile, add_up, call, columns, dot, like, rows, store, whole, zeros
from ilbrl.learning.kernels.rows import ALL, Kept, Slope, activation, masked, output_gradients, read_means, through_norm

TILE = Tile(32, 64, 4, 3)


def weight_gradients(layers, x, dy, kept: tuple[Kept, ...], slopes: tuple[Slope, ...], fan_out: int, interpret: bool):
    """The hidden layers' gradients, and those of the output's weights."""
    *hidden, last = layers
    fan_in, units = hidden[0]["w"].shape
    own, part = columns(TILE.units), rows(TILE.units)
    norms = [{name: layer[name] for name in ("scale", "shift") if name in layer} for layer in hidden]
    gradients = [  # inner weights have theirs in bfloat16
        {name: like(array.shape, array.dtype if name == "w" else jnp.float32) for name, array in layer.items()}
        for layer in hidden
    ]
    found, to_outputs = call(
        weight_kernel,
        Plan(len(x), fan_in, fan_out, TILE, interpret),
        grid=(units // TILE.units, len(hidden)),
        inputs=[
            ([x, *(keep.h for keep in kept[:-1])], whole()),
            (dy, whole()),
            ((kept, slopes), lambda shape: (own if len(shape) == 2 else whole())(shape)),  # [B, units], or [B]
            (norms, own),
            (last["w"], part),
        ],
        outputs=[(gradients, own), (like(last["w"].shape), part)],
    )
    return jax.tree.map(lambda array: array.astype(jnp.float32), found), to_outputs


def weight_kernel(inputs, dy, layers_kept, norms, w_out, gradients, to_outputs, *, plan: Plan):
    kept, slopes = layers_kept
    top = len(gradients) - 1
    for depth in range(len(gradients)):

        @pl.when(pl.program_id(1) == depth)
        def _(depth=depth):
            norm, keep, slope = norms[depth], kept[depth], slopes[depth]

            def before_relu(at):
                if depth < top:
                    return slope.da[at].astype(jnp.float32)
                return masked(output_gradients(dy[at[0]], w_out, ALL, plan), norm, keep, at)

            outputs = (dy, to_outputs) if depth == top else None
            _sum_layer(inputs[depth], before_relu, norm, keep, slope, gradients[depth], depth == 0, outputs, plan)


def _sum_layer(below, before_relu, norm, keep: Kept, slope: Slope, gradient, lowest: bool, outputs, plan: Plan) -> None:
    """Gradients of a layer's own units; `below` holds its inputs, all of them.

    outputs: for the top layer dy and where the gradients of the weights from its units to the outputs belong.
    """

    def add_rows(some, sums):
        at, sums = (some, ALL), dict(sums)
        da = before_relu(at)
        dz = through_norm(da, norm, keep, read_means(keep, slope, some), at).astype(blocks.HALF)
        # The lowest layer's sum is transposed, since its few inputs fill no tile.
        sums["w"] += dot(dz.T, below[at]) if lowest else dot(below[at].T, dz)
        sums["b"] += dz.astype(jnp.float32)
        if keep.a is not None:
            sums["scale"] += da * keep.a[at].astype(jnp.float32)
            sums["shift"] += da
        if outputs:
            h, dy = activation(norm, keep, at), outputs[0][some]
            if plan.fan_out == 1:
                sums["out"] += h.astype(jnp.float32) * dy.astype(jnp.float32)[:, None]
            else:
                sums["out"] += dot(h.T, dy)
        return sums

    shape, tile = gradient["w"].shape, (plan.tile.rows, plan.tile.units)
    start = {name: zeros(tile) for name in gradient} | {"w": zeros(shape[::-1] if lowest else shape)}
    if outputs:
        start["out"] = zeros(tile if plan.fan_out == 1 else outputs[1].shape)
    sums = add_up(plan.rows, plan.tile.rows, add_rows, start)
    if lowest:
        store(gradient["w"], sums["w"].T, plan.fan_in, axis=0)
    else:
        gradient["w"][...] = sums["w"].astype(gradient["w"].dtype)
    for name in sorted(gradient.keys() - {"w"}):
        gradient[name][...] = sums[name].sum(0)
    if outputs and plan.fan_out == 1:
        outputs[1][:, 0] = sums["out"].sum(0)
    elif outputs:
        store(outputs[1], sums["out"], plan.fan_out)
