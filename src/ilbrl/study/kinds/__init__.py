"""What jobs do: one file per kind, all called alike.

    work(inputs, parts, upstream, folder, report)

inputs: what the job's hash is made of. parts: the split logs. upstream: folders of the jobs it builds on. folder: where
its files go, and where it finds its checkpoint when it was killed before. report: told of updates as they are done.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ilbrl import envs
from ilbrl.study.jobs import Job, Report
from ilbrl.study.logs import Parts

KINDS = {
    "describe": "ilbrl.study.kinds.describe",
    "tune-ope": "ilbrl.study.kinds.tune_ope",
    "train": "ilbrl.study.kinds.train",
    "evaluate": "ilbrl.study.kinds.evaluate",
    "final": "ilbrl.study.kinds.final",
}
IN_THE_ENVIRONMENT = ("final",)


def work(job: Job, parts: Parts, upstream: Sequence[Path], folder: Path, report: Report) -> None:
    """Do the job. Whatever is not the final evaluation finds every environment closed."""
    function = importlib.import_module(KINDS[job.kind]).work
    inputs: Mapping[str, Any] = job.inputs
    if job.kind in IN_THE_ENVIRONMENT:
        function(inputs, parts, upstream, folder, report)
        return
    with envs.closed(f"a {job.kind} job"):
        function(inputs, parts, upstream, folder, report)
