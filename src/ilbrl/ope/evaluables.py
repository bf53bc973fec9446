"""What can be evaluated: our policies, any function of observations, and policies known only through their logs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ilbrl.base.errors import IlbrlError
from ilbrl.data import Dataset
from ilbrl.policy import Policy

_PIECE = 8192  # rows at a time: hidden layers stay in the processor's cache


class Sampled(NamedTuple):
    """A stochastic policy as it acted when it was logged: one sampled action per row, drawn once."""

    policy: Policy
    seed: int = 0


@dataclass(frozen=True, eq=False)
class NextActions:
    """A policy known only through its logs: a′ of each row is the action logged in the next.

    Valid on that policy's own rows and at its own initial states alone, which is why their hash comes along.
    """

    actions: np.ndarray  # [N, act_dim] the next logged action; zero where there is none
    known: np.ndarray  # [N] bool: the row has a next action, or is terminal and needs none
    initial_actions: np.ndarray  # [E, act_dim] first action of each episode
    content_hash: str  # of the log
    source: str


Evaluable = Policy | Sampled | NextActions | Callable[[np.ndarray], np.ndarray]


def logged_next_actions(log: Dataset) -> NextActions:
    """The policy behind `log`, as far as its rows show it; the last row before a time-out shows no next action."""
    last = np.append(log.episode_starts[1:], len(log)) - 1
    actions = np.roll(log.actions, -1, axis=0)
    actions[last] = 0.0
    known = np.ones(len(log), bool)
    known[last] = log.terminals[last]
    return NextActions(actions, known, log.actions[log.episode_starts], log.content_hash, log.source)


def act(name: str, policy: Any, observations: np.ndarray, act_dim: int) -> np.ndarray:
    """[N, act_dim] actions of a policy that can be asked, in the environment's units."""
    own = policy.policy if isinstance(policy, Sampled) else policy
    if isinstance(own, Policy) and own.obs_dim != observations.shape[1]:
        raise IlbrlError(
            f"policy {name}: takes observations of {own.obs_dim} numbers, and those of the logs have"
            f" {observations.shape[1]}; is it a policy of this task?"
        )
    if isinstance(policy, Sampled):
        rng = np.random.default_rng(policy.seed)
        answer: Callable[[np.ndarray], np.ndarray] = lambda rows: policy.policy.act(rows, rng)  # noqa: E731
    else:
        answer = getattr(policy, "act", policy)
    actions = np.empty((len(observations), act_dim), np.float32)
    for start in range(0, len(observations), _PIECE):
        rows = observations[start : start + _PIECE]
        answered = np.asarray(answer(rows), np.float32)
        if answered.shape != (len(rows), act_dim):
            raise IlbrlError(
                f"policy {name}: answered observations {rows.shape} with actions {answered.shape},"
                f" expected {(len(rows), act_dim)}; is it a policy of this task?"
            )
        actions[start : start + _PIECE] = answered
    if not np.isfinite(actions).all():
        raise IlbrlError(f"policy {name}: some of its actions are not finite; it cannot be evaluated")
    return actions
