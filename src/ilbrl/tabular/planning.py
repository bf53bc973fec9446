"""Optimal policies of a known finite MDP, exactly, by policy iteration: discounted and average reward."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import spsolve

from ilbrl.base.errors import IlbrlError
from ilbrl.tabular.exact import action_values, discounted_values, recurrent_class
from ilbrl.tabular.mdp import FiniteMDP, policy_chain, policy_rewards

TIE = 1e-10  # an action replaces the current one only if it is better by more than rounding
MAX_ROUNDS = 1_000


class Discounted(NamedTuple):
    policy: np.ndarray  # [S]
    values: np.ndarray  # [S] V*
    action_values: np.ndarray  # [S, A] Q*


def discounted_optimum(mdp: FiniteMDP, gamma: float) -> Discounted:
    """The policy π* with V* = max_a Q*, Q*(s, a) = r(s, a) + γ Σ_s′ P(s′ | s, a) V*(s′)."""
    check_discount(gamma)
    policy = mdp.rewards.argmax(axis=1)
    for _ in range(MAX_ROUNDS):
        values = discounted_values(mdp, policy, gamma)
        q = action_values(mdp, values, gamma)
        better = _improved(policy, q, TIE / (1 - gamma))
        if (better == policy).all():
            return Discounted(policy, values, q)
        policy = better
    raise IlbrlError(f"{mdp.name}: policy iteration did not settle in {MAX_ROUNDS} rounds at γ = {gamma}")


class Average(NamedTuple):
    policy: np.ndarray  # [S]
    gain: float  # μ*
    bias: np.ndarray  # [S] h with μ* + h(s) = max_a [r(s, a) + Σ_s′ P(s′ | s, a) h(s′)] and h(0) = 0


def average_optimum(mdp: FiniteMDP) -> Average:
    """The policy of largest average reward, by Howard's iteration, started from a far-sighted discounted optimum.

    Every policy of the iteration must have one closed class (Assumption 2). `bias` breaks ties among policies of equal
    gain, so the result also acts well in states that it visits only at the start.
    """
    policy = discounted_optimum(mdp, 0.99).policy
    for _ in range(MAX_ROUNDS):
        gain, bias = _gain_and_bias(mdp, policy)
        better = _improved(policy, action_values(mdp, bias, 1.0), TIE * max(1.0, float(np.abs(bias).max())))
        if (better == policy).all():
            return Average(policy, gain, bias)
        policy = better
    raise IlbrlError(f"{mdp.name}: average-reward policy iteration did not settle in {MAX_ROUNDS} rounds")


def _gain_and_bias(mdp: FiniteMDP, policy: np.ndarray) -> tuple[float, np.ndarray]:
    """Solve μ + h(s) = r_π(s) + Σ P_π h with h(0) = 0. Column 0 of I − P_π would multiply h(0); it holds μ."""
    chain, rewards = policy_chain(mdp, policy), policy_rewards(mdp, policy)
    recurrent_class(chain)  # raises where the system would be singular
    if isinstance(chain, np.ndarray):
        system = np.eye(len(chain)) - chain
        system[:, 0] = 1
        solution = np.linalg.solve(system, rewards)
    else:
        system = sparse.eye_array(chain.shape[0]) - chain
        ones = sparse.csc_array(np.ones((chain.shape[0], 1)))
        system = sparse.hstack([ones, sparse.csc_array(system)[:, 1:]])
        solution = np.asarray(spsolve(sparse.csc_matrix(system), rewards))
    return float(solution[0]), np.concatenate([[0.0], solution[1:]])


def _improved(policy: np.ndarray, q: np.ndarray, tie: float) -> np.ndarray:
    current = q[np.arange(len(policy)), policy]
    return np.where(q.max(axis=1) > current + tie, q.argmax(axis=1), policy)


def check_discount(gamma: float) -> None:
    if not 0 < gamma < 1:
        raise IlbrlError(f"the discount γ must lie strictly between 0 and 1, got {gamma}")
