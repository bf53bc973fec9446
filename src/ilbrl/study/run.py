"""Algorithm 2 from end to end: logs → split → calibrate the estimator → train → evaluate offline → select → play once.

Everything up to selection runs with environments closed (`envs.closed`): candidates cannot touch one, whatever an
algorithm tries.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ilbrl import envs
from ilbrl.base.errors import IlbrlError
from ilbrl.base.progress import in_words
from ilbrl.base.records import read_json
from ilbrl.data.checks import counted
from ilbrl.policy import Policy
from ilbrl.results.folder import remedy
from ilbrl.results.schema import ROLES, EvaluatedRecord, LabelsRecord, Scores, Selection, TuningRecord
from ilbrl.results.tables import Candidate, CurveRow, ValueRow, candidates_of_jobs, join_tables
from ilbrl.results.vouching import read_vouched
from ilbrl.study import final
from ilbrl.study.choices import choices_of
from ilbrl.study.duration import time_ahead
from ilbrl.study.estimator import estimator_of
from ilbrl.study.evaluation import calibration_job, evaluation_job, jobs_before
from ilbrl.study.jobs import Job, read_result
from ilbrl.study.logs import Logs, Parts, describe, examine, load_logs, require_playable
from ilbrl.study.logs import split as split_logs
from ilbrl.study.outcome import export, warned, write_results
from ilbrl.study.selection import select
from ilbrl.study.session import Session, all_updates, check, do, open_session, showing_progress
from ilbrl.study.study import Study
from ilbrl.study.training import jobs_before_training, label_job, read_trained, training_jobs
from ilbrl.study.uniting import unite


@dataclass(frozen=True)
class StudyResult:
    """What a study came to; everything is also in its folder."""

    folder: Path
    tuning: TuningRecord
    selection: Selection
    final: Scores | None  # None: no environment was given, or nothing was selected
    roles: Mapping[str, str] = field(default_factory=dict)  # known policy → the log that it alone made

    @property
    def nothing(self) -> str | None:
        """Why nothing was selected; None where something was."""
        return self.selection.nothing

    @property
    def policy(self) -> Policy:
        """The policy to deploy: of the selected algorithm, all seeds of its selected configuration, or the best one."""
        overall = self.selection.overall
        if overall is None or overall.policy is None:
            raise IlbrlError(self.nothing or "nothing was selected")
        return Policy.load(self.folder / overall.policy)


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
    dashboards: names from `ilbrl.learning.loggers.DASHBOARDS` that are told of training metrics, job by job.
    """
    with open_session(study, out, executor, change, dashboards, quiet, command, options) as s:
        before = _candidates_calls()
        with envs.closed("a study before its selection"):
            parts = prepare(s)
            say_time_ahead(s, parts)
            with showing_progress(s, parts) as working:
                tuning = calibrate(working, parts)
                trained = train(working, parts)
                evaluated = evaluate(working, parts, trained, tuning)
                found = candidates(working, trained, evaluated)
                chosen = choose(working, parts, found, tuning)
            selection = keep_selection(s, parts, found, chosen, tuning)
        s.auditor.played("candidates_before_selection", _candidates_calls() - before)
        played = final.play_once(s, parts, found, selection, again) if study.task else None
        write_results(s, found, selection)
        s.auditor.finish()
        s.say(f"done in {in_words(time.monotonic() - s.started)}: {out}")
        roles = {known.name: role for role, known in parts.behind.items()}
        return StudyResult(out, tuning, selection, played, roles)


def reveal(
    out: Path, *, episodes: int | None = None, executor: str = "local", quiet: bool = False, **options: Any
) -> Scores:
    """After the final evaluation: play the candidates that were not selected, for the regret of selection.

    episodes: of each; by default as many as each selected policy has played.
    """
    if not (out / "study.toml").exists():
        raise IlbrlError(f"{out}: is no run folder: it has no study.toml")
    study = Study.load(out / "study.toml")
    if study.task is None:
        raise IlbrlError(f"{out}: its study names no task, so there is no environment to play anything in")
    if not (out / "final.json").exists():
        raise IlbrlError(f"{out}: has no final.json; the others can be revealed once the selected policies were played")
    with open_session(study, out, executor, quiet=quiet, options=options) as s:
        parts = prepare(s)
        again = f"`ilbrl tune {out / 'study.toml'} --out {out}` writes it again, from the jobs that are done"
        tuning = read_vouched(out / "tuning.json", TuningRecord, s.auditor.audit, again)
        selection = read_vouched(out / "selection.json", Selection, s.auditor.audit, again)
        trained = training_jobs(study, parts)
        evaluated = [evaluation_job(study, parts, job, tuning) for job in trained]
        if missing := [job.id for job in (*trained, *evaluated) if not s.store.has(job)]:
            raise IlbrlError(
                f"{out}: {len(missing)} jobs are missing ({missing[0]}, …); run the study to its end first"
            )
        for job in (*trained, *evaluated):
            check(s, job)
        found = candidates(s, trained, evaluated)
        started = time.monotonic()
        scores = final.play_others(s, parts, found, selection, episodes)
        write_results(s, found, selection)
        took = in_words(time.monotonic() - started)
        s.say(f"reveal: {len(scores.scores)} policies that were not selected ({took})")
        return scores


