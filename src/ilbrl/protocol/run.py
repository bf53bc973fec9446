"""Algorithm 2 from end to end: logs → split → tune the evaluator → train → evaluate offline → select → play once.

Each phase is a function of a session and of what came before it. Everything up to selection runs with environments closed
(`envs.closed`): candidates cannot touch one, whatever an algorithm tries.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ilbrl import envs, ope
from ilbrl.errors import IlbrlError
from ilbrl.feed import Spec
from ilbrl.loggers import DASHBOARDS
from ilbrl.policy import Policy
from ilbrl.progress import Advance, progress
from ilbrl.protocol import description, executors, folder, tables
from ilbrl.protocol.audit import Audit
from ilbrl.protocol.evaluator import from_inputs, settings_of
from ilbrl.protocol.folder import read_json, write_json
from ilbrl.protocol.jobs import Job, Store
from ilbrl.protocol.kinds import describe, evaluate, final, train, tune_ope
from ilbrl.protocol.logs import Parts, examine, load_logs
from ilbrl.protocol.logs import split as split_logs
from ilbrl.protocol.narration import Narrator, duration
from ilbrl.protocol.search import draw, grouped
from ilbrl.protocol.selection import select
from ilbrl.protocol.study import Study
from ilbrl.protocol.tables import Candidate

PHASES = ("logs", "split", "tuning", "training", "evaluation", "selection", "final")


@dataclass(frozen=True)
class StudyResult:
    """What a study came to; everything is also in its folder."""

    folder: Path
    tuning: Mapping[str, Any]
    selection: Mapping[str, Any]
    final: Mapping[str, Any] | None  # None: no environment was given, or nothing was selected

    @property
    def nothing(self) -> str | None:
        """Why nothing was selected; None where something was."""
        return self.selection["nothing"]

    @property
    def policy(self) -> Policy:
        """The best seed of the selected configuration of the selected algorithm."""
        if self.nothing:
            raise IlbrlError(self.nothing)
        return Policy.load(self.folder / self.selection["overall"]["policy"])


@dataclass(frozen=True)
class Session:
    """A study at work in its folder."""

    study: Study
    folder: Path
    store: Store
    execute: executors.Execute
    audit: Audit
    narrator: Narrator
    advance: Advance
    dashboards: tuple[str, ...]


def run(
    study: Study,
    out: Path,
    *,
    executor: str = "local",
    change: bool = False,
    again: bool = False,
    dashboards: Sequence[str] = (),
    quiet: bool = False,
    command: str | None = None,
    **options: Any,
) -> StudyResult:
    """All phases, in the folder `out`; what an earlier run finished there is not done again.

    executor: "local" or "ray"; `options` are the executor's own (Ray's `address`).
    change: go on in a folder whose study differed; only what depends on the difference is computed again.
    again: repeat the final evaluation although it was done, which the audit records.
    dashboards: names from `ilbrl.loggers.DASHBOARDS` that are told of training metrics, job by job.
    """
    with session(study, out, executor, change, dashboards, quiet, command, options) as s:
        before = _candidates_calls()
        with envs.closed("a study before its selection"):
            parts = prepare(s)
            tuning = tune_evaluator(s, parts)
            trained = train_candidates(s, parts)
            evaluated = evaluate_candidates(s, parts, trained, tuning)
            found = candidates(s, trained, evaluated)
            selection = select_and_export(s, parts, found, tuning)
        s.audit.played("candidates_before_selection", _candidates_calls() - before)
        played = play_once(s, parts, found, selection, trained, again) if study.task else None
        write_results(s, found, selection)
        s.audit.note(finished=s.audit.record["events"][-1]["time"])
        s.narrator.say(f"done in {s.narrator.elapsed}: {out}")
        return StudyResult(out, tuning, selection, played)


@contextmanager
def session(
    study: Study,
    out: Path,
    executor: str = "local",
    change: bool = False,
    dashboards: Sequence[str] = (),
    quiet: bool = False,
    command: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> Iterator[Session]:
    """The folder held for this process, its study written or checked, its audit and log open."""
    for name in dashboards:
        if name not in DASHBOARDS:
            raise IlbrlError(f"no dashboard {name!r}: there are {', '.join(DASHBOARDS)}")
    planned = _planned_updates(study)  # also checks every range, before anything is written
    execute = executors.executor(executor, **(options or {}))
    with folder.alone(out):
        changed = folder.claim(out, study, change)
        audit, narrator = Audit(out), Narrator(out, quiet)
        audit.begin(study, executor, command)
        for difference in changed:
            audit.event(f"study changed: {difference}")
        (out / "jobs").mkdir(exist_ok=True)
        with progress(study.name, planned, "updates", quiet) as advance:
            yield Session(study, out, Store(out / "jobs"), execute, audit, narrator, advance, tuple(dashboards))


# --- the phases -------------------------------------------------------------------------------------------------------


def prepare(s: Session) -> Parts:
    """Phases 0 and 1: read and examine the logs, split them by episode, write data.json."""
    started, before = time.monotonic(), envs.environment_calls("collection").steps
    logs = load_logs(s.study, quiet=s.narrator.quiet)
    findings = examine(logs)
    s.audit.played("collection", envs.environment_calls("collection").steps - before)
    warnings = sum(f.grade == "warning" for found in findings.values() for f in found)
    sizes = " and ".join(f"{len(data):,} {role}" for role, data in logs.by_role.items())
    _say(s, "logs", f"{sizes} transitions, {warnings} warnings of the doctor", started)
    started = time.monotonic()
    parts = split_logs(s.study, logs)
    s.audit.note_data(logs, parts)
    (labels,) = do(s, parts, [describe.job(parts)])
    described = description.describe(s.study, logs, findings, parts, read_json(labels / "result.json"))
    write_json(s.folder / "data.json", described)
    split = parts.composition
    evaluation, validation = len(split.evaluation_expert) + len(split.evaluation_exploratory), len(split.validation)
    sizes = f"{len(split.training):,} transitions to train on, {evaluation:,} to evaluate with, {validation:,} held out"
    _say(s, "split", "; ".join([sizes, *split.notes]), started)
    return parts


def tune_evaluator(s: Session, parts: Parts) -> dict[str, Any]:
    """Phase 2: tuning.json."""
    started = time.monotonic()
    job = tune_ope.job(s.study, parts)
    (result,) = do(s, parts, [job])
    tuning = read_json(result / "result.json")
    write_json(s.folder / "tuning.json", tuning)
    tables.join(s.folder / "values.csv", tables.VALUES, [result / "values.csv"])
    trust = tuning["trust"]
    _say(
        s,
        "tuning",
        f"evaluator {tuning['chosen']} of {len(tuning['configurations'])} orders {', '.join(k.name for k in parts.known)}"
        f" best; {tuning['updates']:,} updates; verdict: {trust['verdict']} ({'; '.join(trust['reasons'])})",
        started,
    )
    return tuning


def train_candidates(s: Session, parts: Parts) -> list[Job]:
    """Phase 3: every configuration × policy seed; curves.csv."""
    started = time.monotonic()
    jobs = training_jobs(s.study, parts)
    folders = do(s, parts, jobs)
    tables.join(s.folder / "curves.csv", tables.CURVES, [path / "curves.csv" for path in folders])
    results = [read_json(path / "result.json") for path in folders]
    s.audit.note(device=", ".join(sorted({result["device"] for result in results})))
    diverged = sum(m["diverged_at"] >= 0 for result in results for m in result["members"])
    members = sum(job.members for job in jobs)
    _say(
        s,
        "training",
        f"{members} policies of {len(s.study.search.algorithms)} algorithms, {diverged} diverged",
        started,
    )
    return jobs


def evaluate_candidates(s: Session, parts: Parts, trained: Sequence[Job], tuning: Mapping[str, Any]) -> list[Job]:
    """Phase 4, first half: the offline value of every candidate; values.csv."""
    started = time.monotonic()
    jobs = evaluation_jobs(s.study, parts, trained, tuning)
    folders = do(s, parts, jobs)
    known = s.store.path(tune_ope.job(s.study, parts).id)
    tables.join(s.folder / "values.csv", tables.VALUES, [path / "values.csv" for path in (known, *folders)])
    verdicts = [e["verdict"] for path in folders for e in read_json(path / "result.json")["estimates"]]
    counts = ", ".join(f"{verdicts.count(word)} {word}" for word in ("converged", "moving", "diverged"))
    _say(s, "evaluation", f"{len(verdicts)} offline evaluations: {counts}", started)
    return jobs


def candidates(s: Session, trained: Sequence[Job], evaluated: Sequence[Job]) -> list[Candidate]:
    """Every candidate with its estimates."""
    return tables.candidates(*([s.store.path(job.id) for job in jobs] for jobs in (trained, evaluated)))


def select_and_export(
    s: Session, parts: Parts, found: Sequence[Candidate], tuning: Mapping[str, Any]
) -> dict[str, Any]:
    """Phase 4, second half: selection.json and the winners' policies."""
    started = time.monotonic()
    selection = select(found)
    written = s.folder / ".policies.partial"
    shutil.rmtree(written, ignore_errors=True)
    best: dict[str, Policy] = {}
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
            best[c.algorithm] = policy
            policy.save(written / c.algorithm / "best.safetensors")
    _replace_folder(written, s.folder / "policies")
    if overall := selection["overall"]:
        overall["policy"] = f"policies/{overall['algorithm']}/best.safetensors"
    new = not (s.folder / "selection.json").exists() or read_json(s.folder / "selection.json") != selection
    write_json(s.folder / "selection.json", selection)
    if new:
        s.audit.event("selected" if overall else "nothing selected")
    warning = distance_warning(parts, best, tuning)
    tuned = dict(tuning) | {"trust": dict(tuning["trust"]) | {"distance_warning": warning}}
    write_json(s.folder / "tuning.json", tuned)
    write_results(s, found, selection)
    what = f"{overall['algorithm']}, configuration {overall['configuration']}: {overall['reason']}" if overall else None
    _say(s, "selection", what or selection["nothing"], started)
    return selection


