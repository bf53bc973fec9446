"""THE loop: one compiled program trains a whole population, hyper-parameters × seeds, chunk by chunk.

A chunk is a scan over updates inside jit; minibatches are drawn inside it. On an accelerator the members of a
population advance together (vmap), so that small networks become large batched kernels; on a CPU they take turns
within a chunk, because batched small products run slower there than one after another (benchmarks/training_speed.py).
Members are spread over all local devices. Agents, discriminators and value estimators are all driven from here.

What a member becomes depends on its configuration, its seed, the data and the number of updates alone: every draw
comes from (seed, update number), so cutting the run into other chunks, or killing and resuming it, changes no bit.
A member whose losses leave the finite or plausible range is frozen as it was and marked, and the others go on.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from ilbrl import checkpoint
from ilbrl import feed as feeding
from ilbrl.config import stack
from ilbrl.errors import IlbrlError
from ilbrl.feed import Batch, Feed, Spec
from ilbrl.progress import progress

Info = dict[str, jax.Array]
Log = Callable[[dict[str, Any]], None]
"""A logger is a callable that takes one flat record per chunk: {"update", "updates_per_second", metric: [P], …}."""


class Learner(Protocol):
    """What the loop drives; an agent module satisfies it as it stands."""

    def init(self, cfg: Any, spec: Spec, key: jax.Array) -> Any: ...

    def period(self, cfg: Any) -> int: ...

    def step(self, cfg: Any, state: Any, batch: Batch, key: jax.Array, phase: int) -> tuple[Any, Info]: ...


class Members(NamedTuple):
    """The state of a population; every leaf has a leading axis of P."""

    state: Any
    diverged_at: jax.Array  # [P] int32 update at which the member was frozen; −1: never


@dataclass(frozen=True)
class Fitted:
    """A trained population."""

    state: Any  # the learner's state, every leaf [P, …] NumPy
    diverged_at: np.ndarray  # [P] update number; −1: never
    metrics: dict[str, np.ndarray]  # name → [chunks, P] means over each chunk; "update" → [chunks]
    updates: int
    seconds: float  # of training in this process, compilation included

    def member(self, p: int) -> Any:
        """The state of one member."""
        return jax.tree.map(lambda leaf: leaf[p], self.state)


def fit(
    learner: Learner,
    configs: Sequence[Any],
    seeds: Sequence[int],
    feed: Feed,
    spec: Spec,
    updates: int,
    *,
    q_limit: float | Sequence[float] = np.inf,
    chunk: int | None = None,
    resume_from: Path | None = None,
    save_every: float = 60.0,
    log: Log | None = None,
    label: str = "training",
    quiet: bool = False,
) -> Fitted:
    """Train member p with configs[p] and seeds[p] for `updates` updates.

    q_limit: [P] or one for all: a mean |Q| beyond it marks the member diverged.
    chunk: updates between reports; no influence on the result.
    resume_from: a checkpoint file: written about every `save_every` seconds and at the end, continued from if there.
    """
    members = len(configs)
    if members == 0 or len(seeds) != members:
        raise IlbrlError(f"a population needs one seed per configuration: {members} configurations, {len(seeds)} seeds")
    period = learner.period(configs[0])
    chunk = _whole_periods(chunk or default_chunk(), period)
    if updates % period:
        raise IlbrlError(f"{updates} updates is not a multiple of this learner's period of {period}")
    cfg = stack(configs)
    layout, packed = feeding.pack(feed)
    mesh = Mesh(np.array(jax.local_devices()[: _devices_for(members)]), ("members",))
    put = partial(jax.device_put, device=NamedSharding(mesh, PartitionSpec("members")))
    padded = _pad_to(members, mesh.size)
    keys = jax.vmap(jax.random.key)(jnp.asarray(padded(np.asarray(seeds, np.uint32))))
    inputs = put((jax.tree.map(padded, cfg), jax.tree.map(padded, feeding.places(feed, members)), keys))
    limit = put(padded(np.broadcast_to(np.asarray(q_limit, np.float32), (members,))))
    packed = jax.device_put(packed, NamedSharding(mesh, PartitionSpec()))
    init_key, loop_key = (jax.vmap(partial(jax.random.fold_in, data=i))(inputs[2]) for i in range(2))
    state = jax.jit(jax.vmap(lambda c, k: learner.init(c, spec, k)))(inputs[0], init_key)
    population = put(Members(state, jnp.full(limit.shape, -1, jnp.int32)))

    identity = {"configs": [repr(c) for c in configs], "seeds": list(map(int, seeds)), "rows": feed.num_rows}
    done, history = 0, []
    if resume_from is not None and resume_from.exists():
        population, done, history = checkpoint.read(resume_from, population, identity)
        population = put(population)

    advance_by = {}
    started = saved = time.monotonic()
    with progress(label, updates * members, "updates", quiet) as advance:
        advance(done * members)
        while done < updates:
            length = min(chunk, updates - done)
            if length not in advance_by:
                advance_by[length] = _compile(learner, layout, mesh, length, period, feed.expert_rows)
            before = time.monotonic()
            population, info = advance_by[length](population, inputs[0], inputs[1], loop_key, limit, packed, done)
            info = {name: np.asarray(values)[:members] for name, values in info.items()}
            done += length
            now = time.monotonic()
            diverged = np.asarray(population.diverged_at)[:members]
            history.append({"update": done, **info})
            if log is not None:
                rate = length * members / (now - before)
                log({"update": done, "updates_per_second": rate, "diverged": diverged >= 0, **info})
            alive = f"{(diverged < 0).sum()}/{members} members" if (diverged >= 0).any() else ""
            advance(length * members, note=alive)
            if resume_from is not None and (now - saved > save_every or done == updates):
                checkpoint.write(resume_from, population, done, history, identity)
                saved = now
    host = jax.tree.map(lambda leaf: np.asarray(leaf)[:members], population)
    metrics = {name: np.stack([record[name] for record in history]) for name in history[0]} if history else {}
    return Fitted(host.state, host.diverged_at, metrics, updates, time.monotonic() - started)


def default_chunk() -> int:
    """Updates per report: about a second or two of work on either kind of machine."""
    return 200 if jax.default_backend() == "cpu" else 2000


@cache
def _compile(learner: Learner, layout: feeding.Layout, mesh: Mesh, length: int, period: int, expert_rows: int | None):
    """A jitted program that advances every member by `length` updates."""

    def member(members: Members, cfg: Any, place: Any, key: jax.Array, limit: jax.Array, packed: Any, start: jax.Array):
        numbers = start + jnp.arange(length)
        draw_keys, step_keys = jax.vmap(lambda n: jax.random.split(jax.random.fold_in(key, n)), out_axes=1)(numbers)
        drawn = jax.vmap(lambda k: feeding.draw(k, cfg.batch_size, packed, place, expert_rows))(draw_keys)

        def update(carry: Members, xs: Any) -> tuple[Members, Info]:
            info: Info = {}
            for phase in range(period):
                number, rows, step_key = jax.tree.map(lambda x, phase=phase: x[phase], xs)
                batch = feeding.gather(layout, packed, place, rows, expert_rows)
                state, latest = learner.step(cfg, carry.state, batch, step_key, phase)
                info |= latest
                carry = _freeze_if_diverged(carry, state, latest, limit, number)
            return carry, info

        blocks = jax.tree.map(lambda x: x.reshape(length // period, period, *x.shape[1:]), (numbers, drawn, step_keys))
        members, infos = jax.lax.scan(update, members, blocks)
        return members, jax.tree.map(lambda x: x.mean(0), infos)

    if jax.default_backend() == "cpu":

        def population(members, cfg, place, keys, limit, packed, start):
            turns = (members, cfg, place, keys, limit)
            return jax.lax.map(lambda turn: member(*turn, packed, start), turns)
    else:
        population = jax.vmap(member, in_axes=(0, 0, 0, 0, 0, None, None))

    spread, whole = PartitionSpec("members"), PartitionSpec()
    in_specs = (spread, spread, spread, spread, spread, whole, whole)
    return jax.jit(
        jax.shard_map(population, mesh=mesh, in_specs=in_specs, out_specs=(spread, spread), check_vma=False),
        donate_argnums=0,
    )


def _freeze_if_diverged(old: Members, state: Any, info: Info, limit: jax.Array, number: jax.Array) -> Members:
    """Take the new state, unless this member has diverged, now or before."""
    sound = jnp.stack([jnp.isfinite(value) for value in info.values()]).all()
    sound &= jnp.abs(info.get("q_magnitude", jnp.zeros(()))) <= limit
    alive = old.diverged_at < 0
    kept = jax.tree.map(lambda new, before: jnp.where(alive & sound, new, before), state, old.state)
    return Members(kept, jnp.where(alive & ~sound, number.astype(jnp.int32), old.diverged_at))


def _whole_periods(chunk: int, period: int) -> int:
    return max(chunk // period, 1) * period


def _devices_for(members: int) -> int:
    return min(len(jax.local_devices()), members)


def _pad_to(members: int, devices: int) -> Callable[[np.ndarray], np.ndarray]:
    """Repeat the last member until every device holds the same number."""
    total = -(-members // devices) * devices
    index = np.minimum(np.arange(total), members - 1)
    return lambda array: np.asarray(array)[index]
