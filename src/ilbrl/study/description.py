"""data.json: what the logs hold, what the doctor found, how they were split, and how good they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ilbrl import envs
from ilbrl.data import Dataset
from ilbrl.data.benchmark import measured_returns
from ilbrl.data.doctor import Finding
from ilbrl.data.loading import parse
from ilbrl.study.logs import PARTS, Logs, Parts
from ilbrl.study.study import Study

SHOWN = 500  # returns listed at most


def describe(
    study: Study, logs: Logs, findings: Mapping[str, Sequence[Finding]], parts: Parts, labels: Mapping[str, Any]
) -> dict[str, Any]:
    return {
        "datasets": {role: _dataset(role, data, findings[role]) for role, data in logs.by_role.items()},
        "splits": {name: _size(getattr(parts.composition, name)) for name in PARTS},
        "notes": list(parts.composition.notes),
        "labels": dict(labels),
        "references": {role: _reference(study, data) for role, data in logs.by_role.items()},
    }


def _dataset(role: str, data: Dataset, findings: Sequence[Finding]) -> dict[str, Any]:
    returns = _returns(data)
    shown = returns[np.linspace(0, len(returns) - 1, min(SHOWN, len(returns))).astype(int)]
    return {
        "role": role,
        "source": data.source,
        **_size(data),
        "return_mean": float(returns.mean()) if len(returns) else None,
        "return_std": float(returns.std(ddof=1)) if len(returns) > 1 else None,
        "returns": [float(f"{value:.6g}") for value in shown],
        "length_mean": float(data.episode_lengths.mean()),
        "findings": [_finding(finding) for finding in findings],
    }


def _finding(finding: Finding) -> dict[str, Any]:
    where = finding.field if finding.row is None else f"{finding.field or 'data'}, row {finding.row}"
    return {"level": finding.grade, "what": finding.message, "where": where, "remedy": None}


def _size(data: Dataset) -> dict[str, int]:
    return {"transitions": len(data), "episodes": data.num_episodes}


def _returns(data: Dataset) -> np.ndarray:
    """[·] of complete episodes; none where the logs have no rewards."""
    return np.zeros(0) if data.rewards is None else data.returns()[data.complete]


def _reference(study: Study, data: Dataset) -> dict[str, Any]:
    """Logged return and score, and the true score of the policy behind a built-in log, as the package measured it."""
    returns = _returns(data)
    logged = float(returns.mean()) if len(returns) else None
    score = None if logged is None or study.task is None else envs.normalised_score(study.task, logged)
    measured = measured_returns()["policies"].get(parse(data.source).where)
    return {
        "logged_return": logged,
        "logged_score": None if score is None else float(score),
        "true_score": None if measured is None else measured["deterministic"]["score_mean"],
    }