def play_once(
    s: Session,
    parts: Parts,
    found: Sequence[Candidate],
    selection: Mapping[str, Any],
    trained: Sequence[Job],
    again: bool = False,
) -> dict[str, Any] | None:
    """Phase 5: the selected policies in the environment, once; what is recorded is shown, not played again."""
    path = s.folder / "final.json"
    started, played = time.monotonic(), chosen_candidates(found, selection)
    if not played:
        return None
    if path.exists() and not again:
        recorded = read_json(path)
        if {_key(score) for score in recorded["scores"]} != {_key(c._asdict()) for c in played}:
            raise IlbrlError(
                f"{path}: holds the scores of another selection, and the final evaluation happens once; use another"
                " folder, or say --again to play these policies too, which the audit records"
            )
        _say(
            s, "final", "played before; the recorded scores stand (--again repeats it, and the audit says so)", started
        )
        return recorded
    job = final.job(s.study, [_entry(c) for c in played], sorted({c.policy.parent.name for c in played}), "final")
    if path.exists():
        shutil.rmtree(s.store.path(job.id), ignore_errors=True)
        s.audit.event("final evaluation repeated and overwritten by name (--again)")
    (result,) = do(s, parts, [job])
    scores = read_json(result / "result.json")
    write_json(path, scores)
    s.audit.played("final", scores["environment_calls"]["steps"])
    s.audit.event("final evaluation")
    _say(s, "final", f"{len(played)} policies, {scores['episodes']} episodes each in {s.study.task}", started)
    return scores