# --- the phases -------------------------------------------------------------------------------------------------------


def prepare(s: Session) -> Parts:
    """Phases 0 and 1: read and examine the logs, split them by episode, write data.json."""
    started, before = time.monotonic(), envs.environment_calls("collection").steps
    logs = load_logs(s.study, quiet=s.quiet)
    findings = examine(logs, s.study.evaluation.intrinsic)
    _refuse_changed(s, logs)
    if s.study.task:
        require_playable(s.study.task, logs)
    s.auditor.played("collection", envs.environment_calls("collection").steps - before)
    warnings = [(role, f.message) for role, found in findings.items() for f in found if f.grade == "warning"]
    sizes = " and ".join(f"{len(logs[role]):,} {role}" for role in ROLES)
    own = [name for name in logs if name not in ROLES]
    beside = f", {counted(len(own), 'file')} of known policies' episodes" if own else ""
    s.finished("logs", f"{sizes} transitions{beside}, {counted(len(warnings), 'warning')} of the doctor", started)
    for role, message in warnings:
        s.say(f"    warning: {logs[role].source}: {message}")
    started = time.monotonic()
    parts = split_logs(s.study, logs)
    s.auditor.note_data(s.study, logs, parts)
    (labels,) = do(s, parts, [label_job(parts)])
    s.keep("data.json", describe(s.study, logs, findings, parts, read_result(labels, LabelsRecord)))
    s.finished("split", parts.composition.described(), started)
    for said in parts.composition.notes:
        s.say(f"    note: {said}")
    return parts


def say_time_ahead(s: Session, parts: Parts) -> None:
    """Before the long phases: how long they will take, where the jobs are done on this machine."""
    before = [*jobs_before(s.study, parts), calibration_job(s.study, parts), *jobs_before_training(s.study, parts)]
    jobs = [*before, *training_jobs(s.study, parts)]
    missing = [job for job in jobs if not s.store.has(job)]
    if s.auditor.audit.executor == "local" and (said := time_ahead(s.study, parts, missing)):
        s.say(f"    {said}")


def _refuse_changed(s: Session, logs: Logs) -> None:
    """Other logs under the same names: recorded, and refused once true scores are known."""
    for difference in s.auditor.changed_data(logs):
        if (s.folder / "final.json").exists():
            raise IlbrlError(
                f"{s.folder}: {difference} has changed since the selected policies were played; use another folder"
            )
        s.auditor.event(f"data changed: {difference}")


def calibrate(s: Session, parts: Parts) -> TuningRecord:
    """Phase 2: tuning.json and the known policies' part of values.csv."""
    started = time.monotonic()
    for job in jobs_before(s.study, parts):
        do(s, parts, [job])
    (result,) = do(s, parts, [calibration_job(s.study, parts)])
    tuning = read_result(result, TuningRecord)
    s.keep("tuning.json", tuning)
    _keep_values(s, [result])
    assert tuning.trust is not None
    s.finished(
        "tuning",
        f"{tuning.estimator}: setting {(tuning.chosen or 0) + 1} of {len(tuning.configurations)} is the best on"
        f" {'the known policies' if parts.known else 'clones of the logs, for no policy behind them is known'};"
        f" verdict: {tuning.trust.verdict} ({_in_short(tuning.trust.reasons)})",
        started,
    )
    return tuning


def _in_short(reasons: Sequence[str]) -> str:
    """The first, which is the gravest; tuning.json has all."""
    rest = len(reasons) - 1
    return "; ".join(reasons[:1]) + (f"; tuning.json has {counted(rest, 'reason')} more" if rest > 0 else "")


