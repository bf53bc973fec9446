"""Jobs: pure functions of their inputs, addressed by the hash of these, whose results appear whole or not at all.

A job is a kind, inputs that JSON can hold (settings, content hashes of the data it reads) and the jobs whose results it
builds on. Its result is the folder jobs/KIND-HASH. Resuming is skipping what exists; changing an input changes the
hash, of this job and of those that build on it, and of no other.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from ilbrl import envs
from ilbrl.base.errors import IlbrlError
from ilbrl.base.records import read_json, write_json
from ilbrl.learning.loggers import Log
from ilbrl.policy import Policy
from ilbrl.results.folder import remedy
from ilbrl.results.schema import JobRecord
from ilbrl.study.logs import Parts

T = TypeVar("T")
RECIPE = 10  # raise it when the same inputs come to give another result
UNFINISHED = ("checkpoint", ".")  # how names begin of what only serves an unfinished job

KINDS = {
    "imagine": "ilbrl.study.imagining.imagine_steps",
    "label": "ilbrl.study.training.label_rows",
    "train": "ilbrl.study.training.train_group",
    "clone": "ilbrl.study.evaluation.clone_logs",
    "prepare": "ilbrl.study.evaluation.prepare_estimator",
    "calibrate": "ilbrl.study.evaluation.calibrate_estimator",
    "evaluate": "ilbrl.study.evaluation.evaluate_group",
    "unite": "ilbrl.study.uniting.unite_seeds",
    "final": "ilbrl.study.final.play",
}
"""Kind → the function that does the work, of an `Assignment`."""
IN_THE_ENVIRONMENT = ("final",)

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


class Assignment(NamedTuple):
    """What the work of a job is given."""

    inputs: Mapping[str, Any]  # what the job's hash is made of
    parts: Parts  # the split logs
    upstream: Mapping[str, Path]  # id → folder of each job it builds on
    folder: Path  # where its files go, and where it finds its checkpoints when it was killed before
    report: Report  # told of updates as they are done

    def result(self, kind: str, record: type[T]) -> T:
        """The result of the job upstream that is of this kind."""
        return read_result(self.of_kind(kind), record)

    def of_kind(self, kind: str) -> Path:
        return next(path for id, path in self.upstream.items() if id.startswith(f"{kind}-"))

    def builds_on(self, kind: str) -> bool:
        return any(id.startswith(f"{kind}-") for id in self.upstream)

    def finish(self, record: Any) -> None:
        """Write the job's result."""
        write_json(self.folder / "result.json", record)


def work(job: Job, parts: Parts, upstream: Mapping[str, Path], folder: Path, report: Report) -> None:
    """Do the job. Whatever is not the final evaluation finds every environment closed."""
    module, _, name = KINDS[job.kind].rpartition(".")
    function = getattr(importlib.import_module(module), name)
    task = Assignment(job.inputs, parts, upstream, folder, report)
    if job.kind in IN_THE_ENVIRONMENT:
        function(task)
        return
    with envs.closed(f"a {job.kind} job"):
        function(task)


def read_result(folder: Path, record: type[T]) -> T:
    return read_json(folder / "result.json", record, remedy(folder / "result.json"))


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
        for path in unfinished(place):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        kept = [path for path in files_in(place) if path.name != "job.json"]
        digests = {str(path.relative_to(place)): digest(path) for path in kept}
        write_json(place / "job.json", JobRecord(job.kind, dict(job.inputs), job.upstream, digests))
        for file in kept:
            with file.open("rb") as stream:
                os.fsync(stream.fileno())
        place.rename(self.path(job.id))
        return self.path(job.id)

    def check(self, job: Job) -> str:
        """Refuse a finished job whose files are not what it left; the SHA-256 of its job.json."""
        record = self.path(job.id) / "job.json"
        for name, expected in read_json(record, JobRecord, remedy(record)).files.items():
            file = record.parent / name
            if not file.is_file() or digest(file) != expected:
                what = "is not what its job left" if file.exists() else "is missing"
                raise IlbrlError(f"{file}: {what}; {remedy(file)}")
        return digest(record)

    def receive(self, job: Job, files: Mapping[str, bytes]) -> Path:
        """The result of a job that was done elsewhere."""
        shutil.rmtree(self.workplace(job))
        write_files(self.workplace(job), files)
        return self.finish(job)

    def contents(self, id: str) -> dict[str, bytes]:
        """The files of a finished job, to be sent elsewhere."""
        return contents(self.path(id))


def contents(folder: Path) -> dict[str, bytes]:
    """Relative name → content of what a job keeps."""
    aside = set(unfinished(folder))
    found = [path for path in files_in(folder) if folder / path.relative_to(folder).parts[0] not in aside]
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


def write_files(folder: Path, files: Mapping[str, bytes]) -> None:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)


def files_in(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def unfinished(place: Path) -> list[Path]:
    """Checkpoints, and what a killed process was writing."""
    return [path for path in place.iterdir() if path.name.startswith(UNFINISHED)]


def digest(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def fingerprint(policy: Any) -> str:
    """SHA-256 of what makes a policy act as it does: in a job's inputs a policy is how it acts, not where it lies."""
    assert isinstance(policy, Policy)
    found = hashlib.sha256(repr((policy.head, policy.activation, policy.log_std_bounds, policy.mean_bound)).encode())
    layers = (array for layer in policy.layers for array in layer if array is not None)
    for array in (*layers, policy.action_low, policy.action_high):
        found.update(array.tobytes())
    for array in (policy.obs_mean, policy.obs_std):
        found.update(b"" if array is None else array.tobytes())
    return found.hexdigest()


def counted(report: Report) -> Log:
    """A logger of the training loop that tells `report` of the updates of all members since the last record."""
    before = 0

    def log(record: dict[str, Any]) -> None:
        nonlocal before
        if record["update"] <= before:  # the next group of a population that did not fit into memory
            before = 0
        report((record["update"] - before) * len(record["diverged"]))
        before = record["update"]

    return log
