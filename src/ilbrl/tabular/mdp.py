"""Finite Markov decision processes, dense or sparse, and the policies that act in them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from ilbrl.base.errors import IlbrlError

Matrix = Any  # [rows, S] np.ndarray or scipy.sparse.csr_array (SciPy carries no types), each row a distribution
ROW_SUM_TOLERANCE = 1e-8


@dataclass(frozen=True)
class GridLayout:
    """How to draw the states on a grid: for people, never for algorithms."""

    background: tuple[str, ...]  # one string per row of the grid; a state's cell is overwritten by its action
    cells: np.ndarray  # [S] flat cell of each state
    glyphs: str  # one character per action


@dataclass(frozen=True, eq=False)
class FiniteMDP:
    """⟨S, A, P, R, P₀⟩ with states 0 … S − 1, actions 0 … A − 1 and rewards in [0, 1].

    `transitions` may be given as [S, A, S] or [S·A, S], dense or `scipy.sparse`; it is kept as an [S·A, S] matrix
    whose row s·A + a is P(· | s, a), so that `transitions @ values` is the expected next value of every pair at once.
    """

    transitions: Matrix
    rewards: np.ndarray  # [S, A]
    initial: np.ndarray | None = None  # [S] P₀; None: uniform
    name: str = "finite MDP"
    layout: GridLayout | None = None
    origin: np.ndarray | None = None  # [S] each state's number in the environment it came from; None: its own

    def __post_init__(self) -> None:
        rewards = np.asarray(self.rewards, np.float64)
        if rewards.ndim != 2 or 0 in rewards.shape:
            raise IlbrlError(f"{self.name}: rewards must be [S, A], found shape {rewards.shape}")
        if not (np.isfinite(rewards).all() and rewards.min() >= 0 and rewards.max() <= 1):
            raise IlbrlError(
                f"{self.name}: rewards must lie in [0, 1]; rescale them (an affine map changes no optimum)"
            )
        states, actions = rewards.shape
        if sparse.issparse(self.transitions):
            transitions: Matrix = sparse.csr_array(self.transitions, dtype=np.float64)
        else:
            transitions = np.asarray(self.transitions, np.float64)
            transitions = transitions.reshape(-1, transitions.shape[-1]) if transitions.ndim == 3 else transitions
        if transitions.shape != (states * actions, states):
            raise IlbrlError(
                f"{self.name}: transitions must be [S, A, S] or [S·A, S] = {(states * actions, states)} to go with"
                f" rewards of shape {rewards.shape}, found {transitions.shape}"
            )
        check_stochastic(transitions, f"{self.name}: transitions", lambda row: f"(s, a) = {divmod(row, actions)}")
        initial = np.full(states, 1 / states) if self.initial is None else np.asarray(self.initial, np.float64)
        if initial.shape != (states,):
            raise IlbrlError(f"{self.name}: the initial distribution has shape {initial.shape}, expected ({states},)")
        check_stochastic(initial[None], f"{self.name}: the initial distribution", lambda _: "its only row")
        for field, value in (("transitions", transitions), ("rewards", rewards), ("initial", initial)):
            object.__setattr__(self, field, value)

    @property
    def num_states(self) -> int:
        return self.rewards.shape[0]

    @property
    def num_actions(self) -> int:
        return self.rewards.shape[1]

    def __repr__(self) -> str:
        kind = "sparse" if sparse.issparse(self.transitions) else "dense"
        return f"FiniteMDP({self.name!r}: {self.num_states:,} states × {self.num_actions} actions, {kind})"

    def with_rewards(self, rewards: np.ndarray) -> FiniteMDP:
        """The same dynamics under [S, A] other rewards, for example the intrinsic ones."""
        return replace(self, rewards=rewards)

    def expected_next(self, values: np.ndarray) -> np.ndarray:
        """[S, A] Σ_s′ P(s′ | s, a) v(s′) of [S] values."""
        return (self.transitions @ values).reshape(self.rewards.shape)


def check_stochastic(matrix: Matrix, what: str, where=lambda row: f"row {row}") -> None:
    """Raise unless every row is a probability distribution; `where` names a row for the message."""
    data = matrix.data if sparse.issparse(matrix) else matrix
    if not np.isfinite(np.asarray(data)).all():
        raise IlbrlError(f"{what}: not a stochastic matrix, some probabilities are not finite")
    if np.asarray(data).size and np.asarray(data).min() < 0:
        raise IlbrlError(f"{what}: not a stochastic matrix, some probabilities are negative")
    sums = np.asarray(matrix.sum(axis=1)).ravel()
    worst = int(np.abs(sums - 1).argmax())
    if abs(sums[worst] - 1) > ROW_SUM_TOLERANCE:
        raise IlbrlError(
            f"{what}: not a stochastic matrix, the probabilities of {where(worst)} sum to {sums[worst]:.6g}, not 1"
        )


# --- policies -----------------------------------------------------------------------------------------------------


def uniform_policy(mdp: FiniteMDP) -> np.ndarray:
    """[S, A] the random explorer."""
    return np.full(mdp.rewards.shape, 1 / mdp.num_actions)


def action_probabilities(mdp: FiniteMDP, policy: np.ndarray | Sequence[int]) -> np.ndarray:
    """[S, A] π(a | s) of a deterministic ([S] integers) or stochastic ([S, A]) policy, checked."""
    policy = np.asarray(policy)
    if policy.shape == (mdp.num_states,) and np.issubdtype(policy.dtype, np.integer):
        if policy.min() < 0 or policy.max() >= mdp.num_actions:
            raise IlbrlError(f"{mdp.name}: a policy's actions must lie in 0 … {mdp.num_actions - 1}")
        return np.eye(mdp.num_actions)[policy]
    if policy.shape != mdp.rewards.shape:
        raise IlbrlError(
            f"{mdp.name}: a policy is [S] integers or [S, A] probabilities, here ({mdp.num_states},) or"
            f" {mdp.rewards.shape}; found {policy.dtype} of shape {policy.shape}"
        )
    policy = policy.astype(np.float64)
    check_stochastic(policy, f"{mdp.name}: the policy", lambda state: f"state {state}")
    return policy


def policy_chain(mdp: FiniteMDP, policy: np.ndarray | Sequence[int]) -> Matrix:
    """[S, S] P_π(s′ | s) = Σ_a π(a | s) P(s′ | s, a), the Markov chain a policy induces; sparse if the MDP is."""
    policy = np.asarray(policy)
    probabilities = action_probabilities(mdp, policy)
    if policy.ndim == 1:
        return mdp.transitions[np.arange(mdp.num_states) * mdp.num_actions + policy]
    if isinstance(mdp.transitions, np.ndarray):
        by_state = mdp.transitions.reshape(mdp.num_states, mdp.num_actions, mdp.num_states)
        return np.einsum("sa,sat->st", probabilities, by_state)
    rows = np.repeat(np.arange(mdp.num_states), mdp.num_actions)
    mix = sparse.csr_array((probabilities.ravel(), (rows, np.arange(rows.size))), shape=(mdp.num_states, rows.size))
    return sparse.csr_array(mix @ mdp.transitions)


def policy_rewards(mdp: FiniteMDP, policy: np.ndarray | Sequence[int]) -> np.ndarray:
    """[S] r_π(s) = Σ_a π(a | s) r(s, a)."""
    return (action_probabilities(mdp, policy) * mdp.rewards).sum(axis=1)
