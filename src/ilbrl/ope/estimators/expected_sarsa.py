"""Expected SARSA behind the seam: the paper's estimator, discounted values by critics (`critics`).

All policies × settings × seeds are one population of the one training loop. The feed holds every row that any setting
draws from; each policy's next actions π(s′) are columns of its own, computed once. The initial states stand behind the
rows, as pseudo-rows that no subset contains, with (s₀, π(s₀)) where a row has (s′, π(s′)): so the loop can read every
member's value over time.

Its calibration is the paper's grid search on known policies. Settings whose targets are too slow to converge within
the updates are left out, and the notes name them. `Estimate.distance` is the mean distance from (s′, π(s′)) to the
nearest logged (s, a): where no row is near, critics extrapolate, and policies there are over-estimated.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ilbrl.base.errors import IlbrlError
from ilbrl.data import Dataset
from ilbrl.learning import batches as feeding
from ilbrl.learning import population
from ilbrl.learning.batches import Feed
from ilbrl.learning.config import stack
from ilbrl.learning.loggers import Log
from ilbrl.learning.spec import Spec
from ilbrl.ope.estimates import Choices, Estimate, Estimates, Estimator, Part, Trace
from ilbrl.ope.estimators import critics
from ilbrl.ope.estimators.critics import Config
from ilbrl.ope.estimators.mixtures import Mixtures, distances_from_data
from ilbrl.ope.evidence import Evidence, Quantity
from ilbrl.ope.policies import Evaluable, NextActions, act, chances
from ilbrl.results.schema import CONVERGENCE

MEASURE = "distance of (s′, π(s′)) from the logged steps"
POINTS = 100  # of a value curve, or more


# --- what a calibration tries -----------------------------------------------------------------------------------------


def _grid(
    fractions: Sequence[float], rates: Sequence[float], every: Sequence[float], informed_start: bool
) -> list[dict[str, Any]]:
    names = ("expert_fraction", "lr", "target_update_every", "informed_start")
    return [dict(zip(names, entry)) for entry in itertools.product(fractions, rates, every, [informed_start])]


GRIDS: dict[str, list[dict[str, Any]]] = {
    "default": _grid((0.3, 0.5, 0.8), (3e-5, 3e-4, 3e-3), (2.0, 10.0), informed_start=True),
    "paper": _grid((0.0, 0.3, 0.5, 0.8), (3e-6, 3e-5, 3e-4, 3e-3), (2.0, 10.0, 16.0), informed_start=False),
    "paper-choice": _grid((0.5,), (3e-4,), (16.0,), informed_start=False),
    "small": _grid((0.3, 0.5, 0.8), (3e-4,), (2.0,), informed_start=True),
    "none": [{}],
}


def choices(config: Config, evidence: Evidence) -> Choices:
    """The grid, less settings that cannot converge within the updates; a single log has no mixtures to choose from."""
    if config.grid not in GRIDS:
        raise IlbrlError(f"no grid {config.grid!r}: there are {', '.join(GRIDS)}")
    entries = [replace(config, **changes) for changes in GRIDS[config.grid]]
    if len(evidence.logs) == 1:
        entries = list(dict.fromkeys(replace(c, expert_fraction=config.expert_fraction) for c in entries))
    fast = [c for c in entries if c.pace <= config.updates]
    slow = sorted({c.target_update_every for c in entries} - {c.target_update_every for c in fast})
    if not slow:
        return Choices(entries)
    every = ", ".join(f"{n:g}" for n in slow)
    if not fast:
        return Choices(entries, (f"targets every {every}: {config.updates:,} updates are too few to converge",))
    left_out = f"left out: targets every {every}, which cannot converge within {config.updates:,} updates"
    return Choices(fast, (f"{left_out} ({len(entries) - len(fast)} settings)",))


def settle(config: Config, known: Estimates) -> Config:
    """As many updates as the known policies needed; all of them where one had not converged."""
    words = {word for trace in known.traces.values() for word in trace.verdicts}
    needed = [update for trace in known.traces.values() for update in trace.decided_at]
    return replace(config, updates=max(needed)) if words == {"converged"} else config


def quantity(config: Config, evidence: Evidence) -> Quantity:
    return Quantity(config.gamma, None, evidence.reward)


# --- the estimate -----------------------------------------------------------------------------------------------------


class Member(NamedTuple):
    policy: str
    config: Config  # with what it asks of the logs filled in
    number: int  # of the configuration
    seed: int


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
    """Settings that differ in nothing but traced numbers learn as one population; others take turns."""
    data = Mixtures.of(evidence, [c.expert_fraction for c in configs]).arriving(
        evidence,
        quantity(configs[0], evidence),  # settings that are compared estimate one quantity
    )
    actions = ask(policies, data.rows, evidence)
    filled = [fill_in(c, data, evidence) for c in configs]
    found: dict[int, Estimates] = {}
    for group in _alike(filled):
        members = [Member(p, filled[n], n, int(seed)) for p in policies for n in group for seed in seeds]
        fitted = fit(members, policies, data, evidence, actions, workplace, log, quiet)
        own = actions[[list(policies).index(m.policy) for m in members], len(data.rows) :]
        initial = values_at(fitted.state, members, evidence.spec, evidence.initial_observations, own)
        verdicts = [judged(fitted, m, member, evidence) for m, member in enumerate(members)]
        for n in group:
            mine = [m for m, member in enumerate(members) if member.number == n]
            distances = distances_from_data(policies, data, configs[n].expert_fraction, evidence.spec)
            estimates, traces = {}, {}
            for name in policies:
                own = [m for m in mine if members[m].policy == name]
                words = tuple(verdicts[m].word for m in own)
                worst = max(words, key=critics.WORDS.index)
                value = Estimate.of(initial[own], worst, penalty=configs[n].seed_penalty, distance=distances[name])
                estimates[name] = replace(value, value=float("nan")) if CONVERGENCE[worst] == "void" else value
                traces[name] = Trace(
                    fitted.metrics["update"],
                    fitted.metrics["value"][:, own].T.astype(np.float64),
                    words,
                    tuple(members[m].seed for m in own),
                    tuple(verdicts[m].decided_at for m in own),
                )
            found[n] = Estimates(
                ESTIMATOR.name, configs[n], quantity(configs[n], evidence), estimates, CONVERGENCE,
                fitted.seconds / len(group), tuple(Part(int(seed)) for seed in seeds), MEASURE, traces, data.notes,
            )  # fmt: skip
    return [found[n] for n in range(len(configs))]


def fill_in(config: Config, data: Mixtures, evidence: Evidence) -> Config:
    """The configuration with what it asks of the logs: a likely value to start from, and bounds."""
    changes: dict[str, Any] = {"informed_start": False, "value_bounds": False}
    if config.value_bounds:
        changes["value_low"], changes["value_high"] = evidence.value_range(config.gamma)
    if config.informed_start:
        changes["start"] = data.mean_value(config.expert_fraction, config.gamma)
    return replace(config, **changes)


def _alike(configs: Sequence[Config]) -> list[list[int]]:
    """Numbers of the configurations that one population can hold: those whose program is the same."""
    groups: dict[Any, list[int]] = {}
    for number, one in enumerate(configs):
        groups.setdefault(jax.tree.structure(one), []).append(number)
    return list(groups.values())


def fit(
    members: Sequence[Member],
    policies: Mapping[str, Evaluable],
    data: Mixtures,
    evidence: Evidence,
    actions: np.ndarray,
    workplace: Path | None,
    log: Log | None,
    quiet: bool,
) -> population.Fitted:
    configs, updates = [m.config for m in members], members[0].config.updates
    identity = _identity(data, evidence, actions)
    described = [identity, [asdict(c) for c in configs], [m.seed for m in members]]
    key = hashlib.sha256(json.dumps(described).encode()).hexdigest()[:16]
    return population.fit(
        critics.LEARNER,
        configs,
        [m.seed for m in members],
        _feed(members, policies, data, evidence, actions),
        evidence.spec,
        updates,
        q_limit=[critics.FREEZE * max(map(abs, evidence.value_range(c.gamma))) for c in configs],
        chunk=min(max(updates // POINTS, 1), population.default_chunk()),
        probe=population.Probe(len(data.rows), actions.shape[1], critics.value),
        resume_from=None if workplace is None else workplace / f"critics-{key}.safetensors",
        identity=identity,
        log=log,
        label="evaluating",
        quiet=quiet,
    )


def ask(policies: Mapping[str, Evaluable], rows: Dataset, evidence: Evidence) -> np.ndarray:
    """[G, N + M, act_dim] each policy's π(s′) at the rows, then its π(s₀), as critics see actions.

    Where actions are discrete, these are the policy's probabilities.
    """
    spec, seen = evidence.spec, (rows.next_observations, evidence.initial_observations)
    actions = np.empty((len(policies), sum(map(len, seen)), spec.act_dim), np.float32)
    for g, (name, policy) in enumerate(policies.items()):
        if isinstance(policy, NextActions):
            _require_own_rows(name, policy, rows, evidence)
            answers = [spec.encode_actions(each) for each in (policy.actions, policy.initial_actions)]
        else:
            answers = [encoded(name, policy, observations, spec) for observations in seen]
        actions[g] = np.concatenate(answers)
    return actions


def encoded(name: str, policy: Evaluable, observations: np.ndarray, spec: Spec) -> np.ndarray:
    """[N, act_dim] a policy's actions as critics see them: scaled to [−1, 1], or its probabilities."""
    if spec.discrete:
        return chances(name, policy, observations, spec)
    return spec.encode_actions(act(name, policy, observations, spec))


