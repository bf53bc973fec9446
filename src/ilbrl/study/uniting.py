"""The seeds of a selected configuration as one policy: what a study deploys.

A single training is a matter of luck, and offline values do not show whose luck it was: the seed with the highest value
is, in truth, no better than the others. All of them together nearly always are (docs/committees.md). So the file to
deploy is their committee. Where it is valued below the mean of its members, it fails where they do not, and the seed
with the highest value is deployed instead.

One kind of job: `unite` makes the committee, together.safetensors, and values it as its members were.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ilbrl.policy import Policy, committee_of
from ilbrl.results.schema import Chosen, Selection, Together, TuningRecord
from ilbrl.results.tables import Candidate, lowered_mean
from ilbrl.study.estimator import estimate_records
from ilbrl.study.evaluation import preparation_job, value, valuing
from ilbrl.study.jobs import Assignment, Job, read_result
from ilbrl.study.logs import Parts
from ilbrl.study.selection import policy_value
from ilbrl.study.session import Session, do
from ilbrl.study.study import Study

FILE = "together.safetensors"
WIDEST = 2048  # units in a layer of a committee that is deployed unasked: its file has 17 MB then


def unite(
    s: Session, parts: Parts, found: Sequence[Candidate], selection: Selection, tuning: TuningRecord
) -> Selection:
    """The selection, with all seeds of each selected configuration together where they can be one policy."""
    if not s.study.evaluation.together:
        return selection
    jobs: dict[str, Job] = {}
    members: dict[str, list[Candidate]] = {}
    for name, entry in selection.algorithms.items():
        chosen = (name, entry.configuration)
        members[name] = [c for c in found if (c.algorithm, c.configuration) == chosen and not c.diverged]
        if can_be_one(members[name]):
            jobs[name] = unite_job(s.study, parts, members[name], tuning)
    algorithms = dict(selection.algorithms)
    for name, folder in zip(jobs, do(s, parts, list(jobs.values()))):
        together = replace(read_result(folder, Together), job=folder.name)
        entry = algorithms[name]
        algorithms[name] = replace(entry, together=judged(together, entry, members[name], selection.penalty))
    return replace(selection, algorithms=algorithms)


def can_be_one(members: Sequence[Candidate]) -> bool:
    """Whether there are several, whose networks can stand side by side and are not too wide for it."""
    policies = [Policy.load(c.policy) for c in members if c.policy is not None]
    if len(policies) < 2 or any(layer.scale is not None for policy in policies for layer in policy.layers):
        return False
    side_by_side = zip(*(policy.layers for policy in policies))
    return max(sum(layer.units for layer in layers) for layers in side_by_side) <= WIDEST


def judged(together: Together, entry: Chosen, members: Sequence[Candidate], penalty: float) -> Together:
    """Its value, by the evaluations that count for its members too; and whether it is deployed."""
    values = [e.value for e in together.estimates if e.grade in entry.counted and e.value is not None]
    own = lowered_mean(values, penalty)
    alone = [v for c in members if (v := policy_value(c, entry.counted, penalty)) is not None]
    return replace(together, value=own, deployed=own is not None and bool(alone) and own >= float(np.mean(alone)))


def unite_job(study: Study, parts: Parts, members: Sequence[Candidate], tuning: TuningRecord) -> Job:
    prepared, first = preparation_job(study, parts), members[0]
    inputs = {
        "members": [c.policy.name for c in members if c.policy is not None],
        "seeds_of_members": [c.policy_seed for c in members],
        **valuing(study, parts, tuning),
    }
    upstream = [first.job, None if prepared is None else prepared.id]
    updates = (tuning.updates or 0) * len(inputs["seeds"])
    return Job("unite", inputs, upstream=tuple(id for id in upstream if id is not None), updates=updates, members=1)


def unite_seeds(task: Assignment) -> None:
    """The work of a `unite` job."""
    folder, seeds = task.of_kind("train"), task.inputs["seeds_of_members"]
    members = [Policy.load(folder / name) for name in task.inputs["members"]]
    about = {name: told for name, told in members[0].metadata.items() if name != "seed"} | {"seeds": seeds}
    policy = replace(committee_of(members), metadata=about)
    policy.save(task.folder / FILE)
    found = value(task, {FILE: policy})
    estimate = found[FILE]
    task.finish(
        Together(
            seeds=tuple(seeds),
            estimates=estimate_records(found, FILE),
            distance=estimate.distance,
            gain=estimate.gain,
            task_return=estimate.task_return,
        )
    )
