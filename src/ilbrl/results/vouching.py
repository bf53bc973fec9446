"""Whether the files of a run folder are what the study wrote.

audit.json has the SHA-256 of study.toml (`study_hash`), of every other file that a report shows (`files`) and of every
job's job.json (`jobs`), which has those of the job's own files. So a file that was edited afterwards disagrees with the
audit. final.json, reveal.json and tuning.json are copies of job results, and are also compared with these, where jobs
of their purpose are still there. A report leaves out what disagrees; a study goes on only from what agrees.

This finds accidents and edits of single files. Somebody who rewrites the whole folder, audit and jobs included, is not
found out: nothing here is signed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar

from ilbrl.base.errors import IlbrlError
from ilbrl.base.records import parse_json, read_json, read_text
from ilbrl.results.schema import Audit

T = TypeVar("T")

SHOWN = (
    "study.toml", "data.json", "tuning.json", "results.csv", "curves.csv", "values.csv", "selection.json",
    "choices.json", "final.json", "reveal.json",
)  # fmt: skip
COPIES = {"final.json": ("final", "final"), "reveal.json": ("final", "reveal"), "tuning.json": ("calibrate", None)}
"""File → kind and purpose of the job whose result it repeats."""


class Vouched(NamedTuple):
    """What can be said of one file."""

    name: str
    state: Literal["agrees", "disagrees", "unchecked"]
    because: str

    @property
    def why(self) -> str:
        """A sentence."""
        return f"{self.name} {self.because}."


def vouch(folder: Path, audit: Audit) -> dict[str, Vouched]:
    """Shown file → whether it is what the study wrote; files that are not there are left out."""
    return {name: vouch_for(folder, name, audit) for name in SHOWN if _is_file(folder / name)}


def read_vouched(path: Path, kind: type[T], audit: Audit, way_out: str) -> T:
    """What a JSON file of a run folder says, for a study that goes on from it.

    way_out: what to do where the file is damaged, or is not what the study wrote.
    """
    found = vouch_for(path.parent, path.name, audit)
    if found.state != "agrees" and _is_file(path):
        raise IlbrlError(f"{path}: {found.because}; {way_out}")
    return read_json(path, kind, way_out)


def vouch_for(folder: Path, name: str, audit: Audit) -> Vouched:
    """Whether one file is what the study wrote."""
    recorded = audit.study_hash if name == "study.toml" else audit.files.get(name)
    if recorded is not None and _digest(folder / name) != recorded:
        return Vouched(name, "disagrees", "is not what the study wrote: its hash differs from the one in audit.json")
    if name in COPIES:
        of_jobs = _vouch_copy(folder, name, audit)
        if of_jobs is not None:
            return of_jobs
    if recorded is None:
        return Vouched(name, "unchecked", "cannot be checked: audit.json has no hash of it")
    return Vouched(name, "agrees", "is what the study wrote, by its hash in audit.json")


def _vouch_copy(folder: Path, name: str, audit: Audit) -> Vouched | None:
    """A copy against the jobs that are still there; None: there is none to compare it with."""
    kind, purpose = COPIES[name]
    own = [path for path in _jobs(folder, kind) if _is_whole(path, audit.jobs.get(path.name), purpose)]
    if not own:
        return None
    shown = _comparable(_plain(folder / name))
    if any(_comparable(_plain(path / "result.json")) == shown for path in own):
        return Vouched(name, "agrees", "is the result of a job in this folder")
    return Vouched(name, "disagrees", "is not the result of any job in this folder")


def _jobs(folder: Path, kind: str) -> list[Path]:
    try:
        return sorted(path for path in (folder / "jobs").glob(f"{kind}-*") if path.is_dir())
    except OSError:
        return []


def _is_whole(job: Path, recorded: str | None, purpose: str | None) -> bool:
    """Whether a job of this purpose has the result that it left: job.json as the audit knows it, result.json as
    job.json knows it."""
    if recorded is None or _digest(job / "job.json") != recorded:
        return False
    record = _plain(job / "job.json")
    inputs, files = (record.get(name) if isinstance(record, Mapping) else None for name in ("inputs", "files"))
    if not isinstance(inputs, Mapping) or not isinstance(files, Mapping):
        return False
    return inputs.get("purpose") == purpose and files.get("result.json") == _digest(job / "result.json")


def _comparable(plain: Any) -> Any:
    """Without fields that are null, which a job of an earlier version may lack.

    tuning.json gets warnings about the selected policies after its job is done.
    """
    if not isinstance(plain, Mapping):
        return plain
    told, trust = {name: value for name, value in plain.items() if value is not None}, plain.get("trust")
    if not isinstance(trust, Mapping):
        return told
    return {**told, "trust": {**trust, "distance_warning": None, "value_warning": None}}


def _plain(path: Path) -> Any:
    try:
        return parse_json(read_text(path), path.name)
    except IlbrlError:
        return None


def _digest(path: Path) -> str | None:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest() if _is_file(path) else None
    except OSError:
        return None


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:
        return False
