"""What the record of a speed says about where it was measured."""

from __future__ import annotations

import json
import os
import platform
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ilbrl.base.files import written_whole
from ilbrl.base.processes import usable_cores
from ilbrl.base.provenance import commit, versions


def record(path: Path, measured: dict[str, Any]) -> None:
    """Write what was measured, with the processor, how busy it is, the day, the versions and the commit."""
    about = {
        "processor": processor(),
        "cores": usable_cores(),
        "load": round(os.getloadavg()[0], 1),
        "day": f"{datetime.now(UTC):%Y-%m-%d}",
    }
    with written_whole(path) as partial:
        partial.write_text(json.dumps(measured | about | {"versions": versions(), "commit": commit()}, indent=1) + "\n")


def processor() -> str:
    """Its name where Linux tells it, else its kind."""
    told = Path("/proc/cpuinfo")
    lines = told.read_text().splitlines() if told.exists() else []
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())
