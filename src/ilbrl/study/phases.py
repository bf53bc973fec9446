"""The phases of Algorithm 2, each a function of a session and of what came before it."""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ilbrl import envs, ope
from ilbrl.base.errors import IlbrlError
from ilbrl.policy import Policy
from ilbrl.study import description, tables
from ilbrl.study.folder import read_json, write_json
from ilbrl.study.jobs import Job
from ilbrl.study.kinds import describe, evaluate, final, train, tune_ope
from ilbrl.study.logs import Logs, Parts, examine, load_logs
from ilbrl.study.logs import split as split_logs
from ilbrl.study.search import draw, grouped
from ilbrl.study.selection import select
from ilbrl.study.session import Session, do, planned_updates
from ilbrl.study.study import Study
from ilbrl.study.tables import Candidate
from ilbrl.study.task import require_playable

FINAL = "final evaluation"  # the event of the audit
SCORES = ("scores", "environment_calls", "episodes", "references")  # what final.json and reveal.json must hold


def prepare(s: Session) -> Parts:
    """Phases 0 and 1: read and examine the logs, split them by episode, write data.json."""
    started, before = time.monotonic(), envs.environment_calls("collection").steps
    logs = load_logs(s.study, quiet=s.narrator.quiet)
    findings = examine(logs)
    _refuse_changed(s, logs)
    if s.study.task:
        require_playable(s.study.task, logs)
    s.audit.played("collection", envs.environment_calls("collection").steps - before)
    warnings = sum(f.grade == "warning" for found in findings.values() for f in found)
    sizes = " and ".join(f"{len(data):,} {role}" for role, data in logs.by_role.items())
    s.say("logs", f"{sizes} transitions, {warnings} warnings of the doctor", started)
    started = time.monotonic()
    parts = split_logs(s.study, logs)
    s.audit.note_data(logs, parts)
    (labels,) = do(s, parts, [describe.job(parts)])
    described = description.describe(s.study, logs, findings, parts, read_json(labels / "result.json"))
    write_json(s.folder / "data.json", described)
    split = parts.composition
    evaluation, validation = len(split.evaluation_expert) + len(split.evaluation_logs), len(split.validation)
    sizes = f"{len(split.training):,} transitions to train on, {evaluation:,} to evaluate with, {validation:,} held out"
    s.say("split", "; ".join([sizes, *split.notes]), started)
    return parts


def tune_evaluator(s: Session, parts: Parts) -> dict[str, Any]:
    """Phase 2: tuning.json and the known policies' part of values.csv."""
    started = time.monotonic()
    job = tune_ope.job(s.study, parts)
    (result,) = do(s, parts, [job])
    tuning = read_json(result / "result.json", "configurations", "chosen", "updates", "trust")
    write_json(s.folder / "tuning.json", tuning)
    tables.join(s.folder / "values.csv", tables.VALUES, [result / "values.csv"], task=s.study.label)
    trust = tuning["trust"]
    s.say(
        "tuning",
        f"evaluator {tuning['chosen']} of {len(tuning['configurations'])} orders the known policies best,"
        f" {tuning['updates']:,} updates; verdict: {trust['verdict']} ({'; '.join(trust['reasons'])})",
        started,
    )
    return tuning


def train_candidates(s: Session, parts: Parts) -> list[Job]:
    """Phase 3: every configuration × policy seed; curves.csv."""
    started = time.monotonic()
    jobs = training_jobs(s.study, parts)
    folders = do(s, parts, jobs)
    tables.join(s.folder / "curves.csv", tables.CURVES, [path / "curves.csv" for path in folders])
    results = [read_json(path / "result.json", "device", "members") for path in folders]
    s.audit.note(device=", ".join(sorted({result["device"] for result in results})))
    diverged = sum(m["diverged_at"] >= 0 for result in results for m in result["members"])
    members, algorithms = sum(job.members for job in jobs), len(s.study.search.algorithms)
    s.say(
        "training",
        f"{members} policies of {algorithms} algorithms, {diverged} diverged",
        started,
    )
    return jobs


