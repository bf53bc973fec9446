"""A two-hidden-layer ReLU MLP, with or without LayerNorm, as three GPU kernels (Pallas on Triton).

A population of small networks is bound by memory, not arithmetic: left to themselves, the hidden layers of 60
members × 256 rows travel to device memory and back between every product, bias, normalisation, ReLU and mask. Here
both hidden layers stay on the chip. Products take bfloat16 and add up in float32; what is stored of the hidden layers
is bfloat16 too, the rest float32.

    z₁ = x W₁ + b₁        a = (z − mean z) / std z  with LayerNorm, z without         h = relu(scale · a + shift)
    z₂ = h₁ W₂ + b₂       y = h₂ W₃ + b₃

    forward   a program per tile of rows; what the gradients need of the hidden layers is stored only when one is
              wanted, so target networks write nothing but their outputs (with LayerNorm, z₂ as well)
    inputs    a program per tile of rows: gradients of x where those are wanted, and of z₁, z₂, scale and shift (partial
              sums over the tile) where those of the weights are
    weights   a program per block of hidden units, one pass over all rows: gradients of weights and biases

A tile of a whole layer is held on the chip, and the second layer's weights are streamed through in blocks, the next one
fetched while one is multiplied: its outputs come block by block, few sums at a time, which leaves registers for two
programs per multiprocessor. LayerNorm needs all outputs before it can normalise one; there the blocks are put aside in
bfloat16 and taken up again in a second pass. vmap over twins and members adds axes to a kernel's grid. `interpret` runs
the same kernels anywhere, slowly.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton as plgpu

Layers = tuple[dict[str, jax.Array], ...]
Cut = Callable[[tuple[int, ...]], pl.BlockSpec]  # the shape of an array → its blocks

HALF = jnp.bfloat16
EPSILON = 1e-5  # of LayerNorm
WIDEST, WIDEST_INPUT = 256, 128  # hidden units and inputs of the networks these kernels have been run with


class Tile(NamedTuple):
    """What a program works on at a time, and how; measured on an H200 (docs/performance.md)."""

    rows: int  # of a batch
    units: int  # of a hidden layer
    warps: int
    stages: int


FORWARD = {False: Tile(128, 128, 8, 2), True: Tile(128, 64, 8, 3)}  # without and with LayerNorm
INPUTS = {False: Tile(64, 64, 4, 2), True: Tile(64, 64, 4, 3)}
WEIGHTS = Tile(32, 64, 4, 3)


class Net(NamedTuple):
    """The layers by their names above: arrays, or inside a kernel references to them."""

    w1: Any  # [fan_in, hidden]
    w2: Any  # [hidden, hidden] in bfloat16, the one that every program reads whole
    w3: Any  # [hidden, fan_out]
    b1: Any  # [hidden], as all vectors of the hidden layers
    b2: Any
    b3: Any  # [fan_out]
    scale1: Any = None  # None without LayerNorm, as the rest
    shift1: Any = None
    scale2: Any = None
    shift2: Any = None


class Hidden(NamedTuple):
    """What the gradients need of the hidden layers."""

    h1: Any = None  # [B, hidden] bfloat16
    h2: Any = None
    a1: Any = None  # [B, hidden] bfloat16; None without LayerNorm, as the rest
    z2: Any = None
    spread1: Any = None  # [B] 1 / std
    mean2: Any = None
    spread2: Any = None


class Plan(NamedTuple):
    """What a kernel knows when it is compiled."""

    rows: int
    fan_in: int
    fan_out: int
    tile: Tile
    interpret: bool


def supports(layers: Layers, rows: int) -> bool:
    """Two equal hidden layers that fill whole tiles and fit on the chip, and a GPU to run on."""
    if len(layers) != 3 or jax.default_backend() != "gpu":
        return False
    (fan_in, first), second = layers[0]["w"].shape[-2:], layers[1]["w"].shape[-1]
    if first > WIDEST or _block(fan_in) > WIDEST_INPUT:
        return False
    tiles = (*FORWARD.values(), *INPUTS.values(), WEIGHTS)
    filled = first >= max(tile.units for tile in tiles) and rows % max(tile.rows for tile in tiles) == 0
    return filled and first == second and first & (first - 1) == 0


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def mlp(layers: Layers, x: jax.Array, interpret: bool = False) -> jax.Array:
    """[B, fan_in] → [B, fan_out] float32, as `nets.mlp` with bfloat16 products."""
    return _forward(_net(layers), _half(x), interpret, keep=False)[0]


def _mlp_forward(layers: Any, x: Any, interpret: bool):
    of_weights, of_inputs = any(leaf.perturbed for leaf in jax.tree.leaves(layers)), x.perturbed
    net, half = _net(jax.tree.map(lambda leaf: leaf.value, layers)), _half(x.value)
    y, hidden = _forward(net, half, interpret, keep=True)
    return y, (net, hidden, half if of_weights else None, () if of_inputs else None)


def _mlp_backward(interpret: bool, residuals, dy: jax.Array):
    net, hidden, x, of_inputs = residuals
    last, of_weights = _half(dy), x is not None
    dx, dz, norms = _input_gradients(net, hidden, last, interpret, of_weights, of_inputs is not None)
    if not of_weights:
        return None, dx
    dw1, db1, dw2, db2, dw3 = _weight_gradients(net, x, hidden, dz, last, interpret)
    first, second = {"w": dw1, "b": db1}, {"w": dw2.astype(jnp.float32), "b": db2}
    if norms:
        scale1, shift1, scale2, shift2 = (sums.sum(0) for sums in norms)
        first, second = first | {"scale": scale1, "shift": shift1}, second | {"scale": scale2, "shift": shift2}
    return (first, second, {"w": dw3, "b": dy.sum(0)}), dx


mlp.defvjp(_mlp_forward, _mlp_backward, symbolic_zeros=True)


def _net(layers: Layers) -> Net:
    w1, w2, w3 = (layer["w"] for layer in layers)
    b1, b2, b3 = (layer["b"] for layer in layers)
    norms = [layer[name] for layer in layers[:2] for name in ("scale", "shift") if name in layer]
    return Net(w1, w2.astype(HALF), w3, b1, b2, b3, *norms)


def _half(x: jax.Array) -> jax.Array:
    """[B, n] → [B, a whole block] in bfloat16; XLA makes it part of whatever computes x."""
    return jnp.pad(x, ((0, 0), (0, _block(x.shape[1]) - x.shape[1]))).astype(HALF)


# --- values -------------------------------------------------------------------------------------------------------


def _forward(net: Net, x: jax.Array, interpret: bool, keep: bool) -> tuple[jax.Array, Hidden]:
    rows, norm = len(x), net.scale1 is not None
    layer, vector = _like((rows, net.w2.shape[0]), HALF), _like((rows,))
    if norm:
        kept = Hidden(layer, layer, layer, layer, vector, vector, vector) if keep else Hidden(z2=layer)
    else:
        kept = Hidden(layer, layer) if keep else Hidden()
    plan = Plan(rows, *_widths(net), FORWARD[norm], interpret)
    cut = _rows(plan.tile.rows)
    return _call(
        _forward_norm_kernel if norm else _forward_kernel,
        plan,
        grid=rows // plan.tile.rows,
        inputs=[(x, cut), (net, _whole)],
        outputs=[(_like((rows, plan.fan_out)), cut), (kept, cut)],
    )


def _forward_kernel(x, net: Net, y, kept: Hidden, *, plan: Plan):
    h1 = _relu(_dot(x[...], _load(net.w1, plan.fan_in, axis=0)) + net.b1[...]).astype(HALF)
    if kept.h1 is not None:
        kept.h1[...] = h1

    def add_units(units, total):
        h2 = _relu(_dot(h1, net.w2[:, units]) + net.b2[units]).astype(HALF)
        if kept.h2 is not None:
            kept.h2[:, units] = h2
        return total + _outputs(h2, net, units, plan)

    _write_outputs(y, net, plan, add_units)


def _forward_norm_kernel(x, net: Net, y, kept: Hidden, *, plan: Plan):
    z1 = _dot(x[...], _load(net.w1, plan.fan_in, axis=0)) + net.b1[...]
    mean1 = _row_mean(z1)
    spread1 = _spread(_row_mean(jnp.square(z1 - mean1)))
    a1 = (z1 - mean1) * spread1
    h1 = _relu(a1 * net.scale1[...] + net.shift1[...]).astype(HALF)
    if kept.h1 is not None:
        kept.h1[...], kept.a1[...], kept.spread1[...] = h1, a1.astype(HALF), spread1[:, 0]

    def put_aside(units, sums):
        z2 = _dot(h1, net.w2[:, units]) + net.b2[units]
        kept.z2[:, units] = z2.astype(HALF)
        return sums[0] + _row_sum(z2), sums[1] + _row_sum(jnp.square(z2))

    sums = _over_units(net, plan, put_aside, _row_zeros(plan))
    mean2, squares = (total / net.w2.shape[1] for total in sums)
    spread2 = _spread(_relu(squares - jnp.square(mean2)))
    if kept.h2 is not None:
        kept.mean2[...], kept.spread2[...] = mean2[:, 0], spread2[:, 0]
    _meet(plan)

    def take_up(units, total):
        a2 = (kept.z2[:, units].astype(jnp.float32) - mean2) * spread2
        h2 = _relu(a2 * net.scale2[units] + net.shift2[units]).astype(HALF)
        if kept.h2 is not None:
            kept.h2[:, units] = h2
        return total + _outputs(h2, net, units, plan)

    _write_outputs(y, net, plan, take_up)


def _outputs(h2: jax.Array, net: Net, units, plan: Plan) -> jax.Array:
    """[R, fan_out] what these units add to y; [R] where it is a single number, and no product worth its set-up."""
    if plan.fan_out == 1:
        return (h2.astype(jnp.float32) * net.w3[units, 0]).sum(1)
    return _dot(h2, _load(net.w3.at[units, :], plan.fan_out, axis=1))


def _write_outputs(y, net: Net, plan: Plan, add_units) -> None:
    if plan.fan_out == 1:
        y[:, 0] = _over_units(net, plan, add_units, _zeros(y.shape[:1])) + net.b3[0]
    else:
        total = _over_units(net, plan, add_units, _zeros(y.shape))
        _store(y, total + _load(net.b3, plan.fan_out, axis=0), plan.fan_out)


def _relu(z: jax.Array) -> jax.Array:
    """max(z, 0), but NaN stays NaN: Triton's maximum would make a broken unit look like a dead one."""
    return jnp.where(z < 0, 0.0, z)


