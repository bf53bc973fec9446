"""What the training loop feeds its members: packed rows on the device, drawn by index.

Four kinds of data meet here. *Shared* columns are the same for every member and are packed into one [N, width]
matrix, so that a minibatch is a single gather. *Own* columns differ between members (the labels of a member's
discriminator, the next actions of its policy): [G, N, k], with the set that each member reads. A member may draw from
its own *subset* of the rows (an evaluation composition, the expert's rows). *Initial observations* come beside.

How often the expert's rows are drawn is a hyper-parameter of a member (`Shares`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ilbrl.base.errors import IlbrlError
from ilbrl.data import Dataset
from ilbrl.learning.config import config
from ilbrl.learning.spec import Spec


class Batch(NamedTuple):
    """A minibatch as an agent sees it; a field that was not fed is None."""

    observations: jax.Array  # [B, obs_dim], standardised
    actions: jax.Array  # [B, act_dim], scaled to [−1, 1]; of discrete actions [B, num_actions], one-hot
    next_observations: jax.Array  # [B, obs_dim], standardised
    continues: jax.Array  # [B] 1 − terminal; a time-out continues
    rewards: jax.Array = None  # pyright: ignore[reportAssignmentType]  # [B]
    weights: jax.Array = None  # pyright: ignore[reportAssignmentType]  # [B]
    absorbing: jax.Array = None  # pyright: ignore[reportAssignmentType]  # [B] of steps after a terminal
    next_actions: jax.Array = None  # pyright: ignore[reportAssignmentType]  # [B, act_dim], as `actions`
    next_known: jax.Array = None  # pyright: ignore[reportAssignmentType]  # [B] 1 where a next action was logged, else 0
    initial_observations: jax.Array = None  # pyright: ignore[reportAssignmentType]  # [B, obs_dim], standardised
    expert: Batch = None  # pyright: ignore[reportAssignmentType]  # a second draw, from the expert's rows


@config
class Shares:
    """How the batches of an agent that learns from D_E ∪ D_X are made up."""

    expert_share: float = 0.0
    """Share of each batch that is drawn from the expert's rows; the rest is drawn from the other logs. 0: it follows
    from `expert_odds`."""
    expert_odds: float = 1.0
    """Each of the expert's rows is drawn so many times as often as a row of the other logs; with few expert episodes
    they then make up less of a batch than with many. 1: all rows of D_E ∪ D_X are drawn alike, as in the paper."""


@dataclass(frozen=True)
class Feed:
    """Everything P members draw from; see the module's docstring."""

    shared: Mapping[str, np.ndarray]  # field of Batch → [N] or [N, k]
    own: Mapping[str, np.ndarray] = field(default_factory=dict)  # field of Batch → [G, N] or [G, N, k]
    own_of: Sequence[int] | None = None  # [P] which of the G sets each member reads; None: member p reads set p
    subsets: Sequence[np.ndarray] | None = None  # each [M] row numbers
    subset_of: Sequence[int] | None = None  # [P] which subset each member draws from; None: all draw from the first
    initial_observations: np.ndarray | None = None  # [M, obs_dim], standardised
    expert_rows: int = 0  # so many of the first rows are the expert's
    second_draw: bool = False  # each batch brings a second one, drawn from the expert's rows

    def __post_init__(self) -> None:
        sizes = {name: len(array) for name, array in self.shared.items()}
        sizes |= {name: array.shape[1] for name, array in self.own.items()}
        if len(set(sizes.values())) != 1:
            raise IlbrlError(f"columns of one feed must have the same number of rows, found {sizes}")
        unknown = (set(self.shared) | set(self.own)) - set(Batch._fields)
        if unknown:
            raise IlbrlError(f"no such columns in a batch: {sorted(unknown)}; there are {list(Batch._fields)}")

    @property
    def num_rows(self) -> int:
        return len(next(iter(self.shared.values())))

    @property
    def nbytes(self) -> int:
        arrays = [*self.shared.values(), *self.own.values(), *(self.subsets or ())]
        return sum(array.size * 4 for array in arrays)


def transitions(data: Dataset, spec: Spec) -> dict[str, np.ndarray]:
    """The columns every agent needs, in the networks' units."""
    return {
        "observations": spec.standardise(data.observations),
        "actions": spec.encode_actions(data.actions),
        "next_observations": spec.standardise(data.next_observations),
        "continues": 1.0 - data.terminals.astype(np.float32),
    }


def logged_next_actions(data: Dataset, spec: Spec) -> dict[str, np.ndarray]:
    """The action logged after each row. The last step of an episode has none: 0 there, and `next_known` says so."""
    same_episode = np.append(data.episode_of[1:] == data.episode_of[:-1], False)
    following = np.roll(spec.encode_actions(data.actions), -1, axis=0)
    return {
        "next_actions": np.where(same_episode[:, None], following, np.float32(0)),
        "next_known": same_episode.astype(np.float32),
    }


class Layout(NamedTuple):
    """How to read packed rows: static, so it shapes the compiled program."""

    shared: tuple[tuple[str, int, int], ...]  # (field, first column, number of columns; 0: a scalar)
    own: tuple[tuple[str, int, int], ...]
    num_rows: int
    expert_rows: int
    second_draw: bool


class Packed(NamedTuple):
    """The feed on the device."""

    rows: jax.Array  # [N, width]
    own: jax.Array  # [G, N, k]; [1, N, 0] when nothing is own
    subsets: jax.Array  # [C, M] int32 row numbers, padded; [1, 0]: all rows
    subset_sizes: jax.Array  # [C] uint32
    initial_observations: jax.Array  # [M, obs_dim]; [0, 0] when not fed


