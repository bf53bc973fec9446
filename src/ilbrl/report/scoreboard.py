"""True scores: of one run's candidates, and over all runs as the runs × tasks matrices that statistics are made of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ilbrl.envs import normalised_score
from ilbrl.report.bootstrap import Interval, cautious_difference, interval
from ilbrl.report.pictures import display
from ilbrl.report.statistics import AGGREGATES, NORMAL_95, Mean, iqm, normal_mean
from ilbrl.report.text import OF_RUN, listed
from ilbrl.results.folder import Run, reference_value
from ilbrl.results.schema import Reference
from ilbrl.results.tables import Candidate

ENOUGH_RUNS, ENOUGH_SCORES = 3, 6
"""With fewer runs per task, or fewer on all tasks together, a bootstrap, a profile or a chance of winning says nothing:
three runs that beat three others would win "100 %"."""


def scored(run: Run) -> bool:
    """Whether what was played has scores, and not returns alone."""
    committees = run.final.committees if run.final else ()
    scores = [*(c.true_score for c in run.candidates), *(committee.score for committee in committees)]
    return any(score is not None for score in scores)


def truth(run: Run, candidate: Candidate) -> float | None:
    """Its score, or its return where the run has no scores."""
    return candidate.true_score if scored(run) else candidate.true_return


def true_label(run: Run) -> str:
    return "true normalised score" if scored(run) else "true return of an episode"


def reference_score(run: Run, name: str) -> float | None:
    """The score of the expert or of the policy behind the logs, or its return where the run has no scores."""
    reference = run.references.get(name)
    return None if reference is None else reference_value(reference, scored(run))


class Played(NamedTuple):
    """One policy in its environment: mean over episodes with its error, and how much single episodes vary."""

    mean: Mean
    spread: float  # standard deviation over episodes; NaN where it is not recorded


def played(run: Run, candidate: Candidate) -> Played | None:
    """None where the policy was not played. Mean and spread are in the unit of `truth`."""
    value = truth(run, candidate)
    if value is None:
        return None
    spread, episodes = np.nan, candidate.true_episodes or 0
    if candidate.true is not None and candidate.true.return_std is not None:
        spread = candidate.true.return_std
    if scored(run):
        ends = normalised_score(run.task, np.array([0.0, spread]))
        spread = np.nan if ends is None else float(ends[1] - ends[0])
    error = spread / np.sqrt(episodes) if episodes else np.nan
    return Played(Mean(value, float(error), float(NORMAL_95 * error), episodes), float(spread))


class Regret(NamedTuple):
    """What choosing offline cost within one algorithm, by the true scores of its configurations' seeds."""

    configurations: dict[int, Mean]
    chosen: int

    @property
    def regret(self) -> float:
        return max(mean.value for mean in self.configurations.values()) - self.configurations[self.chosen].value


def played_configurations(run: Run) -> dict[str, dict[int, Mean]]:
    """Algorithm → configuration → its mean over the seeds that were played."""
    found: dict[str, dict[int, list[Played]]] = {}
    for candidate in run.candidates:
        episodes = played(run, candidate)
        if episodes is not None:
            found.setdefault(candidate.algorithm, {}).setdefault(candidate.configuration, []).append(episodes)
    return {name: {number: over_seeds(each) for number, each in of.items()} for name, of in found.items()}


def selection_regret(run: Run) -> dict[str, Regret]:
    """Algorithm → regret; only for algorithms whose unselected configurations have been revealed."""
    chosen = {c.algorithm: c.configuration for c in run.candidates if c.selected}
    return {
        name: Regret(configurations, chosen[name])
        for name, configurations in played_configurations(run).items()
        if len(configurations) > 1 and chosen.get(name) in configurations
    }


def over_seeds(policies: Sequence[Played]) -> Mean:
    """Mean over the seeds of a configuration."""
    return normal_mean(np.array([p.mean.value for p in policies]), np.array([p.mean.std_error for p in policies]))


