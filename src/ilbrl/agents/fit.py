"""From logs to policies in one call: doctor → label → train a population → policies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import jax
import numpy as np

from ilbrl.agents import AGENTS
from ilbrl.agents.preparation import Prepared
from ilbrl.base.errors import IlbrlError
from ilbrl.base.provenance import commit, versions
from ilbrl.data import Dataset
from ilbrl.data.doctor import require_healthy
from ilbrl.learning.loggers import Log, json_lines
from ilbrl.learning.population import Fitted
from ilbrl.learning.population import fit as train
from ilbrl.policy import Layer, Policy
from ilbrl.rewards import Labels, Logits

DIVERGENCE_FACTOR = 100.0


@dataclass(frozen=True)
class Learned:
    """A trained population and where it came from; member p is configs[p] with seeds[p]."""

    agent: str
    policies: list[Policy]
    configs: list[Any]
    seeds: list[int]
    fitted: Fitted
    labels: Labels | Logits | None = field(repr=False, default=None)
    files: list[Path] = field(default_factory=list)  # the policies on disk, where a folder was given

    @property
    def diverged(self) -> np.ndarray:
        """[P] bool."""
        return self.fitted.diverged_at >= 0


def fit(
    agent: str,
    expert: Dataset,
    data: Dataset,
    *,
    config: Any = None,
    preset: str = "default",
    seeds: int | Sequence[int] = 1,
    updates: int = 250_000,
    divergence_factor: float = DIVERGENCE_FACTOR,
    out: str | Path | None = None,
    log: Log | None = None,
    prepared: Prepared | None = None,
    quiet: bool = False,
) -> Learned:
    """Train every configuration with every seed, as one population.

    agent: a name from `ilbrl.agents.AGENTS`.
    config: one configuration or a list of them; by default the agent's `preset`.
    seeds: how many (0, 1, …), or which.
    divergence_factor: a member whose mean |Q| exceeds this many times what its rewards allow is frozen and marked.
    out: a folder for the policies, metrics.jsonl and a checkpoint; the same call continues there after a crash.
    prepared: what the agent's `prepare` made of the same logs, to spare labelling them again.
    """
    if agent not in AGENTS:
        raise IlbrlError(f"no agent {agent!r}: there are {', '.join(AGENTS)}")
    module = AGENTS[agent]
    if preset not in module.PRESETS:
        raise IlbrlError(f"{agent} has no preset {preset!r}: there are {', '.join(module.PRESETS)}")
    configs = config if isinstance(config, (list, tuple)) else [config or module.PRESETS[preset]]
    seeds = list(range(seeds)) if isinstance(seeds, int) else [int(seed) for seed in seeds]
    members = [(c, seed) for c in configs for seed in seeds]
    population, member_seeds = [c for c, _ in members], [seed for _, seed in members]
    if prepared is None:
        require_healthy(data, expert)
        prepared = cast(Prepared, module.prepare(expert, data, population, member_seeds, quiet))
    folder = None if out is None else Path(out)
    fitted = train(
        module,  # pyright: ignore[reportArgumentType]
        population,
        member_seeds,
        prepared.feed,
        prepared.spec,
        updates,
        q_limit=list(divergence_factor * prepared.largest_values(population)),
        resume_from=None if folder is None else folder / "checkpoint.safetensors",
        identity={"agent": agent, "expert": expert.content_hash, "data": data.content_hash},
        log=log if log is not None or folder is None else json_lines(folder / "metrics.jsonl"),
        label=f"training {agent}",
        quiet=quiet,
    )
    origin = {
        "agent": agent,
        "updates": updates,
        "expert": {"source": expert.source, "content_hash": expert.content_hash},
        "data": {"source": data.source, "content_hash": data.content_hash},
        "device": jax.devices()[0].device_kind,
        "versions": versions(),
        "commit": commit(),
    }
    policies = [
        replace(
            export(module.actor_layers(fitted.member(p)), prepared),
            obs_low=np.minimum(expert.observations.min(0), data.observations.min(0)),
            obs_high=np.maximum(expert.observations.max(0), data.observations.max(0)),
            metadata={**origin, "config": asdict(c), "seed": seed, "diverged_at": int(fitted.diverged_at[p])},
        )
        for p, (c, seed) in enumerate(members)
    ]
    files = []
    if folder is not None:
        names = [f"policy-config{c}-seed{seed}.safetensors" for c in range(len(configs)) for seed in seeds]
        files = [policy.save(folder / name) for name, policy in zip(names, policies)]
    return Learned(agent, policies, population, member_seeds, fitted, prepared.labels, files)


def export(layers: Sequence[dict[str, np.ndarray]], prepared: Prepared) -> Policy:
    """The deployable policy of an actor: normaliser and action bounds inside."""
    spec = prepared.spec
    return Policy(
        layers=tuple(Layer(layer["w"], layer["b"], layer.get("scale"), layer.get("shift")) for layer in layers),
        action_low=spec.action_low,
        action_high=spec.action_high,
        obs_mean=spec.obs_mean,
        obs_std=spec.obs_std,
        **prepared.head,
    )
