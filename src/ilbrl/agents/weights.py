"""How much the cloning of each row counts: by its reward, as in ILBRL, and by what the expert did thereabouts.

    w(s_t, a_t) = max_{k ≤ h} r(s_{t+k}, a_{t+k}) · (d(s_t) / d(s_t, a_t))^p        h = weight_horizon, p = agreement

The paper's weight is r alone (h = 0, p = 0). With h > 0 a row counts as much as the best of the next h rows of its
episode, so that steps that lead back to the expert are cloned too: the idea of ILID (Yue et al. 2024), who select such
steps instead of weighting them. With p > 0 a row counts less the more of its distance to the expert its action is to
blame for. d(s) is the distance of its state alone: where that is near 0 and d(s, a) is not, the expert has been here
and did something else. There the expert alone is cloned, and elsewhere all logs are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ilbrl.data import Dataset
from ilbrl.learning.config import config
from ilbrl.learning.spec import Spec
from ilbrl.rewards import Labels, Logits
from ilbrl.rewards.soft_support import agreement, label_steps, state_distances


class Weighing(NamedTuple):
    """What a weight is asked for: the rows of D_U, each set of rewards with the configuration that it is weighed by."""

    expert: Dataset
    logs: Dataset
    rows: Dataset  # both, the expert's first
    spec: Spec
    rewards: np.ndarray  # [G, N]
    configs: Sequence[Any]  # [G]
    labels: Labels | Logits | None = None  # where the rewards come from


class Weight(NamedTuple):
    """How much the cloning of each row counts. It combines with every reward and with every solver that clones."""

    Config: type  # its settings; an agent's Config inherits them
    weigh: Callable[[Weighing], np.ndarray]  # → [G, N], none negative


@config
class RewardWeight:
    """Settings of `BY_REWARD`."""

    weight_horizon: int = 0
    """A row counts as much as the best reward within so many following steps of its episode; 0: as its own reward, as
    in the paper."""
    agreement: float = 0.0
    """p: how much less a row counts whose state the expert knows and whose action is not the expert's. 2 is good where
    the logs are of a policy that is no use, such as random actions. 0: off, as in the paper."""


def by_reward(asked: Weighing) -> np.ndarray:
    """[G, N] the equation above."""
    weights = [best_ahead(asked.rows, r, cfg.weight_horizon) for r, cfg in zip(asked.rewards, asked.configs)]
    powers = [cfg.agreement for cfg in asked.configs]
    if not any(powers):
        return np.stack(weights)
    agreed = agreement(state_distances(asked.expert, asked.logs, asked.spec, quiet=True), _step_distances(asked))
    return np.stack([w if p == 0 else w * (agreed**p).astype(w.dtype) for w, p in zip(weights, powers)])


def best_ahead(data: Dataset, rewards: np.ndarray, horizon: int) -> np.ndarray:
    """[N] the largest reward among a row and the `horizon` rows that follow it in its episode."""
    best = rewards.copy()
    for step in range(1, min(horizon, len(data) - 1) + 1):
        same = data.episode_of[step:] == data.episode_of[:-step]
        best[:-step] = np.where(same, np.maximum(best[:-step], rewards[step:]), best[:-step])
    return best


def _step_distances(asked: Weighing) -> np.ndarray:
    """[N] d(s, a): those of the labels, where these are of steps and actions that differ are infinitely apart."""
    labels = asked.labels
    if isinstance(labels, Labels) and (labels.compared, labels.action_distance) == ("step", None):
        return labels.distance
    return label_steps(asked.expert, asked.logs, asked.spec, quiet=True).distance


BY_REWARD = Weight(RewardWeight, by_reward)
