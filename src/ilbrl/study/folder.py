"""The run folder: one study, one run at a time (docs/runs.md says what is in it)."""

from __future__ import annotations

import csv
import json
import os
import socket
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ilbrl.base.errors import IlbrlError
from ilbrl.base.files import written_whole
from ilbrl.study import toml
from ilbrl.study.study import Study


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Hold the folder for this process; a second run says whose it is and stops. Ends with the process, however."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise IlbrlError(f"{folder}: cannot be used as a run folder ({error.strerror or error})") from None
    with (folder / ".lock").open("a+") as file:
        try:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            raise IlbrlError(
                f"{folder}: another run is at work here ({file.read().strip() or 'starting'});"
                " wait for it, stop it, or use another folder"
            ) from None
        except (ModuleNotFoundError, OSError):  # Windows, file systems without locks: nobody watches over the folder
            pass
        file.truncate(0)
        file.write(f"process {os.getpid()} on {socket.gethostname()}")
        file.flush()
        yield


def claim(folder: Path, study: Study, change: bool) -> list[str]:
    """Write study.toml, or check that the folder's is the same; what differs, where a `change` was asked for."""
    path, played = folder / "study.toml", (folder / "final.json").exists()
    if played and not path.exists():
        raise IlbrlError(
            f"{folder}: holds true scores (final.json) and no study.toml that says of what; use another folder"
        )
    changed = toml.differences(Study.load(path), study) if path.exists() else []
    if changed and not (change or played or _nothing_done(folder)):
        raise IlbrlError(
            f"{folder}: belongs to another study ({'; '.join(changed)}); use another folder, or say --change to go on"
            " here with the new one: only what depends on the difference is computed again"
        )
    if changed and played:
        raise IlbrlError(
            f"{folder}: its selected policies were already played in the environment, and a study changed after that is"
            f" no longer blind ({'; '.join(changed)}); use another folder"
        )
    study.save(path)
    return changed


def _nothing_done(folder: Path) -> bool:
    """Whether a run began here and finished no job: such a folder belongs to nobody, and a typo costs nothing."""
    finished = (path for path in (folder / "jobs").glob("*") if not path.name.startswith("."))
    return (folder / "audit.json").exists() and not any(finished)


def write_json(path: Path, value: Any) -> None:
    with written_whole(path) as partial:
        partial.write_text(json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n")


def read_json(path: Path, *needed: str) -> dict[str, Any]:
    """The JSON object in a file of the run folder, which must have the entries `needed`."""
    try:
        value = json.loads(path.read_text())
    except OSError as error:
        raise damaged(path, f"cannot be read ({error.strerror or error})") from None
    except ValueError as error:  # no JSON, or no text at all
        raise damaged(path, f"is damaged ({error})") from None
    if not isinstance(value, dict):
        raise damaged(path, "is damaged (it holds no JSON object)")
    if missing := [name for name in needed if name not in value]:
        raise damaged(path, f"is damaged (it lacks {', '.join(missing)})")
    return value


def write_csv(path: Path, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    with written_whole(path) as partial, partial.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(rows)


def read_csv(path: Path, *columns: str) -> list[dict[str, str]]:
    """The rows of a table of the run folder, which must have these columns."""
    try:
        with path.open(newline="") as file:
            reader = csv.DictReader(file)
            rows = list(reader)
    except OSError as error:
        raise damaged(path, f"cannot be read ({error.strerror or error})") from None
    except (ValueError, csv.Error) as error:
        raise damaged(path, f"is damaged ({error})") from None
    if missing := [name for name in columns if name not in (reader.fieldnames or ())]:
        raise damaged(path, f"is damaged (it lacks the column {', '.join(missing)})")
    if any(None in row.values() for row in rows):
        raise damaged(path, "is damaged (a row is cut off)")
    return rows


def damaged(path: Path, what: str) -> IlbrlError:
    """What is wrong with a file of the run folder, and the way out."""
    if path.parent.parent.name == "jobs":
        remedy = f"remove the folder {path.parent} and give the same command again, which does this job anew"
    elif path.name in ("audit.json", "final.json"):
        remedy = "restore it from a copy, or use another folder"
    else:
        remedy = "remove it: the command that made it makes it again"
    return IlbrlError(f"{path}: {what}; {remedy}")