@dataclass(frozen=True)
class Scoreboard:
    """Scores of what was selected; a run of an algorithm is one policy seed of its selected configuration."""

    unit: str  # "score" (D4RL-normalised) or "return"
    tasks: tuple[str, ...]
    scores: dict[str, dict[str, np.ndarray]]  # algorithm → task → [runs]
    errors: dict[str, dict[str, np.ndarray]]  # the same of their standard errors over episodes; NaN where not known
    references: dict[str, dict[str, float]]  # logs, expert (· its run, where runs differ) → task → score
    notes: tuple[str, ...]

    @property
    def algorithms(self) -> tuple[str, ...]:
        return tuple(self.scores)

    @property
    def enough_runs(self) -> bool:
        """Whether a bootstrap over runs says anything."""
        return self.runs_per_task >= ENOUGH_RUNS and self.runs_per_task * len(self.tasks) >= ENOUGH_SCORES

    def mean(self, algorithm: str, task: str) -> Mean:
        """Over the runs of a task, with the normal interval of the paper's tables."""
        return normal_mean(self.scores[algorithm][task], self.errors[algorithm][task])

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
    selected = [(run, candidate) for run in runs for candidate in run.candidates if candidate.selected]
    shown = [(run, candidate) for run, candidate in selected if _known(candidate)]
    if not shown:
        return None
    unit = "score" if all(candidate.true_score is not None for _, candidate in shown) else "return"
    found: dict[str, dict[str, list[tuple[float, float]]]] = {}
    for run, candidate in shown:
        name = f"{candidate.algorithm}{OF_RUN}{run.name}" if labelled else candidate.algorithm
        value = candidate.true_score if unit == "score" else candidate.true_return
        own = played(run, candidate)
        if value is not None and own is not None:
            error = own.mean.std_error if own.mean.value == value else np.nan  # of another unit
            found.setdefault(name, {}).setdefault(run.task, []).append((value, error))
    tasks = tuple(dict.fromkeys(run.task for run, _ in shown))
    scores, errors = (
        {name: {task: np.array(each)[:, i] for task, each in by_task.items()} for name, by_task in found.items()}
        for i in (0, 1)
    )
    references = _references([run for run in runs if any(run is other for other, _ in shown)], unit)
    return Scoreboard(unit, tasks, scores, errors, references, (*_notes(unit, tasks, scores), *_unplayed(runs)))


def _known(candidate: Candidate) -> bool:
    return candidate.true_score is not None or candidate.true_return is not None


def _references(runs: Sequence[Run], unit: str) -> dict[str, dict[str, float]]:
    """By role; by role and run where two runs of one task differ in it, as algorithms are told apart."""
    found: dict[str, dict[str, float]] = {}
    for role in ("logs", "expert"):
        values = [(run, reference_value(run.references.get(role, Reference()), unit == "score")) for run in runs]
        known = [(run, value) for run, value in values if value is not None]
        labelled = len({(run.task, value) for run, value in known}) > len({run.task for run, _ in known})
        for run, value in known:
            found.setdefault(f"{role}{OF_RUN}{run.name}" if labelled else role, {})[run.task] = value
    return found


def _notes(unit: str, tasks: tuple[str, ...], scores: dict[str, dict[str, np.ndarray]]) -> Iterator[str]:
    if unit == "return" and len(tasks) > 1:
        yield "Returns of different tasks have different scales: they are shown by task and never averaged."
    partial = [name for name, by_task in scores.items() if set(by_task) != set(tasks)]
    if partial:
        names = listed([display(name) for name in partial])
        yield f"Not scored on every task, so without a place in the averages: {names}."
    for name, by_task in scores.items():
        counts = {task: len(runs) for task, runs in by_task.items()}
        if len(set(counts.values())) > 1:
            spread = ", ".join(f"{task} {count}" for task, count in counts.items())
            fewest = min(counts.values())
            uses = f"averages over tasks use the first {fewest} of each"
            yield f"{display(name)} has unequal numbers of runs ({spread}): {uses}."


def _unplayed(runs: Sequence[Run]) -> Iterator[str]:
    for run in runs:
        for algorithm in run.algorithms:
            own = [candidate for candidate in run.candidates if candidate.selected and candidate.algorithm == algorithm]
            absent = [candidate for candidate in own if not _known(candidate)]
            if 0 < len(absent) < len(own):
                seeds = ", ".join(str(candidate.policy_seed) for candidate in absent)
                yield (
                    f"{run.name}: {len(absent)} of {len(own)} seeds of the selected {display(algorithm)} (seed {seeds})"
                    " diverged or were not played, and do not count in its scores, which flatters it."
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
