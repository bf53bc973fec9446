"""What the kernels of an MLP share: how arrays are cut into blocks, how those are read, multiplied and written.

Blocks reach past narrow arrays, since Triton wants powers of two; what lies beyond is masked or never touched.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl

Cut = Callable[[tuple[int, ...]], pl.BlockSpec]  # the shape of an array → its blocks

HALF = jnp.bfloat16


def _triton() -> Any:
    """Pallas' Triton backend; None where JAX no longer has it (deprecated since 0.11)."""
    try:
        return importlib.import_module("jax.experimental.pallas.triton")
    except ImportError:
        return None


plgpu = _triton()


class Tile(NamedTuple):
    """What a program works on at a time, and how; measured on an H200 (docs/performance.md)."""

    rows: int  # of a batch
    units: int  # of a hidden layer
    warps: int
    stages: int


class Plan(NamedTuple):
    """What a kernel knows when it is compiled."""

    rows: int
    fan_in: int
    fan_out: int
    tile: Tile
    interpret: bool


def call(kernel, plan: Plan, grid: int, inputs: list[tuple[Any, Cut]], outputs: list[tuple[Any, Cut]]):
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


def over_units(hidden: int, plan: Plan, body, start):
    """Carry `start` through body(units, carry) over all blocks of the `hidden` units."""
    size = plan.tile.units

    def step(i, carry):
        return body(pl.ds(pl.multiple_of(i * size, size), size), carry)

    return jax.lax.fori_loop(0, hidden // size, step, start)


def meet(plan: Plan) -> None:
    """Wait until all threads of the program have written what others will read."""
    if not plan.interpret:
        plgpu.debug_barrier()


def row_sum(z: jax.Array) -> jax.Array:
    return z.sum(1, keepdims=True)


def row_mean(z: jax.Array) -> jax.Array:
    return row_sum(z) / z.shape[1]


def zeros(shape: tuple[int, ...]) -> jax.Array:
    return jnp.zeros(shape, jnp.float32)


def like(shape: tuple[int, ...], dtype: Any = jnp.float32) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, dtype)


def whole(first: bool = False) -> Cut:
    """All of an array, or of the first of those that it stacks."""
    lead = (None,) if first else ()
    return lambda shape: pl.BlockSpec((*lead, *map(block, shape[len(lead) :])), lambda _: (0,) * len(shape))


def rows(rows: int) -> Cut:
    return lambda shape: pl.BlockSpec((rows, *map(block, shape[1:])), lambda i: (i, *[0] * (len(shape) - 1)))


def columns(columns: int) -> Cut:
    return lambda shape: pl.BlockSpec((*map(block, shape[:-1]), columns), lambda i: (*[0] * (len(shape) - 1), i))


def block(width: int) -> int:
    """What a block covers of an axis: Triton wants powers of two, and at least 16 in products."""
    return max(16, 1 << (width - 1).bit_length())


def half(x: jax.Array) -> jax.Array:
    """[B, n] → [B, a whole block] in bfloat16; XLA makes it part of whatever computes x."""
    return jnp.pad(x, ((0, 0), (0, block(x.shape[1]) - x.shape[1]))).astype(HALF)


def relu(z: jax.Array) -> jax.Array:
    """max(z, 0), but NaN stays NaN: Triton's maximum would make a broken unit look like a dead one."""
    return jnp.where(z < 0, 0.0, z)


def dot(left: jax.Array, right: jax.Array) -> jax.Array:
    return jnp.dot(left.astype(HALF), right.astype(HALF), preferred_element_type=jnp.float32)


def load(ref, width: int, axis: int) -> jax.Array:
    """A block that reaches past the array's `width` along `axis`: zeros there."""
    return plgpu.load(ref, mask=_within(ref.shape, width, axis), other=0.0)


def store(ref, values: jax.Array, width: int, axis: int = 1) -> None:
    plgpu.store(ref, values, mask=_within(ref.shape, width, axis))


def _within(shape: tuple[int, ...], width: int, axis: int) -> jax.Array:
    return jax.lax.broadcasted_iota(jnp.int32, shape, axis) < width
