"""A two-hidden-layer ReLU MLP, with or without LayerNorm, as three GPU kernels (Pallas on Triton).

A population of small networks is bound by memory, not arithmetic: left to themselves, the hidden layers of 60
members × 256 rows travel to device memory and back between every product, bias, normalisation, ReLU and mask. Here
both hidden layers stay on the chip. Products run in bfloat16 with float32 accumulation, everything else in float32.

    z₁ = x W₁ + b₁        a = (z − mean z) / std z  with LayerNorm, z without         h = relu(scale · a + shift)
    z₂ = h₁ W₂ + b₂       y = h₂ W₃ + b₃

    forward   a program per tile of rows; a₁ and a₂ are stored only when a gradient is wanted, so target networks write
              nothing but their outputs
    inputs    a program per tile of rows: gradients of x, of z₁ and z₂ (stored), and of scale and shift (partial sums)
    weights   a program per block of hidden units, one pass over all rows: gradients of weights and biases; dropped by
              the compiler where only the inputs' gradient is used

Weights of the second layer are streamed through the chip block by block while the previous block is multiplied.
vmap over twins and members adds axes to a kernel's grid. `interpret` runs the same kernels anywhere, slowly.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton as plgpu

Layers = tuple[dict[str, jax.Array], ...]

ROWS = 64  # rows of a batch held at a time
UNITS = 64  # hidden units held at a time
WARPS = {"forward": 4, "inputs": 4, "weights": 4}
STAGES = 2
HALF = jnp.bfloat16
EPSILON = 1e-5  # of LayerNorm


def supports(layers: Layers, rows: int) -> bool:
    """Two equal hidden layers that fill whole tiles, and a GPU to run on."""
    if len(layers) != 3 or jax.default_backend() != "gpu":
        return False
    first, second = layers[0]["w"].shape[-1], layers[1]["w"].shape[-1]
    return first == second >= UNITS and first & (first - 1) == 0 and rows % ROWS == 0


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def mlp(layers: Layers, x: jax.Array, interpret: bool = False) -> jax.Array:
    """[B, fan_in] → [B, fan_out] float32, as `nets.mlp` with bfloat16 products."""
    return _forward(_padded(layers), x, len(layers[2]["b"]), interpret, keep=False)[0]


def _mlp_forward(layers: Layers, x: jax.Array, interpret: bool):
    net = _padded(layers)
    out, *kept = _forward(net, x, len(layers[2]["b"]), interpret, keep=True)
    return out, (net, x, kept)


def _mlp_backward(interpret: bool, residuals, d_out: jax.Array):
    net, x, kept = residuals
    d_half, x_half = _pad(d_out, net.w3.shape[1]).astype(HALF), _pad(x, net.w1.shape[0]).astype(HALF)
    dx, dz1, dz2, *norms = _input_gradients(net, kept, d_half, interpret)
    dw1, db1, dw2, db2, dw3 = _weight_gradients(net, x_half, kept, dz1, dz2, d_half, interpret)
    first, second = {"w": dw1[:, : x.shape[1]].T, "b": db1}, {"w": dw2.astype(jnp.float32), "b": db2}
    if norms:
        scale1, shift1, scale2, shift2 = (sums.sum((0, 1)) for sums in norms)
        first, second = first | {"scale": scale1, "shift": shift1}, second | {"scale": scale2, "shift": shift2}
    return (first, second, {"w": dw3[:, : d_out.shape[1]], "b": d_out.sum(0)}), dx[:, : x.shape[1]]


mlp.defvjp(_mlp_forward, _mlp_backward)


class Net(NamedTuple):
    """Weights in bfloat16, input and output widths padded to powers of two as Triton wants them."""

    w1: jax.Array  # [fan_in, hidden]
    w2: jax.Array  # [hidden, hidden]
    w3: jax.Array  # [hidden, fan_out]
    b1: jax.Array  # [1, hidden], as all vectors of the hidden layers
    b2: jax.Array
    b3: jax.Array  # [1, fan_out]
    norms: tuple[jax.Array, ...]  # scale₁, shift₁, scale₂, shift₂; empty without LayerNorm


def _padded(layers: Layers) -> Net:
    w1, w2, w3 = (layer["w"].astype(HALF) for layer in layers)
    w1 = jnp.pad(w1, ((0, _power_of_two(w1.shape[0]) - w1.shape[0]), (0, 0)))
    w3 = _pad(w3, _power_of_two(w3.shape[1]))
    b1, b2, b3 = (layer["b"][None] for layer in layers)
    norms = [layer[name][None] for layer in layers[:2] for name in ("scale", "shift") if name in layer]
    return Net(w1, w2, w3, b1, b2, _pad(b3, w3.shape[1]), tuple(norms))


# --- values -------------------------------------------------------------------------------------------------------


def _forward(net: Net, x: jax.Array, fan_out: int, interpret: bool, keep: bool) -> list[jax.Array]:
    """[B, fan_out] outputs; with `keep` also a₁ and a₂, and with LayerNorm 1 / std of both layers."""
    rows, hidden = len(x), net.w2.shape[0]
    kept = [jax.ShapeDtypeStruct((rows, hidden), HALF)] * 2
    kept += [jax.ShapeDtypeStruct((rows, 1), jnp.float32)] * (2 if net.norms else 0)
    outputs = [jax.ShapeDtypeStruct((rows, net.w3.shape[1]), jnp.float32), *(kept if keep else ())]
    out, *kept = _call(
        partial(_forward_kernel, norm=bool(net.norms)),
        grid=rows // ROWS,
        inputs=[(_pad(x, net.w1.shape[0]).astype(HALF), _rows(ROWS)), *_whole_net(net)],
        outputs=[(shape, _rows(ROWS)) for shape in outputs],
        warps=WARPS["forward"],
        interpret=interpret,
    )
    return [out[:, :fan_out], *kept]


def _forward_kernel(x, w1, w2, w3, b1, b2, b3, *rest, norm: bool):
    scale1, shift1, scale2, shift2 = rest[:4] if norm else [None] * 4
    out, *kept = rest[4:] if norm else rest
    inputs = x[...]
    mean1, spread1 = _statistics(_dot(inputs, w1[...]) + b1[...]) if norm else (None, None)

    def add_units(i, total):
        units = pl.ds(pl.multiple_of(i * UNITS, UNITS), UNITS)
        a1 = _dot(inputs, w1[:, units]) + b1[:, units]
        if norm:
            a1 = (a1 - mean1) * spread1
        if kept:
            kept[0][:, units] = _kept(a1, norm)
        return total + _dot(_active(a1, scale1, shift1, units), w2[units, :])

    z2 = jax.lax.fori_loop(0, w2.shape[0] // UNITS, add_units, jnp.zeros((x.shape[0], w2.shape[1]), jnp.float32))
    a2, everything = z2 + b2[...], pl.ds(0, w2.shape[1])
    if norm:
        mean2, spread2 = _statistics(a2)
        a2 = (a2 - mean2) * spread2
        if kept:
            kept[2][...], kept[3][...] = spread1, spread2
    if kept:
        kept[1][...] = _kept(a2, norm)
    out[...] = _dot(_active(a2, scale2, shift2, everything), w3[...]) + b3[...]


def _statistics(z: jax.Array) -> tuple[jax.Array, jax.Array]:
    """[R, 1] mean and 1 / std over the hidden units."""
    mean = z.sum(1, keepdims=True) / z.shape[1]
    variance = jnp.square(z - mean).sum(1, keepdims=True) / z.shape[1]
    return mean, jax.lax.rsqrt(variance + EPSILON)


def _kept(a: jax.Array, norm: bool) -> jax.Array:
    """What the gradients need of a: all of it under a LayerNorm, its positive part otherwise."""
    return (a if norm else jnp.maximum(a, 0.0)).astype(HALF)


def _shifted(a: jax.Array, scale, shift, units) -> jax.Array:
    """What ReLU sees."""
    return a if scale is None else a * scale[:, units] + shift[:, units]


def _active(a: jax.Array, scale, shift, units) -> jax.Array:
    return jnp.maximum(_shifted(a, scale, shift, units), 0.0).astype(HALF)


# --- gradients ----------------------------------------------------------------------------------------------------


def _input_gradients(net: Net, kept: list[jax.Array], d_out: jax.Array, interpret: bool):
    rows, hidden, fan_in = len(d_out), net.w2.shape[0], net.w1.shape[0]
    tile, tiles = _rows(ROWS), rows // ROWS
    partial_sums = [(jax.ShapeDtypeStruct((tiles, 1, hidden), jnp.float32), _layer)] * len(net.norms)
    hidden_gradients = [(jax.ShapeDtypeStruct((rows, hidden), HALF), tile)] * 2
    return _call(
        partial(_input_kernel, norm=bool(net.norms)),
        grid=tiles,
        inputs=[(d_out, tile), *((array, tile) for array in kept), *_whole_net(net)],
        outputs=[(jax.ShapeDtypeStruct((rows, fan_in), jnp.float32), tile), *hidden_gradients, *partial_sums],
        warps=WARPS["inputs"],
        interpret=interpret,
    )


def _input_kernel(d_out, a1, a2, *rest, norm: bool):
    if norm:
        spread1, spread2, w1, w2, w3, _, _, _, scale1, shift1, scale2, shift2 = rest[:12]
        dx, dz1, dz2, d_scale1, d_shift1, d_scale2, d_shift2 = rest[12:]
    else:
        (w1, w2, w3, _, _, _), (dx, dz1, dz2) = rest[:6], rest[6:]
        nothing: Any = None
        spread1, spread2, scale1, shift1, scale2, shift2 = [nothing] * 6
        d_scale1, d_shift1, d_scale2, d_shift2 = [nothing] * 4
    everything = pl.ds(0, w2.shape[0])
    last = d_out[...]

    def second_layer(units):
        """Gradient at what ReLU sees, and a₂, of some units."""
        a = a2[:, units].astype(jnp.float32)
        return _masked(_shifted(a, scale2, shift2, units), _dot(last, w3[units, :].T)), a

    centre2 = None
    if norm:
        gradient, a = second_layer(everything)
        d_scale2[0], d_shift2[0] = (gradient * a).sum(0)[None], gradient.sum(0)[None]
        centre2 = _centre(gradient * scale2[...], a)

    def add_units(i, total):
        units = pl.ds(pl.multiple_of(i * UNITS, UNITS), UNITS)
        gradient, a = second_layer(units)
        if norm:
            gradient = _through_norm(gradient * scale2[:, units], a, spread2[...], centre2)
        gradient = gradient.astype(HALF)
        dz2[:, units] = gradient
        return total + _dot(gradient, w2[:, units].T)

    dh1 = jax.lax.fori_loop(0, w2.shape[1] // UNITS, add_units, jnp.zeros(a1.shape, jnp.float32))
    a = a1[...].astype(jnp.float32)
    gradient = _masked(_shifted(a, scale1, shift1, everything), dh1)
    if norm:
        d_scale1[0], d_shift1[0] = (gradient * a).sum(0)[None], gradient.sum(0)[None]
        gradient = gradient * scale1[...]
        gradient = _through_norm(gradient, a, spread1[...], _centre(gradient, a))
    gradient = gradient.astype(HALF)
    dz1[...] = gradient
    dx[...] = _dot(gradient, w1[...].T)


def _masked(seen: jax.Array, gradient: jax.Array) -> jax.Array:
    """The gradient through ReLU: zero where the unit was off."""
    return jnp.where(seen > 0, gradient, 0.0)


def _centre(da: jax.Array, a: jax.Array) -> tuple[jax.Array, jax.Array]:
    """[R, 1] means of da and of da · a over the hidden units."""
    return da.sum(1, keepdims=True) / a.shape[1], (da * a).sum(1, keepdims=True) / a.shape[1]


def _through_norm(da: jax.Array, a: jax.Array, spread: jax.Array, centre) -> jax.Array:
    """dz = (da − mean da − a · mean(da · a)) / std."""
    return spread * (da - centre[0] - a * centre[1])


def _weight_gradients(net: Net, x, kept, dz1, dz2, d_out, interpret: bool):
    fan_in, hidden = net.w1.shape
    columns, rows = _columns(UNITS), _rows(UNITS)
    (a1, a2), norms = kept[:2], net.norms
    cuts = [_whole, _whole, columns, columns]  # of scale₁, shift₁, scale₂, shift₂
    dw1, db1, dw2, db2, dw3 = _call(
        partial(_weight_kernel, norm=bool(norms)),
        grid=hidden // UNITS,
        inputs=[
            (x, _whole), (d_out, _whole), (a1, _whole), (a2, columns), (dz1, columns), (dz2, columns), *zip(norms, cuts)
        ],
        outputs=[
            (jax.ShapeDtypeStruct((hidden, fan_in), jnp.float32), rows),  # transposed: hidden units fill a tile
            (jax.ShapeDtypeStruct((1, hidden), jnp.float32), columns),
            (jax.ShapeDtypeStruct((hidden, hidden), HALF), columns),
            (jax.ShapeDtypeStruct((1, hidden), jnp.float32), columns),
            (jax.ShapeDtypeStruct(net.w3.shape, jnp.float32), rows),
        ],
        warps=WARPS["weights"],
        interpret=interpret,
    )  # fmt: skip
    return dw1, db1[0], dw2, db2[0], dw3


def _weight_kernel(x, d_out, a1, a2, dz1, dz2, *rest, norm: bool):
    scale1, shift1, scale2, shift2 = rest[:4] if norm else [None] * 4
    outputs = rest[4:] if norm else rest
    mine, everything = pl.ds(0, UNITS), pl.ds(0, a1.shape[1])

    def add_rows(i, sums):
        to_w1, to_b1, to_w2, to_b2, to_w3 = sums
        rows = pl.ds(pl.multiple_of(i * ROWS, ROWS), ROWS)
        first, second = dz1[rows, :], dz2[rows, :]
        h1 = _active(a1[rows, :], scale1, shift1, everything)
        h2 = _active(a2[rows, :], scale2, shift2, mine)
        return (
            to_w1 + _dot(first.T, x[rows, :]),
            to_b1 + first.astype(jnp.float32).sum(0),
            to_w2 + _dot(h1.T, second),
            to_b2 + second.astype(jnp.float32).sum(0),
            to_w3 + _dot(h2.T, d_out[rows, :]),
        )

    dw1, db1, dw2, db2, dw3 = outputs
    shapes = (dw1.shape, db1.shape[1:], dw2.shape, db2.shape[1:], dw3.shape)
    zeros = tuple(jnp.zeros(shape, jnp.float32) for shape in shapes)
    to_w1, to_b1, to_w2, to_b2, to_w3 = jax.lax.fori_loop(0, d_out.shape[0] // ROWS, add_rows, zeros)
    dw1[...], db1[...] = to_w1, to_b1[None]
    dw2[...], db2[...], dw3[...] = to_w2.astype(dw2.dtype), to_b2[None], to_w3


# --- the parts they share -----------------------------------------------------------------------------------------


def _call(kernel, grid: int, inputs: list, outputs: list, warps: int, interpret: bool) -> list[jax.Array]:
    """Run `kernel` in `grid` programs; each input and output comes with the function that cuts it into blocks."""
    return pl.pallas_call(
        kernel,
        out_shape=[shape for shape, _ in outputs],
        grid=(grid,),
        in_specs=[cut(array.shape) for array, cut in inputs],
        out_specs=[cut(shape.shape) for shape, cut in outputs],
        compiler_params=plgpu.CompilerParams(num_warps=warps, num_stages=STAGES),
        interpret=interpret,
    )(*(array for array, _ in inputs))


def _whole_net(net: Net) -> list:
    return [(array, _whole) for array in (*net[:6], *net.norms)]


def _whole(shape: tuple[int, ...]) -> pl.BlockSpec:
    return pl.BlockSpec(shape, lambda _: (0,) * len(shape))


def _rows(rows: int):
    return lambda shape: pl.BlockSpec((rows, shape[1]), lambda i: (i, 0))


def _columns(columns: int):
    return lambda shape: pl.BlockSpec((shape[0], columns), lambda i: (0, i))


def _layer(shape: tuple[int, ...]) -> pl.BlockSpec:
    return pl.BlockSpec((1, *shape[1:]), lambda i: (i, 0, 0))


def _dot(left: jax.Array, right: jax.Array) -> jax.Array:
    return jnp.dot(left.astype(HALF), right.astype(HALF), preferred_element_type=jnp.float32)


def _pad(x: jax.Array, columns: int) -> jax.Array:
    return jnp.pad(x, ((0, 0), (0, columns - x.shape[1])))


def _power_of_two(width: int) -> int:
    return max(16, 1 << (width - 1).bit_length())
