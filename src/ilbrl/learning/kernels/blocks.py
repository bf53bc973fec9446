"""How kernels are called and how they see arrays: cut into blocks, which are loaded, multiplied and stored.

Triton wants blocks whose sides are powers of two. A block may therefore reach past a narrow array; what lies beyond is
masked, or never touched.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
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
    """What one program works on at a time; the values in use were measured on an H200 (docs/performance.md)."""

    rows: int  # of a batch
    units: int  # of a hidden layer
    warps: int
    stages: int  # blocks under way from memory at the same time


class Plan(NamedTuple):
    """What a kernel knows when it is compiled."""

    rows: int
    fan_in: int
    fan_out: int
    tile: Tile
    interpret: bool


def call(kernel, plan: Plan, grid: Sequence[int], inputs: list[tuple[Any, Cut]], outputs: list[tuple[Any, Cut]]):
    """Run `kernel` in a grid of programs; each tree of inputs and outputs comes with how its arrays are cut."""

    def specs(trees):
        return [jax.tree.map(lambda array, cut=cut: cut(array.shape), tree) for tree, cut in trees]

    return pl.pallas_call(
        partial(kernel, plan=plan),
        out_shape=[tree for tree, _ in outputs],
        grid=tuple(grid),
        in_specs=specs(inputs),
        out_specs=specs(outputs),
        compiler_params=plgpu.CompilerParams(num_warps=plan.tile.warps, num_stages=plan.tile.stages),
        interpret=plan.interpret,
    )(*(tree for tree, _ in inputs))


def whole(first: bool = False) -> Cut:
    """All of an array; with `first`, all of the first array of a stack."""
    lead = (None,) if first else ()
    return lambda shape: pl.BlockSpec((*lead, *map(block, shape[len(lead) :])), lambda *_: (0,) * len(shape))


def rows(rows: int) -> Cut:
    """Program i of the grid's first axis sees the i-th block of rows."""
    return lambda shape: pl.BlockSpec((rows, *map(block, shape[1:])), lambda i, *_: (i, *[0] * (len(shape) - 1)))


def columns(columns: int) -> Cut:
    """Program i of the grid's first axis sees the i-th block of columns."""
    return lambda shape: pl.BlockSpec((*map(block, shape[:-1]), columns), lambda i, *_: (*[0] * (len(shape) - 1), i))


def block(width: int) -> int:
    """The side of a block that covers `width`: a power of two, and at least 16 for products."""
    return max(16, 1 << (width - 1).bit_length())


def padded(x: jax.Array, tile_rows: int) -> jax.Array:
    """[B, n] in bfloat16, filled up with zeros to whole tiles of rows and a whole block of columns.

    XLA makes this part of whatever computes x.
    """
    short = (-len(x) % tile_rows, block(x.shape[1]) - x.shape[1])
    return jnp.pad(x, [(0, missing) for missing in short]).astype(HALF)


def like(shape: tuple[int, ...], dtype: Any = jnp.float32) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, dtype)


# Inside kernels:


def add_up(length: int, step: int, body, start):
    """Carry `start` through body(slice, carry), slice by slice of `step` along an axis of `length`."""

    def one(i, carry):
        return body(pl.ds(pl.multiple_of(i * step, step), step), carry)

    return jax.lax.fori_loop(0, length // step, one, start)


def meet(plan: Plan) -> None:
    """Wait until all threads of the program have written what others are about to read."""
    if not plan.interpret:
        plgpu.debug_barrier()


def zeros(shape: tuple[int, ...]) -> jax.Array:
    return jnp.zeros(shape, jnp.float32)


def dot(left: jax.Array, right: jax.Array) -> jax.Array:
    return jnp.dot(left.astype(HALF), right.astype(HALF), preferred_element_type=jnp.float32)


def load(ref, width: int, axis: int) -> jax.Array:
    """A block that reaches past the array's `width` along `axis`: zeros there."""
    return plgpu.load(ref, mask=_within(ref.shape, width, axis), other=0.0)


def store(ref, values: jax.Array, width: int, axis: int = 1) -> None:
    plgpu.store(ref, values, mask=_within(ref.shape, width, axis))


def _within(shape: tuple[int, ...], width: int, axis: int) -> jax.Array:
    return jax.lax.broadcasted_iota(jnp.int32, shape, axis) < width
