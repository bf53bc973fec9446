"""Evaluating policies: all policies × settings × seeds as one population, driven by the one training loop.

The feed holds the union of the rows that any setting draws from; each policy's next actions π(s′) are columns of its
own, computed once. The held-out initial states stand behind the rows, as pseudo-rows that no subset contains, with
(s₀, π(s₀)) where a row has (s′, π(s′)): so the loop can read every member's value over time.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ilbrl.base.errors import IlbrlError
from ilbrl.learning import batches as feeding
from ilbrl.learning import population as train
from ilbrl.learning.batches import Feed
from ilbrl.learning.config import stack
from ilbrl.learning.loggers import Log
from ilbrl.ope import expected_sarsa
from ilbrl.ope.evaluables import Evaluable, NextActions, act
from ilbrl.ope.evaluation_data import EvaluationData
from ilbrl.ope.settings import Setting
from ilbrl.ope.verdicts import FREEZE, SLACK, WORDS, Word, verdict

POINTS = 100  # of a value curve, or more


@dataclass(frozen=True, eq=False)
class Estimate:
    """The value of one policy, as one setting and one evaluation seed see it."""

    policy: str
    setting: int  # number in `Evaluation.settings`
    seed: int
    value: float  # mean of `initial_values`
    verdict: Word
    decided_at: int  # update from which the verdict held
    updates: np.ndarray  # [C]
    values: np.ndarray  # [C] value after so many updates
    initial_values: np.ndarray  # [M] at each held-out initial state, after the last update


class Combined(NamedTuple):
    """The value of one policy under one setting, over evaluation seeds."""

    value: float
    std_error: float  # over seeds and initial states; nan for a single seed and a single state
    verdict: Word  # the worst of the seeds'
    per_seed: tuple[float, ...]

    @property
    def interval(self) -> tuple[float, float]:
        """Normal 95 % interval over evaluation seeds and initial states; it knows nothing of the estimator's bias."""
        return self.value - 1.96 * self.std_error, self.value + 1.96 * self.std_error


@dataclass(frozen=True, eq=False)
class Evaluation:
    """What came out, in the order policies × settings × seeds."""

    estimates: list[Estimate]
    policies: list[str]
    settings: list[Setting]
    updates: int
    seconds: float

    def of(self, policy: str, setting: int = 0) -> list[Estimate]:
        """The estimates of one policy under one setting, one per seed."""
        return [e for e in self.estimates if (e.policy, e.setting) == (policy, setting)]

    def combined(self, policy: str, setting: int = 0, penalty: float = 0.0) -> Combined:
        return combine(self.of(policy, setting), penalty)


def combine(estimates: Sequence[Estimate], penalty: float = 0.0) -> Combined:
    """Mean over seeds; variance of the mean = that over seeds / S + that over initial states / M.

    penalty: standard deviations over seeds that the value loses; seeds disagree where a policy leaves the data.
    """
    per_seed = np.array([e.value for e in estimates])
    states = np.mean([e.initial_values for e in estimates], axis=0)
    parts = [x.var(ddof=1) / len(x) for x in (per_seed, states) if len(x) > 1]
    verdicts: list[Word] = [e.verdict for e in estimates]
    worst = max(verdicts, key=WORDS.index)
    std_error = float(np.sqrt(sum(parts))) if parts else float("nan")
    return Combined(lowered(per_seed, penalty), std_error, worst, tuple(per_seed.tolist()))


def lowered(per_seed: Sequence[float] | np.ndarray, penalty: float) -> float:
    """Mean − penalty · std over evaluation seeds; a single seed has nobody to disagree with."""
    spread = float(np.std(per_seed, ddof=1)) if penalty and len(per_seed) > 1 else 0.0
    return float(np.mean(per_seed)) - penalty * spread