def train(s: Session, parts: Parts) -> list[Job]:
    """Phase 3: every configuration × policy seed; curves.csv."""
    started, jobs = time.monotonic(), training_jobs(s.study, parts)
    for job in jobs_before_training(s.study, parts):
        do(s, parts, [job])
    folders = do(s, parts, jobs)
    s.keep_table("curves.csv", CurveRow, join_tables(CurveRow, [path / "curves.csv" for path in folders], remedy))
    results = [read_trained(path) for path in folders]
    s.auditor.note(device=", ".join(sorted({result.device for result in results})))
    diverged = sum(m.diverged_at >= 0 for result in results for m in result.members)
    policies, algorithms = sum(len(result.members) for result in results), len(s.study.search.algorithms)
    s.finished("training", f"{policies} policies of {algorithms} algorithms, {diverged} diverged", started)
    return jobs


def evaluate(s: Session, parts: Parts, trained: Sequence[Job], tuning: TuningRecord) -> list[Job]:
    """Phase 4, first half: the offline value of every candidate; values.csv."""
    started = time.monotonic()
    calibration = calibration_job(s.study, parts)
    s.advance(0, total=all_updates(s.study, parts, tuning))
    jobs = [evaluation_job(s.study, parts, job, tuning) for job in trained]
    folders = do(s, parts, jobs)
    _keep_values(s, [s.store.path(calibration.id), *folders])
    policies = [policy for path in folders for policy in read_result(path, EvaluatedRecord).policies]
    words = Counter((e.verdict, e.grade) for policy in policies for e in policy.valuation.estimates)
    counts = [f"{count} {word}{'' if grade == 'sound' else f' ({grade})'}" for (word, grade), count in words.items()]
    said = f"{counted(words.total(), 'offline value')} of {len(policies)} policies: {', '.join(counts)}"
    s.finished("evaluation", said, started)
    return jobs


def _keep_values(s: Session, folders: Sequence[Path]) -> None:
    files = [path / "values.csv" for path in folders]
    s.keep_table("values.csv", ValueRow, join_tables(ValueRow, files, remedy, task=s.study.label))


def candidates(s: Session, trained: Sequence[Job], evaluated: Sequence[Job]) -> list[Candidate]:
    """Every candidate with its estimates."""
    folders = {s.store.path(job.id): read_trained(s.store.path(job.id)) for job in trained}
    return candidates_of_jobs(folders, [read_result(s.store.path(job.id), EvaluatedRecord) for job in evaluated])


def choose(s: Session, parts: Parts, found: Sequence[Candidate], tuning: TuningRecord) -> Selection:
    """Phase 4, second half: the configuration of each algorithm, and its seeds as one policy."""
    valuer = estimator_of(s.study)
    chosen = select(found, valuer.estimator.rule, valuer.estimator.disagreement_penalty(valuer.config))
    return unite(s, parts, found, chosen, tuning)


def keep_selection(
    s: Session, parts: Parts, found: Sequence[Candidate], chosen: Selection, tuning: TuningRecord
) -> Selection:
    """Its result: selection.json, the winners' policies, results.csv, and a warning in tuning.json."""
    started = time.monotonic()
    selection = export(s, found, chosen, tuning)
    path = s.folder / "selection.json"
    new = not path.exists() or read_json(path, Selection, remedy(path)) != selection
    s.keep("selection.json", selection)
    overall = selection.overall
    if overall is not None and overall.policy is not None:
        choices = choices_of(Policy.load(s.folder / overall.policy), parts.composition)
        if choices is not None:
            s.keep("choices.json", choices)
    if new:
        s.auditor.event("selected" if overall else "nothing selected")
    s.keep("tuning.json", warned(tuning, found, selection))
    write_results(s, found, selection)
    for name, entry in selection.algorithms.items():
        if entry.file is not None:
            s.say(f"    {name}: deploys {entry.file}")
    what = f"{overall.algorithm}, configuration {overall.configuration}: {overall.reason}" if overall else None
    s.finished("selection", what or selection.nothing or "", started)
    return selection


def _candidates_calls() -> int:
    """Environment calls of any kind in this process, except collection's."""
    everything, collection = envs.environment_calls(), envs.environment_calls("collection")
    return sum(getattr(everything, n) - getattr(collection, n) for n in ("environments", "resets", "steps"))
