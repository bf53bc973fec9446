"""Datasets under the name the user typed, so that every error and warning about them names the file."""

from __future__ import annotations

import sys
from dataclasses import replace

from ilbrl.data import Dataset, Reading, load
from ilbrl.data.doctor import Purpose, require_healthy


def load_named(what: str, reading: Reading | None = None, quiet: bool = False) -> Dataset:
    return replace(load(what, reading, quiet=quiet), source=what)


def warn_about(data: Dataset, expert: Dataset, purpose: Purpose = "imitation") -> None:
    """Raise on what the doctor calls an error, and print what it calls a warning."""
    require_healthy(data, expert, purpose, warn=lambda said: print(f"warning: {said}", file=sys.stderr))
