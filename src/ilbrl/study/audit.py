"""audit.json: what a study used, and what it touched when."""

from __future__ import annotations

import hashlib
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ilbrl.base.provenance import commit, versions
from ilbrl.study import toml
from ilbrl.study.folder import damaged, read_json, write_json
from ilbrl.study.logs import PARTS, Logs, Parts
from ilbrl.study.search import ranges_of
from ilbrl.study.study import Study

STAGES = ("collection", "candidates_before_selection", "final", "reveal")
NEEDED = ("command", "started", "data", "splits", "environment_calls", "events")  # what a continued run builds on


class Audit:
    """The audit of one run folder, written after every change."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "audit.json"
        self.record: dict[str, Any] = read_json(self.path, *NEEDED) if self.path.exists() else {}
        if self.record and set(STAGES) - self.record["environment_calls"].keys():
            raise damaged(self.path, "is damaged (environment_calls lacks a stage)")

    def begin(self, study: Study, executor: str, command: str | None) -> None:
        """Open the record, or note that the run is continued, and with which commit if it is not the first one."""
        what, here = "started", commit()
        if self.record:
            what = "continued" if self.record.get("commit", here) == here else f"continued with commit {here}"
        self.record = {
            "study_hash": study_hash(study),
            "command": self.record.get("command", command or " ".join(sys.argv)),
            "started": self.record.get("started", _now()),
            "finished": self.record.get("finished"),
            "seeds": {"study": study.seed, "policy": study.policy_seeds, "evaluation": study.evaluation_seeds},
            "ranges": {name: _texts(study, name) for name in study.search.algorithms},
            "data": self.record.get("data", {}),
            "splits": self.record.get("splits", {}),
            "versions": versions(),
            "commit": self.record.get("commit", here),
            "device": self.record.get("device"),
            "executor": executor,
            "environment_calls": self.record.get("environment_calls", dict.fromkeys(STAGES, 0)),
            "events": self.record.get("events", []),
        }
        self.event(what)

    def event(self, what: str) -> None:
        self.record["events"].append({"time": _now(), "what": what})
        self.write()

    def note(self, **entries: Any) -> None:
        self.record.update(entries)
        self.write()

    def played(self, stage: str, steps: int) -> None:
        """Add environment steps of a stage."""
        self.record["environment_calls"][stage] += steps
        self.write()

    def played_once(self, stage: str, steps: int, what: str) -> None:
        """The same together with its event, unless that is there already: a run may be killed before or after this."""
        if all(event["what"] != what for event in self.record["events"]):
            self.record["environment_calls"][stage] += steps
            self.event(what)

    def finish(self) -> None:
        self.note(finished=_now())

    def changed_data(self, logs: Logs) -> list[str]:
        """The logs whose content is no longer what was recorded."""
        recorded = {role: entry.get("content_hash") for role, entry in self.record["data"].items()}
        return [
            f"the content of {data.source} ({role})"
            for role, data in logs.by_role.items()
            if recorded.get(role, data.content_hash) != data.content_hash
        ]

    def note_data(self, logs: Logs, parts: Parts) -> None:
        self.note(
            data={
                role: {
                    "source": data.source,
                    "content_hash": data.content_hash,
                    "transitions": len(data),
                    "episodes": data.num_episodes,
                }
                for role, data in logs.by_role.items()
            },
            splits={
                name: {
                    "content_hash": parts.hashes[name],
                    "transitions": len(getattr(parts.composition, name)),
                    "episodes": getattr(parts.composition, name).num_episodes,
                }
                for name in PARTS
            },
        )

    def write(self) -> None:
        write_json(self.path, self.record)


def study_hash(study: Study) -> str:
    """SHA-256 of the study as TOML, every default written out."""
    return hashlib.sha256(toml.to_text(study).encode()).hexdigest()


def _texts(study: Study, algorithm: str) -> dict[str, Any]:
    return {name: {"kind": r.kind, "values": list(r.values)} for name, r in ranges_of(study.search, algorithm).items()}


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
