"""Logged transitions of a finite MDP: rolled out from a policy, or taken from a discrete `Dataset`."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from ilbrl.base.errors import IlbrlError
from ilbrl.data.dataset import Dataset
from ilbrl.tabular.mdp import FiniteMDP, Matrix, action_probabilities

FLOAT32_INTEGERS = 2**24  # the largest state number a float32 observation holds exactly


@dataclass(frozen=True, eq=False)
class Log:
    """N transitions (s, a, s′) of a continuing process, in the order they happened."""

    states: np.ndarray  # [N] int64
    actions: np.ndarray  # [N] int64
    next_states: np.ndarray  # [N] int64

    def __len__(self) -> int:
        return len(self.states)

    def __getitem__(self, rows: slice) -> Log:
        return Log(self.states[rows], self.actions[rows], self.next_states[rows])

    def counts(self, num_states: int, num_actions: int) -> np.ndarray:
        """[S, A] how often each pair occurs."""
        self.check(num_states, num_actions)
        pairs = np.bincount(self.states * num_actions + self.actions, minlength=num_states * num_actions)
        return pairs.reshape(num_states, num_actions)

    def check(self, num_states: int, num_actions: int) -> None:
        """Raise unless every state and action exists."""
        for what, numbers, count in (
            ("states", self.states, num_states),
            ("next states", self.next_states, num_states),
            ("actions", self.actions, num_actions),
        ):
            if len(numbers) and (numbers.min() < 0 or numbers.max() >= count):
                row = int(np.flatnonzero((numbers < 0) | (numbers >= count))[0])
                raise IlbrlError(f"log, row {row}: {what} must lie in 0 … {count - 1}, found {numbers[row]}")

    def to_dataset(self, source: str = "tabular log") -> Dataset:
        """One unfinished episode of [N, 1] observations holding the state number, and [N] integer actions."""
        if len(self) and max(self.states.max(), self.next_states.max()) > FLOAT32_INTEGERS:
            raise IlbrlError(f"float32 observations hold state numbers up to {FLOAT32_INTEGERS:,} only")
        never = np.zeros(len(self), bool)
        return Dataset(self.states[:, None], self.actions, self.next_states[:, None], never, never, source=source)

    @staticmethod
    def from_dataset(dataset: Dataset, origin: np.ndarray | None = None) -> Log:
        """Read a discrete dataset whose observations are state numbers.

        A terminal restarts: its next state becomes the first of the following episode, as in `worlds.toy_text` (a
        terminal in the very last row has no successor and is left out). `origin` is `FiniteMDP.origin` where the
        environment's own numbering differs from the MDP's.
        """
        if not dataset.discrete or dataset.obs_dim != 1:
            raise IlbrlError(f"{dataset.source}: a tabular log needs integer actions and one number per observation")
        if (dataset.observations % 1).any() or (dataset.next_observations % 1).any():
            raise IlbrlError(f"{dataset.source}: observations must be whole state numbers")
        states = dataset.observations[:, 0].astype(np.int64)
        following = dataset.next_observations[:, 0].astype(np.int64)
        ends = np.flatnonzero(dataset.terminals)
        kept = np.ones(len(dataset), bool)
        if len(ends) and ends[-1] == len(dataset) - 1:
            kept[-1], ends = False, ends[:-1]
        following[ends] = states[ends + 1]
        log = Log(states[kept], dataset.actions[kept], following[kept])
        if origin is None:
            return log
        return Log(_renumbered(log.states, origin), log.actions, _renumbered(log.next_states, origin))


def concatenate_logs(logs: Sequence[Log]) -> Log:
    """D_U = D_E ∪ D_X, row after row."""
    columns = ("states", "actions", "next_states")
    return Log(*(np.concatenate([getattr(log, column) for log in logs]) for column in columns))


def _renumbered(numbers: np.ndarray, origin: np.ndarray) -> np.ndarray:
    position = np.searchsorted(origin, numbers).clip(max=len(origin) - 1)
    if (strange := np.flatnonzero(origin[position] != numbers)).size:
        raise IlbrlError(f"log, row {strange[0]}: state {numbers[strange[0]]} is not a state of this MDP")
    return position


# --- rolling out --------------------------------------------------------------------------------------------------


class RowSampler:
    """Draws columns from the rows of a stochastic matrix.

    The cumulative distribution of row r fills [r, r + 1] of one sorted array; a binary search for r + u inverts it.
    """

    def __init__(self, matrix: Matrix) -> None:
        rows: Matrix = sparse.csr_array(matrix)
        rows.eliminate_zeros()
        self.columns, self.starts = rows.indices, rows.indptr[:-1].astype(np.int64)
        self.lasts = rows.indptr[1:].astype(np.int64) - 1
        total = np.cumsum(rows.data)
        before = np.repeat(total[self.starts] - rows.data[self.starts], np.diff(rows.indptr))
        number = np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))
        self.levels: np.ndarray = np.asarray(total - before + number)

    def draw(self, rows: np.ndarray, uniforms: np.ndarray) -> np.ndarray:
        """[W] rows, [W] uniforms in [0, 1) → [W] columns."""
        position = np.searchsorted(self.levels, rows + uniforms, side="right")
        return self.columns[np.clip(position, self.starts[rows], self.lasts[rows])]


def rollouts(
    mdp: FiniteMDP,
    policy: np.ndarray | Sequence[int],
    steps: int,
    walkers: int,
    rng: np.random.Generator,
    start: np.ndarray | None = None,
) -> Log:
    """`walkers` independent trajectories side by side: every column of the log is [steps, walkers]."""
    acting, moving = RowSampler(action_probabilities(mdp, policy)), RowSampler(mdp.transitions)
    state = rng.choice(mdp.num_states, size=walkers, p=mdp.initial) if start is None else np.asarray(start)
    states, actions, following = np.empty((3, steps, walkers), np.int64)
    for i in range(steps):
        states[i] = state
        actions[i] = acting.draw(state, rng.random(walkers))
        state = following[i] = moving.draw(state * mdp.num_actions + actions[i], rng.random(walkers))
    return Log(states, actions, following)


def rollout(
    mdp: FiniteMDP, policy: np.ndarray | Sequence[int], steps: int, rng: np.random.Generator, start: int | None = None
) -> Log:
    """One trajectory of `steps` transitions, started from P₀ or from `start`."""
    acting, moving = RowSampler(action_probabilities(mdp, policy)), RowSampler(mdp.transitions)
    choose_action, choose_state = _scalar_draw(acting), _scalar_draw(moving)
    state = int(rng.choice(mdp.num_states, p=mdp.initial)) if start is None else int(start)
    states, actions = [state], []
    for u, v in rng.random((steps, 2)).tolist():
        actions.append(choose_action(state, u))
        states.append(state := choose_state(state * mdp.num_actions + actions[-1], v))
    visited = np.array(states, np.int64)
    return Log(visited[:-1], np.array(actions, np.int64), visited[1:])


def _scalar_draw(sampler: RowSampler) -> Callable[[int, float], int]:
    """`RowSampler.draw` for one row: plain bisection, ten times faster than an array of one."""
    levels, columns = sampler.levels.data, sampler.columns.data
    starts, lasts = sampler.starts.data, sampler.lasts.data
    return lambda row, uniform: columns[bisect_right(levels, row + uniform, starts[row], lasts[row])]
