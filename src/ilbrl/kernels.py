"""A two-hidden-layer ReLU MLP, with or without LayerNorm, as three GPU kernels (Pallas on Triton).

A population of small networks is bound by memory, not arithmetic: left to themselves, the hidden layers of 60
members × 256 rows travel to device memory and back between every product, bias, normalisation, ReLU and mask. Here
both hidden layers stay on the chip. Products run in bfloat16 with float32 accumulation, everything else in float32.

    z₁ = x W₁ + b₁        a = (z − mean z) / std z  with LayerNorm, z without         h = relu(scale · a + shift)
    z₂ = h₁ W₂ + b₂       y = h₂ W₃ + b₃

    forward   a program per tile of rows; h₁ and h₂ (with LayerNorm a₁, a₂ and 1 / std as well) are stored only when a
              gradient is wanted, so target networks write nothing but their outputs
    inputs    a program per tile of rows: gradients of x, of z₁ and z₂ (stored), and of scale and shift (partial sums)
    weights   a program per block of hidden units, one pass over all rows: gradients of weights and biases; dropped by
              the compiler where only the inputs' gradient is used

Weights of the second layer are streamed through the chip block by block while the previous block is multiplied.
Nothing is padded outside: blocks reach past narrow arrays, and what lies beyond is masked. vmap over twins and members
adds axes to a kernel's grid. `interpret` runs the same kernels anywhere, slowly.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton as plgpu

Layers = tuple[dict[str, jax.Array], ...]

ROWS = 64  # rows of a batch that a program of `forward` and `inputs` takes
STREAM = 64  # hidden units of a layer multiplied at a time
UNITS = 64  # hidden units that a program of `weights` takes
STEP = 64  # rows that it takes at a time
WARPS, STAGES = 4, 2
HALF = jnp.bfloat16
EPSILON = 1e-5  # of LayerNorm
NOTHING: Any = None  # in place of what a LayerNorm would have


def supports(layers: Layers, rows: int) -> bool:
    """Two equal hidden layers that fill whole tiles, and a GPU to run on."""
    if len(layers) != 3 or jax.default_backend() != "gpu":
        return False
    first, second = layers[0]["w"].shape[-1], layers[1]["w"].shape[-1]
    return first == second >= max(UNITS, STREAM) and first & (first - 1) == 0 and rows % max(ROWS, STEP) == 0


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def mlp(layers: Layers, x: jax.Array, interpret: bool = False) -> jax.Array:
    """[B, fan_in] → [B, fan_out] float32, as `nets.mlp` with bfloat16 products."""
    return _forward(_net(layers), x, interpret, keep=False)[0]


def _mlp_forward(layers: Layers, x: jax.Array, interpret: bool):
    net = _net(layers)
    out, *kept = _forward(net, x, interpret, keep=True)
    return out, (net, x, kept)


def _mlp_backward(interpret: bool, residuals, d_out: jax.Array):
    net, x, kept = residuals
    dx, dz1, dz2, *norms = _input_gradients(net, kept, d_out, interpret)
    dw1, db1, dw2, db2, dw3, db3 = _weight_gradients(net, x, kept[0], kept[1], dz1, dz2, d_out, interpret)
    first, second = {"w": dw1, "b": db1}, {"w": dw2.astype(jnp.float32), "b": db2}
    if norms:
        scale1, shift1, scale2, shift2 = (sums.sum(0) for sums in norms)
        first, second = first | {"scale": scale1, "shift": shift1}, second | {"scale": scale2, "shift": shift2}
    return (first, second, {"w": dw3, "b": db3}), dx


mlp.defvjp(_mlp_forward, _mlp_backward)


class Net(NamedTuple):
    """The layers by their names above."""

    w1: jax.Array  # [fan_in, hidden]
    w2: jax.Array  # [hidden, hidden] in bfloat16, the one that every program reads whole
    w3: jax.Array  # [hidden, fan_out]
    b1: jax.Array  # [hidden], as all vectors of the hidden layers
    b2: jax.Array
    b3: jax.Array  # [fan_out]
    norms: tuple[jax.Array, ...]  # scale₁, shift₁, scale₂, shift₂; empty without LayerNorm


def _net(layers: Layers) -> Net:
    w1, w2, w3 = (layer["w"] for layer in layers)
    b1, b2, b3 = (layer["b"] for layer in layers)
    norms = [layer[name] for layer in layers[:2] for name in ("scale", "shift") if name in layer]
    return Net(w1, w2.astype(HALF), w3, b1, b2, b3, tuple(norms))


# --- values -------------------------------------------------------------------------------------------------------


def _forward(net: Net, x: jax.Array, interpret: bool, keep: bool) -> list[jax.Array]:
    """[B, fan_out] outputs; with `keep` also h₁ and h₂, and with LayerNorm a₁, a₂ and 1 / std of both layers."""
    rows, hidden = len(x), net.w2.shape[0]
    kept = [jax.ShapeDtypeStruct((rows, hidden), HALF)] * (4 if net.norms else 2)
    kept += [jax.ShapeDtypeStruct((rows,), jnp.float32)] * (2 if net.norms else 0)
    outputs = [jax.ShapeDtypeStruct((rows, net.w3.shape[1]), jnp.float32), *(kept if keep else ())]
    return _call(
        partial(_forward_kernel, widths=_widths(net)),
        grid=rows // ROWS,
        inputs=[(x, _rows(ROWS)), *_whole_net(net)],
        outputs=[(shape, _rows(ROWS)) for shape in outputs],
        interpret=interpret,
    )


def _forward_kernel(x, w1, w2, w3, b1, b2, b3, *rest, widths):
    fan_in, fan_out, norm = widths
    scale1, shift1, scale2, shift2 = rest[:4] if norm else [NOTHING] * 4
    out, *kept = rest[4:] if norm else rest
    inputs = _load(x, fan_in, axis=1).astype(HALF)
    mean1, spread1 = _statistics(_dot(inputs, _load(w1, fan_in, axis=0)) + b1[...]) if norm else (NOTHING, NOTHING)

    def add_units(i, total):
        units = pl.ds(pl.multiple_of(i * STREAM, STREAM), STREAM)
        z1 = _dot(inputs, _load(w1.at[:, units], fan_in, axis=0)) + b1[units]
        if norm:
            a1 = (z1 - mean1) * spread1
            z1 = a1 * scale1[units] + shift1[units]
            if kept:
                kept[2][:, units] = a1.astype(HALF)
        h1 = _relu(z1).astype(HALF)
        if kept:
            kept[0][:, units] = h1
        return total + _dot(h1, w2[units, :])

    zeros = jnp.zeros((x.shape[0], w2.shape[1]), jnp.float32)
    z2 = jax.lax.fori_loop(0, w2.shape[0] // STREAM, add_units, zeros) + b2[...]
    if norm:
        mean2, spread2 = _statistics(z2)
        a2 = (z2 - mean2) * spread2
        z2 = a2 * scale2[...] + shift2[...]
        if kept:
            kept[3][...], kept[4][...], kept[5][...] = a2.astype(HALF), spread1[:, 0], spread2[:, 0]
    h2 = _relu(z2).astype(HALF)
    if kept:
        kept[1][...] = h2
    _store(out, _dot(h2, _load(w3, fan_out, axis=1)) + _load(b3, fan_out, axis=0), fan_out, axis=1)


def _relu(z: jax.Array) -> jax.Array:
    """max(z, 0), but NaN stays NaN: Triton's maximum would make a broken unit look like a dead one."""
    return jnp.where(z < 0, 0.0, z)