def evaluate_candidates(s: Session, parts: Parts, trained: Sequence[Job], tuning: Mapping[str, Any]) -> list[Job]:
    """Phase 4, first half: the offline value of every candidate; values.csv."""
    started = time.monotonic()
    s.advance(0, total=planned_updates(s.study, tuning["updates"]))
    jobs = evaluation_jobs(s.study, parts, trained, tuning)
    folders = do(s, parts, jobs)
    known = s.store.path(tune_ope.job(s.study, parts).id)
    files = [path / "values.csv" for path in (known, *folders)]
    tables.join(s.folder / "values.csv", tables.VALUES, files, task=s.study.label)
    verdicts = [e["verdict"] for path in folders for e in read_json(path / "result.json", "estimates")["estimates"]]
    counts = ", ".join(f"{verdicts.count(word)} {word}" for word in ("converged", "moving", "diverged"))
    s.say("evaluation", f"{len(verdicts)} offline evaluations: {counts}", started)
    return jobs


def candidates(s: Session, trained: Sequence[Job], evaluated: Sequence[Job]) -> list[Candidate]:
    """Every candidate with its estimates."""
    return tables.candidates(*([s.store.path(job.id) for job in jobs] for jobs in (trained, evaluated)))


def select_and_export(s: Session, found: Sequence[Candidate], tuning: Mapping[str, Any]) -> dict[str, Any]:
    """Phase 4, second half: selection.json, the winners' policies, results.csv, and a warning in tuning.json."""
    started = time.monotonic()
    selection = select(found, s.study.evaluation.disagreement_penalty)
    written = s.folder / ".policies.partial"
    shutil.rmtree(written, ignore_errors=True)
    best: dict[str, Candidate] = {}
    for c in chosen_candidates(found, selection):
        entry = selection["algorithms"][c.algorithm]
        policy = Policy.load(c.policy).with_metadata(
            study=s.study.name, task=s.study.task, configuration=c.configuration, offline_value=entry["value"],
            trust=tuning["trust"]["verdict"],
        )  # fmt: skip
        file = Path(c.algorithm) / f"seed{c.policy_seed}.safetensors"
        policy.save(written / file)
        entry["policies"].append(f"policies/{file}")
        if c.policy_seed == entry["best_seed"]:
            best[c.algorithm] = c
            policy.save(written / c.algorithm / "best.safetensors")
    _replace_folder(written, s.folder / "policies")
    if overall := selection["overall"]:
        overall["policy"] = f"policies/{overall['algorithm']}/best.safetensors"
    new = not (s.folder / "selection.json").exists() or read_json(s.folder / "selection.json") != selection
    write_json(s.folder / "selection.json", selection)
    if new:
        s.audit.event("selected" if overall else "nothing selected")
    warning = distance_warning(best, tuning)
    tuned = dict(tuning) | {"trust": dict(tuning["trust"]) | {"distance_warning": warning}}
    write_json(s.folder / "tuning.json", tuned)
    write_results(s, found, selection)
    what = f"{overall['algorithm']}, configuration {overall['configuration']}: {overall['reason']}" if overall else None
    s.say("selection", what or selection["nothing"], started)
    return selection


