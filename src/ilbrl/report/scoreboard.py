"""True scores of the selected policies, over all runs: the runs × tasks matrices that the statistics are made of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ilbrl.report.bootstrap import Interval, cautious_difference, interval
from ilbrl.report.statistics import AGGREGATES, iqm
from ilbrl.results.folder import Run, reference_value
from ilbrl.results.schema import Reference


@dataclass(frozen=True)
class Scoreboard:
    """Scores of what was selected; a run of an algorithm is one policy seed of its selected configuration."""

    unit: str  # "score" (D4RL-normalised) or "return"
    tasks: tuple[str, ...]
    scores: dict[str, dict[str, np.ndarray]]  # algorithm → task → [runs]
    references: dict[str, dict[str, float]]  # logs, expert (· its run, where runs differ) → task → score
    notes: tuple[str, ...]

    @property
    def algorithms(self) -> tuple[str, ...]:
        return tuple(self.scores)

    @property
    def matrices(self) -> dict[str, np.ndarray]:
        """Algorithm → [runs, tasks], for algorithms scored on every task; empty where tasks cannot be averaged."""
        if self.unit == "return" and len(self.tasks) > 1:
            return {}
        whole = {name: scores for name, scores in self.scores.items() if set(scores) == set(self.tasks)}
        return {
            name: np.stack([scores[task][: min(map(len, scores.values()))] for task in self.tasks], axis=1)
            for name, scores in whole.items()
        }

    @property
    def best(self) -> str | None:
        """The algorithm with the highest IQM over all tasks; None where tasks cannot be averaged."""
        matrices = self.matrices
        return max(matrices, key=lambda name: float(iqm(matrices[name])), default=None)

    @property
    def over(self) -> str:
        """What is averaged over, in words."""
        return f"{len(self.tasks)} tasks" if len(self.tasks) > 1 else "".join(self.tasks)

    @property
    def runs_per_task(self) -> int:
        """The fewest of any algorithm on any task."""
        return min(len(runs) for scores in self.scores.values() for runs in scores.values())

    def reference(self, name: str) -> float | None:
        """The mean over tasks of a reference's score; None where it is not known for all."""
        known = self.references.get(name, {})
        return float(np.mean([known[task] for task in self.tasks])) if set(known) >= set(self.tasks) else None


def scoreboard(runs: Sequence[Run]) -> Scoreboard | None:
    """None while no selected policy has been played in its environment."""
    twice = Counter((run.task, algorithm) for run in runs for algorithm in run.algorithms).most_common(1)
    labelled = bool(twice) and twice[0][1] > 1
    played = [
        (run, candidate) for run in runs for candidate in run.candidates if candidate.selected and _known(candidate)
    ]
    if not played:
        return None
    unit = "score" if all(candidate.true_score is not None for _, candidate in played) else "return"
    found: dict[str, dict[str, list[float]]] = {}
    for run, candidate in played:
        name = f"{candidate.algorithm} · {run.name}" if labelled else candidate.algorithm
        value = candidate.true_score if unit == "score" else candidate.true_return
        if value is not None:
            found.setdefault(name, {}).setdefault(run.task, []).append(value)
    tasks = tuple(dict.fromkeys(run.task for run, _ in played))
    scores = {name: {task: np.array(each) for task, each in by_task.items()} for name, by_task in found.items()}
    references = _references([run for run in runs if any(run is other for other, _ in played)], unit)
    return Scoreboard(unit, tasks, scores, references, (*_notes(unit, tasks, scores), *_unplayed(runs)))


def _known(candidate) -> bool:
    return candidate.true_score is not None or candidate.true_return is not None


def _references(runs: Sequence[Run], unit: str) -> dict[str, dict[str, float]]:
    """By role; by role and run where two runs of one task differ in it, as algorithms are told apart."""
    found: dict[str, dict[str, float]] = {}
    for role in ("logs", "expert"):
        values = [(run, reference_value(run.references.get(role, Reference()), unit == "score")) for run in runs]
        known = [(run, value) for run, value in values if value is not None]
        labelled = len({(run.task, value) for run, value in known}) > len({run.task for run, _ in known})
        for run, value in known:
            found.setdefault(f"{role} · {run.name}" if labelled else role, {})[run.task] = value
    return found


def _notes(unit: str, tasks: tuple[str, ...], scores: dict[str, dict[str, np.ndarray]]) -> Iterator[str]:
    if unit == "return" and len(tasks) > 1:
        yield "Returns of different tasks have different scales: they are shown by task and never averaged."
    partial = [name for name, by_task in scores.items() if set(by_task) != set(tasks)]
    if partial:
        yield f"Not scored on every task, so without a place in the averages: {', '.join(partial)}."
    for name, by_task in scores.items():
        counts = {task: len(runs) for task, runs in by_task.items()}
        if len(set(counts.values())) > 1:
            spread = ", ".join(f"{task} {count}" for task, count in counts.items())
            fewest = min(counts.values())
            yield f"{name} has unequal numbers of runs ({spread}): averages over tasks use the first {fewest} of each."


def _unplayed(runs: Sequence[Run]) -> Iterator[str]:
    for run in runs:
        for algorithm in run.algorithms:
            own = [candidate for candidate in run.candidates if candidate.selected and candidate.algorithm == algorithm]
            absent = [candidate for candidate in own if not _known(candidate)]
            if 0 < len(absent) < len(own):
                seeds = ", ".join(str(candidate.policy_seed) for candidate in absent)
                yield (
                    f"{run.name}: {len(absent)} of {len(own)} seeds of the selected {algorithm} (seed {seeds}) diverged"
                    " or were not played, and do not count in its scores, which flatters it."
                )


def aggregates(board: Scoreboard, rng: np.random.Generator) -> dict[str, dict[str, Interval]]:
    """Algorithm → statistic → interval; the optimality gap only where a score of 100 means something."""
    wanted = {name: f for name, f in AGGREGATES.items() if name != "optimality_gap" or board.unit == "score"}
    return {
        algorithm: {name: interval(matrix, statistic, rng) for name, statistic in wanted.items()}
        for algorithm, matrix in board.matrices.items()
    }


def differences_to_best(board: Scoreboard, rng: np.random.Generator) -> dict[str, Interval]:
    """Algorithm → its IQM less the best one's; where the interval contains zero, the two cannot be told apart."""
    matrices, best = board.matrices, board.best
    if best is None:
        return {}
    rivals = {name: matrix for name, matrix in matrices.items() if name != best}
    return {name: cautious_difference(matrix, matrices[best], iqm, rng) for name, matrix in rivals.items()}
