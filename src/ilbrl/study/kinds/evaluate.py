"""Estimate the value of every policy of one training job, from logs alone, with the tuned evaluator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ilbrl import ope
from ilbrl.learning.batches import Spec
from ilbrl.policy import Policy
from ilbrl.study.evaluator import EVALUATION_PARTS
from ilbrl.study.folder import read_json, write_csv, write_json
from ilbrl.study.jobs import Job, Report
from ilbrl.study.logs import Parts
from ilbrl.study.study import Study
from ilbrl.study.tables import VALUES
from ilbrl.study.updates import counted


def job(study: Study, parts: Parts, trained: Job, setting: ope.Setting, setting_id: Any, updates: int) -> Job:
    """The job that evaluates what `trained` trains."""
    members = trained.members * len(study.evaluation_seeds)
    return Job(
        "evaluate",
        {
            "setting": setting.as_dict(),
            "setting_id": setting_id,
            "seeds": study.evaluation_seeds,
            "updates": updates,
            "data": {name: parts.hashes[name] for name in EVALUATION_PARTS},
        },
        upstream=(trained.id,),
        updates=members * updates,
        members=members,
    )


def work(inputs: Mapping[str, Any], parts: Parts, upstream: Sequence[Path], folder: Path, report: Report) -> None:
    """Policies whose training diverged are left out: they cannot be selected whatever they are worth."""
    result = read_json(upstream[0] / "result.json")
    sound = [m for m in result["members"] if m["diverged_at"] < 0]
    setting = ope.Setting.from_dict(inputs["setting"])
    estimates, values = [], []
    if sound:
        data = ope.EvaluationData.of_composition(
            parts.composition, [setting.expert_fraction], Spec.of(parts.composition.training)
        )
        policies = {m["policy"]: Policy.load(upstream[0] / m["policy"]) for m in sound}
        evaluation = ope.evaluate(
            policies,
            data,
            [setting],
            inputs["seeds"],
            inputs["updates"],
            resume_from=folder / "checkpoint.safetensors",
            log=counted(report),
            quiet=True,
        )
        distances = ope.distances_from_data(policies, data, setting.expert_fraction)
        member_of = {m["policy"]: m for m in sound}
        for e in evaluation.estimates:
            m = member_of[e.policy]
            candidate = (result["algorithm"], m["configuration"], m["policy_seed"])
            estimates.append(
                dict(zip(("algorithm", "configuration", "policy_seed"), candidate))
                | {
                    "evaluation_seed": e.seed,
                    "value": None if e.verdict == "diverged" else float(e.value),
                    "verdict": e.verdict,
                    "decided_at": None if e.decided_at is None else int(e.decided_at),
                    "distance": distances[e.policy],
                }
            )
            curve = ["candidates", "", "", *candidate, inputs["setting_id"], e.seed]
            values += [[*curve, int(update), f"{value:.6g}"] for update, value in zip(e.updates, e.values)]
    write_csv(folder / "values.csv", VALUES, values)
    write_json(folder / "result.json", {"estimates": estimates})
