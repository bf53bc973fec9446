"""Who does the jobs. Executors never regroup them: the same jobs give the same results everywhere.

An executor is `execute(jobs, parts, store, report, done)`: it does the jobs (in any order), tells `report` of updates
as far as it can, leaves every result in the store and calls `done(job)` after each.

`local` does them here, one after the other; each population spreads over all devices of this machine.
`ray` does them on a Ray cluster: one task per job, a whole GPU each where the cluster has GPUs. Nothing is assumed
about file systems: the split logs travel through Ray's object store, what a job builds on travels with it, and its
files come back as bytes, which the driver writes. A worker or node that dies costs the jobs it was at, which Ray starts
again elsewhere. Progress moves when a job is done.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import jax

from ilbrl.base.errors import IlbrlError
from ilbrl.base.processes import usable_cores
from ilbrl.study.jobs import Job, Report, Store, contents, work, write_files
from ilbrl.study.logs import Parts

RETRIES = 5  # of a job whose worker died

Execute = Callable[[Sequence[Job], Parts, Store, Report, Callable[[Job], None]], None]


def executor(name: str, **options: Any) -> Execute:
    """The executor of this name; options (Ray's `address`, say) are its own."""
    if name not in EXECUTORS:
        raise IlbrlError(f"no executor {name!r}: there are {', '.join(EXECUTORS)}")
    return partial(EXECUTORS[name], **options)


def spread_over_cores() -> None:
    """Make every core a device of its own, so that a population fills them: small networks keep one core busy each.

    For commands, before they first use JAX; where it is in use already, its devices stay as they are.
    """
    with contextlib.suppress(RuntimeError):
        jax.config.update("jax_num_cpu_devices", usable_cores())


def on_this_machine(
    jobs: Sequence[Job], parts: Parts, store: Store, report: Report, done: Callable[[Job], None]
) -> None:
    for job in jobs:
        work(job, parts, {id: store.path(id) for id in job.upstream}, store.workplace(job), report)
        store.finish(job)
        done(job)


def on_ray(
    jobs: Sequence[Job],
    parts: Parts,
    store: Store,
    report: Report,
    done: Callable[[Job], None],
    address: str | None = None,
    cpus_per_job: float = 1,
) -> None:
    try:
        import ray
    except ModuleNotFoundError:
        raise IlbrlError('the ray executor needs Ray: pip install "ilbrl[ray]"') from None
    if not jobs:
        return
    if not ray.is_initialized():
        try:
            ray.init(address=address, log_to_driver=False, include_dashboard=False if address is None else None)
        except ConnectionError as error:
            raise IlbrlError(f"no Ray cluster answers at {address}: {error}") from None
    gpus = 1 if ray.cluster_resources().get("GPU", 0) >= 1 else 0
    task = ray.remote(_elsewhere).options(num_cpus=cpus_per_job, num_gpus=gpus, max_retries=RETRIES)
    shared = ray.put(parts)
    pending: dict[Any, Job] = {
        task.remote(job, shared, {id: store.contents(id) for id in job.upstream}): job for job in jobs
    }
    try:
        while pending:
            (ready,), _ = ray.wait(list(pending), num_returns=1)
            job = pending.pop(ready)
            store.receive(job, _result(ray, ready, job))
            report(job.updates)
            done(job)
    finally:
        for unfinished_task in pending:  # Ctrl-C, or a job that failed: nobody waits for the others any more
            ray.cancel(unfinished_task, force=True)


def _result(ray: Any, reference: Any, job: Job) -> dict[str, bytes]:
    try:
        return ray.get(reference)
    except ray.exceptions.RayTaskError as error:
        if isinstance(error.cause, IlbrlError):
            raise error.cause from None
        raise
    except ray.exceptions.RayError as error:
        raise IlbrlError(
            f"{job.id}: its worker died {RETRIES + 1} times ({type(error).__name__}), perhaps for want of memory: fewer"
            " members per job (training.members_per_job) need less"
        ) from None


def _elsewhere(job: Job, parts: Parts, upstream: dict[str, dict[str, bytes]]) -> dict[str, bytes]:
    """Do a job in a folder of this worker, and send its files back."""
    with tempfile.TemporaryDirectory(prefix="ilbrl-job-") as name:
        here = Path(name)
        for id, files in upstream.items():
            write_files(here / id, files)
        folder = here / "result"
        folder.mkdir()
        work(job, parts, {id: here / id for id in job.upstream}, folder, lambda updates: None)
        return contents(folder)


EXECUTORS: dict[str, Callable[..., None]] = {"local": on_this_machine, "ray": on_ray}
