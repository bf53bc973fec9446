"""Rollouts in learned models: every policy is played in an ensemble of dynamics models (`ilbrl.models`).

    V = mean over members k and initial states s₀ of  Σ_{t < H} γ^t (r_k − c · σ_r · max(u − b, 0)),    by default γ = 1

the return of an episode, the very quantity that a final score is. u is the members' disagreement about the next state
along the rollout, 1 on a usual logged step; c is the `penalty` on it, b (0) what is `allowed`. The models are trained
once per evidence, whatever the number of policies, and kept in the workplace. They learn from all rows, also those that
policies were trained on. Logs without rewards are scored by closeness to the expert; where closeness is asked for
although the logs carry rewards, the same rollouts tell both. (`ilbrl.models.rollouts` has the whole equation, with its
noise and its limits.)

A calibration takes another c, of `penalties`, only if it orders known policies better, with and without their own logs;
one rollout serves all penalties. When each model stops and which models serve is decided by held-out episodes
(`models.ensemble`).
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import ClassVar, Literal, NamedTuple

import jax
import numpy as np

from ilbrl import models
from ilbrl.base.errors import IlbrlError
from ilbrl.data import concatenate
from ilbrl.learning.config import EPISODIC
from ilbrl.learning.loggers import Log
from ilbrl.learning.population import forget_checkpoint
from ilbrl.models.rollouts import NOISE, PENALTY, Arrival, Imagined, Score
from ilbrl.ope.closeness import Closeness
from ilbrl.ope.estimates import Choices, Estimate, Estimates, Estimator, Grade, Part
from ilbrl.ope.evidence import Evidence, Quantity
from ilbrl.ope.policies import Evaluable, Sampled, require_kind
from ilbrl.policy import Policy
from ilbrl.results.schema import ErrorsRecord

VERDICTS: Mapping[str, Grade] = {"fine": "sound", "ends early": "sound", "outside": "doubtful", "broken": "void"}
EARLY = 0.5  # of the logged episodes' mean length
OUTSIDE = 5.0  # times the disagreement of a usual logged step, on average along the rollouts
CLIPPED = 0.1  # share of the steps that would leave the range of the logs
STRANGE_SHARE = 0.5  # of the rollouts that were stopped after their first steps
MEASURE = "disagreement of the models along its rollouts, 1 on a usual logged step"


@dataclass(frozen=True)
class Config:
    """The models, and the rollouts in them."""

    limits: ClassVar = EPISODIC
    size: models.Size = field(default_factory=models.size_for_this_machine)
    """large (4 × 512 units, for a GPU), medium or small (for two cores); by default what suits this machine."""
    members: int = models.MEMBERS
    """Models in the ensemble."""
    updates: int | None = None
    """Of each model; None: what belongs to the size."""
    hidden: tuple[int, ...] | None = None
    """Units of the models' layers; None: what belongs to the size."""
    dtype: Literal["float32", "bfloat16"] | None = None
    """Of matrix products; None: what belongs to the size."""
    starts: int = models.STARTS
    """Logged initial states that each policy is played from, in each model."""
    horizon: int | None = None
    """Steps of an episode; None: the logs' own time limit."""
    gamma: float = 1.0
    """Discount; 1: the return of an episode."""
    noise: float = NOISE
    """κ: share of the models' own error that is added to every step, the same for every policy."""
    learned_ends: bool = True
    """Episodes end as the models have learned it; False: all last to the horizon. `ilbrl.evaluate(end=…)` takes a
    function that says where they end."""
    averaged: bool = False
    """Each rollout follows the mean of all models but one, instead of one model: steadier where models are small."""
    penalty: float = PENALTY
    """c: standard deviations of the logged rewards that a step loses per unit of disagreement."""
    allowed: float = 0.0
    """Disagreement that costs nothing, in units of that of a usual logged step: with 1 only steps that the models know
    less well than the logs' own are charged, so that a larger penalty can be taken."""
    penalties: tuple[float, ...] = (0.3, 1.0)
    """What a calibration may choose instead."""

    @property
    def dynamics(self) -> models.Config:
        if self.size not in models.SIZES:
            raise IlbrlError(f"size {self.size!r}: there are {', '.join(models.SIZES)}")
        asked = {"updates": self.updates, "hidden": self.hidden, "dtype": self.dtype}
        return replace(models.SIZES[self.size], **{name: value for name, value in asked.items() if value is not None})


