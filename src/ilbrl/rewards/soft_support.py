"""The soft support reward of continuous ILBRL: close to an expert's step is worth 1, far from all of them 0.

    d(s, a) = min over (s′, a′) in D_E of ‖φ(s, a) − φ(s′, a′)‖₂
    r_I(s, a) = 1 − √(d(s, a) / d_max),      d_max = max of d over D_U = D_E ∪ D_X

The paper does not give φ; ours is the standardised observation beside the action scaled to [−1, 1], and any callable
may take its place. Rows of D_E have distance 0 and themselves as neighbour by construction.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ilbrl.base.errors import IlbrlError
from ilbrl.data import Dataset
from ilbrl.learning.batches import Spec
from ilbrl.rewards.labels import Labels
from ilbrl.rewards.neighbours import nearest

FeatureMap = Callable[[Dataset], np.ndarray]
"""A dataset → [N, D] features φ(s, a)."""


def standard_features(spec: Spec) -> FeatureMap:
    """φ(s, a) = [standardised s, a scaled to [−1, 1]], [N, obs_dim + act_dim] float32."""
    return lambda data: np.hstack([spec.standardise(data.observations), spec.scale_actions(data.actions)])


def label(expert: Dataset, exploratory: Dataset, features: FeatureMap, quiet: bool = False) -> Labels:
    """Label every row of D_U once."""
    if len(expert) == 0:
        raise IlbrlError(f"{expert.source}: no expert rows, so nothing to be close to")
    expert_features, other_features = features(expert), features(exploratory)
    for data, array in ((expert, expert_features), (exploratory, other_features)):
        finite = np.isfinite(array).all(1)
        if not finite.all():
            raise IlbrlError(f"{data.source}: row {finite.argmin()} has a feature that is NaN or infinite")
    distance, number = nearest(other_features, expert_features, quiet)
    distance = np.concatenate([np.zeros(len(expert)), distance])
    number = np.concatenate([np.arange(len(expert)), number])
    d_max = float(distance.max())
    return Labels(soft_reward(distance, d_max), distance, number, d_max, len(expert))


def soft_reward(distance: np.ndarray, d_max: float) -> np.ndarray:
    """[N] float32 rewards 1 − √(d / d_max); all 1 when every row is an expert's (d_max = 0)."""
    if d_max == 0:
        return np.ones(len(distance), np.float32)
    return (1 - np.sqrt(distance / d_max)).astype(np.float32)
