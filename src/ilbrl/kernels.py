"""A two-hidden-layer ReLU MLP as three GPU kernels (Pallas on Triton), for populations of small networks.

A population of small networks is bound by memory, not arithmetic: left to themselves, the hidden layers of 60
members × 256 rows travel to device memory and back between every product, bias, ReLU and mask. Here both hidden
layers stay on the chip. Products run in bfloat16 with float32 accumulation, biases and sums in float32.

    forward        a program per tile of rows; hidden layers are stored (bfloat16) only when a gradient is wanted,
                   so target networks write nothing but their outputs
    first layer    a program per tile of rows: gradients of the inputs, and of the first layer as partial sums
    second layer   a program per block of hidden units, one pass over all rows: gradients of the second and last layer;
                   dropped by the compiler where only the inputs' gradient is used

vmap over twins and members adds axes to a kernel's grid. `interpret` runs the same kernels anywhere, slowly.
"""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton as plgpu

Layers = tuple[dict[str, jax.Array], ...]

ROWS = 64  # rows of a batch held at a time
UNITS = 64  # hidden units held at a time
WARPS = {"forward": 4, "first": 4, "second": 4}
HALF = jnp.bfloat16


def supports(layers: Layers, rows: int) -> bool:
    """Two equal hidden layers that fill whole tiles, no LayerNorm, and a GPU to run on."""
    if len(layers) != 3 or "scale" in layers[0] or jax.default_backend() != "gpu":
        return False
    first, second = layers[0]["w"].shape[-1], layers[1]["w"].shape[-1]
    return first == second >= UNITS and first & (first - 1) == 0 and rows % ROWS == 0


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def mlp(layers: Layers, x: jax.Array, interpret: bool = False) -> jax.Array:
    """[B, fan_in] → [B, fan_out] float32, as `nets.mlp` with bfloat16 products."""
    return _forward(layers, x, interpret, keep=False)[0]


def _mlp_forward(layers: Layers, x: jax.Array, interpret: bool):
    out, h1, h2 = _forward(layers, x, interpret, keep=True)
    return out, (layers, x, h1, h2)


# --- values -------------------------------------------------------------------------------------------------------


def _forward(layers: Layers, x: jax.Array, interpret: bool, keep: bool) -> list[jax.Array]:
    w1, w2, w3 = _weights(layers)
    b1, b2, b3 = (layer["b"] for layer in layers)
    rows, hidden, fan_out = len(x), w2.shape[0], w3.shape[1]
    tile, whole = _rows(ROWS), _whole
    kept = [jax.ShapeDtypeStruct((rows, hidden), HALF)] * (2 if keep else 0)
    x, b3 = _pad(x, w1.shape[0]).astype(HALF), jnp.pad(b3, (0, fan_out - len(b3)))
    outputs = _call(
        _forward_kernel,
        grid=rows // ROWS,
        inputs=[(x, tile), (w1, whole), (b1, whole), (w2, whole), (b2, whole), (w3, whole), (b3, whole)],
        outputs=[(jax.ShapeDtypeStruct((rows, fan_out), jnp.float32), tile), *((shape, tile) for shape in kept)],
        warps=WARPS["forward"],
        interpret=interpret,
    )
    return [outputs[0][:, : len(layers[2]["b"])], *outputs[1:]]


def _forward_kernel(x, w1, b1, w2, b2, w3, b3, out, *kept):
    h1 = _relu(_dot(x[...], w1[...]) + b1[...][None])
    if kept:
        kept[0][...] = h1
    total = jnp.zeros(out.shape, jnp.float32) + b3[...][None]
    for start in range(0, w2.shape[1], UNITS):
        units = pl.ds(start, UNITS)
        h2 = _relu(_dot(h1, w2[:, units]) + b2[units][None])
        if kept:
            kept[1][:, units] = h2
        total += _dot(h2, w3[units, :])
    out[...] = total


# --- gradients ----------------------------------------------------------------------------------------------------


def _mlp_backward(interpret: bool, residuals, d_out: jax.Array):
    layers, x, h1, h2 = residuals
    weights = _weights(layers)
    fan_in, fan_out = x.shape[1], d_out.shape[1]
    x = _pad(x, weights[0].shape[0]).astype(HALF)
    d_half = _pad(d_out, weights[2].shape[1]).astype(HALF)
    dx, dw1, db1 = _first_layer_gradients(weights, x, h1, h2, d_half, interpret)
    dw2, db2, dw3 = _second_layer_gradients(weights, h1, h2, d_half, interpret)
    gradients = (
        {"w": dw1[:fan_in], "b": db1},
        {"w": dw2.astype(jnp.float32), "b": db2},
        {"w": dw3[:, :fan_out], "b": d_out.sum(0)},
    )
    return gradients, dx[:, :fan_in]


mlp.defvjp(_mlp_forward, _mlp_backward)