def evaluate(
    policies: Mapping[str, Evaluable],
    data: EvaluationData,
    settings: Sequence[Setting],
    seeds: Sequence[int],
    updates: int,
    *,
    slack: float = SLACK,
    chunk: int | None = None,
    resume_from: Path | None = None,
    log: Log | None = None,
    quiet: bool = False,
) -> Evaluation:
    """Estimate every policy's value under every setting with every seed.

    slack: share of the possible values' range by which an estimate may leave it before it counts as diverged.
    chunk: updates between points of the value curves; by default at most a hundredth of all.
    resume_from: a checkpoint file: written on the way, continued from if there.
    """
    if not policies or not settings or not seeds:
        raise IlbrlError("an evaluation needs at least one policy, one setting and one seed")
    names, rows = list(policies), len(data.dataset)
    actions = _ask(policies, data)
    members = [(p, s, seed) for p in range(len(names)) for s in range(len(settings)) for seed in seeds]
    ranges = [data.value_range(setting.config.gamma) for setting in settings]
    paces = [expected_sarsa.pace(setting.config) for setting in settings]
    resolved = [setting.resolved(data) for setting in settings]
    configs = [resolved[s] for _, s, _ in members]
    fitted = train.fit(
        expected_sarsa.LEARNER,
        configs,
        [seed for _, _, seed in members],
        _feed(policies, data, settings, actions, members),
        data.spec,
        updates,
        q_limit=[FREEZE * max(map(abs, ranges[s])) for _, s, _ in members],
        chunk=chunk or min(max(updates // POINTS, 1), train.default_chunk()),
        probe=train.Probe(rows, actions.shape[1], expected_sarsa.value),
        resume_from=resume_from,
        identity={} if resume_from is None else _identity(data, actions),
        log=log,
        label="evaluating",
        quiet=quiet,
    )
    initial = _initial_values(fitted.state, configs, data, actions[:, rows:], [p for p, _, _ in members])
    estimates = []
    for m, (p, s, seed) in enumerate(members):
        curve = fitted.metrics["update"], fitted.metrics["value"][:, m].astype(np.float64)
        word, decided_at = verdict(*curve, int(fitted.diverged_at[m]), ranges[s], paces[s], slack)
        value = float(initial[m].mean())
        estimates.append(Estimate(names[p], s, int(seed), value, word, decided_at, *curve, initial[m]))
    return Evaluation(estimates, names, list(settings), updates, fitted.seconds)


def _ask(policies: Mapping[str, Evaluable], data: EvaluationData) -> np.ndarray:
    """[G, N + M, act_dim] each policy's π(s′) at the rows, then its π(s₀), scaled to [−1, 1]."""
    spec, seen = data.spec, (data.dataset.next_observations, data.initial_observations)
    actions = np.empty((len(policies), sum(map(len, seen)), spec.act_dim), np.float32)
    for g, (name, policy) in enumerate(policies.items()):
        if isinstance(policy, NextActions):
            _require_own_rows(name, policy, data)
            answers = [policy.actions, policy.initial_actions]
        else:
            answers = [act(name, policy, observations, spec.act_dim) for observations in seen]
        actions[g] = spec.scale_actions(np.concatenate(answers))
    return actions


def _require_own_rows(name: str, policy: NextActions, data: EvaluationData) -> None:
    own = data.dataset.content_hash == policy.content_hash
    if not own or not np.array_equal(data.initial_observations, data.dataset.initial_observations):
        raise IlbrlError(
            f"policy {name}: is known only through {policy.source}, whose next actions say nothing about other rows or"
            " other initial states; evaluate it on EvaluationData.of(log, log.initial_observations, spec) of that log"
        )


def _feed(
    policies: Mapping[str, Evaluable],
    data: EvaluationData,
    settings: Sequence[Setting],
    actions: np.ndarray,
    members: Sequence[tuple[int, int, int]],
) -> Feed:
    """The rows and, behind them, the initial states; each member with its policy's actions and its subset."""
    spec, start = data.spec, data.spec.standardise(data.initial_observations)
    pseudo = {"observations": start, "next_observations": start}
    assert data.dataset.rewards is not None
    columns = feeding.transitions(data.dataset, spec) | {"rewards": data.dataset.rewards}
    shared = {
        name: np.concatenate([column, pseudo.get(name, np.zeros((len(start), *column.shape[1:]), np.float32))])
        for name, column in columns.items()
    }
    whole = [data.subset(setting.expert_fraction) for setting in settings]
    subsets, subset_of, numbers = [], [], {}
    for p, s, _ in members:
        policy = list(policies.values())[p]
        logged = isinstance(policy, NextActions)
        key = (settings[s].expert_fraction, p if logged else None)
        if key not in numbers:
            numbers[key] = len(subsets)
            subsets.append(whole[s][policy.known[whole[s]]] if isinstance(policy, NextActions) else whole[s])
        subset_of.append(numbers[key])
    return Feed(shared, {"next_actions": actions}, [p for p, _, _ in members], subsets, subset_of)


def _initial_values(
    state: Any, configs: Sequence[Any], data: EvaluationData, actions: np.ndarray, own_of: Sequence[int]
) -> np.ndarray:
    """[P, M] every member's values at the initial states, after its last update."""
    start = jnp.asarray(data.spec.standardise(data.initial_observations))

    def one(member: Any) -> jax.Array:
        cfg, critic, acting = member
        return expected_sarsa.judge(critic, cfg, start, acting)

    members = (stack(configs), state.critic.params, actions[np.asarray(own_of)])
    return np.asarray(jax.jit(lambda members: jax.lax.map(one, members))(members), np.float64)


def _identity(data: EvaluationData, actions: np.ndarray) -> dict[str, str]:
    """What a checkpoint must agree in: the rows, where policies are valued, and what the policies do there."""
    digest = hashlib.sha256(np.ascontiguousarray(data.initial_observations).data)
    digest.update(actions.data)
    return {"data": data.dataset.content_hash, "policies": digest.hexdigest()}
