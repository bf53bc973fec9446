"""What can be tuned about an off-policy evaluation, and the grids that are tried."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ilbrl.ope.expected_sarsa import Config

ValueRange = tuple[float, float]


@dataclass(frozen=True)
class Setting:
    """One way to evaluate: which mixture of the logs, and how the critics learn from it."""

    expert_fraction: float
    config: Config = field(default_factory=Config)
    value_bounds: bool = False
    """Clip targets to the values that the logs' rewards allow; off in the paper."""

    def resolved(self, value_range: ValueRange) -> Config:
        """The configuration with the value bounds filled in, where they are asked for."""
        if not self.value_bounds:
            return self.config
        return replace(self.config, value_low=value_range[0], value_high=value_range[1])

    def as_dict(self) -> dict[str, Any]:
        """What was tuned, for the record: plain numbers."""
        shown = ("lr", "target_update_every", "tau", "gamma", "pessimism", "layer_norm", "batch_size", "dtype")
        chosen = {name: getattr(self.config, name) for name in shown}
        return {"expert_fraction": self.expert_fraction, **chosen, "value_bounds": self.value_bounds}


def grid(fractions: Sequence[float], rates: Sequence[float], every: Sequence[float]) -> list[Setting]:
    """Every combination of expert fraction, learning rate and target rhythm."""
    return [
        Setting(fraction, Config(lr=lr, target_update_every=n))
        for fraction, lr, n in itertools.product(fractions, rates, every)
    ]


GRIDS: dict[str, list[Setting]] = {
    "default": grid((0.3, 0.5, 0.8), (3e-5, 3e-4, 3e-3), (2.0, 10.0)),
    "paper": grid((0.0, 0.3, 0.5, 0.8), (3e-6, 3e-5, 3e-4, 3e-3), (2.0, 10.0, 16.0)),
    "paper-choice": grid((0.5,), (3e-4,), (16.0,)),
    "small": grid((0.3, 0.5, 0.8), (3e-4,), (2.0,)),
}