def _require_own_rows(name: str, policy: NextActions, rows: Dataset, evidence: Evidence) -> None:
    own = rows.content_hash == policy.content_hash
    if not own or not np.array_equal(evidence.initial_observations, rows.initial_observations):
        raise IlbrlError(
            f"policy {name}: is known only through {policy.source}, whose next actions say nothing about other rows or"
            " other initial states; evaluate it on Evidence.of({'logs': log}) of that log alone"
        )


def _feed(
    members: Sequence[Member],
    policies: Mapping[str, Evaluable],
    data: Mixtures,
    evidence: Evidence,
    actions: np.ndarray,
) -> Feed:
    """The rows and, behind them, the initial states; each member with its policy's actions and its subset."""
    spec, start = evidence.spec, evidence.spec.standardise(evidence.initial_observations)
    pseudo = {"observations": start, "next_observations": start}
    assert data.rows.rewards is not None
    columns = feeding.transitions(data.rows, spec) | {"rewards": data.rows.rewards}
    shared = {
        name: np.concatenate([column, pseudo.get(name, np.zeros((len(start), *column.shape[1:]), np.float32))])
        for name, column in columns.items()
    }
    places, subsets, numbers = {name: p for p, name in enumerate(policies)}, [], {}
    subset_of = []
    for member in members:
        policy, whole = policies[member.policy], data.subset(member.config.expert_fraction)
        logged = isinstance(policy, NextActions)
        key = (member.config.expert_fraction, member.policy if logged else None)
        if key not in numbers:
            numbers[key] = len(subsets)
            subsets.append(whole[policy.known[whole]] if isinstance(policy, NextActions) else whole)
        subset_of.append(numbers[key])
    return Feed(shared, {"next_actions": actions}, [places[m.policy] for m in members], subsets, subset_of)


