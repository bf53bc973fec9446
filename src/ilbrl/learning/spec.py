"""Between the user's units and the networks': normaliser, bounds of actions, numbers of choices.

Networks see numbers near 0. Observations are standardised and real-valued actions scaled by their bounds to [−1, 1]. A
discrete action, an integer k in the logs, becomes a row of zeros with a 1 at place k (one-hot), and has no bounds. So
everything that takes [B, act_dim] actions takes both kinds; `Spec` is the one place that translates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ilbrl.base.errors import IlbrlError
from ilbrl.data import Dataset, concatenate

BLOCK = 2**18  # rows at a time, where no more than these should be held
MOST_ACTIONS = 1000  # discrete ones that agents choose among; a larger number is an amount or an identity


@dataclass(frozen=True)
class Spec:
    """Sizes, and the maps between the user's units and the networks' (the normaliser and the action bounds)."""

    obs_mean: np.ndarray  # [obs_dim]
    obs_std: np.ndarray  # [obs_dim]
    action_low: np.ndarray  # bounds of one action: [act_dim] real numbers, or [1], 0, of discrete ones
    action_high: np.ndarray  # the same; [1], num_actions − 1, of discrete ones
    num_actions: int | None = None  # how many discrete actions there are; None: actions are real-valued

    @property
    def obs_dim(self) -> int:
        return len(self.obs_mean)

    @property
    def discrete(self) -> bool:
        return self.num_actions is not None

    @property
    def act_dim(self) -> int:
        """Numbers that a network sees of an action; one per action that can be chosen where they are discrete."""
        return len(self.action_low) if self.num_actions is None else self.num_actions

    @staticmethod
    def of(*parts: Dataset) -> Spec:
        """Standardise by the mean and standard deviation of all rows; TD3-BC's 10⁻³ keeps constant inputs finite."""
        parts = tuple(part for part in parts if len(part)) or parts[:1]
        normaliser = _normaliser([part.observations for part in parts])
        data = parts[0] if len(parts) == 1 else concatenate([_outline(part) for part in parts])
        if not data.discrete:
            return Spec(*normaliser, *data.action_range)
        if data.num_actions > MOST_ACTIONS:
            raise IlbrlError(
                f"{data.source}: {data.num_actions:,} discrete actions, and agents choose among at most"
                f" {MOST_ACTIONS:,}; if they are amounts, state their bounds (--action-low, --action-high)"
            )
        last = np.full(1, data.num_actions - 1, np.float32)
        return Spec(*normaliser, np.zeros_like(last), last, data.num_actions)

    def standardise(self, observations: np.ndarray) -> np.ndarray:
        return (observations - self.obs_mean) / self.obs_std

    @property
    def action_affine(self) -> tuple[np.ndarray, np.ndarray]:
        """Centre and half-range of the bounds of real-valued actions."""
        assert not self.discrete, "discrete actions have no bounds"
        return (self.action_high + self.action_low) / 2, (self.action_high - self.action_low) / 2

    def encode_actions(self, actions: np.ndarray) -> np.ndarray:
        """[N, act_dim] actions as networks see them, from the user's: scaled to [−1, 1], or one-hot of [N] integers."""
        if self.num_actions is not None:
            return np.eye(self.num_actions, dtype=np.float32)[actions]
        centre, half_range = self.action_affine
        return (actions - centre) / half_range


def _normaliser(parts: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """([obs_dim] mean, [obs_dim] standard deviation + 10⁻³) of the rows of all parts, which may exceed memory."""
    count = sum(map(len, parts))
    mean = sum(part.mean(0, dtype=np.float64) * (len(part) / count) for part in parts)
    blocks = (part[start : start + BLOCK] for part in parts for start in range(0, len(part), BLOCK))
    variance = sum(np.square(block - mean).sum(0) for block in blocks) / count
    return np.asarray(mean, np.float32), np.asarray(np.sqrt(variance) + 1e-3, np.float32)


def _outline(data: Dataset) -> Dataset:
    """Two rows whose actions reach as far as those of all rows."""
    reach = np.stack([data.actions.min(0), data.actions.max(0)])
    nothing, apart = np.zeros((2, data.obs_dim), np.float32), np.ones(2, bool)
    return Dataset(
        nothing, reach, nothing, apart, apart, action_low=data.action_low, action_high=data.action_high,
        action_names=data.action_names, source=data.source,
    )  # fmt: skip
