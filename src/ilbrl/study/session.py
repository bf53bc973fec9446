"""A study at work in its folder: jobs are done through it, and everything that happens is told and recorded."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from ilbrl.agents.fit import require_committee
from ilbrl.base.errors import IlbrlError, printable
from ilbrl.base.files import append, locked, make_folder
from ilbrl.base.progress import Advance, in_words, progress
from ilbrl.base.records import differences, write_csv, write_json
from ilbrl.envs.tasks import require_imported
from ilbrl.learning.loggers import DASHBOARDS, require_dashboards
from ilbrl.results.folder import remedy
from ilbrl.results.schema import Audit, TuningRecord
from ilbrl.results.vouching import vouch_for
from ilbrl.study import executors
from ilbrl.study.audit import Auditor, study_hash
from ilbrl.study.estimator import estimator_of, settled
from ilbrl.study.evaluation import calibration_job, jobs_before
from ilbrl.study.imagining import imagination_of
from ilbrl.study.jobs import RECIPE, Job, Store, digest
from ilbrl.study.known import named_by
from ilbrl.study.logs import Parts
from ilbrl.study.search import configurations_of, draw
from ilbrl.study.study import Study
from ilbrl.study.training import jobs_before_training, read_trained, updates_of

PHASES = ("logs", "split", "tuning", "training", "evaluation", "selection", "final")
MOST_POLICIES = 100_000  # of one study


@dataclass(frozen=True)
class Session:
    """A study at work in its folder."""

    study: Study
    folder: Path
    store: Store
    execute: executors.Execute
    auditor: Auditor
    quiet: bool
    dashboards: tuple[str, ...]
    started: float
    advance: Advance = lambda n=1, note="", total=None: None

    def say(self, line: str) -> None:
        """On standard error (unless quiet) and in log.txt."""
        if not self.quiet:
            print(printable(line), file=sys.stderr, flush=True)
        note(self.folder, line)

    def finished(self, phase: str, what: str, started: float) -> None:
        """One line about a finished phase."""
        number = f"{PHASES.index(phase) + 1}/{len(PHASES)}"
        self.say(f"{number} {phase:<11}{what} ({in_words(time.monotonic() - started)})")

    def keep(self, name: str, record: Any) -> None:
        """Write a JSON file of the run folder, and record in the audit what it is."""
        write_json(self.folder / name, record)
        self.auditor.vouch(name, self.folder / name)

    def keep_table(self, name: str, kind: type, rows: Iterable[Any]) -> None:
        """The same for a CSV file."""
        write_csv(self.folder / name, kind, rows)
        self.auditor.vouch(name, self.folder / name)


@contextmanager
def open_session(
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
    require_dashboards(dashboards)
    if study.task is not None:
        require_imported(study.task)
    planned_policies(study)  # checks every range and setting before anything is written
    named_by(study)
    execute = executors.executor(executor, **(options or {}))
    make_folder(out)
    busy = f"{out}: another run is at work here ({{holder}}); wait for it, stop it, or use another folder"
    with locked(out / ".lock", busy):
        auditor = Auditor(out)
        study, changed = claim(out, study, change, auditor.record)
        auditor.begin(study, executor, command)
        for difference in changed:
            auditor.event(f"study changed: {difference}")
        make_folder(out / "jobs")
        try:
            yield Session(study, out, Store(out / "jobs"), execute, auditor, quiet, tuple(dashboards), time.monotonic())
        except BaseException as error:
            note(out, f"stopped: {type(error).__name__} {error}")
            raise


def claim(folder: Path, study: Study, change: bool, audit: Audit | None = None) -> tuple[Study, list[str]]:
    """Write study.toml, or check that the folder's is the same.

    Returns the study as it is written, and what differs, where a `change` was asked for.
    """
    path, played = folder / "study.toml", (folder / "final.json").exists()
    if played and not path.exists():
        raise IlbrlError(
            f"{folder}: holds true scores (final.json) and no study.toml that says of what; use another folder"
        )
    if played and audit is not None and audit.recipe != RECIPE:
        raise IlbrlError(
            f"{folder}: its selected policies were already played in the environment, and its jobs are of another"
            " version of ilbrl (audit.json names its commit), so that this one would do all of them again; continue it"
            " with that one, or use another folder"
        )
    begun = _begun(path) if path.exists() else None
    study = settled(replace(study, name=study.name or (begun.name if begun else folder.resolve().name)), begun)
    changed = [] if begun is None else [*differences(settled(begun), study), *_edited(folder, begun, audit)]
    if changed and not (change or played or _nothing_done(folder)):
        raise IlbrlError(
            f"{folder}: belongs to another study ({'; '.join(changed)}); use another folder, or say --change to go on"
            " here with the new one: only what depends on the difference is computed again"
        )
    if changed and played:
        raise IlbrlError(
            f"{folder}: its selected policies were already played in the environment, and a study changed after that is"
            f" no longer blind ({'; '.join(changed)}); use another folder"
        )
    study.save(path)
    return study, changed


def _begun(path: Path) -> Study:
    try:
        return Study.load(path)
    except IlbrlError as error:
        raise IlbrlError(
            f"{error}. Its run may be one of an earlier version of ilbrl: continue it with that one (audit.json names"
            " its commit), or use another folder"
        ) from None


def _edited(folder: Path, begun: Study, audit: Audit | None) -> list[str]:
    """Whether study.toml says something else than when this folder was last worked in; its layout does not matter."""
    if audit is None or vouch_for(folder, "study.toml", audit).state != "disagrees":
        return []
    same = study_hash(begun) == audit.study_hash
    return [] if same else ["study.toml is not the one that ran here: audit.json has another hash"]


def _nothing_done(folder: Path) -> bool:
    """Whether a run began here and finished no job: such a folder may be reused, so that a typo costs nothing."""
    finished = (path for path in (folder / "jobs").glob("*") if not path.name.startswith("."))
    return (folder / "audit.json").exists() and not any(finished)


@contextmanager
def showing_progress(s: Session, parts: Parts) -> Iterator[Session]:
    """The same session with a bar over all updates of the study, where standard error is a terminal."""
    quiet = s.quiet or not sys.stderr.isatty()  # the line about the time ahead has been said
    with progress(s.study.name, all_updates(s.study, parts), "updates", quiet) as advance:
        yield replace(s, advance=advance)


def check(s: Session, job: Job) -> str:
    """Refuse a finished job whose files are not what it left, by job.json and by the audit; the hash of job.json."""
    found, record = s.store.check(job), s.store.path(job.id) / "job.json"
    if s.auditor.audit.jobs.get(job.id, found) != found:
        raise IlbrlError(
            f"{record}: is not what the study wrote: its hash differs from the one in audit.json; {remedy(record)}"
        )
    return found


def do(s: Session, parts: Parts, jobs: Sequence[Job]) -> list[Path]:
    """The folders of these jobs' results; those that are not there yet are done now. The audit vouches for them."""
    missing = [job for job in jobs if not s.store.has(job)]
    vouched = {job.id: check(s, job) for job in jobs if job not in missing}
    finished = len(jobs) - len(missing)
    s.advance(sum(job.updates for job in jobs if job not in missing))

    def doing() -> str:
        return f"{jobs[0].kind}: job {min(finished + 1, len(jobs))} of {len(jobs)}, {jobs[0].members} members"

    def done(job: Job) -> None:
        nonlocal finished
        finished += 1
        vouched[job.id] = digest(s.store.path(job.id) / "job.json")
        if job.kind == "train":
            _tell_dashboards(s, job)

    if missing:
        s.advance(0, note=f"{doing()}, compiling")
    s.execute(missing, parts, s.store, lambda updates: s.advance(updates, note=doing()), done)
    s.auditor.note(jobs=s.auditor.audit.jobs | vouched)
    return [s.store.path(job.id) for job in jobs]


