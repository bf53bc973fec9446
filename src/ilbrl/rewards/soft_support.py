"""The soft support reward of continuous ILBRL: close to an expert's step is worth 1, far from all of them 0.

    d(s, a) = min over (s′, a′) in D_E of ‖φ(s, a) − φ(s′, a′)‖₂
    r_I(s, a) = 1 − √(d(s, a) / d_max),      d_max = max of d over D_U = D_E ∪ D_X

The paper does not give φ; ours is the standardised observation beside the action scaled to [−1, 1], and any callable
may take its place. Rows of D_E have distance 0 and themselves as neighbour by construction.

Discrete actions are near or not. By default only expert steps with the same action are compared, by their observations;
where the expert never takes an action, there is no neighbour, and the reward is 0. With an `action_distance` δ all
expert steps are, and another action is δ away: ‖φ − φ′‖² = ‖s − s′‖² + δ² · [a ≠ a′], with standardised s.

One far row makes d_max large and thereby all rewards alike. Two other shapes do not suffer from it: SEABO's
exp(−0.5 · d / dim(A)) (Lyu et al. 2024), and ranks: 0.95 times the share of the other logs that is no nearer to the
expert, and 1 at distance 0. Distances between whole transitions (s, a, s′) are SEABO's too. For states that repeat
there is the indicator, ILBRL's tabular reward: 1 at distance 0, else 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from ilbrl.base.errors import IlbrlError
from ilbrl.data import Dataset
from ilbrl.learning.config import config
from ilbrl.learning.spec import Spec
from ilbrl.rewards.ends import Ends, rewards_after
from ilbrl.rewards.labels import Labelling, Labels, Reward, Rewarded
from ilbrl.rewards.neighbours import BLOCK, nearest_of_blocks

FeatureMap = Callable[[Dataset], np.ndarray]
"""A dataset → [N, D] features φ(s, a)."""
SEABO_SCALE = 0.5
LARGEST_RANK = 0.95  # of a row that is not the expert's: the expert's own steps stay worth more


@config
class SupportReward(Ends):
    """What an agent can choose about this reward."""

    reward_shape: Literal["root", "exponential", "rank", "indicator"] = "root"
    """1 − √(d / d_max), the paper's; SEABO's exp(−0.5 · d / dim(A)); the rank of d among the other logs; or 1 at d = 0
    and 0 elsewhere, for states that repeat."""
    reward_on: Literal["step", "transition"] = "step"
    """Distances between steps (s, a), as in the paper, or between transitions (s, a, s′)."""
    action_distance: float | None = None
    """Distance between different discrete actions, in standard deviations of an observation; None: the nearest expert
    step must have the same action. Not used where actions are real-valued."""


def standard_features(spec: Spec, on: str = "step", action_distance: float | None = None) -> FeatureMap:
    """φ(s, a) = [standardised s, a scaled to [−1, 1]], and standardised s′ too `on` transitions; [N, D] float32.

    Discrete actions are part of it where they have an `action_distance`: rows of zeros with one δ/√2.
    """

    def features(data: Dataset) -> np.ndarray:
        parts = [spec.standardise(data.observations)]
        if not spec.discrete:
            parts.append(spec.encode_actions(data.actions))
        elif action_distance is not None:
            parts.append(np.float32(action_distance / np.sqrt(2)) * spec.encode_actions(data.actions))
        return np.hstack([*parts, spec.standardise(data.next_observations)] if on == "transition" else parts)

    return features


def label_steps(
    expert: Dataset,
    logs: Dataset,
    spec: Spec,
    on: Literal["step", "transition"] = "step",
    action_distance: float | None = None,
    quiet: bool = False,
) -> Labels:
    """Label every row of D_U with the paper's reward and our φ."""
    features = standard_features(spec, on, action_distance)
    labels = label(expert, logs, features, quiet, same_action=spec.discrete and action_distance is None)
    return replace(labels, compared=on, action_distance=action_distance)


def label(
    expert: Dataset, logs: Dataset, features: FeatureMap, quiet: bool = False, same_action: bool = False
) -> Labels:
    """Label every row of D_U once, with the paper's reward; the logs block by block, so that they may exceed memory.

    same_action: look for the nearest among the expert's steps with the same discrete action.
    """
    if len(expert) == 0:
        raise IlbrlError(f"{expert.source}: no expert rows, so nothing to be close to")
    (near,) = _finite_features(expert, features, len(expert))
    groups = (logs.actions, expert.actions) if same_action else None
    distance, number = nearest_of_blocks(_finite_features(logs, features, BLOCK), len(logs), near, quiet, groups)
    distance = np.concatenate([np.zeros(len(expert)), distance])
    number = np.concatenate([np.arange(len(expert)), number])
    d_max = float(distance.max(where=np.isfinite(distance), initial=0))
    return Labels(soft_reward(distance, d_max), distance, number, d_max, len(expert))


def state_distances(expert: Dataset, logs: Dataset, spec: Spec, quiet: bool = False) -> np.ndarray:
    """[N] float64 min over D_E of ‖s − s′‖₂, standardised and whatever the action; 0 for the expert's rows."""
    return label(expert, logs, lambda data: spec.standardise(data.observations), quiet).distance


def agreement(of_state: np.ndarray, of_step: np.ndarray) -> np.ndarray:
    """[N] float64 in [0, 1]: the share of its distance that a step owes to its state, d(s) / d(s, a).

    Near 0: the expert has been here, and did something else. 1: the action is as near as any could be, or it is the
    expert's own.
    """
    nowhere = of_step == 0
    return np.where(nowhere, 1.0, np.minimum(of_state / np.where(nowhere, 1.0, of_step), 1.0))


