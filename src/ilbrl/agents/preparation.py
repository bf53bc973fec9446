"""What an agent makes of the logs before it is trained."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ilbrl.data import Dataset, concatenate
from ilbrl.learning import batches as feeding
from ilbrl.learning.batches import Feed, Spec
from ilbrl.rewards import discriminator
from ilbrl.rewards.labels import Labels, Logits


@dataclass(frozen=True)
class Prepared:
    """What `prepare(expert, exploratory, configs, seeds)` returns; member p has configs[p] and seeds[p]."""

    spec: Spec
    feed: Feed
    largest_reward: float | np.ndarray | None  # max |r| of all members or of each ([P]); None: no values are learned
    labels: Labels | Logits | None = None
    head: Mapping[str, Any] = field(default_factory=dict)  # what `Policy` must know of a stochastic actor

    def largest_values(self, configs: Sequence[Any]) -> np.ndarray:
        """[P] max |r| / (1 − γ), beyond which no value can truly lie; infinite where none are learned."""
        if self.largest_reward is None:
            return np.full(len(configs), np.inf)
        return self.largest_reward / (1 - np.array([c.gamma for c in configs]))


def judge(
    expert: Dataset, exploratory: Dataset, configs: Sequence[Any], seeds: Sequence[int], quiet: bool
) -> tuple[Spec, Feed, Logits]:
    """D_U, in which each member finds the logits of its own discriminator as rewards."""
    union = concatenate([expert.as_expert(), exploratory])
    spec = Spec.of(union)
    settings = [
        discriminator.Config(
            lr=c.discriminator_lr,
            gradient_penalty=c.gradient_penalty,
            positive_share=c.positive_share,
            loss=c.discriminator_loss,
            state_only=c.state_only,
            passes=c.discriminator_passes,
            hidden=c.hidden,
        )
        for c in configs
    ]
    labels = discriminator.label(expert, exploratory, settings, seeds, quiet)
    return spec, Feed(feeding.transitions(union, spec), own={"rewards": labels.logit}, own_of=labels.set_of), labels
