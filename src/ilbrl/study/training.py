"""Phase 3: rows are labelled once, and every configuration × policy seed of every algorithm is trained.

Two kinds of job: `label` searches the soft-support labels of the training part, and `train` trains one group of
configurations × policy seeds of one algorithm as one population (where it weighs by agreement, it searches for the
distances of states itself). Both read the training part alone, and the steps that
were imagined from it where an algorithm asks for them (imagining.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import jax
import numpy as np

from ilbrl.agents import AGENTS
from ilbrl.agents.agent import prepare
from ilbrl.agents.fit import Learned, fit, trainings
from ilbrl.base.errors import IlbrlError
from ilbrl.base.provenance import versions
from ilbrl.base.records import from_json, to_plain, write_csv
from ilbrl.data import concatenate
from ilbrl.learning.loggers import json_lines, together
from ilbrl.learning.spec import Spec
from ilbrl.results.folder import remedy
from ilbrl.results.schema import LabelsRecord, TrainedMember, TrainedRecord
from ilbrl.results.tables import CurveRow
from ilbrl.rewards import Labels, soft_support
from ilbrl.rewards.ends import settled
from ilbrl.study.imagining import imagination_job, training_logs
from ilbrl.study.jobs import Assignment, Job, counted, read_result
from ilbrl.study.logs import PARTS_OF_TRAINING, Parts
from ilbrl.study.search import Configuration, draw, grouped
from ilbrl.study.study import Study

BINS = np.linspace(0, 1, 41)
POINTS = 200  # of a curve
PASSES, MINIBATCH = 200, 256  # through the training rows, where a study does not say how many updates
FEWEST_UPDATES, MOST_UPDATES = 10_000, 100_000


# --- labels -----------------------------------------------------------------------------------------------------------


def label_job(parts: Parts, imagined: Job | None = None) -> Job:
    """imagined: the job whose steps are labelled too."""
    data = {name: parts.hashes[name] for name in PARTS_OF_TRAINING}
    return Job("label", {"data": data}, upstream=() if imagined is None else (imagined.id,))


def label_rows(task: Assignment) -> None:
    """The work of a `label` job: labels.npz, and their summary for data.json."""
    split = task.parts.composition
    logs = training_logs(task)
    spec = Spec.of(concatenate([split.training_expert.as_expert(), logs]))
    labels = soft_support.label_steps(split.training_expert, logs, spec, quiet=True)
    labels.save(task.folder / "labels.npz")
    task.finish(summary(labels))


def summary(labels: Labels) -> LabelsRecord:
    """Histograms and coverage. The expert is covered where one of its steps is the nearest of some logged step."""
    expert, logs = np.split(labels.reward, [labels.expert_rows])
    nearest = labels.nearest[labels.expert_rows :]
    nearest = np.unique(nearest[nearest >= 0])  # −1: the expert never takes that discrete action
    return LabelsRecord(
        d_max=labels.d_max,
        bins=tuple(BINS.tolist()),
        expert=tuple(np.histogram(expert, BINS)[0].tolist()),
        logs=tuple(np.histogram(logs, BINS)[0].tolist()),
        coverage={"covered_share": len(nearest) / labels.expert_rows, "mean_reward": float(logs.mean())},
    )


# --- training ---------------------------------------------------------------------------------------------------------


def updates_of(study: Study, parts: Parts) -> int:
    """Of each member: what the study says, or what suits the rows there are."""
    if study.training.updates is not None:
        return study.training.updates
    rows = len(parts.composition.training_expert) + len(parts.composition.training_logs)
    fitting = PASSES * rows / MINIBATCH
    return int(np.clip(round(fitting, -3), FEWEST_UPDATES, MOST_UPDATES))


def training_jobs(study: Study, parts: Parts) -> list[Job]:
    """One per group of configurations that one compiled program can train."""
    drawn = [draw(study.search, algorithm, study.seed, parts.discrete) for algorithm in study.search.algorithms]
    return [
        training_job(study, parts, group)
        for configurations in drawn
        for group in grouped(configurations, study.trainings_per_configuration, study.training.members_per_job)
    ]


def jobs_before_training(study: Study, parts: Parts) -> list[Job]:
    """What training jobs build on beside the labels of the logs, in order."""
    imagined = imagination_job(study, parts, updates_of(study, parts))
    if imagined is None:
        return []
    labelled = any(map(_is_labelled, study.training.imagine))
    return [imagined, label_job(parts, imagined)] if labelled else [imagined]


def training_job(study: Study, parts: Parts, group: Sequence[Configuration]) -> Job:
    members = len(group) * study.trainings_per_configuration
    algorithm, updates = group[0].algorithm, updates_of(study, parts)
    imagined = imagination_job(study, parts, updates) if algorithm in study.training.imagine else None
    upstream = [label_job(parts, imagined)] if _is_labelled(algorithm) else []
    return Job(
        "train",
        {
            "algorithm": algorithm,
            "configurations": [
                {"number": c.number, "hyperparameters": to_plain(c.hyperparameters), "config": to_plain(c.config)}
                for c in group
            ],
            "seeds": study.policy_seeds,
            "committee": study.training.committee,
            "updates": updates,
            "divergence_factor": study.training.divergence_factor,
            "data": {name: parts.hashes[name] for name in PARTS_OF_TRAINING},
        },
        upstream=tuple(job.id for job in (*upstream, imagined) if job is not None),
        updates=members * updates,
        members=members,
    )


def train_group(task: Assignment) -> None:
    """The work of a `train` job: policies, metrics.jsonl, curves.csv."""
    algorithm, seeds, asked = task.inputs["algorithm"], task.inputs["seeds"], task.inputs["configurations"]
    agent, split = AGENTS[algorithm], task.parts.composition
    configs = [from_json(agent.Config, c["config"], f"a training job of {algorithm}") for c in asked]
    configs = [settled(c, split.training_expert, split.training_logs) for c in configs]
    labels = Labels.load(task.of_kind("label") / "labels.npz") if _is_labelled(algorithm) else None
    members_of = trainings(configs, seeds, task.inputs["committee"])
    expert, logs, updates = split.training_expert, training_logs(task), task.inputs["updates"]
    learned = fit(
        algorithm,
        expert,
        logs,
        config=configs,
        seeds=seeds,
        committee=task.inputs["committee"],
        updates=updates,
        divergence_factor=task.inputs["divergence_factor"],
        out=task.folder,
        log=together(json_lines(task.folder / "metrics.jsonl"), counted(task.report)),
        # prepared here, because the doctor has seen these logs before they were split
        prepared=prepare(agent, expert, logs, *members_of, labels=labels, updates=updates, quiet=True),
        quiet=True,
    )
    members = []
    for p, (c, seed) in enumerate((c, seed) for c in asked for seed in seeds):
        name = f"configuration{c['number']}-seed{seed}.safetensors"
        learned.files[p].rename(task.folder / name)
        members.append(TrainedMember(c["number"], seed, c["hyperparameters"], name, int(learned.diverged_at[p])))
    write_csv(task.folder / "curves.csv", CurveRow, _curves(algorithm, members, learned))
    task.finish(
        TrainedRecord(
            algorithm,
            tuple(members),
            updates,
            learned.fitted.seconds / len(members),
            jax.devices()[0].device_kind,
            versions(),
        )
    )


def read_trained(folder: Path) -> TrainedRecord:
    """The result of a `train` job. Its names become paths, so they are refused unless they are plain."""
    found = read_result(folder, TrainedRecord)
    names = [member.policy for member in found.members]
    if found.algorithm not in AGENTS or any(Path(name).name != name for name in names):
        raise IlbrlError(
            f"{folder / 'result.json'}: names what is no algorithm or no file of its job; {remedy(folder)}"
        )
    return found


def _is_labelled(algorithm: str) -> bool:
    """Whether the algorithm is rewarded by soft support, which the `label` job has searched already."""
    return AGENTS[algorithm].reward is soft_support.REWARD


def _curves(algorithm: str, members: Sequence[TrainedMember], learned: Learned) -> Iterator[CurveRow]:
    metrics = learned.metrics
    points = np.unique(np.linspace(0, len(metrics["update"]) - 1, POINTS).astype(int)) if metrics else []
    for p, member in enumerate(members):
        key = (algorithm, member.configuration, member.policy_seed)
        for name, values in metrics.items():
            if name != "update":
                for i in points:
                    yield CurveRow(*key, int(metrics["update"][i]), name, float(f"{values[i, p]:.6g}"))
