"""Train one group of configurations × policy seeds of one algorithm, as one population."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import jax
import numpy as np

from ilbrl.agents import AGENTS
from ilbrl.agents.agent import prepare
from ilbrl.agents.fit import Learned, fit
from ilbrl.base.provenance import versions
from ilbrl.learning.loggers import json_lines, together
from ilbrl.study.folder import write_csv, write_json
from ilbrl.study.jobs import Job, Report
from ilbrl.study.logs import Parts
from ilbrl.study.search import Configuration
from ilbrl.study.study import Study
from ilbrl.study.tables import CURVES
from ilbrl.study.updates import counted

POINTS = 200  # of a curve


def job(study: Study, parts: Parts, group: Sequence[Configuration]) -> Job:
    """The job that trains a group; it reads the training part alone."""
    members = len(group) * study.training.seeds
    return Job(
        "train",
        {
            "algorithm": group[0].algorithm,
            "configurations": [
                {"number": c.number, "hyperparameters": c.hyperparameters, "config": asdict(c.config)} for c in group
            ],
            "seeds": study.policy_seeds,
            "updates": study.training.updates,
            "divergence_factor": study.training.divergence_factor,
            "data": {name: parts.hashes[name] for name in ("training_expert", "training_logs")},
        },
        updates=members * study.training.updates,
        members=members,
    )


def work(inputs: Mapping[str, Any], parts: Parts, upstream: Sequence[Path], folder: Path, report: Report) -> None:
    del upstream
    algorithm, seeds = inputs["algorithm"], inputs["seeds"]
    configs = [_config(algorithm, c["config"]) for c in inputs["configurations"]]
    expert, exploratory = parts.composition.training_expert, parts.composition.training_logs
    population = [(c, seed) for c in configs for seed in seeds]
    prepared = prepare(AGENTS[algorithm], expert, exploratory, *zip(*population), quiet=True)
    learned = fit(
        algorithm,
        expert,
        exploratory,
        config=configs,
        seeds=seeds,
        updates=inputs["updates"],
        divergence_factor=inputs["divergence_factor"],
        out=folder,
        log=together(json_lines(folder / "metrics.jsonl"), counted(report)),
        prepared=prepared,  # the doctor has seen these logs before they were split
        quiet=True,
    )
    members = [
        {
            "configuration": c["number"],
            "policy_seed": seed,
            "hyperparameters": c["hyperparameters"],
            "policy": f"configuration{c['number']}-seed{seed}.safetensors",
        }
        for c in inputs["configurations"]
        for seed in seeds
    ]
    for p, (member, file) in enumerate(zip(members, learned.files)):
        member["diverged_at"] = int(learned.fitted.diverged_at[p])
        file.rename(folder / member["policy"])
    write_csv(folder / "curves.csv", CURVES, _curves(algorithm, members, learned))
    write_json(
        folder / "result.json",
        {
            "algorithm": algorithm,
            "members": members,
            "updates": inputs["updates"],
            "seconds": learned.fitted.seconds / len(members),
            "device": jax.devices()[0].device_kind,
            "versions": versions(),
        },
    )


def _config(algorithm: str, values: Mapping[str, Any]) -> Any:
    """The agent's Config from JSON, which has lists for tuples."""
    return AGENTS[algorithm].Config(**{k: tuple(v) if isinstance(v, list) else v for k, v in values.items()})


def _curves(algorithm: str, members: Sequence[Mapping[str, Any]], learned: Learned) -> list[list[Any]]:
    metrics = learned.fitted.metrics
    points = np.unique(np.linspace(0, len(metrics["update"]) - 1, POINTS).astype(int)) if metrics else []
    return [
        [
            algorithm,
            member["configuration"],
            member["policy_seed"],
            int(metrics["update"][i]),
            name,
            f"{values[i, p]:.6g}",
        ]
        for p, member in enumerate(members)
        for name, values in metrics.items()
        if name != "update"
        for i in points
    ]
