"""Who does the jobs. Executors never regroup them: the same jobs give the same results everywhere.

An executor is `execute(jobs, parts, store, report, done)`: it does the jobs (in any order), tells `report` of updates
as far as it can, leaves every result in the store and calls `done(job)` after each.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from ilbrl.base.errors import IlbrlError
from ilbrl.study.jobs import Job, Report, Store
from ilbrl.study.logs import Parts

Execute = Callable[[Sequence[Job], Parts, Store, Report, Callable[[Job], None]], None]

EXECUTORS = {"local": "ilbrl.study.executors.local", "ray": "ilbrl.study.executors.ray"}


def executor(name: str, **options: Any) -> Execute:
    """The executor of this name; options (Ray's `address`, say) are its own."""
    if name not in EXECUTORS:
        raise IlbrlError(f"no executor {name!r}: there are {', '.join(EXECUTORS)}")
    return partial(importlib.import_module(EXECUTORS[name]).execute, **options)
