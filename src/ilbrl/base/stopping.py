"""Ctrl-C ends a command within two seconds, also while a library computes and does not listen.

Python notices Ctrl-C between two of its own steps. A compiler or a compiled program (XLA) that runs for a minute is
one step, so a `KeyboardInterrupt` would come a minute late. A thread therefore waits for the signal too, and after a
short grace it ends the process and its children. Files are written whole or not at all, so nothing is lost by that.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import NoReturn

from ilbrl.base.processes import end_children

GRACE = 1.5  # seconds in which a command may end by itself
INTERRUPTED = 130  # the exit code: 128 + SIGINT, as shells have it


@contextmanager
def prompt_end(farewell: Callable[[], None]) -> Iterator[None]:
    """Within this block Ctrl-C raises `KeyboardInterrupt`, and if the block does not end soon, the process does.

    `farewell` is called before such an end. A second Ctrl-C ends the grace. Where Ctrl-C is ignored (nohup) or has a
    handler of the caller's own, and outside the main thread, nothing changes.
    """
    listens = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if not listens or threading.current_thread() is not threading.main_thread():
        yield
        return
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    before = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    watcher = threading.Thread(target=_watch, args=(reading, farewell), daemon=True)
    watcher.start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(before)
        os.close(writing)  # the watcher reads the end of the pipe, and ends
        watcher.join()
        os.close(reading)


def _watch(reading: int, farewell: Callable[[], None]) -> None:
    while signals := os.read(reading, 64):
        if signal.SIGINT in signals:
            break
    else:
        return
    again, _, _ = select.select([reading], [], [], GRACE)
    if again and not os.read(reading, 64):  # the block has ended
        return
    farewell()
    leave(INTERRUPTED)


def leave(code: int) -> NoReturn:
    """End this process and its children now, without waiting for what libraries still compute."""
    end_children()
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):  # closed, or nobody reads it any more
            stream.flush()
    os._exit(code)