def _statistics(z: jax.Array) -> tuple[jax.Array, jax.Array]:
    """[R, 1] mean and 1 / std over the hidden units."""
    mean = _row_mean(z)
    return mean, jax.lax.rsqrt(_row_mean(jnp.square(z - mean)) + EPSILON)


def _row_mean(z: jax.Array) -> jax.Array:
    return z.sum(1, keepdims=True) / z.shape[1]


# --- gradients ----------------------------------------------------------------------------------------------------


def _input_gradients(net: Net, kept: list[jax.Array], d_out: jax.Array, interpret: bool):
    rows, (fan_in, hidden) = len(d_out), net.w1.shape
    tile, tiles = _rows(ROWS), rows // ROWS
    sums = [(jax.ShapeDtypeStruct((tiles, hidden), jnp.float32), _rows(1))] * len(net.norms)
    hidden_gradients = [(jax.ShapeDtypeStruct((rows, hidden), HALF), tile)] * 2
    return _call(
        partial(_input_kernel, widths=_widths(net)),
        grid=tiles,
        inputs=[(d_out, tile), *((array, tile) for array in kept), *_whole_net(net)],
        outputs=[(jax.ShapeDtypeStruct((rows, fan_in), jnp.float32), tile), *hidden_gradients, *sums],
        interpret=interpret,
    )


