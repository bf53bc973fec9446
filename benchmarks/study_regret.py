"""What choosing offline cost in studies whose candidates have been revealed: the tables of docs/results.md.

    python -m benchmarks.study_regret docs/results/locomotion/*-18 docs/results/locomotion/*-2-imagined

ILBRL: the chosen configuration against always taking the default (configuration 0), a random one and the best by true
score (`ilbrl tune --reveal` has played them all). Then the regret of every algorithm, and the choice between
algorithms. A configuration's score is the mean over its policy seeds.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from ilbrl.ope import spearman
from ilbrl.report.pictures import display
from ilbrl.report.scoreboard import Regret, played_configurations, reference_score, selection_regret
from ilbrl.results.folder import Run, read_runs
from ilbrl.study.selection import judge_all

Regrets = Mapping[str, Regret]


def of_ilbrl(runs: Sequence[Run]) -> Iterator[str]:
    yield "| ILBRL | chosen offline | the default | at random | best there was | rank correlation |"
    yield "|---|---:|---:|---:|---:|---:|"
    rows = []
    for run in runs:
        regret, values = selection_regret(run)["ilbrl"], _values(run, "ilbrl")
        scores = {number: mean.value for number, mean in regret.configurations.items()}
        order = spearman(*(np.array([table[n] for n in scores]) for table in (values, scores)))
        rows.append([scores[regret.chosen], scores[0], np.mean(list(scores.values())), max(scores.values()), order])
        yield _row(run.name, rows[-1])
    yield _row("mean", np.mean(rows, axis=0).tolist())


def _row(name: str, numbers: Sequence[float]) -> str:
    *scores, order = numbers
    cells = [name.removeprefix("locomotion-"), *(f"{score:.1f}" for score in scores), f"{order:.2f}".replace("-", "−")]
    return f"| {' | '.join(cells)} |"


def of_every_algorithm(runs: Sequence[Run]) -> Iterator[str]:
    """How far the chosen configuration is below the best of its algorithm; — where the others were not played."""
    found = [selection_regret(run) for run in runs]
    names = list(dict.fromkeys(name for regrets in found for name in regrets))
    yield "| below the best of its own | " + " | ".join(run.name.removeprefix("locomotion-") for run in runs) + " |"
    yield "|---|" + "---:|" * len(runs)
    for name in names:
        cells = [f"{regrets[name].regret:.1f}" if name in regrets else "—" for regrets in found]
        yield f"| {display(name)} | {' | '.join(cells)} |"


def between(runs: Sequence[Run]) -> Iterator[str]:
    yield "| | chosen among all | ILBRL's choice | best of all | logs | expert |"
    yield "|---|---|---:|---|---:|---:|"
    for run in runs:
        overall = run.selection.overall
        assert overall is not None
        scores = {
            (name, number): mean.value
            for name, configurations in played_configurations(run).items()
            for number, mean in configurations.items()
        }
        best = max(scores, key=scores.__getitem__)
        own_choice = run.selection.algorithms["ilbrl"].configuration
        assert own_choice is not None
        chosen, own = (overall.algorithm, overall.configuration), ("ilbrl", own_choice)
        cells = [
            f"{display(chosen[0])} {scores[chosen]:.1f}",
            f"{scores[own]:.1f}",
            f"{display(best[0])} {scores[best]:.1f}",
        ]
        cells += [f"{reference_score(run, role):.1f}" for role in ("logs", "expert")]
        yield f"| {run.name.removeprefix('locomotion-')} | {' | '.join(cells)} |"


def _values(run: Run, algorithm: str) -> dict[int, float]:
    """Configuration → its offline value."""
    judged = judge_all(run.candidates, run.selection.rule)[algorithm].configurations
    return {each.configuration: each.value for each in judged if each.value is not None}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path)
    runs = read_runs(parser.parse_args().runs)
    print("\n".join([*of_ilbrl(runs), "", *of_every_algorithm(runs), "", *between(runs)]))


if __name__ == "__main__":
    main()
