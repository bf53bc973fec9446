"""Known policies and the truth about them, from their own complete episodes: the quantity that is estimated."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np

from ilbrl.base.errors import IlbrlError
from ilbrl.data import Dataset
from ilbrl.data.splits import Composition
from ilbrl.ope.estimates import Quantity
from ilbrl.ope.evaluables import Evaluable, Sampled
from ilbrl.policy import Policy

Variant = Literal["mean", "sampled"]


@dataclass(frozen=True, eq=False)
class Known:
    """A policy of known quality, and episodes that it played itself.

    Estimate and truth must be of the same variant: a stochastic policy's logs are worth something else than its mean
    action. `sampled`: the episodes are logs of sampled actions, and values bootstrap on sampled actions. `mean`:
    the episodes were played with the mean action (or the policy is deterministic), and values bootstrap on it.

    log: the name of the log in the evidence that this policy made, alone or with others; None: it made none of them.
    clone: the policy was cloned from the log, so the episodes are not its own; at best it is worth as much.
    """

    name: str
    policy: Evaluable
    episodes: Dataset
    variant: Variant = "sampled"
    log: str | None = None
    clone: bool = False

    @property
    def evaluable(self) -> Evaluable:
        """What to evaluate, in the variant that the episodes show."""
        if self.variant == "mean" or not isinstance(self.policy, Policy):
            return self.policy
        if self.policy.head == "deterministic":
            raise IlbrlError(f"known policy {self.name}: is deterministic and has no sampled variant; say `mean`")
        return Sampled(self.policy)


class Truth(NamedTuple):
    """What a known policy is truly worth, as far as its episodes tell."""

    value: float
    std_error: float  # nan for a single episode
    episodes: int
    cut_off: float  # how much of the future the returns of episodes that timed out early lack, as a share


def truth(known: Known, quantity: Quantity) -> Truth:
    """The mean over the policy's own complete episodes; those cut by the end of the file do not count."""
    log = known.episodes
    if log.rewards is None:
        raise IlbrlError(
            f"known policy {known.name}: {log.source} carries no rewards, so its true value is unknown; bring episodes"
            " with rewards, or leave it out"
        )
    if not log.complete.any():
        raise IlbrlError(
            f"known policy {known.name}: {log.source} holds no complete episode of it, so its true value is unknown;"
            " bring at least one episode that ends in a terminal or a time-out"
        )
    returns, lengths = quantity.returns(log)[log.complete], log.episode_lengths[log.complete]
    if not np.isfinite(returns).all():
        episode = np.flatnonzero(log.complete)[~np.isfinite(returns)][0]
        raise IlbrlError(
            f"known policy {known.name}: {log.source}: rewards of episode {episode} are not finite, so its true value"
            " is unknown; repair them or leave the episode out"
        )
    terminated = log.terminals[(log.episode_starts + log.episode_lengths - 1)[log.complete]]
    std_error = float(returns.std(ddof=1) / np.sqrt(len(returns))) if len(returns) > 1 else float("nan")
    if quantity.horizon is None:
        lacking = quantity.gamma**lengths if quantity.gamma < 1 else np.zeros(len(lengths))
    else:
        lacking = np.maximum(1 - lengths / quantity.horizon, 0.0)
    cut_off = float(np.where(terminated, 0.0, lacking).mean())
    return Truth(float(returns.mean()), std_error, len(returns), cut_off)


def known_of_composition(
    composition: Composition, expert: Evaluable | None, exploratory: Evaluable | None
) -> list[Known]:
    """The policies behind the two logs, each with its own episodes of the validation part; None: not known."""
    validation = composition.validation
    assert validation.is_expert is not None
    by_expert = validation.is_expert[validation.episode_starts]
    halves = {
        "expert": (expert, by_expert, composition.evaluation_expert.source),
        "exploratory": (exploratory, ~by_expert, composition.evaluation_logs.source),
    }
    return [
        Known(
            name,
            policy,
            replace(validation.episodes(np.flatnonzero(which)), source=source),
            _logged_variant(policy),
        )
        for name, (policy, which, source) in halves.items()
        if policy is not None
    ]


def _logged_variant(policy: Evaluable) -> Variant:
    """How a policy acts when it is logged: a stochastic one samples."""
    return "sampled" if isinstance(policy, Policy) and policy.head == "tanh_gaussian" else "mean"
