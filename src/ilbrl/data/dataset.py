"""The dataset: immutable, episode-ordered transitions that know their episodes and where they came from."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Literal

import numpy as np

from ilbrl.base.errors import IlbrlError
from ilbrl.policy import Policy


@dataclass(frozen=True, eq=False)
class Dataset:
    """N transitions (s, a, s′), in the order they were logged, episode after episode.

    An episode ends where `terminals` or `timeouts` is true, or at the last row. The two are different things:
    after a terminal nothing more can be earned, after a time-out the log merely stops and values bootstrap
    through it. An episode that ends with neither was cut by the end of the file and is not `complete`.
    """

    observations: np.ndarray  # [N, obs_dim] float32
    actions: np.ndarray  # [N, act_dim] float32, or [N] int64 when discrete
    next_observations: np.ndarray  # [N, obs_dim] float32
    terminals: np.ndarray  # [N] bool
    timeouts: np.ndarray  # [N] bool
    rewards: np.ndarray | None = None  # [N] float32; None: the logs carry none
    log_probs: np.ndarray | None = None  # [N] float32 log-probabilities of the logged actions
    is_expert: np.ndarray | None = None  # [N] bool, set by `concatenate` and `as_expert`; None: unknown
    source_rows: np.ndarray | None = None  # [N] int64 where each row stands in the source; None: one after the other
    action_low: np.ndarray | None = None  # [act_dim]; None: unknown, or discrete
    action_high: np.ndarray | None = None
    action_names: tuple[str, ...] | None = None  # of discrete actions 0, 1, …; None: not declared, or real-valued
    observation_columns: tuple[str, ...] | None = None  # what the source calls them; None: they have no names
    action_columns: tuple[str, ...] | None = None
    policy: Policy | None = None  # the behaviour policy, where the file carries it
    source: str = "arrays"
    notes: tuple[str, ...] = field(default=())  # what a reader had to decide; shown by the doctor
    warnings: tuple[str, ...] = field(default=())  # what a reader doubted; shown by the doctor as warnings

    def __post_init__(self) -> None:
        for name in _DTYPES:
            if getattr(self, name) is not None:
                object.__setattr__(self, name, _frozen(name, np.asarray(getattr(self, name)), self.source))
        self._check_shapes()
        self._check_names()
        self._check_columns()

    def _check_names(self) -> None:
        names = self.action_names
        if names is None:
            return
        if not self.discrete or not names or len(set(names)) < len(names):
            raise IlbrlError(f"{self.source}: action names are for discrete actions, at least one and each once")
        strange = (self.actions < 0) | (self.actions >= len(names))
        if strange.any():
            row = np.argmax(strange)
            raise IlbrlError(
                f"{self.source}: action {self.actions[row]} in row {self.source_row(row)} is not one of the"
                f" {len(names)} that are declared"
            )

    def _check_columns(self) -> None:
        for names, width in ((self.observation_columns, self.obs_dim), (self.action_columns, self.act_dim)):
            if names is not None and len(names) != width:
                raise IlbrlError(f"{self.source}: {len(names)} names for {width} columns ({', '.join(names[:8])})")

    def _check_shapes(self) -> None:
        n = len(self.observations)
        if self.observations.ndim != 2:
            raise IlbrlError(
                f"{self.source}: observations must be [N, obs_dim], found shape {self.observations.shape}"
                " (flatten images and nested observations first)"
            )
        if self.actions.ndim != (1 if self.discrete else 2):
            raise IlbrlError(
                f"{self.source}: actions must be [N, act_dim] floats or [N] integers, found {self.actions.dtype}"
                f" of shape {self.actions.shape}"
            )
        if not self.obs_dim or not self.act_dim:
            raise IlbrlError(f"{self.source}: {'actions' if self.obs_dim else 'observations'} have no columns")
        if self.next_observations.shape != self.observations.shape:
            raise IlbrlError(
                f"{self.source}: next_observations has shape {self.next_observations.shape},"
                f" observations {self.observations.shape}; they must be equal"
            )
        for name in ("actions", "terminals", "timeouts", "rewards", "log_probs", "is_expert", "source_rows"):
            array = getattr(self, name)
            if array is not None and (len(array) != n or (name != "actions" and array.ndim != 1)):
                raise IlbrlError(f"{self.source}: {name} has shape {array.shape}, but observations has {n} rows")
        for name in ("action_low", "action_high"):
            bound = getattr(self, name)
            if bound is not None and bound.shape != (self.act_dim,):
                raise IlbrlError(f"{self.source}: {name} has shape {bound.shape}, expected ({self.act_dim},)")

    def __len__(self) -> int:
        return len(self.observations)

    def __repr__(self) -> str:
        kind = f"{self.num_actions} choices" if self.discrete else f"{self.act_dim} numbers"
        return (
            f"Dataset({self.source!r}: {len(self):,} transitions in {self.num_episodes:,} episodes,"
            f" observations of {self.obs_dim} numbers, actions {kind}"
            f"{'' if self.rewards is not None else ', no rewards'})"
        )

    @property
    def obs_dim(self) -> int:
        return self.observations.shape[1]

    @property
    def act_dim(self) -> int:
        return 1 if self.discrete else self.actions.shape[1]

    @property
    def discrete(self) -> bool:
        return self.actions.dtype == np.int64

    @property
    def num_actions(self) -> int:
        """How many discrete actions there are: as declared, else one more than the largest number taken."""
        if not self.discrete:
            raise IlbrlError(f"{self.source}: its actions are real-valued and have no number")
        return len(self.action_names) if self.action_names is not None else int(self.actions.max(initial=-1)) + 1

    @property
    def choice_names(self) -> tuple[str, ...]:
        """Names of the discrete actions; their numbers where none are declared."""
        return self.action_names or tuple(map(str, range(self.num_actions)))

    def column_names(self, name: Literal["observations", "actions"]) -> tuple[str, ...]:
        """What the source calls the columns of a field, else their numbers: `observation 0`."""
        of_observations = name == "observations"
        known, width = (
            (self.observation_columns, self.obs_dim) if of_observations else (self.action_columns, self.act_dim)
        )
        return known or tuple(f"{name[:-1]} {i}" for i in range(width))

    @cached_property
    def propensities(self) -> np.ndarray | None:
        """[N] float32 probabilities of the logged choices: exp of `log_probs`; None: not logged, or real-valued."""
        if not self.discrete or self.log_probs is None:
            return None
        return np.exp(self.log_probs)

    @cached_property
    def action_range(self) -> tuple[np.ndarray, np.ndarray]:
        """([act_dim] lowest, [act_dim] highest) action of a policy learnt from these rows.

        The stated bounds; else [−1, 1], and the range of the logged actions in columns that exceed it.
        """
        if self.action_low is not None and self.action_high is not None:
            return self.action_low, self.action_high
        low, high = self.actions.min(0, initial=np.inf), self.actions.max(0, initial=-np.inf)
        inside, still = (low >= -1) & (high <= 1) | (low > high), low == high
        low, high = low - still, high + still  # a column that never changes still needs an interval
        return np.where(inside, np.float32(-1), low), np.where(inside, np.float32(1), high)

    def source_row(self, row: int | np.integer) -> int:
        """Where a row stands in the source: the number that messages give it."""
        return int(row if self.source_rows is None else self.source_rows[row])

    # --- episodes -------------------------------------------------------------------------------------------------

    @cached_property
    def episode_starts(self) -> np.ndarray:
        """[E] row of the first transition of each episode."""
        if len(self) == 0:
            return np.zeros(0, np.int64)
        return np.concatenate([[0], np.flatnonzero((self.terminals | self.timeouts)[:-1]) + 1])

    @property
    def num_episodes(self) -> int:
        return len(self.episode_starts)

    @cached_property
    def episode_lengths(self) -> np.ndarray:
        """[E] transitions in each episode."""
        return np.diff(np.append(self.episode_starts, len(self)))

    @cached_property
    def complete(self) -> np.ndarray:
        """[E] bool: the episode ended by a terminal or a time-out, not by the end of the file."""
        last = self.episode_starts + self.episode_lengths - 1
        return self.terminals[last] | self.timeouts[last]

    @cached_property
    def episode_of(self) -> np.ndarray:
        """[N] episode number of each row."""
        return np.repeat(np.arange(self.num_episodes), self.episode_lengths)

    @cached_property
    def step_of(self) -> np.ndarray:
        """[N] time step of each row within its episode, from 0."""
        return np.arange(len(self)) - np.repeat(self.episode_starts, self.episode_lengths)

    @property
    def initial_observations(self) -> np.ndarray:
        """[E, obs_dim] first observation of each episode."""
        return self.observations[self.episode_starts]

    def returns(self, gamma: float = 1.0) -> np.ndarray:
        """[E] float64 Monte-Carlo returns Σ_t γ^t r_t of each episode (complete or not: see `complete`)."""
        if self.rewards is None:
            raise IlbrlError(f"{self.source}: returns need rewards, and these logs carry none")
        if len(self) == 0:
            return np.zeros(0)
        discounted = self.rewards.astype(np.float64)
        if gamma != 1.0:
            discounted *= gamma**self.step_of
        return np.add.reduceat(discounted, self.episode_starts)

    # --- selecting and joining ------------------------------------------------------------------------------------

    def episodes(self, which: Sequence[int] | np.ndarray | slice) -> Dataset:
        """The given episodes, in the given order."""
        chosen = np.arange(self.num_episodes)[which]
        if len(chosen) and (np.diff(chosen) == 1).all():  # neighbours: one slice instead of a copy
            start = self.episode_starts[chosen[0]]
            return self._rows(slice(start, self.episode_starts[chosen[-1]] + self.episode_lengths[chosen[-1]]))
        return self._rows(self.rows_of(chosen))

    def rows_of(self, episodes: np.ndarray) -> np.ndarray:
        """[M] row numbers of the given episodes, in the given order."""
        starts, lengths = self.episode_starts[episodes], self.episode_lengths[episodes]
        offset = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        return np.repeat(starts, lengths) + offset

    def transitions(self, start: int, stop: int) -> Dataset:
        """Rows start … stop − 1; an episode cut at the end is no longer complete."""
        return self._rows(slice(start, stop))

    def blocks(self, rows: int) -> Iterator[Dataset]:
        """The same rows, at most so many at a time: for work that must not hold all of them at once."""
        for start in range(0, len(self), rows):
            yield self.transitions(start, start + rows)

    def _rows(self, rows: slice | np.ndarray) -> Dataset:
        arrays = {name: getattr(self, name) for name in PER_ROW}
        picked = {name: array[rows] for name, array in arrays.items() if array is not None}
        if isinstance(rows, np.ndarray):  # an unfinished episode must stay apart from what now follows it
            last = np.cumsum(self.episode_lengths)[self.episode_of[rows[:-1]]] - 1 == rows[:-1]
            if (last & ~(picked["terminals"] | picked["timeouts"])[:-1]).any():
                raise IlbrlError(
                    f"{self.source}: its last episode was cut by the end of the file and can only come last;"
                    " select complete episodes, or keep the order"
                )
        return replace(self, **picked)

    def as_expert(self) -> Dataset:
        return replace(self, is_expert=np.ones(len(self), bool))

    # --- identity -------------------------------------------------------------------------------------------------

    @cached_property
    def content_hash(self) -> str:
        """Hexadecimal SHA-256 of every array (name, shape, bytes); source, names of columns and notes do not count."""
        digest = hashlib.sha256()
        for name in _DTYPES:
            array = getattr(self, name)
            if array is not None and name != "source_rows":
                digest.update(f"{name}{array.dtype}{array.shape}".encode())
                digest.update(array.data)
        if self.action_names is not None:
            digest.update(repr(self.action_names).encode())
        return digest.hexdigest()


_DTYPES = {
    "observations": np.float32,
    "actions": np.float32,
    "next_observations": np.float32,
    "terminals": np.bool_,
    "timeouts": np.bool_,
    "rewards": np.float32,
    "log_probs": np.float32,
    "is_expert": np.bool_,
    "source_rows": np.int64,
    "action_low": np.float32,
    "action_high": np.float32,
}
PER_ROW = [name for name in _DTYPES if not name.startswith("action_")]
assert set(_DTYPES) <= {f.name for f in fields(Dataset)}


def _frozen(name: str, array: np.ndarray, source: str) -> np.ndarray:
    """A read-only view in the type of the field; the caller's array stays writeable."""
    dtype = _DTYPES[name]
    if name == "actions" and np.issubdtype(array.dtype, np.integer):
        dtype = np.int64
        if array.size and array.max() > np.iinfo(dtype).max:  # would wrap around to a negative number
            raise IlbrlError(f"{source}: actions hold {array.max()}, more than a 64-bit integer can")
    with np.errstate(over="ignore"):  # what float32 cannot hold becomes infinite, and the doctor reports it
        frozen = np.ascontiguousarray(array, dtype).view()
    frozen.flags.writeable = False
    return frozen