def _spread(variance: jax.Array) -> jax.Array:
    return jax.lax.rsqrt(variance + EPSILON)


# --- gradients ----------------------------------------------------------------------------------------------------


def _input_gradients(net: Net, hidden: Hidden, dy: jax.Array, interpret: bool, of_weights: bool, of_inputs: bool):
    """Gradients of x, of (z₁, z₂), and per tile of (scale₁, shift₁, scale₂, shift₂); None where not wanted."""
    rows, units, norm = len(dy), net.w2.shape[0], net.scale1 is not None
    plan = Plan(rows, *_widths(net), INPUTS[norm], interpret)
    tiles, cut = rows // plan.tile.rows, _rows(plan.tile.rows)
    layers_written = 2 if of_weights else int(norm)  # with LayerNorm z₁'s holds what is put aside
    sums = (_like((tiles, units)),) * 4 if of_weights and norm else None
    return _call(
        _input_norm_kernel if norm else _input_kernel,
        plan,
        grid=tiles,
        inputs=[(dy, cut), (hidden, cut), (net, _whole)],
        outputs=[
            (_like((rows, plan.fan_in)) if of_inputs else None, cut),
            ((_like((rows, units), HALF),) * layers_written, cut),
            (sums, _rows(1)),
        ],
    )


def _input_kernel(dy, hidden: Hidden, net: Net, dx, dz, _, *, plan: Plan):
    dh2 = _dot(dy[...], _load(net.w3, plan.fan_out, axis=1).T)
    dz2 = jnp.where(hidden.h2[...] > 0, dh2, 0.0).astype(HALF)
    if dz:
        dz[1][...] = dz2

    def add_units(units, total):
        dz1 = jnp.where(hidden.h1[:, units] > 0, _dot(dz2, net.w2[units, :].T), 0.0).astype(HALF)
        if dz:
            dz[0][:, units] = dz1
        return total if dx is None else total + _dot(dz1, _load(net.w1.at[:, units], plan.fan_in, axis=0).T)

    total = _over_units(net, plan, add_units, _zeros(() if dx is None else dx.shape))
    if dx is not None:
        _store(dx, total, plan.fan_in)


