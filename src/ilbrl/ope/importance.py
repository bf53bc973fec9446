"""Per-decision weighted importance sampling: a value without critics, where the logs carry action probabilities.

    w_t = Π_{k ≤ t} π(a_k | s_k) / b(a_k | s_k)
    V   = Σ_t γ^t · Σ_i w_t^i r_t^i / Σ_i w_t^i

over the complete episodes i of one log. An episode that has ended earns 0 and keeps its last weight. Consistent, and
biased in small samples; its weights degenerate with the horizon, which `effective_episodes` shows. The evaluated policy
must have probabilities: a deterministic one gives every real-valued action density 0.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ilbrl.base.errors import IlbrlError
from ilbrl.data import Dataset


class ImportanceEstimate(NamedTuple):
    value: float
    effective_episodes: float  # (Σ w)² / Σ w² at the time step that half of the value's discount lies beyond
    episodes: int


def importance_value(log: Dataset, log_probs: np.ndarray, gamma: float) -> ImportanceEstimate:
    """The value of the policy that gives the logged actions the [N] log-probabilities `log_probs`."""
    if log.log_probs is None:
        raise IlbrlError(
            f"{log.source}: importance sampling needs the probabilities of the logged actions (log_probs), and these"
            " logs carry none; use `evaluate`, which learns values instead"
        )
    if log.rewards is None:
        raise IlbrlError(f"{log.source}: importance sampling needs rewards, and these logs carry none")
    if np.shape(log_probs) != (len(log),):
        raise IlbrlError(f"{log.source}: log_probs has shape {np.shape(log_probs)}, but there are {len(log)} rows")
    if not log.complete.any():
        raise IlbrlError(f"{log.source}: no complete episode, so there is no return to weigh")
    ratios, rewards = _by_episode(log, np.asarray(log_probs, np.float64) - log.log_probs), _by_episode(log, log.rewards)
    log_weights = np.cumsum(ratios, axis=1)  # [E, T]; after the end the ratio is 1
    weights = np.exp(log_weights - log_weights.max(0))  # a common factor per step cancels
    shares = weights / weights.sum(0)
    discounts = gamma ** np.arange(shares.shape[1])
    middle = min(int(np.log(0.5) / np.log(gamma)) if gamma < 1 else shares.shape[1] - 1, shares.shape[1] - 1)
    effective = 1.0 / np.square(shares[:, middle]).sum()
    return ImportanceEstimate(float(discounts @ (shares * rewards).sum(0)), float(effective), len(shares))


def _by_episode(log: Dataset, column: np.ndarray) -> np.ndarray:
    """[E, T] float64: one complete episode per line, zeros after its end."""
    chosen = np.flatnonzero(log.complete)
    table = np.zeros((log.num_episodes, int(log.episode_lengths.max())))
    table[log.episode_of, log.step_of] = column
    return table[chosen]