def _finite_features(data: Dataset, features: FeatureMap, rows: int) -> Iterator[np.ndarray]:
    """[rows, D] features, block after block."""
    for number, block in enumerate(data.blocks(rows)):
        found = features(block)
        finite = np.isfinite(found).all(1)
        if not finite.all():
            row = number * rows + int(finite.argmin())
            raise IlbrlError(f"{data.source}: row {data.source_row(row)} has a feature that is NaN or infinite")
        yield found


def soft_reward(distance: np.ndarray, d_max: float) -> np.ndarray:
    """[N] float32 rewards 1 − √(d / d_max), and 0 without a neighbour; all 1 where all distances are 0 (d_max = 0)."""
    return np.where(np.isfinite(distance), 1 - np.sqrt(distance / (d_max or 1.0)), 0).astype(np.float32)


def exponential_reward(distance: np.ndarray, act_dim: int) -> np.ndarray:
    """[N] float32 rewards exp(−0.5 · d / dim(A)) (SEABO)."""
    return np.exp(-SEABO_SCALE * distance / act_dim).astype(np.float32)


def rank_reward(distance: np.ndarray, expert_rows: int) -> np.ndarray:
    """[N] float32 rewards 0.95 · (1 − share of the other logs that is nearer); 1 at distance 0, 0 without neighbour."""
    others = np.sort(distance[expert_rows:])
    nearer = np.searchsorted(others, distance, side="left") / max(len(others), 1)
    ranks = np.where(np.isfinite(distance), LARGEST_RANK * (1 - nearer), 0.0)
    return np.where(distance == 0, 1.0, ranks).astype(np.float32)


def rewarded(asked: Labelling) -> Rewarded:
    """A set of rewards for each distance between actions, so mostly one for all members.

    Known labels of the right kind spare the search for neighbours.
    """
    known, sizes = asked.known, (len(asked.expert) + len(asked.logs), len(asked.expert))
    if known is not None and (len(known.reward), known.expert_rows) != sizes:
        raise IlbrlError(
            f"the labels given are of {len(known.reward):,} rows, {known.expert_rows:,} of them the expert's;"
            f" these logs have {sizes[0]:,} and {sizes[1]:,}"
        )
    distances = [cfg.action_distance if asked.spec.discrete else None for cfg in asked.configs]
    distinct = list(dict.fromkeys(distances))
    sets = [_labels(asked, action_distance) for action_distance in distinct]
    after = rewards_after(asked)
    if len(sets) == 1:
        return Rewarded(sets[0].reward, labels=sets[0], absorbing=after)
    rewards, set_of = np.stack([labels.reward for labels in sets]), [distinct.index(one) for one in distances]
    return Rewarded(rewards, set_of, sets[0], None if after is None else np.broadcast_to(after, rewards.shape))


def _labels(asked: Labelling, action_distance: float | None) -> Labels:
    shape, on, labels = asked.configs[0].reward_shape, asked.configs[0].reward_on, asked.known
    if labels is None or (labels.compared, labels.action_distance) != (on, action_distance):
        labels = label_steps(asked.expert, asked.logs, asked.spec, on, action_distance, asked.quiet)
    if shape == "exponential":
        return replace(labels, reward=exponential_reward(labels.distance, len(asked.spec.action_low)))
    if shape == "rank":
        return replace(labels, reward=rank_reward(labels.distance, labels.expert_rows))
    if shape == "indicator":
        return replace(labels, reward=(labels.distance == 0).astype(np.float32))
    return labels


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
    distance: float  # infinite: the expert never takes this action
    nearest_episode: int | None  # of the expert; None: there is no nearest step
    nearest_step: int | None
    features: np.ndarray  # [D] this step's features
    nearest_features: np.ndarray  # [D]; NaN without a nearest step
    action: str | None = None  # the name of a discrete action
    nearest_action: str | None = None

    @property
    def per_feature(self) -> np.ndarray:
        """[D] distance along each feature; their root sum of squares is `distance`."""
        return np.abs(self.features - self.nearest_features)


def explain(labels: Labels, expert: Dataset, logs: Dataset, features: FeatureMap, row: int) -> Explanation:
    """features: the φ that the labels were made with."""
    if not 0 <= row < len(labels.reward):
        raise IlbrlError(f"there is no row {row}: the labels have {len(labels.reward):,} rows, counted from 0")
    data, within = (expert, row) if row < labels.expert_rows else (logs, row - labels.expert_rows)
    nearest = None if labels.nearest[row] < 0 else int(labels.nearest[row])
    own = features(data.transitions(within, within + 1))[0].astype(np.float64)
    near = None if nearest is None else features(expert.transitions(nearest, nearest + 1))[0].astype(np.float64)
    return Explanation(
        row=row,
        source=data.source,
        episode=int(data.episode_of[within]),
        step=int(data.step_of[within]),
        reward=float(labels.reward[row]),
        distance=float(labels.distance[row]),
        nearest_episode=None if nearest is None else int(expert.episode_of[nearest]),
        nearest_step=None if nearest is None else int(expert.step_of[nearest]),
        features=own,
        nearest_features=np.full_like(own, np.nan) if near is None else near,
        action=_name(data, within),
        nearest_action=None if nearest is None else _name(expert, nearest),
    )


def _name(data: Dataset, row: int) -> str | None:
    return data.choice_names[data.actions[row]] if data.discrete else None
