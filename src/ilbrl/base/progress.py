"""A progress bar with rate and remaining time, on anything that takes more than a few seconds.

Where there is no terminal to draw on, one line says how long it will take, measured on its first steps.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Advance = Callable[..., None]
WORTH_SAYING = 30.0  # seconds ahead
FIRST, SECOND = 2, 3  # calls between which the rate is measured: by the first of them everything is compiled


@contextmanager
def progress(label: str, total: int, unit: str, quiet: bool = False, shorter: str = "") -> Iterator[Advance]:
    """Yield `advance(n, note="", total=None)`, which moves a bar of `total` units on standard error.

    Without a terminal a line tells how long it will take instead, and what makes it `shorter`; nothing is said when
    `quiet`. Standard output belongs to results.
    """
    if quiet or not sys.stderr.isatty():
        yield _telling_once(label, total, unit, shorter) if not quiet else lambda n=1, note="", total=None: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
    from rich.text import Text

    class Rate(ProgressColumn):
        def render(self, task: Task) -> Text:
            return Text(f"{task.speed:,.0f} {unit}/s" if task.speed else f"– {unit}/s", style="progress.data.speed")

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f} %"),
        Rate(),
        TimeRemainingColumn(compact=True),
        TextColumn("{task.fields[note]}", markup=False),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True, speed_estimate_period=60) as bar:
        task = bar.add_task(label, total=total, note="")
        yield lambda n=1, note="", total=None: bar.update(task, advance=n, note=note, total=total)


def _telling_once(label: str, total: int, unit: str, shorter: str) -> Advance:
    calls, done, since = 0, 0, (0.0, 0)

    def advance(n: int = 1, note: str = "", total: int = total) -> None:
        nonlocal calls, done, since
        calls, done = calls + (n > 0), done + n
        if n == 0 or calls not in (FIRST, SECOND):
            return
        now = time.monotonic()
        if calls == FIRST:
            since = now, done
            return
        rate = (done - since[1]) / max(now - since[0], 1e-9)
        if (total - done) / rate > WORTH_SAYING:
            so = f"; {shorter} make it shorter" if shorter else ""
            said = f"{label}: about {in_words((total - done) / rate)} ahead at {rate:,.0f} {unit}/s{so}"
            print(said, file=sys.stderr, flush=True)

    return advance


def in_words(seconds: float) -> str:
    """`41 s`, `3 min 5 s`, `2 h 10 min`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"
