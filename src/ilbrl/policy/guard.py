"""A policy behind a guard, for where it is deployed: what it is asked is checked, clipped and counted."""

from __future__ import annotations

import math
import warnings
from typing import Literal, get_args

import numpy as np

from ilbrl.base.errors import IlbrlError
from ilbrl.policy.policy import Policy
from ilbrl.policy.validation import require_finite

Outside = Literal["clip", "warn", "refuse"]


class Guard:
    """Acts as its policy does, and keeps an eye on the observations.

    NaN and infinity are refused with an `IlbrlError`. A finite observation outside [low, high] is, by `outside`:
    clipped into the range ("clip"), answered as it is after one warning ("warn"), or refused ("refuse").
    The range is by default that of the observations in training. `observations`, `outside_range` ([obs_dim], times
    each number was outside) and `refused` count what was seen, refused observations included.
    """

    policy: Policy
    outside: Outside
    low: np.ndarray
    high: np.ndarray
    observations: int
    refused: int
    outside_range: np.ndarray

    def __init__(
        self,
        policy: Policy,
        low: np.ndarray | None = None,
        high: np.ndarray | None = None,
        outside: Outside = "clip",
    ) -> None:
        if outside not in get_args(Outside):
            raise IlbrlError(f"outside={outside!r}: there are {', '.join(get_args(Outside))}")
        low, high = policy.obs_low if low is None else low, policy.obs_high if high is None else high
        if low is None or high is None:
            raise IlbrlError(
                "this policy does not know the range of its training observations; give one, for example"
                " policy.guarded(logs.observations.min(0), logs.observations.max(0))"
            )
        self.policy, self.outside = policy, outside
        try:
            self.low, self.high = (np.broadcast_to(np.asarray(b, np.float32), (policy.obs_dim,)) for b in (low, high))
        except ValueError:
            raise IlbrlError(
                f"a range of shapes {np.shape(low)} and {np.shape(high)} does not fit {policy.obs_dim} numbers"
            ) from None
        if not (self.low <= self.high).all():
            i = int(np.argmin(self.low <= self.high))
            raise IlbrlError(f"number {i} of the range goes from {self.low[i]} to {self.high[i]}: not in order")
        self.observations = self.refused = 0
        self.outside_range = np.zeros(policy.obs_dim, np.int64)

    def __repr__(self) -> str:
        return (
            f"Guard({self.policy!r}, {self.outside}: {self.observations:,} observations,"
            f" {self.outside_range.sum():,} numbers outside the range, {self.refused:,} refused)"
        )

    def act(self, observations: np.ndarray, rng: np.random.Generator | None = None) -> np.ndarray:
        """As `Policy.act`, of observations that passed the guard; a batch is refused whole."""
        with np.errstate(over="ignore"):  # what float32 cannot hold becomes infinity, which is refused
            x = np.asarray(observations, np.float32)
        seen = math.prod(x.shape[:-1])
        self.observations += seen
        try:
            require_finite(x)
            if x.shape[-1:] == (self.policy.obs_dim,):  # another shape is refused by the policy
                x = self._within(x)
            return self.policy.act(x, rng)
        except IlbrlError:
            self.refused += seen
            raise

    def __call__(self, observations: np.ndarray) -> np.ndarray:
        return self.act(observations)

    def _within(self, x: np.ndarray) -> np.ndarray:
        beyond = (x < self.low) | (x > self.high)
        if not beyond.any():
            return x
        first_time = not self.outside_range.any()
        self.outside_range += beyond.reshape(-1, self.policy.obs_dim).sum(0)
        if self.outside == "clip":
            return np.clip(x, self.low, self.high)
        i, value = np.argwhere(beyond)[0][-1], x[beyond][0]
        names = self.policy.observation_columns
        which = f"number {i}" if names is None else f"number {i} ({names[i]})"
        said = f"{which} of an observation is {value:.6g}, outside {self.low[i]:.6g} to {self.high[i]:.6g}"
        if self.outside == "refuse":
            raise IlbrlError(f"{said}; this policy was not trained for that")
        if first_time:
            warnings.warn(f"{said}; this policy was not trained for that, and answers all the same", stacklevel=4)
        return x
