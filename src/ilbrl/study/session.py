"""A study at work in its folder: jobs are done through it, and everything that happens is told and recorded."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ilbrl.base.errors import IlbrlError
from ilbrl.base.progress import Advance, progress
from ilbrl.learning.loggers import DASHBOARDS
from ilbrl.study import executors, folder
from ilbrl.study.audit import Audit
from ilbrl.study.evaluator import settings_of
from ilbrl.study.folder import read_json
from ilbrl.study.jobs import Job, Store
from ilbrl.study.logs import Parts
from ilbrl.study.narration import Narrator, duration
from ilbrl.study.search import draw
from ilbrl.study.study import Study

PHASES = ("logs", "split", "tuning", "training", "evaluation", "selection", "final")


@dataclass(frozen=True)
class Session:
    """A study at work in its folder."""

    study: Study
    folder: Path
    store: Store
    execute: executors.Execute
    audit: Audit
    narrator: Narrator
    dashboards: tuple[str, ...]
    advance: Advance = lambda n=1, note="", total=None: None

    def say(self, phase: str, what: str, started: float) -> None:
        """One line about a finished phase."""
        number = f"{PHASES.index(phase) + 1}/{len(PHASES)}"
        self.narrator.say(f"{number} {phase:<11}{what} ({duration(time.monotonic() - started)})")


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
    for name in dashboards:
        if name not in DASHBOARDS:
            raise IlbrlError(f"no dashboard {name!r}: there are {', '.join(DASHBOARDS)}")
    planned_updates(study)  # checks every range and setting before anything is written
    execute = executors.executor(executor, **(options or {}))
    with folder.alone(out):
        changed = folder.claim(out, study, change)
        audit, narrator = Audit(out), Narrator(out, quiet)
        audit.begin(study, executor, command)
        for difference in changed:
            audit.event(f"study changed: {difference}")
        (out / "jobs").mkdir(exist_ok=True)
        try:
            yield Session(study, out, Store(out / "jobs"), execute, audit, narrator, tuple(dashboards))
        except BaseException as error:
            narrator.note(f"stopped: {type(error).__name__} {error}")
            raise


@contextmanager
def showing_progress(s: Session) -> Iterator[Session]:
    """The same session with a bar over all updates of the study, where standard error is a terminal."""
    with progress(s.study.name, planned_updates(s.study), "updates", s.narrator.quiet) as advance:
        yield replace(s, advance=advance)


def do(s: Session, parts: Parts, jobs: Sequence[Job]) -> list[Path]:
    """The folders of these jobs' results; those that are not there yet are done now."""
    missing = [job for job in jobs if not s.store.has(job)]
    for job in jobs:
        if job not in missing:
            s.store.check(job)
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


def planned_updates(study: Study, evaluation_updates: int | None = None) -> int:
    """Of the whole study; what evaluations of candidates take is known once the evaluator is tuned."""
    evaluation, seeds = study.evaluation, len(study.evaluation_seeds)
    drawn = [draw(study.search, name, study.seed) for name in study.search.algorithms]
    policies = sum(map(len, drawn)) * study.training.seeds
    tuning = 2 * len(settings_of(evaluation)) * seeds * evaluation.evaluation_updates
    return tuning + policies * (study.training.updates + seeds * (evaluation_updates or evaluation.evaluation_updates))


def _tell_dashboards(s: Session, job: Job) -> None:
    result = s.store.path(job.id)
    members = [m["policy"].removesuffix(".safetensors") for m in read_json(result / "result.json")["members"]]
    for name in s.dashboards:
        with DASHBOARDS[name](s.folder / name, f"{job.inputs['algorithm']}-{job.id[-8:]}", members) as log:
            for line in (result / "metrics.jsonl").read_text().splitlines():
                log(json.loads(line))
