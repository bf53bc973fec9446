"""THE loop: one compiled program trains a whole population, hyper-parameters × seeds, chunk by chunk.

A chunk is a scan over updates inside jit; minibatches are drawn inside it. On an accelerator the members of a
population advance together (vmap), so that small networks become large batched kernels; on a CPU they take turns
within a chunk, because batched small products run slower there than one after another (benchmarks/training_speed.py).
Members are spread over all local devices. Agents, discriminators and value estimators are all driven from here.

What a member becomes depends on its configuration, its seed, the data and the number of updates alone: every draw
comes from (seed, update number). So killing and resuming a run changes no bit. On a CPU other chunks change no bit
either; another number of cores does where layers are wide, because XLA divides the work by its threads (NPROC).
A member whose losses leave the finite or plausible range is marked and frozen from then on, and the others go on.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from ilbrl.base.errors import IlbrlError
from ilbrl.base.progress import Advance, progress
from ilbrl.base.records import shown
from ilbrl.learning import batches as feeding
from ilbrl.learning import memory, nets
from ilbrl.learning.batches import Batch, Feed
from ilbrl.learning.checkpoint import START_OVER, Checkpoint
from ilbrl.learning.config import check, stack
from ilbrl.learning.loggers import Log
from ilbrl.learning.spec import Spec

Info = dict[str, jax.Array]

MOST_UPDATES = 2**31 - 1  # an update's number has 32 bits: larger ones would repeat the draws of smaller ones
SEEDS = 2**32  # different ones: larger numbers would repeat the draws of smaller ones
UNROLL = 2  # periods per turn of the loop on accelerators; weights cast to bfloat16 in one serve the next as well


def every_update(cfg: Any) -> int:
    """The period of a learner whose updates are all alike."""
    del cfg
    return 1


class Learner(NamedTuple):
    """What the loop drives. Compiled programs are kept per learner, so make each one once, as a constant."""

    init: Callable[[Any, Spec, jax.Array], Any]  # (configuration, sizes, key) → state
    step: Callable[[Any, Any, Batch, jax.Array, int], tuple[Any, Info]]
    """(configuration, state, batch, key, phase) → the state after one update, and scalars to report."""
    period: Callable[[Any], int] = every_update
    """configuration → updates in a cycle; `step` is told its phase in it, 0 … period − 1."""


class Probe(NamedTuple):
    """What is read off every member at the end of each chunk, beside the means of its updates' metrics."""

    start: int  # the rows start … stop − 1 of the feed are handed to `read` as one batch
    stop: int
    read: Callable[[Any, Any, Batch], Info]  # (configuration, state, batch) → scalars


class Members(NamedTuple):
    """The state of a population; every leaf has a leading axis of P."""

    state: Any
    diverged_at: jax.Array  # [P] int32 update after which the member was frozen; −1: never


