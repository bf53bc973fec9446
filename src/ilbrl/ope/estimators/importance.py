"""Per-decision importance sampling: a value without networks, where the logs carry action probabilities.

    w_t = Π_{k ≤ t} π(a_k | s_k) / b(a_k | s_k)
    V   = Σ_t γ^t · Σ_i w_t^i r_t^i / Σ_i w_t^i          weighted, the default
    V   = Σ_t γ^t · Σ_i w_t^i r_t^i / n                  ordinary

over the complete episodes i of all logs, held-out ones included. An episode that has ended earns 0 and keeps its last
weight. The weighted form is consistent, and biased in small samples; the ordinary one has no bias and far more
variance. The weights degenerate with the horizon, which the effective number of episodes shows: below `FEWEST` of them
the verdict is `thin`. The interval is a bootstrap over episodes.

A real-valued policy must have densities: a deterministic one gives every action density 0. One that chooses among
actions is weighed as it is deployed: by its probabilities where it samples, else 1 for its choice and 0 for all others.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from ilbrl.base.errors import IlbrlError
from ilbrl.data import Dataset, concatenate
from ilbrl.learning.config import EPISODIC
from ilbrl.learning.loggers import Log
from ilbrl.learning.spec import Spec
from ilbrl.ope.estimates import Estimate, Estimates, Estimator, Grade, Part
from ilbrl.ope.evidence import Evidence, Quantity
from ilbrl.ope.policies import Evaluable, Sampled, chances
from ilbrl.policy import Policy

FEWEST = 10  # effective episodes
DRAWS = 200  # of the bootstrap
VERDICTS: Mapping[str, Grade] = {"fine": "sound", "thin": "doubtful", "impossible": "void"}


@dataclass(frozen=True)
class Config:
    limits: ClassVar = EPISODIC
    gamma: float = 1.0
    """Discount; 1: the return of an episode."""
    weighted: bool = True
    """Divide by the sum of the weights; False: by the number of episodes."""


def quantity(config: Config, evidence: Evidence) -> Quantity:
    return Quantity(config.gamma, evidence.horizon if config.gamma == 1 else None, evidence.reward)


def estimate(
    policies: Mapping[str, Evaluable],
    evidence: Evidence,
    configs: Sequence[Config],
    seeds: Sequence[int],
    *,
    workplace: Path | None = None,
    log: Log | None = None,
    quiet: bool = False,
) -> list[Estimates]:
    del workplace, log, quiet
    started, episodes = time.monotonic(), complete_episodes([*evidence.logs.values(), *evidence.held_out.values()])
    weighed = {name: log_probs(name, policy, episodes, evidence.spec) for name, policy in policies.items()}
    found = []
    for config in configs:
        rewarded = evidence.arriving(episodes, quantity(config, evidence))
        estimates = {name: _estimate(rewarded, weighed[name], config, seeds[0]) for name in policies}
        seconds, started = time.monotonic() - started, time.monotonic()
        found.append(
            Estimates(
                ESTIMATOR.name, config, quantity(config, evidence), estimates, VERDICTS, seconds,
                (Part(int(seeds[0])),), "episodes per effective episode",
            )
        )  # fmt: skip
    return found


def complete_episodes(logs: Sequence[Dataset]) -> Dataset:
    """All complete episodes of these logs, whose actions must have probabilities."""
    if missing := [data.source for data in logs if data.log_probs is None]:
        raise IlbrlError(
            f"{', '.join(dict.fromkeys(missing))}: importance sampling needs the probabilities of the logged actions"
            " (log_probs), and these logs carry none; use another estimator (--estimator models)"
        )
    whole = [data.episodes(np.flatnonzero(data.complete)) for data in logs]
    joined = concatenate([data for data in whole if len(data)] or logs[:1])
    if not joined.complete.any():
        raise IlbrlError(f"{joined.source}: no complete episode, so there is no return to weigh")
    return joined


def log_probs(name: str, policy: Any, episodes: Dataset, spec: Spec) -> np.ndarray:
    """[N] log-probabilities that the policy gives the logged actions; −∞ where it would never take them."""
    if spec.discrete:
        with np.errstate(divide="ignore"):
            taken = chances(name, policy, episodes.observations, spec).astype(np.float64)
            return np.log(taken[np.arange(len(episodes)), episodes.actions])
    own = policy.policy if isinstance(policy, Sampled) else policy
    if not hasattr(own, "log_prob") or (isinstance(own, Policy) and own.head == "deterministic"):
        raise IlbrlError(
            f"policy {name}: has no action probabilities, and importance sampling weighs by them; use another estimator"
            " (--estimator models)"
        )
    found = np.asarray(own.log_prob(episodes.observations, episodes.actions), np.float64)
    if found.shape != (len(episodes),):
        raise IlbrlError(f"policy {name}: gave log-probabilities {found.shape} for {len(episodes)} rows")
    return found


def _estimate(episodes: Dataset, log_probs: np.ndarray, config: Config, seed: int) -> Estimate:
    assert episodes.log_probs is not None
    assert episodes.rewards is not None
    ratios = by_episode(episodes, log_probs - episodes.log_probs)
    shares, earned = weights(ratios), by_episode(episodes, episodes.rewards)
    if not np.isfinite(shares).all():
        return Estimate(float("nan"), float("nan"), "impossible")
    discounts = config.gamma ** np.arange(earned.shape[1])
    counts = resampled(len(shares), seed)
    if config.weighted:
        value, *drawn = weighted_value(shares, earned, discounts, counts)
    else:
        with np.errstate(over="ignore", invalid="ignore"):  # a weight that no number holds
            value, *drawn = counts @ (np.exp(np.cumsum(ratios, axis=1)) * earned @ discounts) / len(shares)
        if not np.isfinite(value):
            return Estimate(float("nan"), float("nan"), "impossible")
    effective = effective_episodes(shares, config.gamma)
    verdict = "fine" if effective >= FEWEST else "thin"
    distance = len(shares) / effective
    length = float(episodes.episode_lengths.mean())
    return Estimate(float(value), float(np.nanstd(drawn, ddof=1)), verdict, (float(value),), distance, length)


def weights(ratios: np.ndarray) -> np.ndarray:
    """[E, T] weights w_t of each episode from its log-ratios, up to a factor per step; after the end a ratio is 1.

    NaN at steps where every episode has taken an action that the policy never takes.
    """
    summed = np.cumsum(ratios, axis=1)
    with np.errstate(invalid="ignore"):
        return np.exp(summed - summed.max(0))


def resampled(episodes: int, seed: int) -> np.ndarray:
    """[1 + DRAWS, E] how often each episode counts: each once, and then bootstraps."""
    draws = np.random.default_rng(seed).multinomial(episodes, np.full(episodes, 1 / episodes), DRAWS)
    return np.concatenate([np.ones((1, episodes)), draws])


def weighted_value(weights: np.ndarray, earned: np.ndarray, discounts: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """[B] values, with episode i counted counts[b, i] times; a step that no episode reaches earns nothing."""
    total, weighed = counts @ weights, counts @ (weights * earned)
    return np.divide(weighed, total, out=np.zeros_like(weighed), where=total > 0) @ discounts


def effective_episodes(weights: np.ndarray, gamma: float) -> float:
    """(Σ w)² / Σ w² at the step beyond which half of the discount lies; at the last one without discount."""
    last = weights.shape[1] - 1
    middle = min(int(np.log(0.5) / np.log(gamma)), last) if gamma < 1 else last
    return float(weights[:, middle].sum() ** 2 / np.square(weights[:, middle]).sum())


def by_episode(episodes: Dataset, column: np.ndarray) -> np.ndarray:
    """[E, T] float64: one episode per line, zeros after its end."""
    table = np.zeros((episodes.num_episodes, int(episodes.episode_lengths.max())))
    table[episodes.episode_of, episodes.step_of] = column
    return table


ESTIMATOR = Estimator(
    name="importance",
    display="importance sampling",
    Config=Config,
    verdicts=VERDICTS,
    quantity=quantity,
    estimate=estimate,
)
