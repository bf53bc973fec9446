"""The soft support reward of continuous ILBRL: close to an expert's step is worth 1, far from all of them 0.

    d(s, a) = min over (s′, a′) in D_E of ‖φ(s, a) − φ(s′, a′)‖₂
    r_I(s, a) = 1 − √(d(s, a) / d_max),      d_max = max of d over D_U = D_E ∪ D_X

The paper does not give φ; ours is the standardised observation beside the action scaled to [−1, 1], and any callable
may take its place. Rows of D_E have distance 0 and themselves as neighbour by construction.

One far row makes d_max large and thereby all rewards alike. Two other shapes do not suffer from it: SEABO's
exp(−0.5 · d / dim(A)) (Lyu et al. 2024), and ranks: 0.95 times the share of the other logs that is no nearer to the
expert, and 1 at distance 0. Distances between whole transitions (s, a, s′) are SEABO's too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from ilbrl.base.errors import IlbrlError
from ilbrl.data import Dataset
from ilbrl.learning.batches import Spec
from ilbrl.learning.config import config
from ilbrl.rewards.labels import Labelling, Labels, Reward, Rewarded
from ilbrl.rewards.neighbours import BLOCK, nearest_of_blocks

FeatureMap = Callable[[Dataset], np.ndarray]
"""A dataset → [N, D] features φ(s, a)."""
SEABO_SCALE = 0.5
LARGEST_RANK = 0.95  # of a row that is not the expert's: the expert's own steps stay worth more


@config
class SupportReward:
    """What an agent can choose about this reward."""

    reward_shape: Literal["root", "exponential", "rank"] = "root"
    """1 − √(d / d_max), the paper's; SEABO's exp(−0.5 · d / dim(A)); or the rank of d among the other logs."""
    reward_on: Literal["step", "transition"] = "step"
    """Distances between steps (s, a), as in the paper, or between transitions (s, a, s′)."""


def standard_features(spec: Spec, on: str = "step") -> FeatureMap:
    """φ(s, a) = [standardised s, a scaled to [−1, 1]], and standardised s′ too `on` transitions; [N, D] float32."""

    def features(data: Dataset) -> np.ndarray:
        step = [spec.standardise(data.observations), spec.encode_actions(data.actions)]
        return np.hstack([*step, spec.standardise(data.next_observations)] if on == "transition" else step)

    return features


def label(expert: Dataset, logs: Dataset, features: FeatureMap, quiet: bool = False) -> Labels:
    """Label every row of D_U once, with the paper's reward; the logs block by block, so that they may exceed memory."""
    if len(expert) == 0:
        raise IlbrlError(f"{expert.source}: no expert rows, so nothing to be close to")
    (near,) = _finite_features(expert, features, len(expert))
    distance, number = nearest_of_blocks(_finite_features(logs, features, BLOCK), len(logs), near, quiet)
    distance = np.concatenate([np.zeros(len(expert)), distance])
    number = np.concatenate([np.arange(len(expert)), number])
    d_max = float(distance.max())
    return Labels(soft_reward(distance, d_max), distance, number, d_max, len(expert))


def _finite_features(data: Dataset, features: FeatureMap, rows: int) -> Iterator[np.ndarray]:
    """[rows, D] features, block after block."""
    for number, block in enumerate(data.blocks(rows)):
        found = features(block)
        finite = np.isfinite(found).all(1)
        if not finite.all():
            row = number * rows + int(finite.argmin())
            raise IlbrlError(f"{data.source}: row {row} has a feature that is NaN or infinite")
        yield found


def soft_reward(distance: np.ndarray, d_max: float) -> np.ndarray:
    """[N] float32 rewards 1 − √(d / d_max); all 1 when every row is an expert's (d_max = 0)."""
    if d_max == 0:
        return np.ones(len(distance), np.float32)
    return (1 - np.sqrt(distance / d_max)).astype(np.float32)


def exponential_reward(distance: np.ndarray, act_dim: int) -> np.ndarray:
    """[N] float32 rewards exp(−0.5 · d / dim(A)) (SEABO)."""
    return np.exp(-SEABO_SCALE * distance / act_dim).astype(np.float32)


def rank_reward(distance: np.ndarray, expert_rows: int) -> np.ndarray:
    """[N] float32 rewards 0.95 · (1 − share of the other logs that is nearer); 1 at distance 0."""
    others = np.sort(distance[expert_rows:])
    nearer = np.searchsorted(others, distance, side="left") / max(len(others), 1)
    return np.where(distance == 0, 1.0, LARGEST_RANK * (1 - nearer)).astype(np.float32)


def rewarded(asked: Labelling) -> Rewarded:
    """One set of rewards for all members; known labels of the right kind spare the search for neighbours."""
    shape, on = asked.configs[0].reward_shape, asked.configs[0].reward_on
    labels, sizes = asked.known, (len(asked.expert) + len(asked.logs), len(asked.expert))
    if labels is not None and (len(labels.reward), labels.expert_rows) != sizes:
        raise IlbrlError(
            f"the labels given are of {len(labels.reward):,} rows, {labels.expert_rows:,} of them the expert's;"
            f" these logs have {sizes[0]:,} and {sizes[1]:,}"
        )
    if labels is None or labels.compared != on:
        features = standard_features(asked.spec, on)
        labels = replace(label(asked.expert, asked.logs, features, asked.quiet), compared=on)
    if shape == "exponential":
        labels = replace(labels, reward=exponential_reward(labels.distance, asked.spec.act_dim))
    if shape == "rank":
        labels = replace(labels, reward=rank_reward(labels.distance, labels.expert_rows))
    return Rewarded(labels.reward, labels=labels)


REWARD = Reward(SupportReward, rewarded, row_by_row=True)


# --- why a step got its reward ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Explanation:
    """Why a step got its reward: its nearest expert step, and how far apart they are feature by feature."""

    row: int  # of the labels: the expert's rows first, then the other logs
    source: str
    episode: int
    step: int
    reward: float
    distance: float
    nearest_episode: int  # of the expert
    nearest_step: int
    features: np.ndarray  # [D] this step's features
    nearest_features: np.ndarray  # [D]

    @property
    def per_feature(self) -> np.ndarray:
        """[D] distance along each feature; their root sum of squares is `distance`."""
        return np.abs(self.features - self.nearest_features)


def explain(labels: Labels, expert: Dataset, logs: Dataset, features: FeatureMap, row: int) -> Explanation:
    if not 0 <= row < len(labels.reward):
        raise IlbrlError(f"there is no row {row}: the labels have {len(labels.reward):,} rows, counted from 0")
    data, within = (expert, row) if row < labels.expert_rows else (logs, row - labels.expert_rows)
    nearest = int(labels.nearest[row])
    return Explanation(
        row=row,
        source=data.source,
        episode=int(data.episode_of[within]),
        step=int(data.step_of[within]),
        reward=float(labels.reward[row]),
        distance=float(labels.distance[row]),
        nearest_episode=int(expert.episode_of[nearest]),
        nearest_step=int(expert.step_of[nearest]),
        features=features(data.transitions(within, within + 1))[0].astype(np.float64),
        nearest_features=features(expert.transitions(nearest, nearest + 1))[0].astype(np.float64),
    )
