"""audit.json: what a study used, and what it touched when."""

from __future__ import annotations

import hashlib
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ilbrl.base.errors import IlbrlError
from ilbrl.base.provenance import commit, versions
from ilbrl.base.records import read_json, toml_text, write_json
from ilbrl.results.folder import remedy
from ilbrl.results.schema import STAGES, Audit, Event
from ilbrl.study.estimator import estimator_of
from ilbrl.study.jobs import RECIPE
from ilbrl.study.logs import Logs, Parts, sources
from ilbrl.study.search import ranges_of
from ilbrl.study.study import Study


class Auditor:
    """Keeps the audit of one run folder; the file is written after every change."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "audit.json"
        self.record: Audit | None = None
        if self.path.exists():
            self.record = read_json(self.path, Audit, remedy(self.path))
            if lacking := [stage for stage in STAGES if stage not in self.record.environment_calls]:
                raise IlbrlError(f"{self.path}: environment_calls.{lacking[0]}: not there; {remedy(self.path)}")

    @property
    def audit(self) -> Audit:
        assert self.record is not None  # `begin` comes first
        return self.record

    def begin(self, study: Study, executor: str, command: str | None) -> None:
        """Open the record, or note that the run is continued, and with which commit if it is not the first one."""
        here, before = commit(), self.record
        fresh = Audit(
            command=command or " ".join(sys.argv),
            started=_now(),
            commit=here,
            environment_calls=dict.fromkeys(STAGES, 0),
        )
        what = "started"
        if before is not None:
            what = "continued" if before.commit == here else f"continued with commit {here}"
        self.record = replace(
            before or fresh,
            study_hash=study_hash(study),
            seeds={"study": study.seed, "policy": study.policy_seeds, "evaluation": estimator_of(study).seeds},
            versions=versions(),
            executor=executor,
            recipe=RECIPE,
        )
        self.event(what)

    def note(self, **entries: Any) -> None:
        self.record = replace(self.audit, **entries)
        write_json(self.path, self.record)

    def event(self, what: str) -> None:
        self.note(events=(*self.audit.events, Event(_now(), what)))

    def vouch(self, name: str, path: Path) -> None:
        """Record what a file of the folder is, so that a reader sees whether it is still the same."""
        self.note(files={**self.audit.files, name: hashlib.sha256(path.read_bytes()).hexdigest()})

    def played(self, stage: str, steps: int) -> None:
        """Add environment steps of a stage."""
        calls = self.audit.environment_calls
        self.note(environment_calls=calls | {stage: calls[stage] + steps})

    def played_once(self, stage: str, steps: int, what: str) -> None:
        """The same together with its event, unless that is there already: a run may be killed before or after this."""
        if all(event.what != what for event in self.audit.events):
            calls = self.audit.environment_calls
            added = calls | {stage: calls[stage] + steps}
            self.note(environment_calls=added, events=(*self.audit.events, Event(_now(), what)))

    def finish(self) -> None:
        self.note(finished=_now())

    def changed_data(self, logs: Logs) -> list[str]:
        """The logs whose content is no longer what was recorded."""
        recorded = {role: source.content_hash for role, source in self.audit.data.items()}
        return [
            f"the content of {data.source} ({role})"
            for role, data in logs.items()
            if recorded.get(role, data.content_hash) != data.content_hash
        ]

    def note_data(self, study: Study, logs: Logs, parts: Parts) -> None:
        """The logs and their parts, and the ranges of the search, which depend on the kind of actions."""
        ranges = {name: _texts(study, name, parts.discrete) for name in study.search.algorithms}
        self.note(data=sources(logs), splits=parts.sizes(), ranges=ranges)


def study_hash(study: Study) -> str:
    """SHA-256 of the study as TOML, every default written out."""
    return hashlib.sha256(toml_text(study).encode()).hexdigest()


def _texts(study: Study, algorithm: str, discrete: bool) -> dict[str, Any]:
    ranges = ranges_of(study.search, algorithm, discrete)
    return {name: {"kind": r.kind, "values": list(r.values)} for name, r in ranges.items()}


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
