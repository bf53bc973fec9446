"""Play policies in the environment: the one kind of job that may."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from ilbrl import envs
from ilbrl.policy import Policy
from ilbrl.study.fingerprint import fingerprint
from ilbrl.study.folder import write_json
from ilbrl.study.jobs import Job, Report
from ilbrl.study.logs import Parts
from ilbrl.study.study import Study


def job(study: Study, parts: Parts, entries: Sequence[Mapping[str, Any]], purpose: str) -> Job:
    """entries: {algorithm, configuration, policy_seed, job, policy}, by the ids of the training jobs that made them.

    With the selected policies the policies behind the logs are played too, for comparison.
    """
    references = {role: fingerprint(policy) for role, policy in _behind(parts, purpose).items()}
    return Job(
        "final",
        {
            "task": study.task,
            "episodes": study.final.episodes,
            "environment_seeds": study.final.environment_seeds,
            "policies": [dict(entry) for entry in entries],
            "purpose": purpose,
        }
        | ({"references": references} if references else {}),
        upstream=tuple(sorted({entry["job"] for entry in entries})),
        members=len(entries) + len(references),
    )


def work(inputs: Mapping[str, Any], parts: Parts, upstream: Sequence[Path], folder: Path, report: Report) -> None:
    del report
    envs.import_module_of(inputs["task"])  # the name was checked before the study began, perhaps on another machine
    folders = {path.name: path for path in upstream}
    entries = inputs["policies"]
    policies = [Policy.load(folders[entry["job"]] / entry["policy"]) for entry in entries]
    behind = _behind(parts, inputs["purpose"])
    before = envs.environment_calls(inputs["purpose"])
    returns = play([*policies, *behind.values()], inputs)
    calls = {k: v - asdict(before)[k] for k, v in asdict(envs.environment_calls(inputs["purpose"])).items()}
    names = ("algorithm", "configuration", "policy_seed", "job")
    scores = [{n: entry[n] for n in names} | score(inputs["task"], r) for entry, r in zip(entries, returns)]
    played = (score(inputs["task"], r) for r in returns[len(entries) :])
    references = {
        role: {"true_return": s["return_mean"], "true_score": s["score"], **s} for role, s in zip(behind, played)
    }
    write_json(
        folder / "result.json",
        {
            "episodes": inputs["episodes"],
            "environment_seeds": inputs["environment_seeds"],
            "environment_calls": calls,
            "task": inputs["task"],
            "scores": scores,
            "references": references,
        },
    )


def _behind(parts: Parts, purpose: str) -> dict[str, Any]:
    """Role → the policy behind its logs, where these are played for comparison."""
    return {parts.roles[known.name]: known.policy for known in parts.known} if purpose == "final" else {}


def play(policies: Sequence[Any], inputs: Mapping[str, Any]) -> list[np.ndarray]:
    """[E] returns of each policy, with its mean action: as many episodes of each environment seed as of the others."""
    each = inputs["episodes"] // inputs["environment_seeds"]
    by_seed = [
        list(envs.rollout_all(policies, inputs["task"], each, seed, quiet=True, purpose=inputs["purpose"]))
        for seed in range(inputs["environment_seeds"])
    ]
    return [np.concatenate([played[p].returns for played in by_seed]) for p in range(len(policies))]


def score(task: str, returns: np.ndarray) -> dict[str, Any]:
    normalised = envs.normalised_score(task, returns)
    return {
        "return_mean": float(returns.mean()),
        "return_std": float(returns.std(ddof=1)) if len(returns) > 1 else None,
        "score": None if normalised is None else float(normalised.mean()),
        "episodes": len(returns),
    }
