"""ReLU MLPs of two or three hidden layers, with or without LayerNorm, as three GPU kernels (Pallas on Triton).

A population of small networks is bound by memory, not arithmetic: left to XLA, the hidden layers of 60 members × 256
rows travel to device memory and back between every product, bias, normalisation, ReLU and mask. Here a layer's product
and all that follows it happen on the chip. Products take bfloat16 and add up in float32; hidden layers are stored in
bfloat16, everything else in float32.

    z = h_below W + b        a = (z − mean z) / std z  with LayerNorm, a = z without        h = relu(scale · a + shift)

    forward   A program per tile of rows runs all layers. It stores a layer's h, since its threads exchange the layer
              through memory, and with LayerNorm a. It stores only what a gradient will need.
    inputs    A program per tile of rows runs the layers backwards. It stores da, the gradient before each ReLU (the top
              layer's is computed again instead of stored), and two means per row with LayerNorm; and the gradient of
              x if wanted.
    weights   A program per layer and block of its units passes once over all rows: gradients of weights and biases,
              scales and shifts.

rows.py holds the first two kernels, weights.py the third, blocks.py what they share. vmap over critics and members adds
axes to a kernel's grid. `interpret` runs the same kernels anywhere, slowly.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax

from ilbrl.learning.kernels import blocks, weights
from ilbrl.learning.kernels.blocks import Plan, Tile, call, like, padded, whole
from ilbrl.learning.kernels.blocks import rows as cut_rows
from ilbrl.learning.kernels.rows import Kept, Slope, forward_kernel, input_kernel

Layers = tuple[dict[str, jax.Array], ...]

FORWARD, INPUTS = Tile(64, 32, 8, 4), Tile(64, 32, 8, 4)
WIDEST, WIDEST_INPUT, WIDEST_OUTPUT = 256, 128, 16  # units of the networks that these kernels have been run with
HIDDEN = (2, 3)  # numbers of hidden layers that they have been run with


def supports(layers: Layers) -> bool:
    """Whether a GPU is there that JAX can program, and the hidden layers are equal, fill blocks and fit on the chip."""
    if len(layers) - 1 not in HIDDEN or jax.default_backend() != "gpu" or blocks.plgpu is None:
        return False
    fan_in, units = layers[0]["w"].shape[-2:]
    equal = all(layer["w"].shape[-1] == units for layer in layers[:-1])
    filled = units >= max(tile.units for tile in (FORWARD, INPUTS, weights.TILE)) and units & (units - 1) == 0
    fits = blocks.block(fan_in) <= WIDEST_INPUT and blocks.block(layers[-1]["w"].shape[-1]) <= WIDEST_OUTPUT
    return equal and filled and units <= WIDEST and fits


@partial(jax.custom_vjp, nondiff_argnums=(2, 3))
def mlp(layers: Layers, x: jax.Array, first: bool = False, interpret: bool = False) -> jax.Array:
    """[B, fan_in] → [B, fan_out] float32, as `nets.mlp` with bfloat16 products.

    first: the layers are several networks stacked; run the first of them where it lies. It gets no gradient.
    """
    return _forward(_halved(layers), _whole_tiles(x), first, interpret, keep=False)[0][: len(x)]


def _mlp_forward(layers: Any, x: Any, first: bool, interpret: bool):
    of_weights, of_inputs = any(leaf.perturbed for leaf in jax.tree.leaves(layers)), x.perturbed
    assert not (first and of_weights), "the first of several networks gets no gradient: jax.lax.stop_gradient(layers)"
    net, inputs = _halved(jax.tree.map(lambda leaf: leaf.value, layers)), _whole_tiles(x.value)
    y, kept = _forward(net, inputs, first, interpret, keep=True)
    return y[: len(x.value)], (net, kept, inputs if of_weights else None, () if of_inputs else None)


def _mlp_backward(first: bool, interpret: bool, residuals, dy: jax.Array):
    net, kept, x, of_inputs = residuals
    last, of_weights = _whole_tiles(dy), x is not None
    if dy.shape[1] == 1:
        last = last[:, 0]  # a vector, not a block that is mostly padding
    dx, slopes = _backward(net, kept, last, first, interpret, of_weights, of_inputs is not None)
    dx = None if dx is None else dx[: len(dy)]
    if not of_weights:
        return None, dx
    inner, outer = weights.weight_gradients(net, x, last, kept, slopes, dy.shape[1], interpret)
    return (*inner, {"w": outer, "b": dy.sum(0)}), dx


mlp.defvjp(_mlp_forward, _mlp_backward, symbolic_zeros=True)


def _whole_tiles(x: jax.Array) -> jax.Array:
    return padded(x, max(tile.rows for tile in (FORWARD, INPUTS, weights.TILE)))


def _halved(layers: Layers) -> Layers:
    """Inner weights in bfloat16: every program reads them whole. The first and the last are small."""
    first, *inner, last = layers
    return (first, *(layer | {"w": layer["w"].astype(blocks.HALF)} for layer in inner), last)


def _forward(net: Layers, x: jax.Array, first: bool, interpret: bool, keep: bool):
    """[B, fan_out] y, and of each hidden layer what the next one and, with `keep`, the gradients need."""
    batch, (fan_in, units), fan_out = len(x), net[0]["w"].shape[-2:], net[-1]["w"].shape[-1]
    cut = cut_rows(FORWARD.rows)
    return call(
        forward_kernel,
        Plan(batch, fan_in, fan_out, FORWARD, interpret),
        grid=(batch // FORWARD.rows,),
        inputs=[(x, cut), (net, whole(first))],
        outputs=[(like((batch, fan_out)), cut), (_kept(net, batch, units, keep), cut)],
    )


def _kept(net: Layers, batch: int, units: int, keep: bool) -> tuple[Kept, ...]:
    tile, row = like((batch, units), blocks.HALF), like((batch,))
    normed = "scale" in net[0]
    normal = (tile, row) if keep and normed else (None, None)
    top = tile if keep and not normed else None  # with LayerNorm its h follows from a
    return (*(Kept(tile, *normal) for _ in net[:-2]), Kept(top, *normal))


def _backward(net, kept, dy: jax.Array, first: bool, interpret: bool, of_weights: bool, of_inputs: bool):
    """[B, fan_in] gradients of x, None where not wanted, and the slopes at each hidden layer."""
    batch, (fan_in, units), fan_out = len(dy), net[0]["w"].shape[-2:], net[-1]["w"].shape[-1]
    tile, row = like((batch, units), blocks.HALF), like((batch,))
    means = (row, row) if "scale" in net[0] else (None, None)
    bottom = tile if of_weights else None
    slopes = (Slope(bottom, *means), *(Slope(tile, *means) for _ in net[1:-2]), Slope(None, *means))
    cut = cut_rows(INPUTS.rows)
    return call(
        input_kernel,
        Plan(batch, fan_in, fan_out, INPUTS, interpret),
        grid=(batch // INPUTS.rows,),
        inputs=[(dy, cut), (kept, cut), (net, whole(first))],
        outputs=[(like((batch, fan_in)) if of_inputs else None, cut), (slopes, cut)],
    )
