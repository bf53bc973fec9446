"""Phases 2 and 4: an estimator is calibrated on the known policies, then it values every candidate, from logs alone.

Four kinds of job: `prepare` does what depends on no policy (the models of a data set), once; `clone` makes a clone of
each log, where no policy is known; `calibrate` tries settings on the known policies, or on the clones, and judges the
chosen one; `evaluate` values the policies of one training job.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from ilbrl import ope
from ilbrl.agents import AGENTS
from ilbrl.base.records import from_json, to_plain, write_csv
from ilbrl.ope.policies import CLONING
from ilbrl.policy import Policy
from ilbrl.results.schema import EvaluatedPolicy, EvaluatedRecord, TrainedRecord, TuningRecord
from ilbrl.results.tables import ValueRow
from ilbrl.study.estimator import changes_of, estimator_of, tuning_record, valuation_of, with_settings
from ilbrl.study.jobs import Assignment, Job, counted, fingerprint
from ilbrl.study.logs import Parts
from ilbrl.study.search import ranges_of
from ilbrl.study.study import Study
from ilbrl.study.training import updates_of


def _data(parts: Parts) -> dict[str, str]:
    """All parts, for models learn from the training data too; and whether closeness counts although the logs carry
    rewards."""
    return parts.hashes | ({"reward": "intrinsic"} if parts.intrinsic else {})


def preparation_job(study: Study, parts: Parts) -> Job | None:
    """None: the estimator has nothing to prepare."""
    chosen = estimator_of(study)
    if chosen.estimator.prepare is None:
        return None
    updates = chosen.estimator.preparation(chosen.config, chosen.seeds)
    return Job("prepare", chosen.inputs | {"data": _data(parts)}, updates=updates)


def cloning_job(study: Study, parts: Parts) -> Job | None:
    """None: policies are known, and no clone has to stand in for them."""
    if parts.known:
        return None
    inputs = {
        "updates": min(CLONING, updates_of(study, parts)),  # never more than a candidate's
        "config": to_plain(cloning_config(study)),
        "seed": study.policy_seeds[0],
        "data": _data(parts),
    }
    logs = len(parts.evidence.logs)
    return Job("clone", inputs, updates=logs * inputs["updates"], members=logs)


def cloning_config(study: Study) -> Any:
    """That of behaviour cloning, with networks as large as the study's."""
    hidden, usual = ranges_of(study.search, "bc").get("hidden"), AGENTS["bc"].presets["default"]
    return usual if hidden is None else replace(usual, hidden=hidden.draw(0.0))


def jobs_before(study: Study, parts: Parts) -> list[Job]:
    """What a calibration builds on."""
    return [job for job in (preparation_job(study, parts), cloning_job(study, parts)) if job is not None]


def calibration_job(study: Study, parts: Parts) -> Job:
    chosen, prepared = estimator_of(study), preparation_job(study, parts)
    makers = [known.log for known in parts.known] or list(parts.evidence.logs)
    policies = len(makers)
    settings = chosen.estimator.choices(chosen.config, parts.evidence).configs
    valued = policies * sum(chosen.estimator.updates(c, chosen.seeds) for c in settings)
    # a preparation more for each known policy, of evidence without its own logs
    left = [log for log in set(makers) if log is not None and parts.evidence.without(log) is not None]
    unseen = 0 if prepared is None or not chosen.blind else prepared.updates * len(left)
    return Job(
        "calibrate",
        chosen.inputs
        | {
            "settings": dict(study.evaluation.settings),
            "blind": chosen.blind,
            "known": {
                known.name: {
                    "policy": fingerprint(known.policy),
                    "variant": known.variant,
                    "episodes": known.episodes.content_hash,
                    "log": known.log,
                }
                for known in parts.known
            },
            "data": _data(parts),
        },
        upstream=tuple(job.id for job in jobs_before(study, parts)),
        updates=valued + unseen,
        members=policies * len(settings) * len(chosen.seeds),
    )


def evaluation_job(study: Study, parts: Parts, trained: Job, tuning: TuningRecord) -> Job:
    """The job that values what `trained` trains, with the configuration that the calibration has chosen."""
    prepared = preparation_job(study, parts)
    members = trained.members // trained.inputs["committee"] * len(estimator_of(study).seeds)
    return Job(
        "evaluate",
        valuing_inputs(study, parts, tuning),
        upstream=(trained.id,) if prepared is None else (trained.id, prepared.id),
        updates=members * (tuning.updates or 0),
        members=members,
    )


def valuing_inputs(study: Study, parts: Parts, tuning: TuningRecord) -> dict[str, Any]:
    """In the inputs of a job that values policies: the estimator as the calibration has set it, and its evidence."""
    return {
        **estimator_of(study).inputs,
        "config": tuning.config,
        "setting": tuning.chosen,
        "data": _data(parts),
    }


