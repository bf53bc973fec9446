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

Inside a kernel a hidden layer is a list of blocks of 64 units, so that what a thread holds at a time stays small.
vmap over twins and members adds axes to a kernel's grid. `interpret` runs the same kernels anywhere, slowly.
"""

from __future__ import annotations

from functools import partial, reduce
from operator import add
from typing import NamedTuple

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
    inputs, blocks = x[...], _blocks(w2.shape[0])
    a1, spread1 = _normalised([_dot(inputs, w1[:, u]) + b1[:, u] for u in blocks], norm)
    h1 = [_active(a, scale1, shift1, u) for a, u in zip(a1, blocks)]
    a2, spread2 = _normalised([_dots(h1, [w2[v, u] for v in blocks]) + b2[:, u] for u in blocks], norm)
    h2 = [_active(a, scale2, shift2, u) for a, u in zip(a2, blocks)]
    out[...] = _dots(h2, [w3[u, :] for u in blocks]) + b3[...]
    if not kept:
        return
    for u, first, second in zip(blocks, a1 if norm else h1, a2 if norm else h2):
        kept[0][:, u], kept[1][:, u] = first.astype(HALF), second.astype(HALF)
    if norm:
        kept[2][...], kept[3][...] = spread1, spread2


def _normalised(z: list[jax.Array], norm: bool) -> tuple[list[jax.Array], jax.Array | None]:
    """a and [R, 1] 1 / std over the hidden units; z itself without LayerNorm."""
    if not norm:
        return z, None
    mean = _row_mean(z)
    centred = [block - mean for block in z]
    spread = jax.lax.rsqrt(_row_mean([jnp.square(block) for block in centred]) + EPSILON)
    return [block * spread for block in centred], spread


def _row_mean(blocks: list[jax.Array]) -> jax.Array:
    """[R, 1] mean over all units of all blocks."""
    return reduce(add, [block.sum(1, keepdims=True) for block in blocks]) / (len(blocks) * UNITS)


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
        dx, dz1, dz2, *d_norms = rest[12:]
        first, second = (scale1, shift1, spread1, *d_norms[:2]), (scale2, shift2, spread2, *d_norms[2:])
    else:
        (w1, w2, w3, _, _, _), (dx, dz1, dz2) = rest[:6], rest[6:]
        first = second = None
    blocks, last = _blocks(w2.shape[0]), d_out[...]
    to_z2 = _through_layer([_dot(last, w3[u, :].T) for u in blocks], a2, second)
    to_z1 = _through_layer([_dots(to_z2, [w2[u, v].T for v in blocks]) for u in blocks], a1, first)
    for u, one, two in zip(blocks, to_z1, to_z2):
        dz1[:, u], dz2[:, u] = one, two
    dx[...] = _dots(to_z1, [w1[:, u].T for u in blocks])


def _through_layer(dh: list[jax.Array], kept, norm) -> list[jax.Array]:
    """dh → dz, through ReLU and LayerNorm: dz = (da − mean da − a · mean(da · a)) / std; sums for scale and shift."""
    blocks = _blocks(kept.shape[1])
    a = [kept[:, u].astype(jnp.float32) for u in blocks]
    if norm is None:
        return [jnp.where(one > 0, gradient, 0.0).astype(HALF) for one, gradient in zip(a, dh)]
    scale, shift, spread, d_scale, d_shift = norm
    seen = [jnp.where(_shifted(one, scale, shift, u) > 0, gradient, 0.0) for one, gradient, u in zip(a, dh, blocks)]
    for one, gradient, u in zip(a, seen, blocks):
        d_scale[0, :, u], d_shift[0, :, u] = (gradient * one).sum(0)[None], gradient.sum(0)[None]
    da = [gradient * scale[:, u] for gradient, u in zip(seen, blocks)]
    mean, along = _row_mean(da), _row_mean([gradient * one for gradient, one in zip(da, a)])
    return [(spread[...] * (gradient - mean - one * along)).astype(HALF) for gradient, one in zip(da, a)]


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
    dw1, db1, dw2, db2, dw3 = rest[4:] if norm else rest
    blocks, mine = _blocks(a1.shape[1]), pl.ds(0, UNITS)

    def add_rows(i, sums):
        to_w1, to_b1, to_w2, to_b2, to_w3 = sums
        rows = pl.ds(pl.multiple_of(i * ROWS, ROWS), ROWS)
        first, second = dz1[rows, :], dz2[rows, :]
        h1 = [_active(a1[rows, u], scale1, shift1, u) for u in blocks]
        h2 = _active(a2[rows, :], scale2, shift2, mine)
        return (
            to_w1 + _dot(first.T, x[rows, :]),
            to_b1 + first.astype(jnp.float32).sum(0),
            [total + _dot(h.T, second) for total, h in zip(to_w2, h1)],
            to_b2 + second.astype(jnp.float32).sum(0),
            to_w3 + _dot(h2.T, d_out[rows, :]),
        )

    none, units = partial(jnp.zeros, dtype=jnp.float32), (UNITS,)
    zeros = (none(dw1.shape), none(units), [none(2 * units) for _ in blocks], none(units), none(dw3.shape))
    to_w1, to_b1, to_w2, to_b2, to_w3 = jax.lax.fori_loop(0, d_out.shape[0] // ROWS, add_rows, zeros)
    dw1[...], db1[...], db2[...], dw3[...] = to_w1, to_b1[None], to_b2[None], to_w3
    for u, total in zip(blocks, to_w2):
        dw2[u, :] = total.astype(dw2.dtype)


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


def _dots(lefts: list[jax.Array], rights: list[jax.Array]) -> jax.Array:
    """The product of two matrices cut into blocks along what is summed over."""
    return reduce(add, map(_dot, lefts, rights))


def _blocks(hidden: int) -> list:
    return [pl.ds(start, UNITS) for start in range(0, hidden, UNITS)]


def _pad(x: jax.Array, columns: int) -> jax.Array:
    return jnp.pad(x, ((0, 0), (0, columns - x.shape[1])))


def _power_of_two(width: int) -> int:
    return max(16, 1 << (width - 1).bit_length())
