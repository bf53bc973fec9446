"""Doubly robust values: critics that importance weights correct, where the logs carry action probabilities.

    V = mean_i V(s_0^i) + Σ_t γ^t · Σ_i w_t^i δ_t^i / Σ_i w_t^i          (Thomas & Brunskill 2016, weighted)
    δ = r + γ · (1 − terminal) · V(s′) − Q(s, a),    w_t = Π_{k ≤ t} π(a_k | s_k) / b(a_k | s_k)

Q is the critics of Expected SARSA (`critics`), and V(s) = Σ_a π(a | s) Q(s, a), or Q(s, π(s)) of real-valued actions.
If the critics are right, δ is 0 on average and the weights hardly matter; if they are wrong, right weights mend it. The
critics learn from the evidence's rows, and the correction is made on its held-out episodes, so that it is not made on
rows that the critics know by heart; without held-out episodes all serve twice, and a note says so.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from ilbrl.data import Dataset
from ilbrl.learning.loggers import Log
from ilbrl.learning.spec import Spec
from ilbrl.ope.estimates import Estimate, Estimates, Estimator, Grade, Part
from ilbrl.ope.estimators import critics, expected_sarsa, importance
from ilbrl.ope.estimators.critics import Config
from ilbrl.ope.estimators.expected_sarsa import Member
from ilbrl.ope.estimators.mixtures import Mixtures
from ilbrl.ope.evidence import Evidence, Quantity
from ilbrl.ope.policies import Evaluable

VERDICTS: Mapping[str, Grade] = {
    "fine": "sound", "thin": "doubtful", "moving": "doubtful", "diverged": "void", "impossible": "void",
}  # fmt: skip
SERVE_TWICE = "no episodes with probabilities are held out: rows that the critics learned from correct them too"


def quantity(config: Config, evidence: Evidence) -> Quantity:
    return Quantity(config.gamma, None, evidence.reward)


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
    started, found = time.monotonic(), []
    held_out = [data for data in evidence.held_out.values() if data.complete.any()]
    apart = bool(held_out) and all(data.log_probs is not None for data in held_out)
    episodes = importance.complete_episodes(held_out if apart else list(evidence.logs.values()))
    weighed = {name: importance.log_probs(name, policy, episodes, evidence.spec) for name, policy in policies.items()}
    for config in configs:
        learned = _learn(policies, evidence, config, seeds, workplace, log, quiet)
        rewarded = evidence.arriving(episodes, quantity(config, evidence))
        estimates = {
            name: _estimate(name, policy, weighed[name], rewarded, learned, config, seeds[0])
            for name, policy in policies.items()
        }
        seconds, started = time.monotonic() - started, time.monotonic()
        parts = tuple(Part(int(seed)) for seed in seeds)
        notes = learned.notes if apart else (*learned.notes, SERVE_TWICE)
        found.append(
            Estimates(
                ESTIMATOR.name, config, quantity(config, evidence), estimates, VERDICTS, seconds, parts,
                "episodes per effective episode", {}, notes,
            )
        )  # fmt: skip
    return found


class Critics(NamedTuple):
    """The critics of every policy and seed, after their last update."""

    state: Any
    members: list[Member]
    words: list[str]  # of each member: whether its value has settled
    spec: Spec
    notes: tuple[str, ...]

    def values(self, policy: str, observations: np.ndarray, actions: np.ndarray) -> np.ndarray:
        """[seeds, N] values of [N, act_dim] actions, as critics see them, at [N, obs_dim] observations."""
        own = [m for m, member in enumerate(self.members) if member.policy == policy]
        state = jax.tree.map(lambda leaf: leaf[np.array(own)], self.state)
        repeated = np.broadcast_to(actions, (len(own), *actions.shape))
        return expected_sarsa.values_at(state, [self.members[m] for m in own], self.spec, observations, repeated)

    def verdict(self, policy: str) -> str:
        """The worst over the seeds."""
        own = {word for word, member in zip(self.words, self.members) if member.policy == policy}
        return next(word for word in reversed(critics.WORDS) if word in own)


def _learn(
    policies: Mapping[str, Evaluable],
    evidence: Evidence,
    config: Config,
    seeds: Sequence[int],
    workplace: Path | None,
    log: Log | None,
    quiet: bool,
) -> Critics:
    data = Mixtures.of(evidence, [config.expert_fraction]).arriving(evidence, quantity(config, evidence))
    actions = expected_sarsa.ask(policies, data.rows, evidence)
    filled = expected_sarsa.fill_in(config, data, evidence)
    members = [Member(name, filled, 0, int(seed)) for name in policies for seed in seeds]
    fitted = expected_sarsa.fit(members, policies, data, evidence, actions, workplace, log, quiet)
    words = [expected_sarsa.judged(fitted, m, member, evidence).word for m, member in enumerate(members)]
    return Critics(fitted.state, members, words, evidence.spec, data.notes)


def _estimate(
    name: str, policy: Any, log_probs: np.ndarray, episodes: Dataset, learned: Critics, config: Config, seed: int
) -> Estimate:
    assert episodes.log_probs is not None
    assert episodes.rewards is not None
    settled, gamma = learned.verdict(name), config.gamma
    shares = importance.weights(importance.by_episode(episodes, log_probs - episodes.log_probs))
    if settled == "diverged" or not np.isfinite(shares).all():
        return Estimate(float("nan"), float("nan"), settled if settled == "diverged" else "impossible")
    before, after = episodes.observations, episodes.next_observations
    acted = (expected_sarsa.encoded(name, policy, seen, learned.spec) for seen in (before, after))
    here, following = (learned.values(name, seen, actions) for seen, actions in zip((before, after), acted))
    logged = learned.values(name, before, learned.spec.encode_actions(episodes.actions))
    errors = episodes.rewards + gamma * ~episodes.terminals * following - logged  # [seeds, N]
    counts, discounts = importance.resampled(len(shares), seed), gamma ** np.arange(shares.shape[1])
    first = here[:, episodes.episode_starts]
    values = np.array([
        counts @ start / len(shares)
        + importance.weighted_value(shares, importance.by_episode(episodes, error), discounts, counts)
        for start, error in zip(first, errors)
    ])  # fmt: skip
    by_seed, drawn = values[:, 0], values[:, 1:].mean(0)
    spread = float(by_seed.var(ddof=1)) if len(by_seed) > 1 else 0.0
    value = float(by_seed.mean()) - config.seed_penalty * spread**0.5
    effective = importance.effective_episodes(shares, gamma)
    word = "moving" if settled == "moving" else "fine" if effective >= importance.FEWEST else "thin"
    error = float(np.sqrt(drawn.var(ddof=1) + spread / len(by_seed)))
    length = float(episodes.episode_lengths.mean())
    return Estimate(value, error, word, tuple(by_seed.tolist()), len(shares) / effective, length)


ESTIMATOR = Estimator(
    name="doubly_robust",
    display="doubly robust",
    Config=Config,
    verdicts=VERDICTS,
    quantity=quantity,
    estimate=estimate,
    choices=expected_sarsa.choices,
    updates=lambda config, seeds: config.updates * len(seeds),
    disagreement_penalty=lambda config: config.seed_penalty,
    seeds=2,
)
