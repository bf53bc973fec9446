"""What the user reads of a study: one line per phase, on standard error and in log.txt."""

from __future__ import annotations

import sys
import time
from datetime import datetime
from pathlib import Path

from ilbrl.base.files import append


class Narrator:
    """Says what happens on standard error (unless quiet) and in log.txt."""

    def __init__(self, folder: Path, quiet: bool) -> None:
        self.file = folder / "log.txt"
        self.quiet = quiet
        self.started = time.monotonic()

    def say(self, line: str) -> None:
        if not self.quiet:
            print(line, file=sys.stderr, flush=True)
        self.note(line)

    def note(self, line: str) -> None:
        """Into log.txt alone."""
        append(self.file, f"{datetime.now().isoformat(timespec='seconds')}  {line}")

    @property
    def elapsed(self) -> str:
        return duration(time.monotonic() - self.started)


def duration(seconds: float) -> str:
    """`41 s`, `3 min 5 s`, `2 h 10 min`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"