def _first_layer_gradients(weights, x, h1, h2, d_out, interpret: bool):
    w1, w2, w3 = weights
    fan_in, hidden = w1.shape
    tiles, tile, whole = len(x) // ROWS, _rows(ROWS), _whole
    dx, dw1, db1 = _call(
        _first_layer_kernel,
        grid=tiles,
        inputs=[(x, tile), (d_out, tile), (h1, tile), (h2, tile), (w1, whole), (w2, whole), (w3, whole)],
        outputs=[
            (jax.ShapeDtypeStruct(x.shape, jnp.float32), tile),
            (jax.ShapeDtypeStruct((tiles * fan_in, hidden), jnp.float32), _rows(fan_in)),
            (jax.ShapeDtypeStruct((tiles, hidden), jnp.float32), _rows(1)),
        ],
        warps=WARPS["first"],
        interpret=interpret,
    )
    return dx, dw1.reshape(tiles, fan_in, hidden).sum(0), db1.sum(0)


def _first_layer_kernel(x, d_out, h1, h2, w1, w2, w3, dx, dw1, db1):
    second = _masked(h2[...], _dot(d_out[...], w3[...].T)).astype(HALF)
    total = jnp.zeros(dx.shape, jnp.float32)
    for start in range(0, w2.shape[0], UNITS):
        units = pl.ds(start, UNITS)
        first = _masked(h1[:, units], _dot(second, w2[units, :].T))
        dw1[:, units] = _dot(x[...].T, first)
        db1[:, units] = first.sum(0)[None]
        total += _dot(first, w1[:, units].T)
    dx[...] = total


def _second_layer_gradients(weights, h1, h2, d_out, interpret: bool):
    w3 = weights[2]
    hidden = h1.shape[1]
    columns, rows, whole = _columns(UNITS), _rows(UNITS), _whole
    dw2, db2, dw3 = _call(
        _second_layer_kernel,
        grid=hidden // UNITS,
        inputs=[(d_out, whole), (h1, whole), (h2, columns), (w3, rows)],
        outputs=[
            (jax.ShapeDtypeStruct((hidden, hidden), HALF), columns),
            (jax.ShapeDtypeStruct((1, hidden), jnp.float32), columns),
            (jax.ShapeDtypeStruct(w3.shape, jnp.float32), rows),
        ],
        warps=WARPS["second"],
        interpret=interpret,
    )
    return dw2, db2[0], dw3


def _second_layer_kernel(d_out, h1, h2, w3, dw2, db2, dw3):
    def add_rows(i, sums):
        to_weights, to_bias, to_last = sums
        rows = pl.ds(i * ROWS, ROWS)
        out = d_out[rows, :]
        second = _masked(h2[rows, :], _dot(out, w3[...].T))
        return (
            to_weights + _dot(h1[rows, :].T, second),
            to_bias + second.sum(0),
            to_last + _dot(h2[rows, :].T, out),
        )

    zeros = tuple(jnp.zeros(shape, jnp.float32) for shape in (dw2.shape, db2.shape[1:], dw3.shape))
    to_weights, to_bias, to_last = jax.lax.fori_loop(0, d_out.shape[0] // ROWS, add_rows, zeros)
    dw2[...], db2[...], dw3[...] = to_weights.astype(dw2.dtype), to_bias[None], to_last


# --- the parts they share -----------------------------------------------------------------------------------------


def _call(kernel, grid: int, inputs: list, outputs: list, warps: int, interpret: bool) -> list[jax.Array]:
    """Run `kernel` in `grid` programs; each input and output comes with the function that cuts it into blocks."""
    return pl.pallas_call(
        kernel,
        out_shape=[shape for shape, _ in outputs],
        grid=(grid,),
        in_specs=[cut(array.shape) for array, cut in inputs],
        out_specs=[cut(shape.shape) for shape, cut in outputs],
        compiler_params=plgpu.CompilerParams(num_warps=warps, num_stages=2),
        interpret=interpret,
    )(*(array for array, _ in inputs))


def _whole(shape: tuple[int, ...]) -> pl.BlockSpec:
    return pl.BlockSpec(shape, lambda _: (0,) * len(shape))


def _rows(rows: int):
    return lambda shape: pl.BlockSpec((rows, shape[1]), lambda i: (i, 0))


def _columns(columns: int):
    return lambda shape: pl.BlockSpec((shape[0], columns), lambda i: (0, i))


def _dot(left: jax.Array, right: jax.Array) -> jax.Array:
    return jnp.dot(left.astype(HALF), right.astype(HALF), preferred_element_type=jnp.float32)


def _relu(x: jax.Array) -> jax.Array:
    return jnp.maximum(x, 0.0).astype(HALF)


def _masked(hidden: jax.Array, gradient: jax.Array) -> jax.Array:
    """The gradient through ReLU: zero where the unit was off."""
    return jnp.where(hidden > 0, gradient, 0.0)


def _weights(layers: Layers) -> tuple[jax.Array, jax.Array, jax.Array]:
    """The weights in bfloat16, input and output widths padded to powers of two as Triton wants them."""
    w1, w2, w3 = (layer["w"].astype(HALF) for layer in layers)
    w1 = jnp.pad(w1, ((0, _power_of_two(w1.shape[0]) - w1.shape[0]), (0, 0)))
    return w1, w2, _pad(w3, _power_of_two(w3.shape[1]))


def _pad(x: jax.Array, columns: int) -> jax.Array:
    return jnp.pad(x, ((0, 0), (0, columns - x.shape[1])))


def _power_of_two(width: int) -> int:
    return max(16, 1 << (width - 1).bit_length())
