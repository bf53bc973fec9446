"""What can be tuned about an off-policy evaluation, and the grids that are tried."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

from ilbrl.base.errors import IlbrlError
from ilbrl.ope.evaluation_data import EvaluationData
from ilbrl.ope.expected_sarsa import Config


@dataclass(frozen=True)
class Setting:
    """One way to evaluate: which mixture of the logs, and how the critics learn from it."""

    expert_fraction: float
    config: Config = field(default_factory=Config)
    value_bounds: bool = False
    """Clip targets to the values that the logs' rewards allow; off in the paper."""

    informed_start: bool = False
    """Let the critics set out from the logs' mean value instead of 0, the paper's."""

    def resolved(self, data: EvaluationData) -> Config:
        """The configuration with what it asks of the data filled in."""
        config = self.config
        if self.value_bounds:
            low, high = data.value_range(config.gamma)
            config = replace(config, value_low=low, value_high=high)
        if self.informed_start:
            config = replace(config, start=data.mean_value(self.expert_fraction, config.gamma))
        return config

    def as_dict(self) -> dict[str, Any]:
        """For the record, in plain values; `from_dict` reads it back."""
        learning = {name: value for name, value in asdict(self.config).items() if name not in _FROM_THE_DATA}
        asked = {"value_bounds": self.value_bounds, "informed_start": self.informed_start}
        return {"expert_fraction": self.expert_fraction, **learning, **asked}

    @staticmethod
    def from_dict(record: Mapping[str, Any]) -> Setting:
        """The setting of a record, which may hold other entries too."""
        names = {f.name for f in fields(Config)} - _FROM_THE_DATA
        try:
            learning: dict[str, Any] = {name: record[name] for name in names}
            learning["hidden"] = tuple(learning["hidden"])
            config = Config(**learning)
            return Setting(record["expert_fraction"], config, record["value_bounds"], record["informed_start"])
        except KeyError as error:
            raise IlbrlError(f"the record of an evaluation setting lacks {error}") from None


_FROM_THE_DATA = {"value_low", "value_high", "start"}  # filled in by `resolved`


def grid(
    fractions: Sequence[float], rates: Sequence[float], every: Sequence[float], informed_start: bool
) -> list[Setting]:
    """Every combination of expert fraction, learning rate and target rhythm."""
    return [
        Setting(fraction, Config(lr=lr, target_update_every=n), informed_start=informed_start)
        for fraction, lr, n in itertools.product(fractions, rates, every)
    ]


GRIDS: dict[str, list[Setting]] = {
    "default": grid((0.3, 0.5, 0.8), (3e-5, 3e-4, 3e-3), (2.0, 10.0), informed_start=True),
    "paper": grid((0.0, 0.3, 0.5, 0.8), (3e-6, 3e-5, 3e-4, 3e-3), (2.0, 10.0, 16.0), informed_start=False),
    "paper-choice": grid((0.5,), (3e-4,), (16.0,), informed_start=False),
    "small": grid((0.3, 0.5, 0.8), (3e-4,), (2.0,), informed_start=True),
}
