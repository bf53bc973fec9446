"""Where training metrics go. A logger is a callable that takes one flat record per chunk of updates."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

Log = Callable[[dict[str, Any]], None]
"""Takes {"update": int, "updates_per_second": float, "diverged": [P] bool, metric: [P] floats, …}."""


def json_lines(path: Path) -> Log:
    """Append one JSON object per record, flushed at once: `tail -f` works, and so does pandas.read_json(lines=True).

    A run that was killed may have logged beyond its last checkpoint: lines that the continued run repeats are replaced.
    """
    pending = True

    def log(record: dict[str, Any]) -> None:
        nonlocal pending
        if pending and path.exists():
            kept = [line for line in path.read_text().splitlines(keepends=True) if _before(line, record["update"])]
            path.write_text("".join(kept))
        pending = False
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a") as file:
            file.write(json.dumps(record, default=lambda value: np.asarray(value).tolist()) + "\n")

    return log


def _before(line: str, update: int) -> bool:
    try:
        return json.loads(line)["update"] < update
    except (json.JSONDecodeError, KeyError):  # the line being written when the run was killed
        return False