@dataclass(frozen=True)
class Fitted:
    """A trained population."""

    state: Any  # the learner's state, every leaf [P, …] NumPy
    diverged_at: np.ndarray  # [P] update number; −1: never
    metrics: dict[str, np.ndarray]  # name → [chunks, P] means over each chunk, or the probe's; "update" → [chunks]
    updates: int
    seconds: float  # of training in this process, compilation included
    done_before: int = 0  # updates that a checkpoint had already; as many as `updates`: nothing was left to do

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
    probe: Probe | None = None,
    resume_from: Path | None = None,
    identity: dict[str, Any] | None = None,
    save_every: float = 60.0,
    log: Log | None = None,
    label: str = "training",
    quiet: bool = False,
) -> Fitted:
    """Train member p with configs[p] and seeds[p] for `updates` updates.

    q_limit: [P] or one for all: a mean |Q| beyond it marks the member diverged.
    chunk: updates between reports; no influence on the result.
    probe: what else each report holds, read off the members as they are then; no influence on the result.
    resume_from: a checkpoint file: written about every `save_every` seconds and at the end, continued from if there.
    identity: what else a checkpoint must agree in before it is continued (the data's hash, say).
    A population that does not fit into memory is trained in groups, one after the other; it is continued in the same.
    """
    members = len(configs)
    if members == 0 or len(seeds) != members:
        raise IlbrlError(f"a population needs one seed per configuration: {members} configurations, {len(seeds)} seeds")
    check(configs)
    require_seeds(seeds)
    period = require_updates(learner, configs[0], updates)
    chunk = max((chunk or default_chunk()) // period, 1) * period
    cfg = stack(configs)
    state = jax.eval_shape(lambda key: learner.init(configs[0], spec, key), jax.random.key(0))
    member_bytes = memory.per_member(state, chunk, configs[0].batch_size)
    before = None if resume_from is None else _groups_before(resume_from)
    if before is None:
        groups = memory.groups(members, len(jax.local_devices()), member_bytes, feed.nbytes)
    else:  # as they began, whatever is free now: other groups would start over
        groups = memory.equal_groups(members, before)
    limits = np.broadcast_to(np.asarray(q_limit, np.float32), (members,))
    layout, packed = feeding.pack(feed)
    places = feeding.places(feed, members)
    started, parts = time.monotonic(), []
    with progress(label, updates * members, "updates", quiet, "fewer updates, seeds or members") as advance:
        for number, group in enumerate(groups):
            inputs = jax.tree.map(lambda leaf, group=group: leaf[group], (cfg, places, np.asarray(seeds), limits))
            known = {"configs": [asdict(c) for c in configs[group]], "seeds": [int(seed) for seed in seeds[group]]}
            saved = _group_file(resume_from, number, len(groups))
            kept = Checkpoint(saved, {**known, "rows": feed.num_rows, **(identity or {})}, save_every)
            loop = Loop(learner, spec, layout, packed, period, chunk, updates, probe)
            parts.append(_train(loop, inputs, group.start, kept, log, advance))
    states, diverged_at, histories, done_before = zip(*parts)
    return Fitted(
        state=jax.tree.map(lambda *leaves: np.concatenate(leaves), *states),
        diverged_at=np.concatenate(diverged_at),
        metrics=_join_histories(histories),
        updates=updates,
        seconds=time.monotonic() - started,
        done_before=min(done_before),
    )


def require_updates(learner: Learner, config: Any, updates: int) -> int:
    """The learner's period, of which `updates` must be a multiple."""
    if not 1 <= updates <= MOST_UPDATES:
        raise IlbrlError(f"updates: must be between 1 and {MOST_UPDATES:,}, got {shown(updates)}")
    period = learner.period(config)
    if updates % period:
        raise IlbrlError(f"{updates} updates is not a multiple of this learner's period of {period}")
    return period


def require_seeds(seeds: Sequence[int]) -> None:
    """Refuse numbers that would repeat the draws of others."""
    if strange := [shown(seed) for seed in seeds if not 0 <= seed < SEEDS]:
        raise IlbrlError(f"seed: must be a whole number from 0 to {SEEDS - 1:,}, got {', '.join(strange[:8])}")


class Loop(NamedTuple):
    """What all groups of a population share."""

    learner: Learner
    spec: Spec
    layout: feeding.Layout
    packed: feeding.Packed
    period: int
    chunk: int
    updates: int
    probe: Probe | None


def _train(loop: Loop, inputs: Any, first: int, kept: Checkpoint, log: Log | None, advance: Advance):
    """Train one group, from member `first` on: its state and marks on the host, a record per chunk, and the updates
    done before."""
    members = len(inputs[2])
    mesh = Mesh(np.array(jax.local_devices()[: min(len(jax.local_devices()), members)]), ("members",))
    spread = partial(jax.device_put, device=NamedSharding(mesh, PartitionSpec("members")))
    padded = np.minimum(np.arange(-(-members // mesh.size) * mesh.size), members - 1)  # devices hold equally many
    cfg, place, seeds, limit = spread(jax.tree.map(lambda leaf: leaf[padded], inputs))
    packed = jax.device_put(loop.packed, NamedSharding(mesh, PartitionSpec()))
    init_keys, loop_keys = (jax.vmap(lambda s, i=i: jax.random.fold_in(jax.random.key(s), i))(seeds) for i in range(2))
    state = jax.jit(jax.vmap(lambda c, key: loop.learner.init(c, loop.spec, key)))(cfg, init_keys)
    population = Members(state, jnp.full(len(padded), -1, jnp.int32))
    population, done, history = kept.read(population, members)
    if done:
        population = jax.tree.map(lambda leaf: leaf[padded], population)  # a checkpoint holds the members alone
    if done > loop.updates:
        raise IlbrlError(
            f"{kept.path}: already at {done:,} updates, {loop.updates:,} were asked for; use another folder"
        )
    population, before = spread(population), done
    advance(done * members)
    while done < loop.updates:
        length = min(loop.chunk, loop.updates - done)
        if done == before:
            advance(0, note="compiling")
        program = _compile(loop.learner, loop.layout, mesh, length, loop.period, loop.probe)
        started = time.monotonic()
        population, info = program(population, cfg, place, loop_keys, limit, packed, done)
        record = {name: np.asarray(values)[:members] for name, values in info.items()}
        done += length
        diverged = np.asarray(population.diverged_at)[:members] >= 0
        latest = {"update": done, **record}
        if history and _shapes(latest) != _shapes(history[0]):
            raise IlbrlError(f"{kept.path}: a checkpoint with other metrics than are reported now; {START_OVER}")
        history.append(latest)
        if log is not None:
            rate = length * members / (time.monotonic() - started)
            log({"update": done, "first_member": first, "updates_per_second": rate, "diverged": diverged, **record})
        advance(length * members, note=f"{diverged.sum()} of {members} diverged" if diverged.any() else "")
        kept.write(population, done, history, last=done == loop.updates, members=members)
    host = jax.tree.map(lambda leaf: np.asarray(leaf)[:members], population)
    broken = ~_sound(host.state) & (host.diverged_at < 0)  # a gradient can be infinite behind a finite loss
    return host.state, np.where(broken, loop.updates - 1, host.diverged_at), history, before


def _shapes(record: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    return {name: np.shape(value) for name, value in record.items()}


def _sound(state: Any) -> np.ndarray:
    """[P] whether no network of a member, nor its moments, ever met a gradient that is not finite."""
    nodes = jax.tree.leaves(state, is_leaf=lambda node: isinstance(node, nets.Optimised))
    return np.all([nets.is_sound(node) for node in nodes if isinstance(node, nets.Optimised)], axis=0)


def _group_file(path: Path | None, number: int, groups: int) -> Path | None:
    return path if path is None or groups == 1 else path.with_stem(f"{path.stem}-{number + 1}-of-{groups}")


def _kept(path: Path) -> dict[Path, int]:
    """File → in how many groups the population was trained: what `fit(…, resume_from=path)` has kept."""
    grouped = re.compile(rf"{re.escape(path.stem)}-\d+-of-([1-9]\d*)")
    names = {file: grouped.fullmatch(file.stem) for file in path.parent.glob(f"*{path.suffix}")}
    found = {file: int(name[1]) for file, name in names.items() if name is not None}
    return found | ({path: 1} if path.exists() else {})


def _groups_before(path: Path) -> int | None:
    """In how many groups the population was trained that has its checkpoints here; None: there is none."""
    kept = _kept(path)
    return kept[max(kept, key=lambda file: file.stat().st_mtime)] if kept else None


def forget_checkpoint(path: Path) -> None:
    """Remove what `fit(…, resume_from=path)` has kept, of the whole population or group by group."""
    for file in _kept(path):
        file.unlink()


def _join_histories(histories: Sequence[list[dict[str, Any]]]) -> dict[str, np.ndarray]:
    if not histories[0]:
        return {}
    metrics = {"update": np.array([record["update"] for record in histories[0]])}
    for name in sorted(histories[0][0].keys() - {"update"}):  # the order of a set differs between processes
        metrics[name] = np.concatenate([np.stack([record[name] for record in part]) for part in histories], axis=1)
    return metrics


def default_chunk() -> int:
    """Updates per report: about a second or two of work on either kind of machine."""
    return 200 if jax.default_backend() == "cpu" else 2000


@cache
def _compile(
    learner: Learner,
    layout: feeding.Layout,
    mesh: Mesh,
    length: int,
    period: int,
    probe: Probe | None,
):
    """A jitted program that advances every member by `length` updates and then reads it."""
    on_cpu = jax.default_backend() == "cpu"
    unroll = 1 if on_cpu else UNROLL

    def member(members: Members, cfg: Any, place: Any, key: jax.Array, limit: jax.Array, packed: Any, start: jax.Array):
        numbers = start + jnp.arange(length)
        draw_keys, step_keys = jax.vmap(lambda n: jax.random.split(jax.random.fold_in(key, n)), out_axes=1)(numbers)
        share = feeding.share_of(cfg, layout)
        drawn = jax.vmap(lambda k: feeding.draw(k, cfg.batch_size, layout, packed, place, share))(draw_keys)

        def update(carry: Members, xs: Any) -> tuple[Members, Info]:
            info: Info = {}
            for phase in range(period):
                number, rows, step_key = jax.tree.map(lambda x, phase=phase: x[phase], xs)
                batch = feeding.gather(layout, packed, place, rows)
                state, latest = learner.step(cfg, carry.state, batch, step_key, phase)
                info |= latest
                carry = _advance(carry, state, latest, limit, number)
            return carry, info

        blocks = jax.tree.map(lambda x: x.reshape(length // period, period, *x.shape[1:]), (numbers, drawn, step_keys))
        members, infos = jax.lax.scan(update, members, blocks, unroll=unroll)
        means = jax.tree.map(lambda x: x.mean(0), infos)
        if probe is None:
            return members, means
        batch = feeding.unpack(layout, packed, place, jnp.arange(probe.start, probe.stop))
        return members, means | probe.read(cfg, members.state, batch)

    def take_turns(members, cfg, place, keys, limit, packed, start):
        turns = (members, cfg, place, keys, limit)
        return jax.lax.map(lambda turn: member(*turn, packed=packed, start=start), turns)

    together = jax.vmap(member, in_axes=(0, 0, 0, 0, 0, None, None))
    population = take_turns if on_cpu else together
    spread, whole = PartitionSpec("members"), PartitionSpec()
    in_specs = (spread, spread, spread, spread, spread, whole, whole)
    return jax.jit(
        jax.shard_map(population, mesh=mesh, in_specs=in_specs, out_specs=(spread, spread), check_vma=False),
        donate_argnums=0,
    )


def _advance(old: Members, state: Any, info: Info, limit: jax.Array, number: jax.Array) -> Members:
    """Take the new state of a member that has not diverged before, and mark the member if it has now.

    The update that shows the divergence is still taken. To undo it, all of the old state would have to be kept until
    the last loss is known, which costs a tenth of an accelerator's time. Nothing is lost: a step that is not finite
    moves no parameter (nets.descend).
    """
    sound = jnp.stack([jnp.isfinite(value) for value in info.values()]).all()
    sound &= jnp.abs(info.get("q_magnitude", jnp.zeros(()))) <= limit
    alive = old.diverged_at < 0
    kept = jax.tree.map(lambda new, before: jnp.where(alive, new, before), state, old.state)
    return Members(kept, jnp.where(alive & ~sound, number.astype(jnp.int32), old.diverged_at))
