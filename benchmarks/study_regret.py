"""What choosing offline cost in studies whose candidates have been revealed: the tables of docs/results.md.

    python -m benchmarks.study_regret docs/results/locomotion/*-18 docs/results/locomotion/*-2-imagined
    python -m benchmarks.study_regret docs/results/locomotion/*-18-imagined --ways

ILBRL: the chosen configuration against always taking the default (configuration 0), a random one and the best by true
score (`ilbrl tune --reveal` has played them all). Then the regret of every algorithm, and the choice between
algorithms. A configuration's score is the mean over its policy seeds.

--ways: what choosing ILBRL's configuration otherwise would have come to: by the return that the same rollouts tell
where closeness was valued, and by Expected SARSA, of which a folder RUN-sarsa has the values for the same candidates.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from ilbrl.ope import spearman
from ilbrl.report.pictures import display
from ilbrl.report.scoreboard import Regret, played_configurations, reference_score, selection_regret
from ilbrl.results.folder import Run, read_run, read_runs
from ilbrl.study.selection import judge_all

Regrets = Mapping[str, Regret]


def of_ilbrl(runs: Sequence[Run]) -> Iterator[str]:
    yield "| ILBRL | chosen offline | the default | at random | best there was | rank correlation |"
    yield "|---|---:|---:|---:|---:|---:|"
    rows = []
    for run in runs:
        regret, values = selection_regret(run)["ilbrl"], values_of(run, "ilbrl")
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
    yield "| below the best of its own | " + " | ".join(_short(run) for run in runs) + " |"
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
        yield f"| {_short(run)} | {' | '.join(cells)} |"


def ways_of_choosing(runs: Sequence[Run]) -> Iterator[str]:
    """True scores of the configurations that each way would have chosen; in brackets Spearman's correlation."""
    yield "| ILBRL's configuration, chosen by | " + " | ".join(_short(run) for run in runs) + " | mean |"
    yield "|---|" + "---:|" * (len(runs) + 1)
    scores = [{n: mean.value for n, mean in selection_regret(run)["ilbrl"].configurations.items()} for run in runs]
    beside = [run.path.with_name(f"{run.path.name}-sarsa") for run in runs]
    ways = {
        _quantity(runs): [values_of(run, "ilbrl") for run in runs],
        "the return in the same rollouts": [_task_returns(run) for run in runs],
        "Expected SARSA": [values_of(read_run(path), "ilbrl") if path.is_dir() else {} for path in beside],
    }
    for name, values in ways.items():
        if lacking := [_short(run) for run, of in zip(runs, values) if not of]:
            yield f"| {name} | not known for {', '.join(lacking)} |" + " |" * len(runs)
            continue
        chosen = [true[max(of, key=of.__getitem__)] for true, of in zip(scores, values)]
        order = [spearman(*(np.array([t[n] for n in true]) for t in (of, true))) for true, of in zip(scores, values)]
        cells = [f"{score:.1f} ({rho:.2f})".replace("-", "−") for score, rho in zip(chosen, order)]
        yield f"| {name} | {' | '.join(cells)} | {np.mean(chosen):.1f} |"
    others = {"nobody: always the default": lambda true: true[0], "chance": lambda true: np.mean([*true.values()])}
    for name, of in (others | {"the true scores": lambda true: max(true.values())}).items():
        cells = [of(true) for true in scores]
        yield f"| {name} | {' | '.join(f'{cell:.1f}' for cell in cells)} | {np.mean(cells):.1f} |"


def _quantity(runs: Sequence[Run]) -> str:
    """What the studies chose by."""
    (reward,) = {run.tuning.reward for run in runs}
    return "the logs' rewards" if reward == "logged" else "closeness to the expert"


def _task_returns(run: Run) -> dict[int, float]:
    """Configuration → mean return of its seeds in the rollouts that valued closeness."""
    found: dict[int, list[float]] = {}
    for c in run.candidates:
        if c.algorithm == "ilbrl" and c.task_return is not None:
            found.setdefault(c.configuration, []).append(c.task_return)
    return {number: float(np.mean(returns)) for number, returns in found.items()}


def _short(run: Run) -> str:
    return run.name.removeprefix("locomotion-")


def values_of(run: Run, algorithm: str) -> dict[int, float]:
    """Configuration → its offline value."""
    judged = judge_all(run.candidates, run.selection.rule)[algorithm].configurations
    return {each.configuration: each.value for each in judged if each.value is not None}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--ways", action="store_true", help="of choosing, beside the one of the study")
    args = parser.parse_args()
    runs = read_runs(args.runs)
    if args.ways:
        print("\n".join(ways_of_choosing(runs)))
        return
    print("\n".join([*of_ilbrl(runs), "", *of_every_algorithm(runs), "", *between(runs)]))


if __name__ == "__main__":
    main()