class Place(NamedTuple):
    """What one member reads: its set of own columns and its subset."""

    own: jax.Array  # int32
    subset: jax.Array  # int32


def pack(feed: Feed) -> tuple[Layout, Packed]:
    shared, rows = _side_by_side(feed.shared, feed.num_rows, lead=())
    groups = next(iter(feed.own.values())).shape[0] if feed.own else 1
    own, own_rows = _side_by_side(feed.own, feed.num_rows, lead=(groups,))
    subsets = [np.asarray(s, np.int32) for s in feed.subsets] if feed.subsets else [np.zeros(0, np.int32)]
    longest = max(map(len, subsets))
    padded = np.stack([np.resize(s, longest) if len(s) else s for s in subsets])
    sizes = [len(s) or feed.num_rows for s in subsets]
    initial = np.zeros((0, 0), np.float32) if feed.initial_observations is None else feed.initial_observations
    layout = Layout(shared, own, feed.num_rows, feed.expert_rows, feed.second_draw)
    return layout, Packed(
        rows=jnp.asarray(rows),
        own=jnp.asarray(own_rows),
        subsets=jnp.asarray(padded),
        subset_sizes=jnp.asarray(sizes, jnp.uint32),
        initial_observations=jnp.asarray(initial, jnp.float32),
    )


def places(feed: Feed, members: int) -> Place:
    """[P] places of the members."""
    own = feed.own_of if feed.own_of is not None else (np.arange(members) if feed.own else np.zeros(members))
    subset = feed.subset_of if feed.subset_of is not None else np.zeros(members)
    return Place(np.asarray(own, np.int32), np.asarray(subset, np.int32))  # pyright: ignore[reportArgumentType]


def share_of(cfg: Any, layout: Layout) -> Any:
    """The expert's share of each batch of a member with these `Shares`; 0: all rows are drawn alike.

    None where a member draws from one kind of rows alone.
    """
    if not isinstance(cfg, Shares):
        return None
    expert, others = cfg.expert_odds * layout.expert_rows, layout.num_rows - layout.expert_rows
    by_odds = jnp.where(cfg.expert_odds == 1, 0.0, expert / jnp.maximum(expert + others, 1))
    return jnp.where(cfg.expert_share > 0, cfg.expert_share, by_odds)


def draw(
    key: jax.Array, batch_size: int, layout: Layout, packed: Packed, place: Place, expert_share: Any = None
) -> jax.Array:
    """[3, B] row numbers, with replacement: of a batch, of its second draw, and of its initial observations.

    A number is 32 random bits modulo the number of rows N, uniform up to a bias of N / 2³².

    expert_share: a number or a traced scalar; the first round(share · B) rows of the batch, at least one, are then the
    expert's. None or 0: all rows are drawn alike.
    """
    bits = jax.random.bits(key, (3, batch_size), jnp.uint32)
    rows = bits[0] % packed.subset_sizes[place.subset]
    if packed.subsets.shape[1]:
        rows = packed.subsets[place.subset, rows].astype(jnp.uint32)
    if expert_share is not None and layout.expert_rows:
        rows = jnp.where(expert_share > 0, _shared_out(bits[0], layout, expert_share), rows)
    expert = bits[1] % jnp.uint32(layout.expert_rows or 1)
    initial = bits[2] % jnp.uint32(len(packed.initial_observations) or 1)
    return jnp.stack([rows, expert, initial]).astype(jnp.int32)


def _shared_out(bits: jax.Array, layout: Layout, expert_share: Any) -> jax.Array:
    """[B] row numbers: first the expert's share, then rows of the other logs (the expert's, where there are none).

    A share is rounded to whole rows, but to one at least: rounded to none, the expert would never be seen.
    """
    expert, others = layout.expert_rows, layout.num_rows - layout.expert_rows
    from_expert = bits % jnp.uint32(expert)
    from_others = jnp.uint32(expert) + bits % jnp.uint32(others) if others else from_expert
    count = jnp.maximum(jnp.round(expert_share * len(bits)), 1)
    return jnp.where(jnp.arange(len(bits)) < count, from_expert, from_others)


def gather(layout: Layout, packed: Packed, place: Place, drawn: jax.Array) -> Batch:
    """The batch whose rows were `drawn`."""
    rows, expert, initial = drawn
    batch = unpack(layout, packed, place, rows)
    if layout.second_draw:
        batch = batch._replace(expert=unpack(layout, packed, place, expert))
    if len(packed.initial_observations):
        batch = batch._replace(initial_observations=packed.initial_observations[initial])
    return batch


def unpack(layout: Layout, packed: Packed, place: Place, rows: jax.Array) -> Batch:
    """The batch of these rows, as the member in this place sees them."""
    fields = _columns(packed.rows[rows], layout.shared)
    if layout.own:
        fields |= _columns(packed.own[place.own, rows], layout.own)
    return Batch(**fields)  # pyright: ignore[reportArgumentType]


def _columns(rows: jax.Array, layout: tuple[tuple[str, int, int], ...]) -> dict[str, jax.Array]:
    return {name: rows[:, start : start + width] if width else rows[:, start] for name, start, width in layout}


def _side_by_side(
    columns: Mapping[str, np.ndarray], num_rows: int, lead: tuple[int, ...]
) -> tuple[tuple[tuple[str, int, int], ...], np.ndarray]:
    layout, start = [], 0
    for name, array in columns.items():
        width = array.shape[-1] if array.ndim == len(lead) + 2 else 0
        layout.append((name, start, width))
        start += width or 1
    packed = np.empty((*lead, num_rows, start), np.float32)
    for (_, first, width), array in zip(layout, columns.values()):
        packed[..., first : first + (width or 1)] = array if width else array[..., None]
    return tuple(layout), packed
