"""The seeds of a selected configuration as one policy: what a study deploys.

A single training is a matter of luck, and offline values do not show whose luck it was: the seed with the highest value
is, in truth, no better than the others. All of them together are better than one of them is on average, in four cases
of five (docs/results.md). So the file to deploy is their committee, unless the estimator speaks against it: it gave no
value that counts, or one below the mean of the members by more than its own evaluations differ. Then the seed with
the highest value is deployed.

One kind of job: `unite` makes the committee, and values it as its members were.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ilbrl.policy import Policy, committee_of
from ilbrl.results.schema import Chosen, Committee, Rule, Selection, TuningRecord
from ilbrl.results.tables import Candidate, committee_as_candidate
from ilbrl.study.estimator import estimate_records
from ilbrl.study.evaluation import preparation_job, value, valuing
from ilbrl.study.jobs import Assignment, Job, read_result
from ilbrl.study.logs import Parts
from ilbrl.study.selection import has_converged, policy_value
from ilbrl.study.session import Session, do
from ilbrl.study.study import Study

FILE = "committee.safetensors"
WIDEST = 2048  # units in a layer of a committee that is deployed unasked: 17 MB for each two layers of that width


def unite(
    s: Session, parts: Parts, found: Sequence[Candidate], selection: Selection, tuning: TuningRecord
) -> Selection:
    """The selection, which says of each algorithm whose policy is deployed, and why."""
    algorithms, jobs, members = dict(selection.algorithms), dict[str, Job](), dict[str, list[Candidate]]()
    for name, entry in selection.algorithms.items():
        if entry.configuration is None:
            continue
        chosen = (name, entry.configuration)
        members[name] = [c for c in found if (c.algorithm, c.configuration) == chosen and not c.diverged]
        apart = why_apart(members[name]) if s.study.evaluation.together else "as the study asks for"
        if apart is None:
            jobs[name] = unite_job(s.study, parts, members[name], tuning)
        else:
            algorithms[name] = replace(entry, file=f"seed {entry.best_seed}, {apart}")
    for name, folder in zip(jobs, do(s, parts, list(jobs.values()))):
        committee, entry = replace(read_result(folder, Committee), job=folder.name), algorithms[name]
        algorithms[name] = judged(name, entry, committee, members[name], selection.rule, selection.penalty)
    return replace(selection, algorithms=algorithms)


def why_apart(members: Sequence[Candidate]) -> str | None:
    """Why these are not made one policy; None: they can be."""
    policies = [Policy.load(c.policy) for c in members if c.policy is not None]
    if len(policies) < 2:
        return "the only one"
    if any(layer.scale is not None for policy in policies for layer in policy.layers):
        return "for networks with LayerNorm cannot stand side by side"
    hidden = zip(*(policy.layers[:-1] for policy in policies))
    widest = max((sum(layer.units for layer in layers) for layers in hidden), default=0)
    return None if widest <= WIDEST else f"for side by side their layers have {widest:,} units, more than {WIDEST:,}"


def judged(
    algorithm: str, entry: Chosen, committee: Committee, members: Sequence[Candidate], rule: Rule, penalty: float
) -> Chosen:
    """The entry, with the committee's value, by the evaluations that count for its members too, and who is deployed."""
    whole = committee_as_candidate(algorithm, entry, committee, penalty)
    value = policy_value(whole, entry.counted, penalty)
    if rule == "converged" and not has_converged(whole, entry.counted):
        value = None
    alone = [v for c in members if (v := policy_value(c, entry.counted, penalty)) is not None]
    error = whole.offline_std_error
    below = value is None or not alone or value < np.mean(alone) - (error or 0.0)
    made = replace(committee, value=value, value_std_error=error, deployed=not below)
    several = f"{len(members)} seeds"
    if value is None:
        file = f"seed {entry.best_seed}, for its {several} together have no value that counts"
    elif below:
        why = f"at {value:.4g}, below their mean ({np.mean(alone):.4g}) by more than its evaluations differ"
        file = f"seed {entry.best_seed}, for its {several} together are valued {why}"
    else:
        file = f"its {several} together, valued at {value:.4g} (by themselves at {np.mean(alone):.4g} on average)"
    return replace(entry, committee=made, file=file)


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
        Committee(
            seeds=tuple(seeds),
            estimates=estimate_records(found, FILE),
            distance=estimate.distance,
            gain=estimate.gain,
            task_return=estimate.task_return,
        )
    )
