"""Jobs: pure functions of their inputs, addressed by the hash of these, whose results appear whole or not at all.

A job is a kind (see `kinds/`), inputs that JSON can hold (settings, content hashes of the data it reads) and the jobs
whose results it builds on. Its result is the folder jobs/KIND-HASH. Resuming is skipping what exists; changing an input
changes the hash, of this job and of those that build on it, and of no other.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ilbrl.base.files import written_whole
from ilbrl.study.folder import damaged, read_json

RECIPE = 1  # raise it when the same inputs come to give another result
UNFINISHED = ("checkpoint",)  # how files begin that only serve an unfinished job

Report = Callable[[int], None]
"""Takes the number of updates done since it was last called."""


@dataclass(frozen=True)
class Job:
    kind: str
    inputs: Mapping[str, Any]  # JSON-able
    upstream: tuple[str, ...] = ()  # ids of the jobs it builds on
    updates: int = field(default=0, compare=False)  # how much work it is, for the progress bar
    members: int = field(default=0, compare=False)

    @property
    def id(self) -> str:
        """KIND-HASH: 16 hexadecimal digits of SHA-256 over the recipe, the inputs and the ids upstream."""
        text = json.dumps([RECIPE, self.kind, self.inputs, self.upstream], sort_keys=True, allow_nan=False)
        return f"{self.kind}-{hashlib.sha256(text.encode()).hexdigest()[:16]}"


@dataclass(frozen=True)
class Store:
    """The folder of finished jobs."""

    folder: Path

    def has(self, job: Job) -> bool:
        return self.path(job.id).is_dir()

    def path(self, id: str) -> Path:
        return self.folder / id

    def workplace(self, job: Job) -> Path:
        """Where a job leaves its files while it is not finished; what it finds there, it continues."""
        place = self.folder / f".{job.id}.partial"
        place.mkdir(parents=True, exist_ok=True)
        return place

    def finish(self, job: Job) -> Path:
        """Make the workplace the result, in one step."""
        place = self.workplace(job)
        for file in unfinished(place):
            file.unlink()
        files = {path.name: _digest(path) for path in sorted(place.iterdir()) if path.name != "job.json"}
        record = {"kind": job.kind, "inputs": job.inputs, "upstream": job.upstream, "files": files}
        with written_whole(place / "job.json") as partial:
            partial.write_text(json.dumps(record, indent=1, sort_keys=True) + "\n")
        for file in place.iterdir():
            with file.open("rb") as stream:
                os.fsync(stream.fileno())
        place.rename(self.path(job.id))
        return self.path(job.id)

    def check(self, job: Job) -> None:
        """Refuse a finished job whose files are not what it left; jobs from before these were recorded pass."""
        folder = self.path(job.id)
        for name, digest in read_json(folder / "job.json").get("files", {}).items():
            file = folder / name
            if not file.is_file() or _digest(file) != digest:
                raise damaged(file, "is missing" if not file.exists() else "is not what its job left")

    def receive(self, job: Job, files: Mapping[str, bytes]) -> Path:
        """The result of a job that was done elsewhere."""
        shutil.rmtree(self.workplace(job))
        place = self.workplace(job)
        for name, content in files.items():
            (place / name).write_bytes(content)
        return self.finish(job)

    def contents(self, id: str) -> dict[str, bytes]:
        """The files of a finished job, to be sent elsewhere."""
        return {path.name: path.read_bytes() for path in sorted(self.path(id).iterdir())}


def _digest(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def unfinished(place: Path) -> list[Path]:
    """Checkpoints, and what a killed process was writing."""
    return [path for path in place.iterdir() if path.name.startswith((*UNFINISHED, "."))]