def all_updates(study: Study, parts: Parts, tuning: TuningRecord | None = None) -> int:
    """Of the calibration, of what it and the training build on, and of the candidates."""
    jobs = [*jobs_before(study, parts), calibration_job(study, parts), *jobs_before_training(study, parts)]
    return sum(job.updates for job in jobs) + planned_updates(study, updates_of(study, parts), tuning)


def planned_updates(study: Study, training: int, tuning: TuningRecord | None = None) -> int:
    """Of the candidates, in training (of so many updates each) and evaluation.

    A calibration may find that evaluation needs fewer.
    """
    chosen = estimator_of(study)
    each = chosen.estimator.updates(chosen.config, chosen.seeds)
    if tuning is not None and tuning.updates is not None:
        each = tuning.updates * len(chosen.seeds)
    united = len(study.search.algorithms) if study.evaluation.together and study.training.seeds > 1 else 0
    return planned_policies(study) * (study.training.committee * training + each) + united * each


def planned_policies(study: Study) -> int:
    """How many policies a study trains; what it asks of them and of the estimator is checked."""
    configurations = sum(configurations_of(study.search, name) for name in study.search.algorithms)
    drawn = configurations * study.training.seeds
    if drawn > MOST_POLICIES:
        raise IlbrlError(
            f"search.configurations: {configurations:,} configurations of {len(study.search.algorithms)} algorithms"
            f" × {study.training.seeds:,} seeds are {drawn:,} policies; at most {MOST_POLICIES:,} make one study"
        )
    for name in study.search.algorithms:
        require_committee([c.config for c in draw(study.search, name, study.seed)], study.training.committee)
    estimator_of(study)
    imagination_of(study)
    return drawn


def _tell_dashboards(s: Session, job: Job) -> None:
    result = s.store.path(job.id)
    members = [m.policy.removesuffix(".safetensors") for m in read_trained(result).members]
    if (committee := job.inputs["committee"]) > 1:
        members = [f"{member}-training{number}" for member in members for number in range(committee)]
    records = [json.loads(line) for line in (result / "metrics.jsonl").read_text().splitlines()] if s.dashboards else []
    records.sort(key=lambda record: record["update"])  # Weights & Biases takes no earlier update after a later one
    for name in s.dashboards:
        with DASHBOARDS[name](s.folder / name, f"{job.inputs['algorithm']}-{job.id[-8:]}", members) as log:
            for record in records:
                log(record)


def note(folder: Path, line: str) -> None:
    """Into log.txt alone."""
    append(folder / "log.txt", f"{datetime.now().isoformat(timespec='seconds')}  {line}")
