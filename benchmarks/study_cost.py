"""What the committed studies cost, from their log.txt: the table of docs/results.md.

    python -m benchmarks.study_cost docs/results/locomotion

Minutes of wall-clock time of each phase, from the fastest task to the slowest, four tasks side by side on one GPU; then
how long the four took, reveals among it, and how fast they trained together.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from benchmarks.study_goals import KINDS, TASKS

COLUMNS = {
    "logs and labels": ("logs", "split"),
    "models, calibration": ("tuning",),
    "training": ("training",),
    "evaluation": ("evaluation",),
    "final play": ("final",),
}


class Cost(NamedTuple):
    """What a study's log says."""

    seconds: dict[str, float]  # of each phase
    policies: int
    updates: int  # of each policy
    started: datetime
    ended: datetime  # of the reveal, where its log tells it

    def updates_per_second(self) -> float:
        return self.policies * self.updates / self.seconds["training"]


def read(run: Path) -> Cost:
    lines = (run / "log.txt").read_text().splitlines()
    phases: dict[str, float] = {}
    for line in lines:
        found = re.search(r"^\S+  \d/7 (\w+) .*\(([\d hmins]+)\)$", line)
        if found and found[1] not in phases:  # the first is the study's, a second the reveal's
            phases[found[1]] = _seconds(found[2])
    first, last = (datetime.fromisoformat(line.split()[0]) for line in (lines[0], lines[-1]))
    policies = re.search(r"training +(\d+) policies", "\n".join(lines))
    updates = re.search(r"^updates = (\d+)$", (run / "study.toml").read_text(), re.MULTILINE)
    assert policies is not None
    assert updates is not None
    return Cost(phases, int(policies[1]), int(updates[1]), first - timedelta(seconds=phases["logs"]), last)


def _seconds(told: str) -> float:
    """Of "1 h 2 min 3 s"."""
    return sum(int(n) * {"h": 3600, "min": 60, "s": 1}[unit] for n, unit in re.findall(r"(\d+) (h|min|s)", told))


def of_kind(folder: Path, kind: str) -> list[Cost]:
    return [read(folder / f"{task}-{kind}") for task in TASKS]


def table(folder: Path) -> list[str]:
    lines = ["| minutes | policies | " + " | ".join(COLUMNS) + " |", "|---" + "|---:" * (len(COLUMNS) + 1) + "|"]
    for kind, name in KINDS.items():
        costs = of_kind(folder, kind)
        cells = []
        for phases in COLUMNS.values():
            minutes = [sum(cost.seconds[phase] for phase in phases) / 60 for cost in costs]
            cells.append(f"{min(minutes):.1f} to {max(minutes):.1f}")
        lines.append(f"| {name} | {costs[0].policies} | {' | '.join(cells)} |")
    return lines


def minutes_of_all(costs: Sequence[Cost]) -> float:
    """From the first beginning to the last end."""
    return (max(cost.ended for cost in costs) - min(cost.started for cost in costs)).total_seconds() / 60


def main() -> None:
    folder = Path(sys.argv[1])
    print("\n".join(table(folder)))
    for kind, name in KINDS.items():
        costs = of_kind(folder, kind)
        rate = sum(cost.updates_per_second() for cost in costs)
        print(f"{name}: {minutes_of_all(costs):.1f} minutes, training at {rate:,.0f} updates/s")
    both = [cost for kind in ("18", "2") for cost in of_kind(folder, kind)]
    print(f"those without imagined steps: {minutes_of_all(both):.1f} minutes")


if __name__ == "__main__":
    main()
