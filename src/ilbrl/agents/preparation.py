"""What an agent makes of the logs before it is trained."""

from __future__ import annotations

from dataclasses import dataclass

from ilbrl.feed import Feed, Spec
from ilbrl.rewards.labels import Labels


@dataclass(frozen=True)
class Prepared:
    spec: Spec
    feed: Feed
    largest_reward: float  # max |r|: values beyond max |r| / (1 − γ) are impossible
    labels: Labels | None = None