# --- their work -------------------------------------------------------------------------------------------------------


def prepare_estimator(task: Assignment) -> None:
    estimator, config = _read(task.inputs)
    assert estimator.prepare is not None
    estimator.prepare(
        task.parts.evidence,
        [config],
        task.inputs["seeds"],
        workplace=task.folder,
        log=counted(task.report),
        quiet=True,
    )
    task.finish({"estimator": estimator.name})


def clone_logs(task: Assignment) -> None:
    """A policy file for each log."""
    inputs = task.inputs
    config = from_json(AGENTS["bc"].Config, inputs["config"], "a cloning job")
    for clone in ope.clones(task.parts.evidence, inputs["updates"], inputs["seed"], config, quiet=True):
        assert isinstance(clone.policy, Policy)
        clone.policy.save(_file(task.folder, clone.log))
        task.report(inputs["updates"])
    task.finish({"clones": list(task.parts.evidence.logs)})


def _file(folder: Path, log: str | None) -> Path:
    return folder / f"{log}.safetensors"


def calibrate_estimator(task: Assignment) -> None:
    """result.json is tuning.json; values.csv has the known policies' values over updates."""
    estimator, config = _read(task.inputs)
    changes = changes_of(estimator.Config, task.inputs["settings"])
    evidence, known = task.parts.evidence, task.parts.known
    if not known:
        folder = task.of_kind("clone")
        known = [ope.clone_of(log, Policy.load(_file(folder, log)), evidence) for log in evidence.logs]
    found = ope.calibrate(
        known,
        evidence,
        with_settings(estimator, changes),
        config,
        task.inputs["seeds"],
        blind=task.inputs["blind"],
        workplace=_workplace(task),
        log=counted(task.report),
        quiet=True,
    )
    rows = [
        row
        for number, tried in enumerate(found.table)
        for row in _value_rows(tried.traces, number, lambda name: {"stage": "tuning", "policy": name})
    ]
    write_csv(task.folder / "values.csv", ValueRow, rows)
    task.finish(tuning_record(found))


def evaluate_group(task: Assignment) -> None:
    """Policies whose training diverged are left out: they cannot be selected whatever they are worth."""
    trained, folder = task.result("train", TrainedRecord), task.of_kind("train")
    members = {m.policy: m for m in trained.members if m.diverged_at < 0}
    judged, rows = [], []
    if members:
        found = value_policies(task, {name: Policy.load(folder / name) for name in members})
        for name, member in members.items():
            key = (trained.algorithm, member.configuration, member.policy_seed)
            judged.append(EvaluatedPolicy(*key, valuation_of(found, name)))

        def whose(name: str) -> dict[str, Any]:
            m = members[name]
            key = {"algorithm": trained.algorithm, "configuration": m.configuration, "policy_seed": m.policy_seed}
            return {"stage": "candidates", **key}

        rows = _value_rows(found.traces, task.inputs["setting"], whose)
    write_csv(task.folder / "values.csv", ValueRow, rows)
    task.finish(EvaluatedRecord(tuple(judged)))


def value_policies(task: Assignment, policies: Mapping[str, Policy]) -> ope.Estimates:
    """As the job's inputs say (`valuing_inputs`)."""
    estimator, config = _read(task.inputs)
    return ope.estimate(
        policies, task.parts.evidence, estimator, config, task.inputs["seeds"],
        workplace=_workplace(task), log=counted(task.report), quiet=True,
    )  # fmt: skip


def _read(inputs: Mapping[str, Any]) -> tuple[ope.Estimator, Any]:
    estimator = ope.find(inputs["estimator"])
    return estimator, from_json(estimator.Config, inputs["config"], f"a job of {estimator.name}")


def _workplace(task: Assignment) -> Path:
    """A folder that goes when the job is finished, in which the estimator finds what was prepared."""
    place = task.folder / "checkpoints"
    place.mkdir(exist_ok=True)
    for id, prepared in task.upstream.items():
        if id.startswith("prepare-"):
            shutil.copytree(prepared, place, dirs_exist_ok=True)
    return place


def _value_rows(
    traces: Mapping[str, ope.Trace], setting: Any, whose: Callable[[str], dict[str, Any]]
) -> Iterator[ValueRow]:
    """The course of every value, where the estimator has one to show; `whose`: policy → its columns."""
    for name, trace in traces.items():
        empty = dict.fromkeys(("policy", "algorithm", "configuration", "policy_seed"))
        columns = {**empty, **whose(name), "ope_configuration": str(setting)}
        for seed, values in zip(trace.seeds, trace.values):
            for update, value in zip(trace.updates, values):
                yield ValueRow(**columns, evaluation_seed=int(seed), update=int(update), value=float(f"{value:.6g}"))
