"""Why a step got its reward: its nearest expert step, and how far apart they are feature by feature."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ilbrl.base.errors import IlbrlError
from ilbrl.data import Dataset
from ilbrl.rewards.labels import Labels
from ilbrl.rewards.soft_support import FeatureMap


@dataclass(frozen=True)
class Explanation:
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
