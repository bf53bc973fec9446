"""A run folder, read whole: everything the report is made of, and what is missing from it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ilbrl.base.errors import IlbrlError
from ilbrl.report.reading import Note, one_of, read_csv, read_json, read_text
from ilbrl.report.records import Audit, Data, Reference, Scores, Selection, Tuning

RESULTS = {
    "study": str, "task": str, "algorithm": str, "configuration": int, "policy_seed": int, "evaluation_seed": int,
    "offline_value": float, "verdict": one_of("converged", "moving", "diverged"), "decided_at": float,
    "distance": float, "diverged": int, "selected": int, "true_return": float, "true_score": float,
    "true_episodes": float, "updates": float, "seconds": float, "hyperparameters": dict, "device": str,
}  # fmt: skip
CURVES = {"algorithm": str, "configuration": int, "policy_seed": int, "update": float, "metric": str, "value": float}
VALUES = {
    "stage": one_of("tuning", "candidates"), "policy": str, "algorithm": str, "configuration": int, "policy_seed": int,
    "ope_configuration": str, "evaluation_seed": int, "update": float, "value": float,
}  # fmt: skip

CANDIDATE = ("algorithm", "configuration", "policy_seed")
CANDIDATE_CURVE = (*CANDIDATE, "metric")
CANDIDATE_VALUE = (*CANDIDATE, "evaluation_seed")
KNOWN_VALUE = ("policy", "ope_configuration", "evaluation_seed")
NO_VERDICT = "no verdict"


class Candidate(NamedTuple):
    """One trained policy, with its evaluations summed up."""

    algorithm: str
    configuration: int
    policy_seed: int
    offline_value: float | None  # mean over converged evaluation seeds
    offline_std_error: float | None  # over evaluation seeds
    unsettled_value: float | None  # mean of where the others stood, still moving, when evaluation ended
    verdicts: tuple[str, ...]  # one per evaluation seed
    distance: float | None  # from the data; None where it is not known
    diverged: bool  # its training
    selected: bool
    true_return: float | None
    true_score: float | None
    true_episodes: int | None
    updates: int | None
    seconds: float | None
    hyperparameters: dict[str, Any]

    @property
    def verdict(self) -> str:
        """The gravest of its evaluations."""
        if self.diverged:
            return "diverged"
        return next((each for each in ("diverged", "moving", NO_VERDICT) if each in self.verdicts), "converged")


class Curve(NamedTuple):
    """[C] updates and [C] values; who they belong to is the key under which a curve is kept."""

    updates: np.ndarray
    values: np.ndarray


@dataclass(frozen=True)
class Run:
    """A run folder. What it lacks is empty or None here, and has a sentence in `missing`."""

    path: Path
    name: str
    task: str
    study: str | None  # study.toml
    candidates: tuple[Candidate, ...]
    curves: dict[tuple[str, int, int, str], Curve]  # algorithm, configuration, policy seed, metric
    tuning_values: dict[tuple[str, str, int], Curve]  # known policy, evaluator's configuration, evaluation seed
    candidate_values: dict[tuple[str, int, int, int], Curve]  # algorithm, configuration, policy seed, evaluation seed
    audit: Audit
    data: Data
    tuning: Tuning
    selection: Selection
    final: Scores | None
    reveal: Scores | None
    missing: tuple[str, ...]

    @property
    def algorithms(self) -> tuple[str, ...]:
        """In the order of results.csv, which is the study's."""
        return tuple(dict.fromkeys(candidate.algorithm for candidate in self.candidates))

    @property
    def played(self) -> bool:
        """Whether selected policies have been in an environment, even where no candidate is left to show it."""
        return self.final is not None and bool(self.final.scores)

    @property
    def references(self) -> dict[str, Reference]:
        """`expert` and `exploratory`; measured where an environment was played, else as logged."""
        measured = (self.final.references if self.final else {}) | (self.reveal.references if self.reveal else {})
        names = self.data.references | measured
        return {name: _merged(self.data.references.get(name), measured.get(name)) for name in names}


def _merged(logged: Reference | None, measured: Reference | None) -> Reference:
    found = logged or Reference()
    known = {name: value for name, value in vars(measured or Reference()).items() if value is not None}
    return replace(found, **known)


def reference_value(reference: Reference, scored: bool) -> float | None:
    """Its score, or its return where the task has no scores; played before logged."""
    played = reference.true_score if scored else reference.true_return
    logged = reference.logged_score if scored else reference.logged_return
    return logged if played is None else played


def read_runs(folders: Sequence[Path]) -> tuple[Run, ...]:
    """All run folders, under names that tell them apart."""
    runs = tuple(read_run(Path(folder)) for folder in folders)
    if not runs:
        raise IlbrlError("a report needs at least one run folder: name what `ilbrl tune` wrote")
    named: dict[str, int] = defaultdict(int)
    for run in runs:
        named[run.name] += 1
    return tuple(run if named[run.name] == 1 else replace(run, name=str(run.path)) for run in runs)


