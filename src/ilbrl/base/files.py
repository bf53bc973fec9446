"""Files that are written whole or not at all, logs that grow line by line, and files that cannot be read."""

from __future__ import annotations

import glob
import os
import shutil
import socket
import stat
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

from ilbrl.base.errors import IlbrlError

LONGEST_SHOWN = 400  # letters of a path in a sentence


@contextmanager
def written_whole(path: str | Path) -> Iterator[Path]:
    """Yield a temporary path beside `path`; when the block ends well it replaces `path` in one step.

    A crash, a full disk or kill −9 leaves the old file (or none), never half of the new one. What a killed process left
    beside `path` is removed by the next that writes it.
    """
    path = Path(path)
    if path.is_dir():
        raise IlbrlError(f"{path}: is a folder; name a file")
    if path.exists() and not path.is_file():  # it would be replaced by a file
        raise IlbrlError(f"{path}: is a device or a pipe; name a file")
    partial = partial_path(path)
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
        with suppress(OSError):  # after a success it has moved; if its folder could not be made, it never existed
            partial.unlink()


def partial_path(path: Path) -> Path:
    """Where this process puts together what will be `path`; what dead processes of this machine left is removed."""
    for left in path.parent.glob(f".{glob.escape(path.stem)}.{_machine()}-*.partial{glob.escape(path.suffix)}"):
        with suppress(OSError, ValueError, OverflowError):  # gone by now, or no name of ours
            if not _lives(int(left.name.removesuffix(f".partial{path.suffix}").rpartition("-")[2])):
                shutil.rmtree(left) if left.is_dir() else left.unlink()
    return path.with_name(f".{path.stem}.{_machine()}-{os.getpid()}.partial{path.suffix}")


@cache
def _machine() -> str:
    """This machine and its processes: the number of a process means nothing elsewhere, or in another container."""
    spaces = Path("/proc/self/ns/pid")
    space = spaces.stat().st_ino if spaces.exists() else 0
    return f"{zlib.crc32(f'{socket.gethostname()} {space}'.encode()):08x}"


def _lives(process: int) -> bool:
    if os.name != "posix":  # no signal elsewhere asks without harm
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # somebody else's
        return True
    return True


def make_folder(path: Path) -> None:
    """Make it where it is not there; what cannot be a folder is refused."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:  # ValueError: a name with a null character
        reason = "there is a file of this name" if isinstance(error, FileExistsError) else error
        named = str(path) if len(str(path)) <= LONGEST_SHOWN else f"{str(path)[:LONGEST_SHOWN]}…"
        raise IlbrlError(f"{named}: cannot be used as a folder ({reason})") from None


def append(path: Path, line: str) -> None:
    """Add a line to a log, at once."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path, "a", encoding="utf-8", errors="backslashreplace", opener=_without_waiting) as file:
            file.write(f"{line}\n")
    except OSError as error:
        raise IlbrlError(f"{path}: cannot be written ({error.strerror or error})") from None


def _without_waiting(path: str, flags: int) -> int:
    """A pipe that nobody reads is an error, not a reason to wait."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0), 0o666)


def require_readable(path: Path) -> None:
    """Refuse a file that may not be read: libraries report it as damaged or missing."""
    try:
        path.open("rb").close()
    except OSError as error:
        raise IlbrlError(f"{path}: cannot be read ({error.strerror or error})") from None


def require_file(path: Path, what: str = "file") -> None:
    """Refuse what is missing, a folder, a device or pipe (reading it could wait for ever), or may not be read."""
    try:
        mode = path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError, ValueError):  # ValueError: a name with a null character
        raise IlbrlError(f"{path}: no such {what}") from None
    except OSError as error:
        raise IlbrlError(f"{path}: cannot be read ({error.strerror or error})") from None
    if stat.S_ISDIR(mode):
        raise IlbrlError(f"{path}: is a folder; name a {what}")
    if not stat.S_ISREG(mode):
        raise IlbrlError(f"{path}: is a device or a pipe; name a {what}")
    require_readable(path)


@contextmanager
def locked(path: Path, busy: str | None = None) -> Iterator[None]:
    """Hold a lock file until the block or the process ends. Another process waits, or is refused with `busy`.

    busy: a sentence in which {holder} stands for the process that has the lock; None: wait.
    On Windows, and on file systems without locks, nothing is held.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists() and not path.is_file():
        raise IlbrlError(f"{path}: is no regular file, and a lock file has to be here; remove it")
    with path.open("a+") as file:
        try:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX if busy is None else fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            raise IlbrlError((busy or "").replace("{holder}", file.read().strip() or "starting")) from None
        except (ModuleNotFoundError, OSError):
            pass
        file.truncate(0)
        file.write(f"process {os.getpid()} on {socket.gethostname()}")
        file.flush()
        yield
