"""A two-hidden-layer ReLU MLP, with or without LayerNorm, as three GPU kernels (Pallas on Triton).

A population of small networks is bound by memory, not arithmetic: left to themselves, the hidden layers of 60
members × 256 rows travel to device memory and back between every product, bias, normalisation, ReLU and mask. Here
both hidden layers stay on the chip. Products take bfloat16 and add up in float32; what is stored of the hidden layers
is bfloat16 too, the rest float32.

    z₁ = x W₁ + b₁        a = (z − mean z) / std z  with LayerNorm, z without         h = relu(scale · a + shift)
    z₂ = h₁ W₂ + b₂       y = h₂ W₃ + b₃

    forward   a program per tile of rows; what the gradients need of the hidden layers is stored only when one is
              wanted, so target networks write nothing but their outputs (with LayerNorm, z₂ as well)
    inputs    a program per tile of rows: gradients of x where those are wanted, and of z₁ where those of the weights
              are, with LayerNorm also of z₂, scale and shift (partial sums over the tile)
    weights   a program per block of hidden units, one pass over all rows: gradients of weights and biases; those of z₂
              follow from y's at once without LayerNorm, and are computed again here rather than stored

plain.py and normalised.py hold the first two kernels, without and with LayerNorm, weights.py the third.

A tile of a whole layer is held on the chip, and the second layer's weights are streamed through in blocks, the next one
fetched while one is multiplied: its outputs come block by block, few sums at a time, which leaves registers for two
programs per multiprocessor. LayerNorm needs all outputs before it can normalise one; there the blocks are put aside in
bfloat16 and taken up again in a second pass. vmap over twins and members adds axes to a kernel's grid. `interpret` runs
the same kernels anywhere, slowly.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from ilbrl.learning.kernels import blocks, normalised, plain, weights
from ilbrl.learning.kernels.blocks import Plan, Tile, call, half, like, rows, whole
from ilbrl.learning.kernels.network import Hidden, Net, widths

Layers = tuple[dict[str, jax.Array], ...]

FORWARD, INPUTS = Tile(64, 64, 4, 3), Tile(64, 64, 4, 2)
WIDEST, WIDEST_INPUT = 256, 128  # hidden units and inputs of the networks these kernels have been run with


def supports(layers: Layers, rows: int) -> bool:
    """Two equal hidden layers that fill whole tiles and fit on the chip, and a GPU to run on that JAX can program."""
    if len(layers) != 3 or jax.default_backend() != "gpu" or blocks.plgpu is None:
        return False
    (fan_in, first), second = layers[0]["w"].shape[-2:], layers[1]["w"].shape[-1]
    if first > WIDEST or blocks.block(fan_in) > WIDEST_INPUT:
        return False
    tiles = (FORWARD, INPUTS, weights.TILE)
    filled = first >= max(tile.units for tile in tiles) and rows % max(tile.rows for tile in tiles) == 0
    return filled and first == second and first & (first - 1) == 0


@partial(jax.custom_vjp, nondiff_argnums=(2, 3))
def mlp(layers: Layers, x: jax.Array, first: bool = False, interpret: bool = False) -> jax.Array:
    """[B, fan_in] → [B, fan_out] float32, as `nets.mlp` with bfloat16 products.

    first: the layers are several networks stacked, the first of them is run where it lies, and gets no gradient.
    """
    return _forward(_net(layers), half(x), first, interpret, keep=False)[0]


def _mlp_forward(layers: Any, x: Any, first: bool, interpret: bool):
    of_weights, of_inputs = any(leaf.perturbed for leaf in jax.tree.leaves(layers)), x.perturbed
    assert not (first and of_weights), "the first of several networks gets no gradient: jax.lax.stop_gradient(layers)"
    net, inputs = _net(jax.tree.map(lambda leaf: leaf.value, layers)), half(x.value)
    y, hidden = _forward(net, inputs, first, interpret, keep=True)
    return y, (net, hidden, inputs if of_weights else None, () if of_inputs else None)


def _mlp_backward(first: bool, interpret: bool, residuals, dy: jax.Array):
    net, hidden, x, of_inputs = residuals
    last, of_weights = half(dy), x is not None
    dx, dz, norms = _input_gradients(net, hidden, last, first, interpret, of_weights, of_inputs is not None)
    if not of_weights:
        return None, dx
    dw1, db1, dw2, db2, dw3 = weights.weight_gradients(net, x, hidden, dz, last, interpret)
    lower, upper = {"w": dw1, "b": db1}, {"w": dw2.astype(jnp.float32), "b": db2}
    if norms:
        scale1, shift1, scale2, shift2 = (sums.sum(0) for sums in norms)
        lower, upper = lower | {"scale": scale1, "shift": shift1}, upper | {"scale": scale2, "shift": shift2}
    return (lower, upper, {"w": dw3, "b": dy.sum(0)}), dx


mlp.defvjp(_mlp_forward, _mlp_backward, symbolic_zeros=True)


def _net(layers: Layers) -> Net:
    w1, w2, w3 = (layer["w"] for layer in layers)
    b1, b2, b3 = (layer["b"] for layer in layers)
    norms = [layer[name] for layer in layers[:2] for name in ("scale", "shift") if name in layer]
    return Net(w1, w2.astype(blocks.HALF), w3, b1, b2, b3, *norms)


def _forward(net: Net, x: jax.Array, first: bool, interpret: bool, keep: bool) -> tuple[jax.Array, Hidden]:
    """y, and with `keep` what the gradients need of the hidden layers."""
    batch, norm = len(x), net.scale1 is not None
    layer, vector = like((batch, net.w2.shape[-1]), blocks.HALF), like((batch,))
    if norm:
        kept = Hidden(layer, layer, layer, layer, vector, vector, vector) if keep else Hidden(z2=layer)
    else:
        kept = Hidden(layer, layer) if keep else Hidden()
    plan = Plan(batch, *widths(net), FORWARD, interpret)
    cut = rows(plan.tile.rows)
    return call(
        (normalised if norm else plain).forward_kernel,
        plan,
        grid=batch // plan.tile.rows,
        inputs=[(x, cut), (net, whole(first))],
        outputs=[(like((batch, plan.fan_out)), cut), (kept, cut)],
    )


def _input_gradients(
    net: Net, hidden: Hidden, dy: jax.Array, first: bool, interpret: bool, of_weights: bool, of_inputs: bool
):
    """Gradients of x, of z₁ (and z₂, with LayerNorm), and per tile of (scale₁, shift₁, scale₂, shift₂).

    None where not wanted; of the second no more arrays than are needed, the first of them also to put blocks aside.
    """
    batch, units, norm = len(dy), net.w2.shape[-1], net.scale1 is not None
    plan = Plan(batch, *widths(net), INPUTS, interpret)
    tiles, cut = batch // plan.tile.rows, rows(plan.tile.rows)
    layers_written = of_weights + norm  # with LayerNorm z₁'s hold what is put aside, and z₂'s are not computed again
    return call(
        (normalised if norm else plain).input_kernel,
        plan,
        grid=tiles,
        inputs=[(dy, cut), (hidden, cut), (net, whole(first))],
        outputs=[
            (like((batch, plan.fan_in)) if of_inputs else None, cut),
            ((like((batch, units), blocks.HALF),) * layers_written, cut),
            ((like((tiles, units)),) * 4 if of_weights and norm else None, rows(1)),
        ],
    )