def _input_norm_kernel(dy, hidden: Hidden, net: Net, dx, dz, sums, *, plan: Plan):
    dh2 = _dot(dy[...], _load(net.w3, plan.fan_out, axis=1).T)
    da = jnp.where(hidden.h2[...] > 0, dh2, 0.0)
    a2 = (hidden.z2[...].astype(jnp.float32) - hidden.mean2[...][:, None]) * hidden.spread2[...][:, None]
    if sums:
        sums[2][0], sums[3][0] = (da * a2).sum(0), da.sum(0)
    da = da * net.scale2[...]
    dz2 = _through_norm(da, a2, hidden.spread2, (_row_mean(da), _row_mean(da * a2))).astype(HALF)
    if sums:
        dz[1][...] = dz2

    def put_aside(units, totals):
        da = jnp.where(hidden.h1[:, units] > 0, _dot(dz2, net.w2[units, :].T), 0.0)
        a1 = hidden.a1[:, units].astype(jnp.float32)
        if sums:
            sums[0][0, units], sums[1][0, units] = (da * a1).sum(0), da.sum(0)
        da = da * net.scale1[units]
        dz[0][:, units] = da.astype(HALF)
        return totals[0] + _row_sum(da), totals[1] + _row_sum(da * a1)

    centre = [total / net.w2.shape[0] for total in _over_units(net, plan, put_aside, _row_zeros(plan))]
    _meet(plan)

    def take_up(units, total):
        da, a1 = dz[0][:, units].astype(jnp.float32), hidden.a1[:, units].astype(jnp.float32)
        dz1 = _through_norm(da, a1, hidden.spread1, centre).astype(HALF)
        if sums:
            dz[0][:, units] = dz1
        return total if dx is None else total + _dot(dz1, _load(net.w1.at[:, units], plan.fan_in, axis=0).T)

    total = _over_units(net, plan, take_up, _zeros(() if dx is None else dx.shape))
    if dx is not None:
        _store(dx, total, plan.fan_in)


