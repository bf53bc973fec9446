"""Updates as the training loop reports them, counted for a progress bar."""

from __future__ import annotations

from typing import Any

from ilbrl.learning.loggers import Log
from ilbrl.study.jobs import Report


def counted(report: Report) -> Log:
    """A logger that tells `report` of the updates of all members since the last record."""
    before = 0

    def log(record: dict[str, Any]) -> None:
        nonlocal before
        if record["update"] <= before:  # the next group of a population that did not fit into memory
            before = 0
        report((record["update"] - before) * len(record["diverged"]))
        before = record["update"]

    return log