def values_at(
    state: Any, members: Sequence[Member], spec: Spec, observations: np.ndarray, actions: np.ndarray
) -> np.ndarray:
    """[P, M] every member's values of its own [P, M, act_dim] actions at [M, obs_dim] observations."""
    seen = jnp.asarray(spec.standardise(observations))

    def one(member: Any) -> jax.Array:
        cfg, critic, acting = member
        return critics.judge(critic, cfg, seen, acting)

    every = (stack([m.config for m in members]), state.critic.params, actions)
    return np.asarray(jax.jit(lambda each: jax.lax.map(one, each))(every), np.float64)


def judged(fitted: population.Fitted, m: int, member: Member, evidence: Evidence) -> critics.Decision:
    curve = fitted.metrics["update"], fitted.metrics["value"][:, m].astype(np.float64)
    possible = evidence.value_range(member.config.gamma)
    return critics.verdict(*curve, int(fitted.diverged_at[m]), possible, member.config.pace)


def _identity(data: Mixtures, evidence: Evidence, actions: np.ndarray) -> dict[str, str]:
    """What a checkpoint must agree in: the rows, where policies are valued, and what the policies do there."""
    digest = hashlib.sha256(np.ascontiguousarray(evidence.initial_observations).tobytes())
    digest.update(actions.tobytes())
    return {"data": data.rows.content_hash, "policies": digest.hexdigest()}


ESTIMATOR = Estimator(
    name="expected_sarsa",
    display="Expected SARSA",
    Config=Config,
    verdicts=CONVERGENCE,
    quantity=quantity,
    estimate=estimate,
    choices=choices,
    settle=settle,
    updates=lambda config, seeds: config.updates * len(seeds),
    rule="converged",
    disagreement_penalty=lambda config: config.seed_penalty,
    seeds=3,
)