def quantity(config: Config, evidence: Evidence) -> Quantity:
    return Quantity(config.gamma, config.horizon or evidence.horizon, evidence.reward)


def choices(config: Config, evidence: Evidence) -> Choices:
    """The penalties, the configuration's own first."""
    del evidence
    return Choices([replace(config, penalty=c) for c in dict.fromkeys((config.penalty, *config.penalties))])


def prepare(
    evidence: Evidence,
    configs: Sequence[Config],
    seeds: Sequence[int],
    *,
    workplace: Path,
    log: Log | None = None,
    quiet: bool = False,
) -> None:
    """Train the models and leave them in the workplace."""
    for config in configs:
        for seed in seeds:
            trained(evidence, config, seed, workplace, log, quiet)


def trained(
    evidence: Evidence,
    config: Config,
    seed: int,
    workplace: Path | None = None,
    log: Log | None = None,
    quiet: bool = False,
) -> models.Models:
    """The models of this evidence: from the workplace if they are there, else trained and left there."""
    bare = evidence.closeness is not None and not evidence.with_rewards
    given = evidence.with_rewards or evidence.logs  # the same rows; closeness is no reward to be learned
    parts = {name: [data, evidence.training.get(name)] for name, data in given.items()}
    joined = {name: concatenate([part for part in both if part is not None]) for name, both in parts.items()}
    logs = {name: replace(data, rewards=None) if bare else data for name, data in joined.items()}
    described = [[data.content_hash for data in logs.values()], asdict(config.dynamics), config.members, seed]
    key = hashlib.sha256(json.dumps(described).encode()).hexdigest()[:16]
    file = None if workplace is None else workplace / f"models-{key}.safetensors"
    if file is not None and file.exists():
        return models.Models.load(file)
    checkpoint = None if file is None else file.with_name(f"training-{key}.safetensors")
    found = models.train(
        list(logs.values()), config.dynamics, members=config.members, seed=seed, resume_from=checkpoint, log=log,
        quiet=quiet,
    )  # fmt: skip
    if file is not None and checkpoint is not None:
        found.save(file)
        forget_checkpoint(checkpoint)
    return found


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
    """Configurations that differ in the penalty alone share their models and rollouts."""
    plain = {name: _rollable(name, policy) for name, policy in policies.items()}
    for name, policy in plain.items():  # before models are trained for it
        require_kind(name, policy, evidence.initial_observations, evidence.spec)
    sampling = {name for name, policy in policies.items() if isinstance(policy, Sampled)}
    played: dict[Config, _Played] = {}
    for config in configs:
        if (shared := replace(config, penalty=1.0, penalties=())) not in played:
            ensembles = [trained(evidence, config, seed, workplace, log, quiet) for seed in seeds]
            started = time.monotonic()
            rollouts = [_play(plain, sampling, each, evidence, shared, quiet) for each in ensembles]
            joined = Imagined(*(np.concatenate(fields, axis=1) for fields in zip(*rollouts)))
            parts = tuple(Part(int(seed), k) for seed, each in zip(seeds, ensembles) for k in range(each.members))
            errors = tuple(ErrorsRecord(**vars(each.errors)) for each in ensembles)
            played[shared] = _Played(joined, parts, errors, time.monotonic() - started)
    usual = float(np.mean(np.concatenate([data.episode_lengths[data.complete] for data in evidence.logs.values()])))
    found = []
    for config in configs:
        rollouts, parts, errors, seconds = played[replace(config, penalty=1.0, penalties=())]
        amount = quantity(config, evidence)
        full = min(usual, amount.horizon or usual)
        logged = evidence.logged_returns(amount)[_starts(evidence, config)]
        both = bool(evidence.with_rewards)
        estimates = {
            name: _estimate(_of(rollouts, p), config.penalty, full, logged, both) for p, name in enumerate(policies)
        }
        found.append(
            Estimates(ESTIMATOR.name, config, amount, estimates, VERDICTS, seconds, parts, MEASURE, model_errors=errors)
        )
    return found


class _Played(NamedTuple):
    """What configurations share that differ in the penalty alone."""

    rollouts: Imagined
    parts: tuple[Part, ...]
    errors: tuple[ErrorsRecord, ...]
    seconds: float