def _through_norm(da: jax.Array, a: jax.Array, spread, centre) -> jax.Array:
    """dz = (da − mean da − a · mean(da · a)) / std, the means being the `centre`."""
    return spread[...][:, None] * (da - centre[0] - a * centre[1])


def _weight_gradients(net: Net, x, hidden: Hidden, dz, dy, interpret: bool):
    fan_in, units = net.w1.shape
    plan = Plan(len(x), *_widths(net), WEIGHTS, interpret)
    columns, vector = _columns(WEIGHTS.units), _like((units,))
    return _call(
        _weight_kernel,
        plan,
        grid=units // WEIGHTS.units,
        inputs=[(x, _whole), (dy, _whole), (hidden.h1, _whole), (hidden.h2, columns), (dz, columns)],
        outputs=[
            (_like((fan_in, units)), columns),
            (vector, columns),
            (_like((units, units), HALF), columns),
            (vector, columns),
            (_like(net.w3.shape), _rows(WEIGHTS.units)),
        ],
    )


def _weight_kernel(x, dy, h1, h2, dz, dw1, db1, dw2, db2, dw3, *, plan: Plan):
    step = plan.tile.rows

    def add_rows(i, sums):
        to_w1, to_b1, to_w2, to_b2, to_w3 = sums
        rows = pl.ds(pl.multiple_of(i * step, step), step)
        dz1, dz2 = dz[0][rows, :], dz[1][rows, :]
        return (
            to_w1 + _dot(dz1.T, x[rows, :]),  # transposed: hidden units fill a tile
            to_b1 + dz1.astype(jnp.float32),
            to_w2 + _dot(h1[rows, :].T, dz2),
            to_b2 + dz2.astype(jnp.float32),
            to_w3 + _dot(h2[rows, :].T, dy[rows, :]),
        )

    block = (step, plan.tile.units)
    zeros = tuple(map(_zeros, (dw1.shape[::-1], block, dw2.shape, block, dw3.shape)))
    to_w1, to_b1, to_w2, to_b2, to_w3 = jax.lax.fori_loop(0, plan.rows // step, add_rows, zeros)
    _store(dw1, to_w1.T, plan.fan_in, axis=0)
    _store(dw3, to_w3, plan.fan_out)
    db1[...], dw2[...], db2[...] = to_b1.sum(0), to_w2.astype(dw2.dtype), to_b2.sum(0)


# --- the parts they share -----------------------------------------------------------------------------------------


def _call(kernel, plan: Plan, grid: int, inputs: list[tuple[Any, Cut]], outputs: list[tuple[Any, Cut]]):
    """Run `kernel` in `grid` programs; each tree of inputs and outputs comes with how its arrays are cut."""

    def specs(trees):
        return [jax.tree.map(lambda array, cut=cut: cut(array.shape), tree) for tree, cut in trees]

    return pl.pallas_call(
        partial(kernel, plan=plan),
        out_shape=[tree for tree, _ in outputs],
        grid=(grid,),
        in_specs=specs(inputs),
        out_specs=specs(outputs),
        compiler_params=plgpu.CompilerParams(num_warps=plan.tile.warps, num_stages=plan.tile.stages),
        interpret=plan.interpret,
    )(*(tree for tree, _ in inputs))


def _over_units(net: Net, plan: Plan, body, start):
    """Carry `start` through body(units, carry) over all blocks of hidden units."""
    size = plan.tile.units

    def block(i, carry):
        return body(pl.ds(pl.multiple_of(i * size, size), size), carry)

    return jax.lax.fori_loop(0, net.w2.shape[0] // size, block, start)


def _meet(plan: Plan) -> None:
    """Wait until all threads of the program have written what others will read."""
    if not plan.interpret:
        plgpu.debug_barrier()


def _row_sum(z: jax.Array) -> jax.Array:
    return z.sum(1, keepdims=True)


def _row_mean(z: jax.Array) -> jax.Array:
    return _row_sum(z) / z.shape[1]


def _row_zeros(plan: Plan) -> tuple[jax.Array, jax.Array]:
    return _zeros((plan.tile.rows, 1)), _zeros((plan.tile.rows, 1))


def _zeros(shape: tuple[int, ...]) -> jax.Array:
    return jnp.zeros(shape, jnp.float32)


def _like(shape: tuple[int, ...], dtype: Any = jnp.float32) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, dtype)


def _widths(net: Net) -> tuple[int, int]:
    """fan_in and fan_out."""
    return net.w1.shape[0], net.w3.shape[1]


def _whole(shape: tuple[int, ...]) -> pl.BlockSpec:
    return pl.BlockSpec(tuple(map(_block, shape)), lambda _: (0,) * len(shape))


def _rows(rows: int) -> Cut:
    return lambda shape: pl.BlockSpec((rows, *map(_block, shape[1:])), lambda i: (i, *[0] * (len(shape) - 1)))


def _columns(columns: int) -> Cut:
    return lambda shape: pl.BlockSpec((*map(_block, shape[:-1]), columns), lambda i: (*[0] * (len(shape) - 1), i))


def _block(width: int) -> int:
    """What a block covers of an axis: Triton wants powers of two, and at least 16 in products."""
    return max(16, 1 << (width - 1).bit_length())


def _dot(left: jax.Array, right: jax.Array) -> jax.Array:
    return jnp.dot(left.astype(HALF), right.astype(HALF), preferred_element_type=jnp.float32)


def _load(ref, width: int, axis: int) -> jax.Array:
    """A block that reaches past the array's `width` along `axis`: zeros there."""
    return plgpu.load(ref, mask=_within(ref.shape, width, axis), other=0.0)


def _store(ref, values: jax.Array, width: int, axis: int = 1) -> None:
    plgpu.store(ref, values, mask=_within(ref.shape, width, axis))


def _within(shape: tuple[int, ...], width: int, axis: int) -> jax.Array:
    return jax.lax.broadcasted_iota(jnp.int32, shape, axis) < width
