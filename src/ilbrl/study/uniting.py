"""The seeds of a selected configuration as one policy: what a study deploys.

A single training is a matter of luck, and offline values hardly show whose luck it was. All seeds together are better
than one of them is on average, in four cases of five (docs/results.md). So the file to deploy is their committee,
unless the estimator speaks against it: it gave no value that counts, or one that is below its members' by more than
they differ, that is below their median by more than the standard error of their mean. The same models value them all,
so that what models differ by is no doubt about the difference, and one model that sees the committee fail is enough.
Then the seed with the highest value is deployed.

The algorithm, too, is chosen by the values of what would be deployed.

One kind of job: `unite` makes the committee, and values it as its members were.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ilbrl.data.checks import counted
from ilbrl.policy import Policy, committee_of
from ilbrl.results.schema import Chosen, Committee, Rule, Selection, TuningRecord
from ilbrl.results.tables import Candidate, committee_as_candidate
from ilbrl.study.estimator import valuation_of
from ilbrl.study.evaluation import preparation_job, value_policies, valuing_inputs
from ilbrl.study.jobs import Assignment, Job, read_result
from ilbrl.study.logs import Parts
from ilbrl.study.selection import among_algorithms, chosen_candidates, has_converged, policy_value
from ilbrl.study.session import Session, do
from ilbrl.study.study import Study

FILE = "committee.safetensors"
WIDEST = 2048  # units in a layer of a committee that is deployed unasked: 17 MB for each two layers of that width


def unite(
    s: Session, parts: Parts, found: Sequence[Candidate], selection: Selection, tuning: TuningRecord
) -> Selection:
    """The selection, which says whose policy each algorithm deploys, and why, by whose value it goes between them."""
    started, algorithms = time.monotonic(), dict(selection.algorithms)
    jobs, members = dict[str, Job](), dict[str, list[Candidate]]()
    for name, entry in selection.algorithms.items():
        if entry.configuration is None:
            continue
        members[name] = [c for c in chosen_candidates(found, selection) if c.algorithm == name]
        apart = why_apart(members[name]) if s.study.evaluation.together else "as the study asks for"
        if apart is None:
            jobs[name] = unite_job(s.study, parts, members[name], tuning)
        else:
            algorithms[name] = replace(entry, file=f"seed {entry.best_seed}, {apart}")
    for name, folder in zip(jobs, do(s, parts, list(jobs.values()))):
        committee, entry = replace(read_result(folder, Committee), job=folder.name), algorithms[name]
        algorithms[name] = with_committee(name, entry, committee, members[name], selection.rule, selection.penalty)
    if jobs:
        s.finished("evaluation", f"the seeds of {counted(len(jobs), 'choice')} together", started)
    return among_algorithms(replace(selection, algorithms=algorithms), found)


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


def with_committee(
    algorithm: str, entry: Chosen, committee: Committee, members: Sequence[Candidate], rule: Rule, penalty: float
) -> Chosen:
    """The entry, with the committee's value, by the evaluations that count for its members too, and who is deployed."""
    whole = committee_as_candidate(algorithm, entry, committee, penalty)
    value = policy_value(whole, entry.counted, penalty)
    if rule == "converged" and not has_converged(whole, entry.counted):
        value = None
    alone = [v for c in members if (v := policy_value(c, entry.counted, penalty)) is not None]
    deployed = value is not None and value >= _least(alone)
    made = replace(committee, value=value, value_std_error=whole.offline_std_error, deployed=deployed)
    several = f"{len(members)} seeds"
    if value is None:
        file = f"seed {entry.best_seed}, for its {several} together have no value that counts"
    elif not deployed:
        less = f"at {value:.4g}, below their median by themselves ({np.median(alone):.4g}) by more than they differ"
        file = f"seed {entry.best_seed}, for its {several} together are valued {less}"
    else:
        file = f"its {several} together, valued at {value:.4g} (by themselves at {np.mean(alone):.4g} on average)"
    return replace(entry, committee=made, file=file)


def _least(alone: Sequence[float]) -> float:
    """What a committee of policies with these values has to be worth."""
    if len(alone) < 2:
        return max(alone, default=-np.inf)
    return float(np.median(alone) - np.std(alone, ddof=1) / np.sqrt(len(alone)))


def unite_job(study: Study, parts: Parts, members: Sequence[Candidate], tuning: TuningRecord) -> Job:
    prepared, first = preparation_job(study, parts), members[0]
    inputs = {
        "members": [c.policy.name for c in members if c.policy is not None],
        "seeds_of_members": [c.policy_seed for c in members],
        **valuing_inputs(study, parts, tuning),
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
    task.finish(Committee(tuple(seeds), valuation_of(value_policies(task, {FILE: policy}), FILE)))
