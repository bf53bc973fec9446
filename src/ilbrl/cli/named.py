"""Datasets under the name the user typed, so that every error and warning about them names the file."""

from __future__ import annotations

import sys
from dataclasses import replace

from ilbrl.data import Dataset, Reading, load, same_actions
from ilbrl.data.doctor import Purpose, require_healthy


def load_named(what: str, reading: Reading | None = None, quiet: bool = False) -> Dataset:
    return replace(load(what, reading, quiet=quiet), source=what)


def load_both(expert: str, logs: str, reading: Reading | None = None, quiet: bool = False) -> tuple[Dataset, Dataset]:
    """(the expert's logs, the others), where a discrete action has the same number in both."""
    demonstrations, others = same_actions([load_named(what, reading, quiet) for what in (expert, logs)])
    return demonstrations, others


def warn_about(data: Dataset, expert: Dataset, purpose: Purpose = "imitation") -> None:
    """Raise on what the doctor calls an error, and print what it calls a warning."""
    require_healthy(data, expert, purpose, warn=lambda said: print(f"warning: {said}", file=sys.stderr))
