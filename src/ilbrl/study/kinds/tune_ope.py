"""Tune the off-policy evaluator on the known policies (Algorithm 2, phase 2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ilbrl import ope
from ilbrl.learning.batches import Spec
from ilbrl.study.evaluator import EVALUATION_PARTS, settings_of
from ilbrl.study.fingerprint import fingerprint
from ilbrl.study.folder import write_csv, write_json
from ilbrl.study.jobs import Job, Report
from ilbrl.study.logs import Parts
from ilbrl.study.study import Study
from ilbrl.study.tables import VALUES
from ilbrl.study.updates import counted


def job(study: Study, parts: Parts) -> Job:
    settings = settings_of(study.evaluation)
    members = len(settings) * len(parts.known) * len(study.evaluation_seeds)
    return Job(
        "tune-ope",
        {
            "settings": [setting.as_dict() for setting in settings],
            "known": {
                known.name: {
                    "policy": fingerprint(known.policy),
                    "variant": known.variant,
                    "episodes": known.episodes.content_hash,
                }
                for known in parts.known
            },
            "seeds": study.evaluation_seeds,
            "updates": study.evaluation.evaluation_updates,
            "data": {name: parts.hashes[name] for name in EVALUATION_PARTS},
        },
        updates=members * study.evaluation.evaluation_updates,
        members=members,
    )


def work(inputs: Mapping[str, Any], parts: Parts, upstream: Sequence[Path], folder: Path, report: Report) -> None:
    del upstream
    settings = [ope.Setting.from_dict(table) for table in inputs["settings"]]
    data = ope.EvaluationData.of_composition(
        parts.composition, [s.expert_fraction for s in settings], Spec.of(parts.composition.training)
    )
    tuning = ope.tune(
        parts.known,
        data,
        settings,
        inputs["seeds"],
        inputs["updates"],
        resume_from=folder / "checkpoint.safetensors",
        log=counted(report),
        quiet=True,
    )
    values = [
        ["tuning", e.policy, "", "", "", "", e.setting, e.seed, int(update), f"{value:.6g}"]
        for e in tuning.evaluation.estimates
        for update, value in zip(e.updates, e.values)
    ]
    write_csv(folder / "values.csv", VALUES, values)
    write_json(folder / "result.json", tuning.to_json())
