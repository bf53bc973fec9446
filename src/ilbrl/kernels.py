"""A two-hidden-layer ReLU MLP as three GPU kernels (Pallas on Triton): values, weight gradients, input gradients.

A population of small networks is bound by memory, not arithmetic: left to themselves, the hidden layers of 60
members × 256 rows travel to device memory and back between every product, bias, ReLU and mask. Here both hidden
layers stay on the chip. Products run in bfloat16 with float32 accumulation, biases and sums in float32.

    forward           a program per tile of rows; hidden layers are stored (bfloat16) only when a gradient is wanted,
                      so target networks write nothing but their outputs
    weight gradients  a program per block of hidden units; all five gradients in one pass over the rows
    input gradients   a program per tile of rows; dropped by the compiler where nobody asks for them

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


def _mlp_backward(interpret: bool, residuals, d_out: jax.Array):
    layers, x, h1, h2 = residuals
    return _weight_gradients(layers, x, h1, h2, d_out, interpret), _input_gradients(layers, h1, h2, d_out, interpret)


mlp.defvjp(_mlp_forward, _mlp_backward)


# --- values -------------------------------------------------------------------------------------------------------


def _forward(layers: Layers, x: jax.Array, interpret: bool, keep: bool) -> list[jax.Array]:
    w1, w2, w3 = _weights(layers)
    b1, b2, b3 = (layer["b"] for layer in layers)
    rows, hidden, fan_out = len(x), w2.shape[0], w3.shape[1]
    tile, whole = _tile(ROWS), _whole
    kept = [jax.ShapeDtypeStruct((rows, hidden), HALF)] * (2 if keep else 0)
    x, b3 = _pad(x, w1.shape[0]).astype(HALF), jnp.pad(b3, (0, fan_out - len(b3)))
    outputs = _call(
        _forward_kernel,
        grid=rows // ROWS,
        inputs=[(x, tile), (w1, whole), (b1, whole), (w2, whole), (b2, whole), (w3, whole), (b3, whole)],
        outputs=[(jax.ShapeDtypeStruct((rows, fan_out), jnp.float32), tile), *((shape, tile) for shape in kept)],
        warps=4,
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


def _weight_gradients(layers: Layers, x: jax.Array, h1: jax.Array, h2: jax.Array, d_out: jax.Array, interpret: bool):
    _, w2, w3 = _weights(layers)
    fan_in, hidden, fan_out = x.shape[1], h1.shape[1], d_out.shape[1]
    x, d_out = (_pad(array, _power_of_two(array.shape[1])).astype(HALF) for array in (x, d_out))
    columns, rows, whole = _columns(UNITS), _tile(UNITS), _whole
    inputs = [
        (x, whole), (d_out, whole), (h1, whole), (h1, columns), (h2, whole), (h2, columns),
        (w2, rows), (w3, whole), (w3, rows),
    ]  # fmt: skip
    outputs = [
        (jax.ShapeDtypeStruct((x.shape[1], hidden), jnp.float32), columns),
        (jax.ShapeDtypeStruct((1, hidden), jnp.float32), columns),
        (jax.ShapeDtypeStruct((hidden, hidden), HALF), columns),
        (jax.ShapeDtypeStruct((1, hidden), jnp.float32), columns),
        (jax.ShapeDtypeStruct((hidden, d_out.shape[1]), jnp.float32), rows),
    ]
    kernel = _weight_gradients_kernel
    dw1, db1, dw2, db2, dw3 = _call(kernel, hidden // UNITS, inputs, outputs, warps=8, interpret=interpret)
    return (
        {"w": dw1[:fan_in], "b": db1[0]},
        {"w": dw2.astype(jnp.float32), "b": db2[0]},
        {"w": dw3[:, :fan_out], "b": d_out[:, :fan_out].astype(jnp.float32).sum(0)},
    )


def _weight_gradients_kernel(
    x, d_out, h1, h1_units, h2, h2_units, w2_units, w3, w3_units, dw1, db1, dw2, db2, dw3
):
    def add_rows(i, sums):
        s1, t1, s2, t2, s3 = sums
        rows = pl.ds(i * ROWS, ROWS)
        out = d_out[rows, :]
        second = _masked(h2[rows, :], _dot(out, w3[...].T)).astype(HALF)  # all units of layer 2
        first = _masked(h1_units[rows, :], _dot(second, w2_units[...].T))  # this program's units of layer 1
        own = _masked(h2_units[rows, :], _dot(out, w3_units[...].T))  # this program's units of layer 2
        return (
            s1 + _dot(x[rows, :].T, first),
            t1 + first.sum(0),
            s2 + _dot(h1[rows, :].T, own),
            t2 + own.sum(0),
            s3 + _dot(h2_units[rows, :].T, out),
        )

    zeros = tuple(jnp.zeros(shape, jnp.float32) for shape in (dw1.shape, db1.shape[1:], dw2.shape, db2.shape[1:], dw3.shape))
    s1, t1, s2, t2, s3 = jax.lax.fori_loop(0, x.shape[0] // ROWS, add_rows, zeros)
    dw1[...], db1[...], dw2[...], db2[...], dw3[...] = s1, t1[None], s2.astype(dw2.dtype), t2[None], s3


def _input_gradients(layers: Layers, h1: jax.Array, h2: jax.Array, d_out: jax.Array, interpret: bool) -> jax.Array:
    w1, w2, w3 = _weights(layers)
    tile, whole = _tile(ROWS), _whole
    d_out = _pad(d_out, w3.shape[1]).astype(HALF)
    dx = _call(
        _input_gradients_kernel,
        grid=len(h1) // ROWS,
        inputs=[(d_out, tile), (h1, tile), (h2, tile), (w1, whole), (w2, whole), (w3, whole)],
        outputs=[(jax.ShapeDtypeStruct((len(h1), w1.shape[0]), jnp.float32), tile)],
        warps=4,
        interpret=interpret,
    )[0]
    return dx[:, : layers[0]["w"].shape[0]]


def _input_gradients_kernel(d_out, h1, h2, w1, w2, w3, dx):
    second = _masked(h2[...], _dot(d_out[...], w3[...].T)).astype(HALF)
    total = jnp.zeros(dx.shape, jnp.float32)
    for start in range(0, w2.shape[0], UNITS):
        units = pl.ds(start, UNITS)
        first = _masked(h1[:, units], _dot(second, w2[units, :].T))
        total += _dot(first, w1[:, units].T)
    dx[...] = total


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


def _tile(rows: int):
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
