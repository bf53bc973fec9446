"""What choosing offline cost in studies whose candidates have been revealed: the tables of docs/results.md.

    python -m benchmarks.study_regret docs/results/locomotion/{hopper,halfcheetah,walker2d,ant}

Within each algorithm: the chosen configuration against the median and the best by true score (`ilbrl tune --reveal` has
played them all). Between algorithms: which one the offline values prefer, as they are and less some standard deviations
by which the evaluation seeds disagree (docs/evaluation.md), which configuration is nearest to the data, and what their
policies truly score. A configuration's score, and its distance from the data, is the mean over its policy seeds.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from ilbrl.base.errors import IlbrlError
from ilbrl.ope import spearman
from ilbrl.report.pictures import display
from ilbrl.report.scoreboard import reference_score, selection_regret
from ilbrl.results.folder import Run, read_runs
from ilbrl.results.tables import Candidate
from ilbrl.study.selection import judge_all, select

PENALTIES = (0.0, 1.0, 2.0)

Configuration = tuple[str, int]  # algorithm, number


def within(runs: Sequence[Run]) -> Iterator[str]:
    yield "| | " + " | ".join(f"{run.task}: chosen | median | best" for run in runs) + " |"
    yield "|---|" + "---:|---:|---:|" * len(runs)
    regrets = [selection_regret(run) for run in runs]
    losses, gains = [], []
    for name in regrets[0]:
        cells = []
        for regret in (of_run[name] for of_run in regrets):
            scores = [mean.value for mean in regret.configurations.values()]
            cells += [
                f"**{regret.configurations[regret.chosen].value:.1f}**",
                f"{np.median(scores):.1f}",
                f"{max(scores):.1f}",
            ]
            losses.append(max(scores) - regret.configurations[regret.chosen].value)
            gains.append(regret.configurations[regret.chosen].value - float(np.median(scores)))
        yield f"| {display(name)} | {' | '.join(cells)} |"
    yield ""
    yield (
        f"Of {len(losses)} choices {sum(loss == 0 for loss in losses)} took the best; on average they are"
        f" {np.mean(losses):.1f} below the best and {abs(np.mean(gains)):.1f}"
        f" {'above' if np.mean(gains) >= 0 else 'below'} the median."
    )


def between(runs: Sequence[Run]) -> Iterator[str]:
    yield (
        "| | "
        + " | ".join(f"penalty {penalty:g}" for penalty in PENALTIES)
        + " | nearest to the data | best of all | logs | rank correlation: value | distance |"
    )
    yield "|---|" + "---|" * len(PENALTIES) + "---|---|---:|---:|---:|"
    for run in runs:
        candidates, scores = run.candidates, scores_of(run)
        best = max(scores, key=lambda key: scores[key])
        picks = [select(candidates, "converged", penalty).overall for penalty in PENALTIES]
        keys = [(pick.algorithm, pick.configuration) for pick in picks if pick is not None]
        distances = distances_of(candidates)
        if not distances:
            raise IlbrlError(f"{run.path}: from before distances were recorded; run the study again")
        nearest = min(distances, key=lambda key: distances[key])
        cells = [f"{display(key[0])} {scores[key]:.1f}" for key in (*keys, nearest, best)]
        values = values_of(candidates)
        correlations = [spearman(*aligned(guess, scores)) for guess in (values, distances)]
        yield (
            f"| {run.task} | {' | '.join(cells)} | {reference_score(run, 'logs'):.1f}"
            f" | {' | '.join(f'{each:.2f}' for each in correlations)} |".replace("-", "−")
        )


def values_of(candidates: Sequence[Candidate]) -> dict[Configuration, float]:
    """The offline value of every configuration of every algorithm that has one."""
    return {
        (name, judged.configuration): judged.value
        for name, table in judge_all(candidates, "converged").items()
        for judged in table.configurations
        if judged.value is not None
    }


def distances_of(candidates: Sequence[Candidate]) -> dict[Configuration, float]:
    """The mean distance from the data of every configuration of every algorithm that was evaluated."""
    found: dict[Configuration, list[float]] = {}
    for c in candidates:
        if c.distance is not None:
            found.setdefault((c.algorithm, c.configuration), []).append(c.distance)
    return {key: float(np.mean(each)) for key, each in found.items()}


def aligned(guesses: dict[Configuration, float], scores: dict[Configuration, float]) -> tuple[np.ndarray, np.ndarray]:
    return np.array(list(guesses.values())), np.array([scores[key] for key in guesses])


def scores_of(run: Run) -> dict[Configuration, float]:
    """Configuration → mean true score."""
    found: dict[Configuration, list[float]] = {}
    for c in run.candidates:
        if c.true_score is None:
            raise IlbrlError(f"{run.path}: not every candidate has a true score; `ilbrl tune --reveal` plays them")
        found.setdefault((c.algorithm, c.configuration), []).append(c.true_score)
    return {key: float(np.mean(each)) for key, each in found.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path)
    folders = parser.parse_args().runs
    runs = read_runs(folders)
    print("\n".join([*within(runs), "", *between(runs)]))


if __name__ == "__main__":
    main()