def play_once(
    s: Session,
    parts: Parts,
    found: Sequence[Candidate],
    selection: Mapping[str, Any],
    again: bool = False,
) -> dict[str, Any] | None:
    """Phase 5: the selected policies in the environment, once; what is recorded is shown, not played again."""
    path = s.folder / "final.json"
    started, played = time.monotonic(), chosen_candidates(found, selection)
    if not played:
        return None
    if path.exists() and not again:
        recorded = read_json(path, *SCORES)
        if not len(played) == len(recorded["scores"]) == len(tables.true_scores(played, recorded["scores"])):
            raise IlbrlError(
                f"{path}: holds the scores of another selection, and the final evaluation happens once; use another"
                " folder, or say --again to play these policies too, which the audit records"
            )
        s.audit.played_once("final", recorded["environment_calls"]["steps"], FINAL)
        s.say("final", "played before: the recorded scores stand (--again repeats it; the audit says so)", started)
        return recorded
    job = final.job(s.study, parts, [as_entry(c) for c in played], "final")
    repeated = path.exists()
    if repeated:
        s.audit.event(f"{FINAL} repeated and overwritten by name (--again)")
        shutil.rmtree(s.store.path(job.id), ignore_errors=True)
    (result,) = do(s, parts, [job])
    scores = read_json(result / "result.json", *SCORES)
    write_json(path, scores)
    if repeated:
        s.audit.played("final", scores["environment_calls"]["steps"])
    s.audit.played_once("final", scores["environment_calls"]["steps"], FINAL)
    s.say("final", f"{len(played)} policies, {scores['episodes']} episodes each in {s.study.task}", started)
    return scores


# --- what they share --------------------------------------------------------------------------------------------------


def training_jobs(study: Study, parts: Parts) -> list[Job]:
    return [
        train.job(study, parts, group)
        for algorithm in study.search.algorithms
        for group in grouped(
            draw(study.search, algorithm, study.seed), study.training.seeds, study.training.members_per_job
        )
    ]


def evaluation_jobs(study: Study, parts: Parts, trained: Sequence[Job], tuning: Mapping[str, Any]) -> list[Job]:
    """One per training job, with the chosen setting and the updates that the known policies needed."""
    setting = ope.Setting.from_dict(tuning["configurations"][tuning["chosen"]])
    return [evaluate.job(study, parts, job, setting, tuning["chosen"], tuning["updates"]) for job in trained]


def chosen_candidates(found: Sequence[Candidate], selection: Mapping[str, Any]) -> list[Candidate]:
    """All seeds of the selected configurations whose training did not diverge."""
    chosen = selected_configurations(selection)
    return [c for c in found if chosen.get(c.algorithm) == c.configuration and not c.diverged]


def selected_configurations(selection: Mapping[str, Any]) -> dict[str, int]:
    entries = selection["algorithms"].items()
    return {name: entry["configuration"] for name, entry in entries if entry["configuration"] is not None}


def distance_warning(best: Mapping[str, Candidate], tuning: Mapping[str, Any]) -> str | None:
    """Which of the best policies lead farther from the data than the known policies vouch for."""
    limit = tuning["trust"].get("distance_limit")
    distances = {name: c.distance for name, c in best.items() if c.distance is not None}
    return None if limit is None else ope.distance_warning(distances, limit)


def write_results(s: Session, found: Sequence[Candidate], selection: Mapping[str, Any]) -> None:
    """results.csv, with the true scores that are known by now."""
    files = [s.folder / "final.json", s.folder / "reveal.json"]
    recorded = [score for path in files if path.exists() for score in read_json(path, *SCORES)["scores"]]
    study, chosen = s.study, selected_configurations(selection)
    path = s.folder / "results.csv"
    true = tables.true_scores(found, recorded)
    tables.write_results(path, study.name, study.label, found, chosen, true, study.evaluation_seeds)


def as_entry(c: Candidate) -> dict[str, Any]:
    return dict(zip(("algorithm", "configuration", "policy_seed"), c.key)) | {"job": c.job, "policy": c.policy.name}


def _refuse_changed(s: Session, logs: Logs) -> None:
    """Other logs under the same names: recorded, and refused once true scores are known."""
    for difference in s.audit.changed_data(logs):
        if (s.folder / "final.json").exists():
            raise IlbrlError(
                f"{s.folder}: {difference} has changed since the selected policies were played; use another folder"
            )
        s.audit.event(f"data changed: {difference}")


def _replace_folder(new: Path, old: Path) -> None:
    """`new` takes the place of `old`; killed in between, the next run makes it again."""
    shutil.rmtree(old, ignore_errors=True)
    if new.exists():
        new.rename(old)
