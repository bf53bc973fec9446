"""A progress bar with rate and remaining time, on anything that takes more than a few seconds."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Advance = Callable[..., None]


@contextmanager
def progress(label: str, total: int, unit: str, quiet: bool = False) -> Iterator[Advance]:
    """Yield `advance(n, note="", total=None)`, which moves a bar of `total` units on standard error.

    Nothing is drawn when `quiet`, or when standard error is not a terminal: logs stay readable and standard
    output belongs to results.
    """
    if quiet or not sys.stderr.isatty():
        yield lambda n=1, note="", total=None: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
    from rich.text import Text

    class Rate(ProgressColumn):
        def render(self, task: Task) -> Text:
            return Text(f"{task.speed:,.0f} {unit}/s" if task.speed else f"– {unit}/s", style="progress.data.speed")

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f} %"),
        Rate(),
        TimeRemainingColumn(compact=True),
        TextColumn("{task.fields[note]}"),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True, speed_estimate_period=60) as bar:
        task = bar.add_task(label, total=total, note="")
        yield lambda n=1, note="", total=None: bar.update(task, advance=n, note=note, total=total)
