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

from ilbrl.errors import IlbrlError
from ilbrl.files import written_whole
from ilbrl.protocol import toml
from ilbrl.protocol.study import Study


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
        except ModuleNotFoundError:  # Windows: nobody watches over the folder
            pass
        except OSError:
            file.seek(0)
            raise IlbrlError(
                f"{folder}: another run is at work here ({file.read().strip() or 'starting'});"
                " wait for it, stop it, or use another folder"
            ) from None
        file.truncate(0)
        file.write(f"process {os.getpid()} on {socket.gethostname()}")
        file.flush()
        yield


def claim(folder: Path, study: Study, change: bool) -> list[str]:
    """Write study.toml, or check that the folder's is the same; what differs, where a `change` was asked for."""
    path = folder / "study.toml"
    changed = toml.differences(Study.load(path), study) if path.exists() else []
    if changed and not change:
        raise IlbrlError(
            f"{folder}: belongs to another study ({'; '.join(changed)}); use another folder, or say --change to go on"
            " here with the new one: only what depends on the difference is computed again"
        )
    if changed and (folder / "final.json").exists():
        raise IlbrlError(
            f"{folder}: its selected policies were already played in the environment, and a study changed after that is"
            f" no longer blind ({'; '.join(changed)}); use another folder"
        )
    study.save(path)
    return changed


def write_json(path: Path, value: Any) -> None:
    with written_whole(path) as partial:
        partial.write_text(json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n")


def read_json(path: Path) -> Any:
    return json.loads(path.read_text())


def write_csv(path: Path, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    with written_whole(path) as partial, partial.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(rows)


def read_csv(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))
