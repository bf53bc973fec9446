"""Imagined steps: short episodes of ILBRL's policies in learned models, as more logs to learn from.

Logs show little of what happens just beside the expert's path, and there a policy learned from two episodes loses it.
Models of the dynamics (`models.ensemble`) know more: they can be asked from any logged state, for any action.

    teachers   ILBRL on D_E ∪ D_X, several seeds with the usual λ and with a larger one
    D_I        their actions, with a little noise, from states of D_E and of D_X (one half each), for a few steps; each
               episode in one model, and cut where the models disagree more than they ever do on logged steps. Discrete
               actions are drawn, and so are ends then; else an episode ends where that is more likely than not
    round 2    teachers that learn from D_E ∪ D_X ∪ D_I, and their imagined steps beside those of round 1

Whoever then learns from D_E ∪ D_X ∪ D_I rewards and weights imagined steps as it does all others: those that stay close
to the expert are imitated, those that lead away teach its critics what to avoid. An imagined step has no reward.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ilbrl.agents import AGENTS
from ilbrl.agents.fit import fit
from ilbrl.base.errors import IlbrlError
from ilbrl.base.progress import progress
from ilbrl.base.records import to_plain
from ilbrl.data import Dataset, concatenate, load, same_actions, same_choices, save
from ilbrl.data.doctor import require_healthy
from ilbrl.learning.config import between, check
from ilbrl.learning.loggers import Log
from ilbrl.learning.population import MOST_UPDATES, require_seeds, require_updates
from ilbrl.learning.spec import Spec
from ilbrl.models import acting
from ilbrl.models.dynamics import SIZES, Config, Size, size_for_this_machine
from ilbrl.models.ensemble import MEMBERS, outlook, spread, train
from ilbrl.models.file import Models
from ilbrl.models.stepping import constants_of, drawn_pattern, in_network_units, next_state
from ilbrl.policy import Policy
from ilbrl.rewards import LOGGED
from ilbrl.rewards.ends import settled

TEACHER = "ilbrl"
GREEDIER = 2.5  # times the usual λ: that of every second teacher
MOST_ROWS = 400_000  # of a round, where the settings do not say
DOUBTFUL = 2.0  # times the 99th percentile of the members' disagreement on held-out rows
AT_A_TIME = 2000  # episodes of each teacher


@dataclass(frozen=True)
class Imagination:
    """How imagined steps are made."""

    limits: ClassVar = {
        "rounds": between(1, 10), "rows": between(1, 10**9), "steps": between(1, 1000), "teachers": between(2, 200),
        "noise": between(0, 1), "models_updates": between(1, MOST_UPDATES),
    }  # fmt: skip
    rounds: int = 2
    """Teachers of a later round learn from the imagined steps of earlier ones too."""
    rows: int | None = None
    """Imagined steps of a round, at most; by default as many as the logs have, and no more than 400,000."""
    steps: int = 10
    """Of an imagined episode, at most."""
    teachers: int = 8
    """Of each round, an even number; one half has the usual λ, the other a larger one."""
    noise: float = 0.1
    """Standard deviation of the noise in a teacher's action, in units of the action bound. Discrete actions are drawn
    from the teacher's probabilities instead."""
    size: Size = field(default_factory=size_for_this_machine)
    """Of the models: large (for a GPU), medium or small (for two cores); by default what suits this machine."""
    models_updates: int | None = None
    """Of each model; by default half of what belongs to the size, for a few steps ask less than whole episodes."""

    def __post_init__(self) -> None:
        if self.teachers % 2:
            raise IlbrlError(f"imagination: teachers: must be even, got {self.teachers}: half of them have a larger λ")

    @property
    def dynamics(self) -> Any:
        """The models' configuration."""
        usual = SIZES[self.size]
        return replace(usual, updates=float(self.models_updates or usual.updates // 2))

    def updates(self, of_teachers: int) -> int:
        """All updates, of teachers (so many each) and of models."""
        return self.rounds * self.teachers * of_teachers + MEMBERS * int(self.dynamics.updates)


def imagine(
    expert: Dataset,
    logs: Dataset,
    settings: Imagination | None = None,
    *,
    config: Any = None,
    updates: int = 100_000,
    seed: int = 0,
    workplace: Path | None = None,
    log: Log | None = None,
    quiet: bool = False,
) -> Dataset:
    """D_I: imagined steps to be joined with the logs, `ilbrl.concatenate([logs, imagined])`.

    config: the teachers' configuration of ILBRL; by default its preset for such actions.
    updates: of each teacher.
    workplace: a folder for checkpoints; the same call continues there after a crash.
    log: is told of the teachers' training and the models', as a training loop tells it.
    """
    settings = settings or Imagination()
    check([settings])
    expert, logs = same_choices(same_actions([expert, logs]))
    require_healthy(logs, expert)  # before models are trained on them
    expert, logs = (replace(data, rewards=None, log_probs=None) for data in (expert, logs))
    agent = AGENTS[TEACHER]
    config = settled(config or agent.presets[agent.usual_preset(logs.discrete)], expert, logs)
    configs = [config, _greedier(config)]
    check(configs)
    seeds = [seed + i for i in range(settings.teachers // 2)]
    require_seeds(seeds)
    require_updates(agent.solver_for(Spec.of(logs)).learner, config, updates)
    told = _digest([to_plain(settings), to_plain(config), updates, seed, expert.content_hash, logs.content_hash])
    checkpoint = None if workplace is None else workplace / "checkpoint-models.safetensors"
    models = train([expert, logs], settings.dynamics, seed=seed, resume_from=checkpoint, log=log, quiet=quiet)
    found: list[Dataset] = []
    for number in range(settings.rounds):
        kept = None if workplace is None else workplace / f"checkpoint-imagined{number}-{told}.npz"
        if kept is not None and kept.exists():
            found.append(read_imagined(kept, logs))
            continue
        teachers = fit(
            agent,
            expert,
            concatenate([logs, *found]),
            config=configs,
            seeds=seeds,
            updates=updates,
            out=None if workplace is None else workplace / f"checkpoint-teachers{number}",
            log=log,
            quiet=quiet,
        )
        sound = [policy for policy, diverged in zip(teachers.policies, teachers.diverged) if not diverged]
        if not sound:
            raise IlbrlError("imagined steps: every teacher diverged; a smaller λ or learning rates may help")
        rng = np.random.default_rng([seed, number])
        found.append(imagined_steps(sound, models, [expert, logs], settings, rng, quiet))
        if kept is not None:  # another machine would imagine others, and teachers could not go on with them
            save(found[-1], kept)
    return concatenate(found)


def _greedier(config: Any) -> Any:
    deployed = None if config.deploy_lam is None else GREEDIER * config.deploy_lam
    return replace(config, lam=GREEDIER * config.lam, deploy_lam=deployed)


def _digest(what: Any) -> str:
    return hashlib.sha256(json.dumps(what, sort_keys=True).encode()).hexdigest()[:16]


def read_imagined(path: Path, like: Dataset) -> Dataset:
    """Imagined steps that were saved, to be joined with the logs that they were imagined from."""
    return replace(load(path, quiet=True), source="imagined", action_names=like.action_names)


def require_imaginable(field: str, algorithm: str) -> None:
    """Refuse an algorithm that cannot learn from imagined steps."""
    agent = AGENTS[algorithm]
    if agent.rows != "union":
        raise IlbrlError(f"{field}: {algorithm} learns from the expert's rows alone, so it cannot use others")
    if agent.reward is LOGGED:
        raise IlbrlError(f"{field}: {algorithm} learns from true rewards, and imagined steps have none")
    if "initial_observations" in agent.solver.needs(agent.presets["default"]):
        raise IlbrlError(f"{field}: {algorithm} learns from how episodes begin, and imagined ones begin anywhere")


def imagined_steps(
    teachers: Sequence[Policy],
    models: Models,
    logs: Sequence[Dataset],
    settings: Imagination,
    rng: np.random.Generator,
    quiet: bool = True,
) -> Dataset:
    """Steps of the teachers, from states of each of the logs in equal parts. Teachers must be of one shape."""
    rows = settings.rows or min(len(logs[-1]), MOST_ROWS)
    episodes = max(1, rows // (settings.steps * len(teachers)))
    starts = _starts(logs, len(teachers) * episodes, rng).reshape(len(teachers), episodes, -1)
    shape, stacked, constants = acting.shape_of(teachers[0]), acting.stack(teachers), constants_of(models)
    game = Game(models.predict, models.config, settings.steps)
    parts = []
    with progress("imagining", starts.shape[0] * episodes, "episodes", quiet) as advance:
        for first in range(0, episodes, AT_A_TIME):
            some = starts[:, first : first + AT_A_TIME]
            member = rng.integers(0, models.members, some.shape[:2])
            key = jax.random.key(int(rng.integers(2**32)))
            parts.append(_imagine(shape, game, stacked, constants, some, member, settings.noise, key))
            advance(some.shape[0] * some.shape[1])
    steps = [np.concatenate([np.asarray(part[i]) for part in parts], 2) for i in range(len(parts[0]))]
    return _as_dataset(*steps, like=logs[-1])


def _starts(logs: Sequence[Dataset], count: int, rng: np.random.Generator) -> np.ndarray:
    """[count, obs_dim] states, shuffled; of each log as many, whatever its size."""
    shares = np.diff(np.linspace(0, count, len(logs) + 1).astype(int))
    drawn = [data.observations[rng.integers(0, len(data), n)] for data, n in zip(logs, shares)]
    return rng.permutation(np.concatenate(drawn))


class Game(NamedTuple):
    """Static parts of the program."""

    predict: Any
    config: Config
    steps: int


@partial(jax.jit, static_argnums=(0, 1))
def _imagine(shape, game, stacked, constants, starts, member, noise, key):
    """Teachers × episodes from `starts` [P, N, obs_dim], each in its own `member` [P, N]; every leaf is [T, P, N, …]:
    states, actions in the environment's units (or one-hot), next states, ends, and whether the step took place."""
    chosen, obs_dim = shape.head == "categorical", starts.shape[-1]
    limit = DOUBTFUL * constants["high_disagreement"]

    def act(policy: Any, observations: jax.Array, key: jax.Array) -> jax.Array:
        if chosen:
            return acting.act(shape, policy, observations, key)
        actions = acting.act(shape, policy, observations)
        scaled = (actions - constants["centre"]) / constants["half_range"]
        scaled = jnp.clip(scaled + noise * jax.random.normal(key, scaled.shape), -1, 1)
        return constants["centre"] + constants["half_range"] * scaled

    def one(carry, t):
        state, alive = carry
        step_key = jax.random.fold_in(key, t)
        keys = jax.random.split(step_key, len(state))
        actions = jax.vmap(act)(stacked, state, keys)
        inputs = jnp.concatenate(in_network_units(constants, state, actions, chosen), -1)
        flat = inputs.reshape(-1, inputs.shape[-1])
        every = jax.vmap(lambda layers: game.predict(layers, flat, game.config.dtype))(constants["layers"])
        doubt = spread(outlook(game.config, constants, every)).reshape(alive.shape)
        every = every.reshape(len(every), *alive.shape, -1)
        own = jnp.take_along_axis(every, member[None, ..., None], 0)[0]
        pattern = drawn_pattern(game.config, own, jax.random.fold_in(step_key, len(state)))
        _, following = next_state(constants, state, own[..., :obs_dim], pattern)
        limits = jax.random.logistic(jax.random.fold_in(step_key, len(state) + 1), alive.shape) if chosen else 0.0
        ends = own[..., -1] > limits if game.config.ends else jnp.zeros(alive.shape, bool)
        takes_place = alive & (doubt <= limit)
        return (following, takes_place & ~ends), (state, actions, following, ends, takes_place)

    _, steps = jax.lax.scan(one, (starts, jnp.ones(starts.shape[:2], bool)), jnp.arange(game.steps))
    return steps


def _as_dataset(
    states: np.ndarray,
    actions: np.ndarray,
    following: np.ndarray,
    ends: np.ndarray,
    takes_place: np.ndarray,
    like: Dataset,
) -> Dataset:
    """The steps that took place, episode after episode; what does not end in a terminal is cut by a time-out."""
    rows = takes_place.transpose(1, 2, 0).reshape(-1)  # [P, N, T]: the steps of an episode follow each other

    def kept(column: np.ndarray) -> np.ndarray:
        flat = np.moveaxis(column, 0, 2)
        return flat.reshape(-1, *flat.shape[3:])[rows]

    last = ~np.concatenate([takes_place[1:], np.zeros_like(takes_place[:1])])
    acted = kept(actions)
    if not rows.any():
        raise IlbrlError(
            "imagined steps: the models disagree about every first step of the teachers; longer logs, or more updates"
            " of the teachers, may help"
        )
    return Dataset(
        kept(states),
        acted.argmax(-1) if like.discrete else acted,
        kept(following),
        kept(ends),
        kept(last & ~ends),
        action_low=like.action_low,
        action_high=like.action_high,
        action_names=like.action_names,
        observation_columns=like.observation_columns,
        action_columns=like.action_columns,
        source="imagined",
    )
