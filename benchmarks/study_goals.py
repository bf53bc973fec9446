"""What the project aimed at in its studies of four tasks, and what they reached: the table of docs/results.md.

python -m benchmarks.study_goals docs/results/locomotion
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from ilbrl.report.scoreboard import Regret, selection_regret
from ilbrl.results.folder import read_run

TASKS = ("hopper", "halfcheetah", "walker2d", "ant")
KINDS = {  # the end of a folder's name → what the table calls it
    "18": "18 episodes",
    "18-imagined": "18 episodes, imagined steps",
    "2": "2 episodes",
    "2-imagined": "2 episodes, imagined steps",
}
CHOSEN = {18: (100.0, 85.0, 100.0, 80.0), 2: (90.0, 60.0, 90.0, 76.0)}
BEST = {18: (105.0, 88.0, 103.0, 85.0), 2: (98.0, 70.0, 98.0, 82.0)}
BELOW_CLONING = 3.0  # the default, with 18 episodes: no more than this below the best configuration of BC


def table(folder: Path) -> list[str]:
    lines = [f"| reached (aimed at) | {' | '.join(TASKS)} | missed by |", "|---|---:|---:|---:|---:|---|"]
    return lines + [_row(*goal) for goal in goals(folder)]


def goals(folder: Path) -> Iterator[tuple[str, Sequence[float], Sequence[float]]]:
    """What is meant, the scores of ILBRL, and the scores that were the goal; in the order of the tasks."""
    studies = {kind: [selection_regret(read_run(folder / f"{task}-{kind}")) for task in TASKS] for kind in KINDS}
    episodes = {kind: int(kind.split("-")[0]) for kind in KINDS}
    for kind, name in KINDS.items():
        yield f"chosen offline, {name}", _of_ilbrl(studies[kind], lambda own: own.chosen), CHOSEN[episodes[kind]]
    for kind, name in KINDS.items():
        yield f"best configuration, {name}", _of_ilbrl(studies[kind], _best), BEST[episodes[kind]]
    cloning = [study["bc"].configurations for study in studies["18"]]
    least = [max(mean.value for mean in means.values()) - BELOW_CLONING for means in cloning]
    for kind in ("18", "18-imagined"):
        yield f"the default, {KINDS[kind]}", _of_ilbrl(studies[kind], lambda own: 0), least


def _best(own: Regret) -> int:
    return max(own.configurations, key=lambda number: own.configurations[number].value)


def _of_ilbrl(studies: Sequence[dict[str, Regret]], pick: Callable[[Regret], int]) -> list[float]:
    return [study["ilbrl"].configurations[pick(study["ilbrl"])].value for study in studies]


def _row(name: str, reached: Sequence[float], aimed: Sequence[float]) -> str:
    cells = [f"{score:.1f} ({goal:.1f})".replace(".0)", ")") for score, goal in zip(reached, aimed)]
    missed = [f"{task} {goal - score:.1f}" for task, score, goal in zip(TASKS, reached, aimed) if score < goal]
    return f"| {name} | {' | '.join(cells)} | {', '.join(missed) or '–'} |"


if __name__ == "__main__":
    print("\n".join(table(Path(sys.argv[1]))))
