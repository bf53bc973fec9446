"""Worker processes for independent units of work, with results in order.

Plain child processes over pipes instead of `multiprocessing`: fork is unsafe once JAX has started its threads,
and spawn imports the caller's script again (JAX and all, and it fails where the script has no `__main__` guard).
A child imports what its function needs and nothing else.
"""

from __future__ import annotations

import os
import pickle
import platform
import queue
import subprocess
import sys
import traceback
from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from ilbrl.base.errors import IlbrlError

# One thread of linear algebra per process, because the processes already fill the cores. No AVX-512: short bursts of it
# slow down the scalar code around them (collecting hopper took a fifth longer), and AVX2 rounds alike on more machines.
LINEAR_ALGEBRA = {
    **dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"), "1"),
    **({"OPENBLAS_CORETYPE": "Haswell"} if platform.machine() in ("x86_64", "AMD64") else {}),
    "MKL_ENABLE_INSTRUCTIONS": "AVX2",
}


_children: set[subprocess.Popen[bytes]] = set()  # all that run now, for `end_children`


def usable_cores() -> int:
    """Cores this process may run on (a container or a scheduler may allow fewer than the machine has)."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def run_units(function: Callable[[Any, Any], Any], shared: Any, units: Iterable[Any], workers: int) -> Generator[Any]:
    """Yield `function(shared, unit)` for each unit, in the order of `units`, which may be endless.

    `function` is a module's own; `shared` is sent once to each process. Where it cannot travel to another process
    (it holds a lambda, or a class of the running script) the units run here, one after the other.
    Leaving the loop early, an error and Ctrl-C all end the processes at once.
    """
    if workers < 1:
        raise IlbrlError(f"cannot work with {workers} worker processes: at least one is needed")
    job = _packed((function, shared))
    if job is None:
        yield from (function(shared, unit) for unit in units)
        return
    processes = [_start() for _ in range(workers)]
    _children.update(processes)
    idle: queue.SimpleQueue[subprocess.Popen[bytes]] = queue.SimpleQueue()
    threads = ThreadPoolExecutor(workers)  # each thread only waits on a pipe
    try:
        for process in processes:
            # as bytes in bytes: if the job cannot be loaded, what follows in the pipe still can
            _send(process, pickle.dumps(job))
            idle.put(process)
        waiting: deque[Future[Any]] = deque()
        for unit in units:
            waiting.append(threads.submit(_ask, idle, unit))
            if len(waiting) >= 2 * workers:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        for process in processes:
            process.kill()
        threads.shutdown(cancel_futures=True)
        for process in processes:
            process.communicate()
        _children.difference_update(processes)


def end_children() -> None:
    """Kill every child of this process, for an end that does not unwind `run_units`."""
    for process in list(_children):
        process.kill()


def _packed(job: Any) -> bytes | None:
    """The job as bytes, or None if another process could not load it."""
    try:
        data = pickle.dumps(job)
    except (pickle.PicklingError, AttributeError, TypeError):
        return None
    return None if b"__main__" in data else data


def _start() -> subprocess.Popen[bytes]:
    # A child searches for modules where this process does. Without -P it would search the current folder first.
    search_path = os.pathsep.join(path or str(Path.cwd()) for path in sys.path)
    return subprocess.Popen(
        [sys.executable, "-P", "-c", "from ilbrl.base.processes import serve; serve()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, **LINEAR_ALGEBRA, "PYTHONPATH": search_path},
        start_new_session=True,  # Ctrl-C reaches the parent alone, which then ends its children
    )


def _send(process: subprocess.Popen[bytes], message: bytes) -> None:
    assert process.stdin is not None
    try:
        process.stdin.write(message)
        process.stdin.flush()
    except BrokenPipeError:
        raise _death(process) from None


def _ask(idle: queue.SimpleQueue[subprocess.Popen[bytes]], unit: Any) -> Any:
    process = idle.get()
    try:
        _send(process, pickle.dumps(unit))
        assert process.stdout is not None
        result, failure = pickle.load(process.stdout)  # noqa: S301 - from our own child over a private pipe
    except (EOFError, pickle.UnpicklingError):
        raise _death(process) from None
    finally:
        idle.put(process)
    if failure is not None:
        raise IlbrlError(failure)
    return result


def _death(process: subprocess.Popen[bytes]) -> IlbrlError:
    return IlbrlError(
        f"a worker process died (exit status {process.wait()}): out of memory, or killed; what it printed is above."
        " Fewer workers need less memory"
    )


def serve() -> None:
    """The child: read the job, then answer each unit with (result, None) or (None, what went wrong)."""
    requests = sys.stdin.buffer
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever a library prints must not end up among the answers
    function, shared = _load_job(pickle.load(requests))  # noqa: S301 - from our own parent over a private pipe
    while True:
        try:
            unit = pickle.load(requests)  # noqa: S301
        except EOFError:  # the parent is done, or gone
            return
        try:
            answer = (function(shared, unit), None)
        except IlbrlError as error:
            answer = (None, str(error))
        except Exception as error:
            traceback.print_exc()
            answer = (None, f"a worker process failed: {type(error).__name__}: {error}")
        try:
            pickle.dump(answer, answers, protocol=pickle.HIGHEST_PROTOCOL)
            answers.flush()
        except BrokenPipeError:  # the parent was killed: nobody would read a traceback
            os._exit(1)


def _load_job(job: bytes) -> tuple[Callable[[Any, Any], Any], Any]:
    try:
        return pickle.loads(job)  # noqa: S301
    except (ImportError, AttributeError) as error:
        return (
            _refuse,
            f"a worker process cannot import the code it was sent ({error}); keep it in an importable module",
        )


def _refuse(message: str, unit: Any) -> None:
    raise IlbrlError(message)
