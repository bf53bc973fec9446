"""Algorithm 1 on a finite MDP, and behavioural cloning beside it.

    D_U ← D_E ∪ D_X;   r̂(s, a) ← 1[(s, a) ∈ D_E];   π ← BatchRL(D_U, r̂)

with phased Q-learning as BatchRL. (SMODICE, the other baseline, is in `dice.py`.)
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ilbrl.base.errors import IlbrlError
from ilbrl.tabular.logs import Log, concatenate_logs
from ilbrl.tabular.phased import Phased, Unseen, batch, phased_q_learning
from ilbrl.tabular.planning import check_discount


@dataclass(frozen=True)
class Config:
    gamma: float = 0.99
    """Discount. The theory is about the average reward; a larger discount comes closer to it."""
    unseen: Unseen = "pessimistic"
    """The value of a pair that never occurs in the logs: the lowest or the highest that rewards allow."""
    phases: int | None = None
    """ℓ, sweeps of phased Q-learning; None: as many as leave γ^ℓ below 1e−6."""


def intrinsic_reward(expert: Log, num_states: int, num_actions: int) -> np.ndarray:
    """[S, A] r̂(s, a) = 1 if (s, a) occurs in D_E, else 0."""
    if len(expert) == 0:
        raise IlbrlError("the expert log is empty: there is nothing to imitate")
    return (expert.counts(num_states, num_actions) > 0).astype(np.float64)


def ilbrl(expert: Log, logs: Log, num_states: int, num_actions: int, config: Config | None = None) -> Phased:
    """Imitation learning by batch RL, from two logs and nothing else; `.policy` is [S] actions."""
    config = config or Config()
    check_discount(config.gamma)
    reward = intrinsic_reward(expert, num_states, num_actions)
    unified = concatenate_logs([expert, logs])
    bootstrap = batch(unified, num_states, num_actions, config.gamma, config.unseen)
    phases = config.phases or math.ceil(math.log(1e-6) / math.log(config.gamma))
    return phased_q_learning(reward, bootstrap, config.gamma, phases)


def behavioural_cloning(expert: Log, num_states: int, num_actions: int) -> np.ndarray:
    """[S, A] the expert's most frequent action in every state it visited; uniform where it never was.

    This is the deterministic policy of maximum likelihood. It knows nothing about unvisited states: no action is
    preferred there.
    """
    counts = expert.counts(num_states, num_actions)
    cloned = np.eye(num_actions)[counts.argmax(axis=1)]
    return np.where(counts.any(axis=1, keepdims=True), cloned, 1 / num_actions)
