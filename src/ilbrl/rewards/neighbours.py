"""Exact nearest neighbours at the speed of an inexact search.

A float32 search computes ‖x − y‖² as ‖x‖² + ‖y‖² − 2 x·y, which cancels where x and y are close: an expert row's
distance to itself comes out near 0.005 instead of 0, and the reward's square root turns that into 0.93 instead of 1.
So the search only proposes a winner, with a computed d² that no other row falls below (the runner-up's). The winner's
distance d is computed again in float64, as a difference, and accepted when no other row can truly beat it. A row that
could has ‖y‖ ≤ ‖x‖ + d, so that its computed and true d² differ by at most

    δ = (D + 8) · 2⁻²⁴ · (2 ‖x‖ + d)²

and the winner stands if the runner-up's computed d² exceeds d² + δ. The few rows that fail this test (ties,
near-constant features) are searched by brute force in float64. On a GPU the proposals come from JAX, elsewhere from
faiss; both look at every expert row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
from scipy.spatial.distance import cdist

from ilbrl.base.progress import progress

BLOCK = 65536  # queries at a time; bounds the memory whatever the size of the logs
GROUP = 1152  # expert rows per faiss index
TABLE = 256  # queries at a time against the rows of one group

Propose = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]
"""[B, D] float32 queries → [B] numbers of the winners and [B] computed squared distances of the runners-up."""


def nearest(queries: np.ndarray, points: np.ndarray, quiet: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """[N] float64 Euclidean distances to, and [N] int64 numbers of, the nearest of `points`.

    queries: [N, D], points: [M, D]; float32 or float64. Among equally near points the first is returned.
    """
    blocks = (queries[start : start + BLOCK] for start in range(0, len(queries), BLOCK))
    return nearest_of_blocks(blocks, len(queries), points, quiet)


def nearest_of_blocks(
    blocks: Iterable[np.ndarray],
    rows: int,
    points: np.ndarray,
    quiet: bool = False,
    groups: tuple[np.ndarray, np.ndarray] | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """The same of queries that come block by block, `rows` in all, so that they need not be held at once.

    groups: integers [rows] of the queries and [M] of the points. Only points of a query's own group are then near; a
    query whose group has no points is infinitely far from point −1.
    """
    asking, theirs = groups or (np.zeros(rows, np.int64), np.zeros(len(points), np.int64))
    searches = {group: _search(points, np.flatnonzero(theirs == group)) for group in np.unique(theirs)}
    distance, number, done = np.full(rows, np.inf), np.full(rows, -1, np.int64), 0
    with progress("nearest expert rows", rows, "rows", quiet) as advance:
        for block in blocks:
            group_of = asking[done : done + len(block)]
            for group in np.unique(group_of):
                if group in searches:
                    within = np.flatnonzero(group_of == group)
                    distance[done + within], number[done + within] = searches[group](block[within])
            done += len(block)
            advance(len(block))
    return distance, number


def _search(points: np.ndarray, chosen: np.ndarray) -> Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """[B, D] queries → distances and numbers of the nearest among the `chosen` points."""
    distinct, first_of = _distinct(np.asarray(points)[chosen])
    centre = distinct.mean(0, dtype=np.float64).astype(distinct.dtype)  # a large offset would cancel in float32
    propose = _proposer((distinct - centre).astype(np.float32))

    def search(queries: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        distance, found = _certified(queries, distinct, centre, propose)
        return distance, chosen[first_of[found]]

    return search


def _certified(
    queries: np.ndarray, points: np.ndarray, centre: np.ndarray, propose: Propose
) -> tuple[np.ndarray, np.ndarray]:
    """Exact distances and numbers for one block of queries."""
    centred = (queries - centre).astype(np.float32, copy=False)
    number, runner_up = propose(centred)
    squared = np.square(queries.astype(np.float64) - points[number]).sum(1)
    norm = np.sqrt(np.square(centred, dtype=np.float64).sum(1))
    bound = (points.shape[1] + 8) * 2.0**-24 * (2 * norm + np.sqrt(squared)) ** 2
    doubtful = np.flatnonzero(~(runner_up > squared + bound))  # written so that overflow to nan is doubtful too
    if len(doubtful):
        squared[doubtful], number[doubtful] = _brute_force(queries[doubtful], points)
    return np.sqrt(squared), number


def _brute_force(queries: np.ndarray, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Squared distances and numbers by differences in float64, a bounded block at a time."""
    squared, number = np.empty(len(queries)), np.empty(len(queries), np.int64)
    step = max(1, 2**23 // len(points))  # 64 MB of distances
    for start in range(0, len(queries), step):
        block = slice(start, start + step)
        table = cdist(queries[block].astype(np.float64), points.astype(np.float64), "sqeuclidean")
        number[block] = table.argmin(1)
        squared[block] = np.take_along_axis(table, number[block][:, None], 1)[:, 0]
    return squared, number


def _distinct(points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The distinct rows in order of first appearance, and where each first appears: duplicates would all be ties."""
    _, first = np.unique(points, axis=0, return_index=True)
    first.sort()
    return points[first], first


def _proposer(points: np.ndarray) -> Propose:
    import jax

    if jax.default_backend() == "cpu":
        try:
            return _faiss_proposer(points)
        except ModuleNotFoundError:
            pass
    return _jax_proposer(points)


def _faiss_proposer(points: np.ndarray) -> Propose:
    """faiss finds one neighbour about seven times faster than two.

    So it is asked for the nearest row of each group, and only the winner's group is looked at again.
    """
    import faiss

    groups = [points[start : start + GROUP] for start in range(0, len(points), GROUP)]
    first = np.cumsum([0, *map(len, groups)])
    indices = [faiss.IndexFlatL2(points.shape[1]) for _ in groups]
    for index, group in zip(indices, groups):
        index.add(np.ascontiguousarray(group))  # pyright: ignore[reportCallIssue]
    workspace = np.empty(TABLE * max(map(len, groups)), np.float32)
    columns = [np.vstack([-2 * group.T, np.square(group).sum(1)]) for group in groups]

    def propose(queries: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        searched = [index.search(queries, 1) for index in indices]  # pyright: ignore[reportCallIssue]
        best, within = (np.stack(rows)[:, :, 0] for rows in zip(*searched))  # [groups, B]
        every = np.arange(len(queries))
        group_of = best.argmin(0)
        within = within[group_of, every]
        best[group_of, every] = np.inf
        runner_up = best.min(0)
        extended = np.hstack([queries, np.ones((len(queries), 1), np.float32)])
        for g in range(len(groups)):
            members = np.flatnonzero(group_of == g)
            for start in range(0, len(members), TABLE):
                rows = members[start : start + TABLE]
                second = _nearest_but(within[rows], extended[rows], columns[g], workspace)
                runner_up[rows] = np.minimum(runner_up[rows], second)
        return first[group_of] + within, runner_up

    return propose


def _nearest_but(number: np.ndarray, queries: np.ndarray, columns: np.ndarray, workspace: np.ndarray) -> np.ndarray:
    """[B] squared distances, in float32, of the nearest rows of a group other than row `number`.

    queries: [B, D + 1], ending in 1; columns: [D + 1, M], −2 y above ‖y‖². Their product is d² − ‖x‖² in one pass,
    into memory that is used again and again: fresh pages would cost more than the arithmetic.
    """
    rows, others = len(queries), columns.shape[1]
    products = np.matmul(queries, columns, out=workspace[: rows * others].reshape(rows, others))
    products[np.arange(rows), number] = np.inf
    return products.min(1) + np.square(queries[:, :-1]).sum(1)


def _jax_proposer(points: np.ndarray) -> Propose:
    import jax
    import jax.numpy as jnp

    columns, squares = jnp.asarray(points.T), jnp.square(jnp.asarray(points)).sum(1)
    block = min(BLOCK, max(256, 2**26 // len(points)))  # 256 MB of products

    @jax.jit
    def search(queries: jax.Array) -> tuple[jax.Array, jax.Array]:
        squared = jnp.square(queries).sum(1)[:, None] + (
            squares - 2 * jnp.matmul(queries, columns, precision="highest")
        )
        number = squared.argmin(1)
        others = jnp.where(jnp.arange(len(points)) == number[:, None], jnp.inf, squared)
        return number, others.min(1)

    def propose(queries: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        blocks = -(-len(queries) // block)
        padded = np.zeros((blocks * block, queries.shape[1]), np.float32)  # one shape: one compilation
        padded[: len(queries)] = queries
        parts = [search(jnp.asarray(part)) for part in np.split(padded, blocks)]
        number, runner_up = (np.concatenate([np.asarray(part[i]) for part in parts])[: len(queries)] for i in range(2))
        return number.astype(np.int64), runner_up

    return propose