def _input_kernel(d_out, h1, h2, *rest, widths):
    fan_in, fan_out, norm = widths
    if norm:
        a1, a2, spread1, spread2, w1, w2, w3, _, _, _, scale1, _, scale2, _ = rest[:14]
        dx, dz1, dz2, d_scale1, d_shift1, d_scale2, d_shift2 = rest[14:]
    else:
        (w1, w2, w3, _, _, _), (dx, dz1, dz2) = rest[:6], rest[6:]
        a1, a2, spread1, spread2, scale1, scale2, d_scale1, d_shift1, d_scale2, d_shift2 = [NOTHING] * 10
    last, everything = _load(d_out, fan_out, axis=1).astype(HALF), pl.ds(0, w2.shape[0])

    def second_layer(units):
        """Gradient at what the second ReLU sees, of some units."""
        dh2 = _dot(last, _load(w3.at[units, :], fan_out, axis=1).T)
        return jnp.where(h2[:, units] > 0, dh2, 0.0)

    centre2 = None
    if norm:
        dz, a = second_layer(everything), a2[...].astype(jnp.float32)
        d_scale2[0], d_shift2[0] = (dz * a).sum(0), dz.sum(0)
        centre2 = _centre(dz * scale2[...], a)

    def add_units(i, total):
        units = pl.ds(pl.multiple_of(i * STREAM, STREAM), STREAM)
        dz = second_layer(units)
        if norm:
            dz = _through_norm(dz * scale2[units], a2[:, units], spread2, centre2)
        dz = dz.astype(HALF)
        dz2[:, units] = dz
        return total + _dot(dz, w2[:, units].T)

    dh1 = jax.lax.fori_loop(0, w2.shape[1] // STREAM, add_units, jnp.zeros(h1.shape, jnp.float32))
    dz = jnp.where(h1[...] > 0, dh1, 0.0)
    if norm:
        a = a1[...].astype(jnp.float32)
        d_scale1[0], d_shift1[0] = (dz * a).sum(0), dz.sum(0)
        dz = dz * scale1[...]
        dz = _through_norm(dz, a, spread1, _centre(dz, a))
    dz = dz.astype(HALF)
    dz1[...] = dz
    _store(dx, _dot(dz, _load(w1, fan_in, axis=0).T), fan_in, axis=1)


def _centre(da: jax.Array, a: jax.Array) -> tuple[jax.Array, jax.Array]:
    """[R, 1] means of da and of da · a over the hidden units."""
    return _row_mean(da), _row_mean(da * a)


def _through_norm(da: jax.Array, a: jax.Array, spread, centre) -> jax.Array:
    """dz = (da − mean da − a · mean(da · a)) / std."""
    return spread[...][:, None] * (da - centre[0] - a.astype(jnp.float32) * centre[1])


def _weight_gradients(net: Net, x, h1, h2, dz1, dz2, d_out, interpret: bool):
    fan_in, hidden = net.w1.shape
    columns, rows = _columns(UNITS), _rows(UNITS)
    vector = (jax.ShapeDtypeStruct((hidden,), jnp.float32), columns)
    return _call(
        partial(_weight_kernel, widths=_widths(net)),
        grid=hidden // UNITS,
        inputs=[(x, _whole), (d_out, _whole), (h1, _whole), (h2, columns), (dz1, columns), (dz2, columns)],
        outputs=[
            (jax.ShapeDtypeStruct((fan_in, hidden), jnp.float32), columns),
            vector,
            (jax.ShapeDtypeStruct((hidden, hidden), HALF), columns),
            vector,
            (jax.ShapeDtypeStruct(net.w3.shape, jnp.float32), rows),
            (jax.ShapeDtypeStruct(net.b3.shape, jnp.float32), _whole),  # every program writes the same
        ],
        interpret=interpret,
    )


def _weight_kernel(x, d_out, h1, h2, dz1, dz2, dw1, db1, dw2, db2, dw3, db3, *, widths):
    fan_in, fan_out, _ = widths

    def add_rows(i, sums):
        to_w1, to_b1, to_w2, to_b2, to_w3, to_b3 = sums
        rows = pl.ds(pl.multiple_of(i * STEP, STEP), STEP)
        first, second, last = dz1[rows, :], dz2[rows, :], _load(d_out.at[rows, :], fan_out, axis=1)
        return (
            to_w1 + _dot(first.T, _load(x.at[rows, :], fan_in, axis=1)),  # transposed: hidden units fill a tile
            to_b1 + first.astype(jnp.float32).sum(0),
            to_w2 + _dot(h1[rows, :].T, second),
            to_b2 + second.astype(jnp.float32).sum(0),
            to_w3 + _dot(h2[rows, :].T, last),
            to_b3 + last.sum(0),
        )

    shapes = (dw1.shape[::-1], db1.shape, dw2.shape, db2.shape, dw3.shape, db3.shape)
    zeros = tuple(jnp.zeros(shape, jnp.float32) for shape in shapes)
    to_w1, to_b1, to_w2, to_b2, to_w3, to_b3 = jax.lax.fori_loop(0, d_out.shape[0] // STEP, add_rows, zeros)
    _store(dw1, to_w1.T, fan_in, axis=0)
    _store(dw3, to_w3, fan_out, axis=1)
    _store(db3, to_b3, fan_out, axis=0)
    db1[...], dw2[...], db2[...] = to_b1, to_w2.astype(dw2.dtype), to_b2


# --- the parts they share -----------------------------------------------------------------------------------------


def _call(kernel, grid: int, inputs: list, outputs: list, interpret: bool) -> list[jax.Array]:
    """Run `kernel` in `grid` programs; each input and output comes with the function that cuts it into blocks."""
    return pl.pallas_call(
        kernel,
        out_shape=[shape for shape, _ in outputs],
        grid=(grid,),
        in_specs=[cut(array.shape) for array, cut in inputs],
        out_specs=[cut(shape.shape) for shape, cut in outputs],
        compiler_params=plgpu.CompilerParams(num_warps=WARPS, num_stages=STAGES),
        interpret=interpret,
    )(*(array for array, _ in inputs))


def _whole_net(net: Net) -> list:
    return [(array, _whole) for array in (*net[:6], *net.norms)]


def _widths(net: Net) -> tuple[int, int, bool]:
    """fan_in, fan_out, and whether layers are normalised."""
    return net.w1.shape[0], net.w3.shape[1], bool(net.norms)


def _whole(shape: tuple[int, ...]) -> pl.BlockSpec:
    return pl.BlockSpec(tuple(map(_block, shape)), lambda _: (0,) * len(shape))


def _rows(rows: int):
    return lambda shape: pl.BlockSpec((rows, *map(_block, shape[1:])), lambda i: (i, *[0] * (len(shape) - 1)))


def _columns(columns: int):
    return lambda shape: pl.BlockSpec((*map(_block, shape[:-1]), columns), lambda i: (*[0] * (len(shape) - 1), i))


def _block(width: int) -> int:
    """What a block covers of an axis: Triton wants powers of two, and at least 16 in products."""
    return max(16, 1 << (width - 1).bit_length())


def _dot(left: jax.Array, right: jax.Array) -> jax.Array:
    return jnp.dot(left.astype(HALF), right.astype(HALF), preferred_element_type=jnp.float32)


def _load(ref, width: int, axis: int) -> jax.Array:
    """A block that reaches past the array's `width` along `axis`: zeros there."""
    return plgpu.load(ref, mask=_within(ref.shape, width, axis), other=0.0)


def _store(ref, values: jax.Array, width: int, axis: int) -> None:
    plgpu.store(ref, values, mask=_within(ref.shape, width, axis))


def _within(shape: tuple[int, ...], width: int, axis: int) -> jax.Array:
    return jax.lax.broadcasted_iota(jnp.int32, shape, axis) < width
