"""The tables of the run folder (docs/runs.md), assembled from the results of jobs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ilbrl.study.folder import read_csv, read_json, write_csv

CURVES = ("algorithm", "configuration", "policy_seed", "update", "metric", "value")
VALUES = (
    "stage", "policy", "task", "algorithm", "configuration", "policy_seed", "ope_configuration", "evaluation_seed",
    "update", "value",
)  # fmt: skip
RESULTS = (
    "study", "task", "algorithm", "configuration", "policy_seed", "evaluation_seed", "offline_value", "verdict",
    "decided_at", "distance", "diverged", "selected", "true_return", "true_score", "true_episodes", "updates",
    "seconds", "hyperparameters", "device", "versions",
)  # fmt: skip


class Candidate(NamedTuple):
    """One trained policy and what its offline evaluations said."""

    algorithm: str
    configuration: int
    policy_seed: int
    hyperparameters: dict[str, Any]
    diverged: bool  # in training
    estimates: tuple[Mapping[str, Any], ...]  # as an evaluate job leaves them; none where it diverged
    policy: Path
    updates: int
    seconds: float
    device: str
    versions: dict[str, str]

    @property
    def key(self) -> tuple[str, int, int]:
        return self.algorithm, self.configuration, self.policy_seed

    @property
    def distance(self) -> float | None:
        """From the data (docs/evaluation.md); None where it was not evaluated, or before distances were recorded."""
        return self.estimates[0].get("distance") if self.estimates else None

    @property
    def job(self) -> str:
        """Id of the job that trained it."""
        return self.policy.parent.name


def candidates(trained: Sequence[Path], evaluated: Sequence[Path]) -> list[Candidate]:
    """Every candidate of finished training jobs, with the estimates of finished evaluation jobs."""
    estimates: dict[tuple[str, int, int], list[Mapping[str, Any]]] = {}
    for folder in evaluated:
        for e in read_json(folder / "result.json", "estimates")["estimates"]:
            estimates.setdefault((e["algorithm"], e["configuration"], e["policy_seed"]), []).append(e)
    found = []
    for folder in trained:
        result = read_json(folder / "result.json", "algorithm", "members", "updates", "seconds", "device", "versions")
        found += [
            Candidate(
                algorithm=result["algorithm"],
                configuration=m["configuration"],
                policy_seed=m["policy_seed"],
                hyperparameters=m["hyperparameters"],
                diverged=m["diverged_at"] >= 0,
                estimates=tuple(estimates.get((result["algorithm"], m["configuration"], m["policy_seed"]), ())),
                policy=folder / m["policy"],
                updates=result["updates"],
                seconds=result["seconds"],
                device=result["device"],
                versions=result["versions"],
            )
            for m in result["members"]
        ]
    order = list(dict.fromkeys(c.algorithm for c in found))
    return sorted(found, key=lambda c: (order.index(c.algorithm), c.configuration, c.policy_seed))


def true_scores(
    found: Sequence[Candidate], recorded: Sequence[Mapping[str, Any]]
) -> dict[tuple[str, int, int], Mapping[str, Any]]:
    """Candidate → its recorded score. One of a policy that another job trained, from other data, is nobody's here.

    Scores from before they named their job count for whoever has the number.
    """
    by_key = {(score["algorithm"], score["configuration"], score["policy_seed"]): score for score in recorded}
    pairs = ((c, by_key.get(c.key)) for c in found)
    return {c.key: score for c, score in pairs if score is not None and score.get("job", c.job) == c.job}


def write_results(
    path: Path,
    study: str,
    task: str,
    found: Sequence[Candidate],
    chosen: Mapping[str, int],
    played: Mapping[tuple[str, int, int], Mapping[str, Any]],
    evaluation_seeds: Sequence[int],
) -> None:
    """results.csv: `chosen` is algorithm → selected configuration, `played` the true scores that are known by now."""
    rows = []
    for c in found:
        true = played.get(c.key, {})
        diverged = [
            {"evaluation_seed": s, "value": None, "verdict": "diverged", "decided_at": ""} for s in evaluation_seeds
        ]
        for e in c.estimates or diverged:
            rows.append(
                [
                    study, task, c.algorithm, c.configuration, c.policy_seed, e["evaluation_seed"],
                    "" if e["value"] is None else repr(e["value"]), e["verdict"], e["decided_at"],
                    _text(c.distance), int(c.diverged), int(chosen.get(c.algorithm) == c.configuration),
                    _text(true.get("return_mean")), _text(true.get("score")), _text(true.get("episodes")), c.updates,
                    f"{c.seconds:.3f}", json.dumps(c.hyperparameters, sort_keys=True), c.device,
                    json.dumps(c.versions, sort_keys=True),
                ]
            )  # fmt: skip
    write_csv(path, RESULTS, rows)


def join(path: Path, columns: Sequence[str], parts: Sequence[Path], **filled: str) -> None:
    """One CSV file of several with the same columns, of which some are `filled` alike in every row."""
    rows = (row | filled for part in parts for row in read_csv(part, *columns))
    write_csv(path, columns, ([row[c] for c in columns] for row in rows))


def _text(value: Any) -> str:
    return "" if value is None else repr(value)