class _Episodes(NamedTuple):
    """One policy's rollouts, all [K, M]."""

    returns: np.ndarray  # less the disagreement once: a penalty of 1
    unpenalised: np.ndarray
    lengths: np.ndarray
    disagreement: np.ndarray
    outside: np.ndarray
    strange: np.ndarray
    rewarded: np.ndarray


def _of(rollouts: Imagined, policy: int) -> _Episodes:
    return _Episodes(*(getattr(rollouts, name)[policy] for name in _Episodes._fields))


def _estimate(
    episodes: _Episodes, penalty: float, usual_length: float, logged: np.ndarray, both: bool = False
) -> Estimate:
    """logged: [M] what the logs earned from the same initial observations; both: the task's return beside closeness."""
    values = episodes.unpenalised - penalty * (episodes.unpenalised - episodes.returns)
    distance, length = float(episodes.disagreement.mean()), float(episodes.lengths.mean())
    if not np.isfinite(values).all():
        return Estimate(float("nan"), float("nan"), "broken", (), distance, length)
    far = distance > OUTSIDE or episodes.outside.mean() > CLIPPED or episodes.strange.mean() > STRANGE_SHARE
    word = "outside" if far else "ends early" if length < EARLY * usual_length else "fine"
    found = Estimate.of(values, word, rivals=True, distance=distance, length=length).over(values, logged)
    return replace(found, task_return=float(episodes.rewarded.mean())) if both else found


def _starts(evidence: Evidence, config: Config) -> np.ndarray:
    """[M] numbers of the initial observations that policies are played from."""
    available = len(evidence.initial_observations)
    return np.linspace(0, available - 1, min(config.starts, available)).astype(int)


def _play(
    policies: Mapping[str, Policy],
    sampling: set[str],
    ensemble: models.Models,
    evidence: Evidence,
    config: Config,
    quiet: bool,
) -> Imagined:
    """Rollouts of all policies; those that sample their actions are played apart from the others."""
    starts = evidence.initial_observations[_starts(evidence, config)]
    score, arrival = (None, None) if evidence.closeness is None else _scores(evidence.closeness, ensemble)
    fields = np.empty((len(Imagined._fields), len(policies), ensemble.members, len(starts)))
    for sampled in (False, True):
        group = {name: policy for name, policy in policies.items() if (name in sampling) == sampled}
        if group:
            places = [place for place, name in enumerate(policies) if name in group]
            fields[:, places] = models.rollout(
                group, ensemble, starts, config.horizon or evidence.horizon, penalty=1.0, allowed=config.allowed,
                noise=config.noise, gamma=config.gamma, score=score, arrival=arrival, sampled=sampled,
                averaged=config.averaged,
                end=config.learned_ends if evidence.end is None else evidence.end, quiet=quiet,
            )  # fmt: skip
    return Imagined(*fields)


def _rollable(name: str, policy: Evaluable) -> Policy:
    own = policy.policy if isinstance(policy, Sampled) else policy
    if not isinstance(own, Policy):
        raise IlbrlError(
            f"policy {name}: models can play policies of ilbrl alone (a policy file, ilbrl.Policy), for the whole"
            " episode is one compiled program; Expected SARSA takes functions and logged actions too"
        )
    return own


def _scores(closeness: Closeness, ensemble: models.Models) -> tuple[Score, Arrival | None]:
    """Closeness, and what arriving is worth, as functions of what a rollout knows: standardised observations, actions
    in [−1, 1] or one-hot."""
    scales = ensemble.scales
    centre, half_range = (0.0, 1.0) if scales.spec.discrete else scales.spec.action_affine

    def observed(standard: jax.Array) -> jax.Array:
        return standard * scales.obs_std + scales.obs_mean

    def score(observations: jax.Array, actions: jax.Array) -> jax.Array:
        return closeness(observed(observations), actions * half_range + centre)

    return score, None if closeness.goal is None else lambda observations: closeness.arrival(observed(observations))


ESTIMATOR = Estimator(
    name="models",
    display="rollouts in learned models",
    Config=Config,
    verdicts=VERDICTS,
    quantity=quantity,
    estimate=estimate,
    choices=choices,
    prepare=prepare,
    networks=lambda config: config.dynamics,
    preparation=lambda config, seeds: int(config.dynamics.updates) * config.members * len(seeds),
    blind=True,
    pessimistic=True,
    plays=True,
    of_machine=("size",),
)