def read_run(folder: Path) -> Run:
    """A run folder as far as it goes; raises only where there is no such folder, or it holds nothing of a study."""
    if not folder.is_dir():
        raise IlbrlError(f"{folder}: no such folder; name a run folder that `ilbrl tune` wrote")
    missing: list[str] = []
    note = missing.append
    read = read_csv(folder / "results.csv", RESULTS, note, "there are no candidates to show", ("distance",))
    rows = _identified(read, CANDIDATE, "results.csv", note)
    study = read_text(folder / "study.toml", note, "the study cannot be reproduced from this folder alone")
    audit = read_json(folder / "audit.json", Audit, note, "where the results come from is not recorded")
    data = read_json(folder / "data.json", Data, note, "the logs cannot be described")
    tuning = read_json(folder / "tuning.json", Tuning, note, "how far to trust the offline values is not known")
    selection = read_json(folder / "selection.json", Selection, note, "nothing has been selected yet")
    if not rows and study is None and all(part is None for part in (audit, data, tuning, selection)):
        raise IlbrlError(f"{folder}: none of a study's files is here; name a run folder that `ilbrl tune` wrote")
    final = _optional(folder / "final.json", note, "the true scores of the selected policies cannot be shown")
    reveal = _optional(folder / "reveal.json", note, "the true scores of the other candidates cannot be shown")
    curves = read_csv(folder / "curves.csv", CURVES, note, "training curves cannot be drawn")
    values = read_csv(folder / "values.csv", VALUES, note, "the course of the offline values cannot be drawn")
    staged = _identified(values, ("stage",), "values.csv", note)
    by_stage = {stage: [row for row in staged if row["stage"] == stage] for stage in ("tuning", "candidates")}
    first = rows[0] if rows else {}
    return Run(
        folder,
        first.get("study") or folder.resolve().name,
        first.get("task") or (final.task if final else None) or "task unknown",
        study,
        _candidates(rows, [*(reveal.scores if reveal else ()), *(final.scores if final else ())]),
        _curves(curves, CANDIDATE_CURVE, "curves.csv", note),
        _curves(by_stage["tuning"], KNOWN_VALUE, "values.csv", note),
        _curves(by_stage["candidates"], CANDIDATE_VALUE, "values.csv", note),
        audit or Audit(),
        data or Data(),
        tuning or Tuning(),
        selection or Selection(),
        final,
        reveal,
        tuple(missing),
    )


def _optional(path: Path, note: Note, why_it_matters: str) -> Scores | None:
    """final.json and reveal.json belong only to runs that played: their absence is no fault."""
    return read_json(path, Scores, note, why_it_matters) if path.exists() else None


def _candidates(rows: list[dict[str, Any]], played: Sequence[Any]) -> tuple[Candidate, ...]:
    truths = {(score.algorithm, score.configuration, score.policy_seed): score for score in played}
    members: dict[tuple, list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        members[tuple(row[name] for name in CANDIDATE)].append(row)
    return tuple(_candidate(key, evaluations, truths.get(key)) for key, evaluations in members.items())


def _candidate(key: tuple, evaluations: list[dict[str, Any]], truth: Any) -> Candidate:
    first = evaluations[0]
    converged, moving = (
        [row["offline_value"] for row in evaluations if row["verdict"] == verdict and row["offline_value"] is not None]
        for verdict in ("converged", "moving")
    )
    several = len(converged) > 1
    return Candidate(
        *key,
        offline_value=float(np.mean(converged)) if converged else None,
        offline_std_error=float(np.std(converged, ddof=1) / np.sqrt(len(converged))) if several else None,
        unsettled_value=float(np.mean(moving)) if moving else None,
        verdicts=tuple(row["verdict"] or NO_VERDICT for row in evaluations),
        distance=first["distance"],
        diverged=any(row["diverged"] for row in evaluations),
        selected=any(row["selected"] for row in evaluations),
        true_return=first["true_return"] if truth is None else truth.return_mean,
        true_score=first["true_score"] if truth is None else truth.score,
        true_episodes=_whole(first["true_episodes"] if truth is None else truth.episodes),
        updates=_whole(first["updates"]),
        seconds=first["seconds"],
        hyperparameters=first["hyperparameters"] or {},
    )


def _whole(number: float | None) -> int | None:
    return None if number is None else int(number)


def _identified(rows: list[dict[str, Any]], key: tuple[str, ...], file: str, note: Note) -> list[dict[str, Any]]:
    """The rows that say whose they are; the others are left out, and that is noted once."""
    whole = [row for row in rows if all(row[name] is not None for name in key)]
    left_out = len(rows) - len(whole)
    if left_out:
        empty = ", ".join(name for name in key if any(row[name] is None for row in rows))
        note(f"{file}: {left_out} row{'s' * (left_out > 1)} with nothing under {empty}, left out.")
    return whole


def _curves(rows: list[dict[str, Any]], key: tuple[str, ...], file: str, note: Note) -> dict[tuple, Curve]:
    found: dict[tuple, list[tuple[float, float]]] = defaultdict(list)
    for row in _identified(rows, (*key, "update"), file, note):
        point = (row["update"], np.nan if row["value"] is None else row["value"])
        found[tuple(row[name] for name in key)].append(point)
    return {name: Curve(*np.array(sorted(points, key=lambda point: point[0])).T) for name, points in found.items()}
