"""Files that are either there whole or not there at all, logs that grow line by line, and files one may not read."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ilbrl.base.errors import IlbrlError


@contextmanager
def written_whole(path: str | Path) -> Iterator[Path]:
    """Yield a temporary path beside `path`; when the block ends well it replaces `path` in one step.

    A crash, a full disk or kill −9 leaves the old file (or none), never half of the new one.
    """
    path = Path(path)
    if path.is_dir():
        raise IlbrlError(f"{path}: is a folder; name a file")
    partial = path.with_name(f".{path.stem}.{os.getpid()}.partial{path.suffix}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield partial
        with partial.open("rb") as file:
            os.fsync(file.fileno())
        partial.replace(path)
    except OSError as error:
        raise IlbrlError(
            f"{path}: cannot be written ({error.strerror or error}); what was there before is untouched"
        ) from None
    finally:
        with suppress(OSError):  # where the folder is a file, the partial file is no file that is missing
            partial.unlink()


def append(path: Path, line: str) -> None:
    """Add a line to a log, at once."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a") as file:
            file.write(f"{line}\n")
    except OSError as error:
        raise IlbrlError(f"{path}: cannot be written ({error.strerror or error})") from None


def require_readable(path: Path) -> None:
    """Refuse a file that may not be read, for libraries take it for one that is damaged or missing."""
    try:
        path.open("rb").close()
    except OSError as error:
        raise IlbrlError(f"{path}: cannot be read ({error.strerror or error})") from None
