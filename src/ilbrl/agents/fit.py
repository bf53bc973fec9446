"""From logs to policies in one call: doctor → label → train a population → policies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import jax
import numpy as np

from ilbrl.agents import AGENTS
from ilbrl.agents.agent import Agent, PerRow, Prepared, Solver
from ilbrl.agents.sampling import prepare_within
from ilbrl.base.errors import IlbrlError
from ilbrl.base.files import make_folder
from ilbrl.base.provenance import commit, versions
from ilbrl.data import Dataset, same_actions, same_choices
from ilbrl.data.doctor import require_healthy
from ilbrl.learning.config import check
from ilbrl.learning.loggers import Log, json_lines
from ilbrl.learning.population import Fitted, require_seeds
from ilbrl.learning.population import fit as train
from ilbrl.learning.spec import Spec
from ilbrl.policy import Layer, Policy, committee_of
from ilbrl.rewards import Labels, Logits

DIVERGENCE_FACTOR = 100.0
MOST_SEEDS = 100_000
LARGEST_COMMITTEE = 100
WIDEST = 8192  # units in a layer of a committee: its weights are a dense matrix, zeros and all


@dataclass(frozen=True)
class Learned:
    """A trained population and where it came from; policy p is configs[p] with seeds[p]."""

    agent: str
    policies: list[Policy]
    configs: list[Any]
    seeds: list[int]
    fitted: Fitted  # its members are the trainings: of each policy in turn as many as its committee has
    labels: Labels | Logits | None = field(repr=False, default=None)
    files: list[Path] = field(default_factory=list)  # the policies on disk, where a folder was given

    @property
    def diverged(self) -> np.ndarray:
        """[P] bool."""
        return self.diverged_at >= 0

    @property
    def diverged_at(self) -> np.ndarray:
        """[P] the update at which the last training behind a policy diverged; −1: one is sound."""
        return _all_diverged_at(self.fitted.diverged_at.reshape(len(self.policies), -1))

    @property
    def metrics(self) -> dict[str, np.ndarray]:
        """`update` [T], and [T, P] of each metric: the mean of the trainings that a policy consists of."""
        sound = self.fitted.diverged_at.reshape(len(self.policies), -1) < 0
        sound |= ~sound.any(-1, keepdims=True)
        return {
            name: values if name == "update" else values.reshape(len(values), *sound.shape).mean(-1, where=sound)
            for name, values in self.fitted.metrics.items()
        }


def fit(
    agent: str | Agent,
    expert: Dataset,
    logs: Dataset,
    *,
    config: Any = None,
    preset: str | None = None,
    seeds: int | Sequence[int] = 1,
    committee: int = 1,
    updates: int = 100_000,
    reward: PerRow | None = None,
    weight: PerRow | None = None,
    divergence_factor: float = DIVERGENCE_FACTOR,
    memory: float | None = None,
    out: str | Path | None = None,
    log: Log | None = None,
    warn: Callable[[str], None] = lambda said: None,
    prepared: Prepared | None = None,
    quiet: bool = False,
) -> Learned:
    """Train every configuration with every seed, as one population.

    agent: a name from `ilbrl.agents.AGENTS`, or an `Agent` of your own.
    config: one configuration or a list of them; by default the agent's `preset`.
    preset: by default `discrete` where actions are discrete and the agent has it, else `default`.
    seeds: how many (0, 1, …), or which.
    committee: trainings behind each policy; with more than one, they answer together (docs/committees.md).
    reward, weight: your own, in place of the agent's: [N] for the expert's rows and then the logs', or a function that
        makes them of a Dataset of these rows.
    divergence_factor: a member whose mean |Q| exceeds this many times what its rewards allow is frozen and marked.
    memory: gigabytes that rows may take in training; of logs that need more, whole episodes are drawn at random. By
        default half of what this machine has.
    out: a folder for the policies, metrics.jsonl and a checkpoint; the same call continues there after a crash.
    warn: is told what the doctor warns of in the logs, and what was sampled; what the doctor calls an error is raised.
    prepared: what `ilbrl.agents.agent.prepare` made of the same logs, to spare examining and labelling them again.
    """
    agent = find_agent(agent)
    expert, logs = same_actions([expert, logs])
    preset = preset or agent.usual_preset(logs.discrete)
    if preset not in agent.presets:
        raise IlbrlError(f"{agent.name} has no preset {preset!r}: there are {', '.join(agent.presets)}")
    configs = config if isinstance(config, (list, tuple)) else [config or agent.presets[preset]]
    if isinstance(seeds, int) and not 1 <= seeds <= MOST_SEEDS:
        raise IlbrlError(f"seeds: must be between 1 and {MOST_SEEDS:,}, got {seeds}")
    seeds = list(range(seeds)) if isinstance(seeds, int) else [int(seed) for seed in seeds]
    if not seeds or not configs:
        raise IlbrlError("nothing to train: give at least one configuration and one seed")
    population, trained_seeds = trainings(configs, seeds, committee)
    asked = [(c, seed) for c in configs for seed in seeds]
    if prepared is None:
        require_healthy(logs, expert, warn=warn)
        check(population)
        if out is not None:
            make_folder(Path(out))  # before hours of work for it
        prepared = prepare_within(
            memory, agent, expert, logs, population, trained_seeds, reward=reward, weight=weight, updates=updates,
            warn=warn, quiet=quiet,
        )  # fmt: skip
    elif reward is not None or weight is not None:
        raise IlbrlError("reward and weight: rows that are prepared have theirs; give them to `prepare` instead")
    folder = None if out is None else Path(out)
    solver = agent.solver_for(prepared.spec)
    fitted = train(
        solver.learner,
        population,
        trained_seeds,
        prepared.feed,
        prepared.spec,
        updates,
        q_limit=list(divergence_factor * prepared.largest_values),
        resume_from=None if folder is None else folder / "checkpoint.safetensors",
        identity={
            "agent": agent.name,
            "expert": expert.content_hash,
            "logs": logs.content_hash,
            "divergence_factor": divergence_factor,
            **prepared.identity,
        },
        log=log if log is not None or folder is None else json_lines(folder / "metrics.jsonl"),
        label=f"training {agent.name}",
        quiet=quiet,
    )
    origin = {
        "agent": agent.name,
        "updates": updates,
        "expert": {"source": expert.source, "content_hash": expert.content_hash},
        "logs": {"source": logs.source, "content_hash": logs.content_hash},
        "device": jax.devices()[0].device_kind,
        "versions": versions(),
        "commit": commit(),
    }
    if prepared.spec.discrete:
        origin["action_names"] = list(same_choices([expert, logs])[0].choice_names)
    for name in ("observation_columns", "action_columns"):
        called = [getattr(data, name) for data in (expert, logs)]
        if called[0] is not None and called[0] == called[1]:
            origin[name] = list(called[0])
    seen = [data.observations for data in agent.learns_from(expert, logs)]
    low = np.min([observations.min(0) for observations in seen], axis=0)
    high = np.max([observations.max(0) for observations in seen], axis=0)
    policies = []
    for first, (c, seed) in zip(range(0, len(population), committee), asked):
        every = np.arange(first, first + committee)
        sound = every[fitted.diverged_at[every] < 0]
        members = [export(solver, fitted.member(p), prepared.spec) for p in (sound if len(sound) else every[:1])]
        about = {**origin, "config": asdict(c), "seed": seed}
        if committee > 1:
            about["committee"] = len(members)
        about["diverged_at"] = int(_all_diverged_at(fitted.diverged_at[every]))
        policies.append(replace(committee_of(members), obs_low=low, obs_high=high, metadata=about))
    files = []
    if folder is not None:
        names = [f"policy-config{c}-seed{seed}.safetensors" for c in range(len(configs)) for seed in seeds]
        files = [policy.save(folder / name) for name, policy in zip(names, policies)]
    configs, seeds = [c for c, _ in asked], [seed for _, seed in asked]
    return Learned(agent.name, policies, configs, seeds, fitted, prepared.labels, files)


def trainings(configs: Sequence[Any], seeds: Sequence[int], committee: int = 1) -> tuple[list[Any], list[int]]:
    """The population: a configuration and a seed for every training of every policy's committee.

    The first training has the policy's own seed; those of the others are drawn from it.
    """
    require_seeds(seeds)
    require_committee(configs, committee)
    drawn = [np.random.SeedSequence(seed).generate_state(committee - 1).tolist() for seed in seeds]
    own = [seed for first, others in zip(seeds, drawn) for seed in (first, *others)]
    return [c for c in configs for _ in own], [*own] * len(configs)


def require_committee(configs: Sequence[Any], committee: int) -> None:
    """Refuse committees that cannot be."""
    if not 1 <= committee <= LARGEST_COMMITTEE:
        raise IlbrlError(f"committee: must be between 1 and {LARGEST_COMMITTEE}, got {committee}")
    widest = committee * max((max(getattr(c, "hidden", ()), default=0) for c in configs), default=0)
    if committee > 1 and widest > WIDEST:
        raise IlbrlError(
            f"committee: {committee} networks of this width make one of {widest:,} units a layer, more than memory can"
            f" be expected to hold; at most {WIDEST:,}, so use fewer trainings or smaller networks"
        )
    if committee > 1 and any(getattr(c, "actor_layer_norm", False) for c in configs):
        raise IlbrlError("committee: must be 1 where actor_layer_norm is on, which would normalise all members at once")


def _all_diverged_at(trainings: np.ndarray) -> np.ndarray:
    """[…, K] updates at which trainings diverged → […] that of the last one; −1: one is sound."""
    return np.where((trainings < 0).any(-1), -1, trainings.max(-1))


def find_agent(agent: str | Agent) -> Agent:
    """The agent of this name; an agent is itself."""
    if isinstance(agent, Agent):
        return agent
    if agent not in AGENTS:
        raise IlbrlError(f"no agent {agent!r}: there are {', '.join(AGENTS)}")
    return AGENTS[agent]


def export(solver: Solver, state: Any, spec: Spec) -> Policy:
    """The deployable policy of a trained member: normaliser and action bounds inside."""
    layers = [{name: np.asarray(array) for name, array in layer.items()} for layer in solver.actor_layers(state)]
    unknown = {key for layer in layers for key in layer} - {"w", "b", "scale", "shift"}
    if unknown:
        raise IlbrlError(
            f"this actor's layers hold {', '.join(sorted(unknown))}, which a policy file cannot carry; it has weights,"
            " biases and LayerNorm's scale and shift"
        )
    return Policy(
        layers=tuple(Layer(layer["w"], layer["b"], layer.get("scale"), layer.get("shift")) for layer in layers),
        action_low=spec.action_low,
        action_high=spec.action_high,
        obs_mean=spec.obs_mean,
        obs_std=spec.obs_std,
        **solver.head,
    )
