"""What the user typed: options by their name, and datasets under it, so that errors and warnings name the file."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from ilbrl.base.errors import IlbrlError, printable
from ilbrl.data import Dataset, Reading, load, same_actions
from ilbrl.data.doctor import Purpose, require_healthy
from ilbrl.data.loading import parse


def load_named(what: str, reading: Reading | None = None, quiet: bool = False) -> Dataset:
    return replace(load(what, reading, quiet=quiet), source=what)


def load_both(expert: str, logs: str, reading: Reading | None = None, quiet: bool = False) -> tuple[Dataset, Dataset]:
    """(the expert's episodes, the logs), where a discrete action has the same number in both."""
    first, second = same_actions([load_named(what, reading, quiet) for what in (expert, logs)])
    return first, second


def refuse_input(out: Path | None, *inputs: str | None) -> None:
    """Refuse to write over a file that the same command reads."""
    for what in inputs:
        with suppress(OSError, ValueError):  # one of them is no file
            if out is not None and what is not None and out.samefile(parse(what).where):
                raise IlbrlError(f"{out}: this command reads it; choose another name for what is written")


def warn_about(data: Dataset, expert: Dataset | None, purpose: Purpose = "imitation") -> None:
    """Raise on what the doctor calls an error, and print what it calls a warning."""
    require_healthy(data, expert, purpose, warn=lambda said: print(f"warning: {printable(said)}", file=sys.stderr))


def value_of(option: str, words: Sequence[str], default: str) -> str:
    """What was typed for one option, as `--option value` or `--option=value`; of several, the last."""
    given = {i + 1: after for i, (word, after) in enumerate(itertools.pairwise(words)) if word == option}
    given |= {i: word.partition("=")[2] for i, word in enumerate(words) if word.startswith(f"{option}=")}
    return given[max(given)] if given else default


def typed(words: Sequence[str]) -> set[str]:
    """The options that were typed, under the names of their settings: `--batch-size 8` → batch_size."""
    return {word.removeprefix("--").partition("=")[0].replace("-", "_") for word in words if word.startswith("--")}