def reveal(out: Path, *, executor: str = "local", quiet: bool = False, **options: Any) -> dict[str, Any]:
    """After the final evaluation: play the candidates that were not selected, for the regret of selection."""
    if not (out / "final.json").exists():
        raise IlbrlError(f"{out}: has no final.json; the others can be revealed once the selected policies were played")
    study = Study.load(out / "study.toml")
    with session(study, out, executor, quiet=quiet, options=options) as s:
        parts = prepare(s)
        tuning = read_json(out / "tuning.json")
        trained = training_jobs(study, parts)
        evaluated = evaluation_jobs(study, parts, trained, tuning)
        if missing := [job.id for job in (*trained, *evaluated) if not s.store.has(job)]:
            raise IlbrlError(
                f"{out}: {len(missing)} jobs are missing ({missing[0]}, …); run the study to its end first"
            )
        found, selection = candidates(s, trained, evaluated), read_json(out / "selection.json")
        selected = chosen_candidates(found, selection)
        others = [c for c in found if c not in selected and not c.diverged]
        started = time.monotonic()
        job = final.job(study, [_entry(c) for c in others], sorted({c.policy.parent.name for c in others}), "reveal")
        fresh = not s.store.has(job)
        (result,) = do(s, parts, [job])
        scores = read_json(result / "result.json")
        write_json(out / "reveal.json", scores)
        if fresh:
            s.audit.played("reveal", scores["environment_calls"]["steps"])
            s.audit.event(f"revealed: {len(others)} candidates that were not selected were played")
        write_results(s, found, selection)
        s.narrator.say(f"reveal: {len(others)} policies that were not selected ({_took(started)})")
        return scores


# --- what the phases share --------------------------------------------------------------------------------------------


