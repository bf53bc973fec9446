"""All jobs here, one after the other; each population spreads over all devices of this machine."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ilbrl.protocol.jobs import Job, Report, Store
from ilbrl.protocol.kinds import work
from ilbrl.protocol.logs import Parts


def execute(jobs: Sequence[Job], parts: Parts, store: Store, report: Report, done: Callable[[Job], None]) -> None:
    for job in jobs:
        work(job, parts, [store.path(id) for id in job.upstream], store.workplace(job), report)
        store.finish(job)
        done(job)
