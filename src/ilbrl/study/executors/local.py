"""All jobs here, one after the other; each population spreads over all devices of this machine."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence

import jax

from ilbrl.base.processes import usable_cores
from ilbrl.study.jobs import Job, Report, Store
from ilbrl.study.kinds import work
from ilbrl.study.logs import Parts


def execute(jobs: Sequence[Job], parts: Parts, store: Store, report: Report, done: Callable[[Job], None]) -> None:
    for job in jobs:
        work(job, parts, [store.path(id) for id in job.upstream], store.workplace(job), report)
        store.finish(job)
        done(job)


def spread_over_cores() -> None:
    """Make every core a device of its own, so that a population fills them: small networks keep one core busy each.

    For commands, before they first use JAX; where it is in use already, its devices stay as they are.
    """
    with contextlib.suppress(RuntimeError):
        jax.config.update("jax_num_cpu_devices", usable_cores())
