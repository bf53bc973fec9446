"""An MLP without LayerNorm: the second layer's outputs, or the first one's gradients, block by block in one pass."""

from __future__ import annotations

from ilbrl.learning.kernels import blocks
from ilbrl.learning.kernels.blocks import Plan, dot, load, relu
from ilbrl.learning.kernels.network import Hidden, Net, first_gradients, output_gradients, write_inputs, write_outputs


def forward_kernel(x, net: Net, y, kept: Hidden, *, plan: Plan):
    h1 = relu(dot(x[...], load(net.w1, plan.fan_in, axis=0)) + net.b1[...]).astype(blocks.HALF)
    if kept.h1 is not None:
        kept.h1[...] = h1

    def second_layer(units):
        h2 = relu(dot(h1, net.w2[:, units]) + net.b2[units]).astype(blocks.HALF)
        if kept.h2 is not None:
            kept.h2[:, units] = h2
        return h2

    write_outputs(y, net, plan, second_layer)


def input_kernel(dy, hidden: Hidden, net: Net, dx, dz, _, *, plan: Plan):
    dz2 = output_gradients(dy, hidden.h2[...], net.w3, plan).astype(blocks.HALF)

    def first_layer(units):
        dz1 = first_gradients(units, dz2, hidden.h1, net).astype(blocks.HALF)
        if dz:
            dz[0][:, units] = dz1
        return dz1

    write_inputs(dx, net, plan, first_layer)