def do(s: Session, parts: Parts, jobs: Sequence[Job]) -> list[Path]:
    """The folders of these jobs' results; those that are not there yet are done now."""
    missing = [job for job in jobs if not s.store.has(job)]
    finished = len(jobs) - len(missing)
    s.advance(sum(job.updates for job in jobs if job not in missing))

    def note() -> str:
        return f"{jobs[0].kind}: job {min(finished + 1, len(jobs))} of {len(jobs)}, {jobs[0].members} members"

    def done(job: Job) -> None:
        nonlocal finished
        finished += 1
        if job.kind == "train":
            _tell_dashboards(s, job)

    s.execute(missing, parts, s.store, lambda updates: s.advance(updates, note=note()), done)
    return [s.store.path(job.id) for job in jobs]


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
    setting = from_inputs(tune_ope.job(study, parts).inputs["settings"][tuning["chosen"]])
    return [evaluate.job(study, parts, job, setting, tuning["chosen"], tuning["updates"]) for job in trained]


def chosen_candidates(found: Sequence[Candidate], selection: Mapping[str, Any]) -> list[Candidate]:
    """All seeds of the selected configurations whose training did not diverge."""
    chosen = selected_configurations(selection)
    return [c for c in found if chosen.get(c.algorithm) == c.configuration and not c.diverged]


def selected_configurations(selection: Mapping[str, Any]) -> dict[str, int]:
    entries = selection["algorithms"].items()
    return {name: entry["configuration"] for name, entry in entries if entry["configuration"] is not None}


def distance_warning(parts: Parts, best: Mapping[str, Policy], tuning: Mapping[str, Any]) -> str | None:
    """Which selected policies lead farther from the data than the known policies vouch for."""
    limit = tuning["trust"].get("distance_limit")
    if limit is None or not best:
        return None
    setting = tuning["configurations"][tuning["chosen"]]["expert_fraction"]
    data = ope.EvaluationData.of_composition(parts.composition, [setting], Spec.of(parts.composition.training))
    distances = {name: ope.distance_from_data(name, policy, data, setting) for name, policy in best.items()}
    far = [f"{name} ({distance:.2f})" for name, distance in distances.items() if distance > limit]
    if not far:
        return None
    return (
        f"the selected policies of {', '.join(far)} lead farther from the data than the known policies vouch for"
        f" (limit {limit:.2f}): their values are extrapolated, and such policies tend to be over-estimated"
    )


def write_results(s: Session, found: Sequence[Candidate], selection: Mapping[str, Any]) -> None:
    """results.csv, with the true scores that are known by now."""
    files = [s.folder / "final.json", s.folder / "reveal.json"]
    played = {_key(score): score for path in files if path.exists() for score in read_json(path)["scores"]}
    task, chosen = s.study.task or s.study.name, selected_configurations(selection)
    path = s.folder / "results.csv"
    tables.write_results(path, s.study.name, task, found, chosen, played, s.study.evaluation_seeds)


def _key(score: Mapping[str, Any]) -> tuple[str, int, int]:
    return score["algorithm"], score["configuration"], score["policy_seed"]


def _entry(c: Candidate) -> dict[str, Any]:
    names = ("algorithm", "configuration", "policy_seed")
    return dict(zip(names, _key(c._asdict()))) | {"job": c.policy.parent.name, "policy": c.policy.name}


def _candidates_calls() -> int:
    """Environment calls of any kind in this process, except collection's."""
    everything, collection = envs.environment_calls(), envs.environment_calls("collection")
    return sum(getattr(everything, n) - getattr(collection, n) for n in ("environments", "resets", "steps"))


def _planned_updates(study: Study) -> int:
    """Of the whole study, as far as they can be known before the evaluator is tuned."""
    candidates = (
        sum(len(draw(study.search, name, study.seed)) for name in study.search.algorithms) * study.training.seeds
    )
    evaluations = candidates + 2 * len(settings_of(study.evaluation))
    each = len(study.evaluation_seeds) * study.evaluation.evaluation_updates
    return candidates * study.training.updates + evaluations * each


def _replace_folder(new: Path, old: Path) -> None:
    """`new` takes the place of `old`; killed in between, the next run makes it again."""
    shutil.rmtree(old, ignore_errors=True)
    if new.exists():
        new.rename(old)


def _tell_dashboards(s: Session, job: Job) -> None:
    result = s.store.path(job.id)
    members = [m["policy"].removesuffix(".safetensors") for m in read_json(result / "result.json")["members"]]
    for name in s.dashboards:
        log = DASHBOARDS[name](s.folder / name, f"{job.inputs['algorithm']}-{job.id[-8:]}", members)
        for line in (result / "metrics.jsonl").read_text().splitlines():
            log(json.loads(line))


def _say(s: Session, phase: str, what: str, started: float) -> None:
    number = f"{PHASES.index(phase) + 1}/{len(PHASES)}"
    s.narrator.say(f"{number} {phase:<11}{what} ({_took(started)})")


def _took(started: float) -> str:
    return duration(time.monotonic() - started)
