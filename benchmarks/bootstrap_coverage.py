"""How often the 95 % percentile bootstrap contains the truth, by simulation.

    python -m benchmarks.bootstrap_coverage [--trials 2000] [--resamples 1000] [--json]

Four tasks; each trial draws n runs per task, makes the interval and asks whether the population's value lies in it.
Tasks:   equal    every task has mean 50 and standard deviation 15
         unequal  means 20, 45, 70, 95; standard deviations 5, 10, 20, 30
Scores:  normal   ·   skewed: an exponential tail downwards (most runs do well, some fail badly)
Statistics: mean; IQM within tasks; pooled IQM; IQM within tasks by `t_interval`, by which the report tells algorithms
apart; and the mean of a single task (the first) ± 1.96 standard errors, the interval of per-task tables. The
population's IQM is the trimmed mean of its distribution; with fewer than four runs ⌊n/4⌋ = 0 and a sample's IQM is its
mean, which for skewed scores estimates something else: that bias counts as missing.
2,000 trials give each share a standard error of at most 1.1 points.
"""

from __future__ import annotations

import argparse
import json

import numpy as np
from scipy import stats

from ilbrl.report.bootstrap import bootstrap, percentiles, t_interval
from ilbrl.report.statistics import Statistic, iqm, mean, normal_mean, pooled_iqm

RUNS = (3, 6, 10, 30)
TASKS = {
    "equal": (np.full(4, 50.0), np.full(4, 15.0)),
    "unequal": (np.array([20.0, 45.0, 70.0, 95.0]), np.array([5.0, 10.0, 20.0, 30.0])),
}
SHAPES = {"normal": stats.norm(), "skewed": stats.expon(loc=-1)}  # mean 0, standard deviation 1
STATISTICS: dict[str, Statistic] = {"mean": mean, "IQM within tasks": iqm, "pooled IQM": pooled_iqm}
CAUTIOUS = "IQM within tasks, t"
ONE_TASK = "one task ± 1.96 s.e."


def quantiles(shape: str, at: np.ndarray) -> np.ndarray:
    """Of the standardised scores; the exponential is turned round, so that its tail points down."""
    return SHAPES["normal"].ppf(at) if shape == "normal" else -SHAPES["skewed"].ppf(1 - at)


def population(shape: str, tasks: str, points: int = 200_001) -> dict[str, float]:
    """The true value of every statistic, from evenly spaced quantiles of each task's distribution."""
    means, deviations = TASKS[tasks]
    scores = means + deviations * quantiles(shape, (np.arange(points) + 0.5) / points)[:, None]
    return {name: float(statistic(scores)) for name, statistic in STATISTICS.items()} | {
        "mean": float(means.mean()),
        CAUTIOUS: float(iqm(scores)),
        ONE_TASK: float(means[0]),
    }


def coverage(shape: str, tasks: str, runs: int, trials: int, resamples: int) -> dict[str, float]:
    rng, (means, deviations), truth = np.random.default_rng(0), TASKS[tasks], population(shape, tasks)
    hits = dict.fromkeys(truth, 0)
    for _ in range(trials):
        scores = means + deviations * quantiles(shape, rng.random((runs, len(means))))
        for name, statistic in STATISTICS.items():
            drawn = bootstrap(scores, statistic, rng, resamples)
            low, high = percentiles(drawn)
            hits[name] += low <= truth[name] <= high
            if statistic is iqm:
                cautious = t_interval(iqm(scores), drawn, runs, len(means))
                hits[CAUTIOUS] += bool(cautious.low <= truth[CAUTIOUS] <= cautious.high)
        one = normal_mean(scores[:, 0])
        hits[ONE_TASK] += abs(one.value - truth[ONE_TASK]) <= one.half_width
    return {name: count / trials for name, count in hits.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=2_000)
    parser.add_argument("--resamples", type=int, default=1_000)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rows = [
        {"tasks": tasks, "scores": shape, "runs": runs}
        | coverage(shape, tasks, runs, options.trials, options.resamples)
        for tasks in TASKS
        for shape in SHAPES
        for runs in RUNS
    ]
    if options.json:
        print(json.dumps(rows, indent=2))
        return
    names = [*STATISTICS, CAUTIOUS, ONE_TASK]
    print(f"| tasks | scores | runs | {' | '.join(names)} |\n|---|---|---:|{'---:|' * len(names)}")
    for row in rows:
        shares = " | ".join(f"{100 * row[name]:.1f} %" for name in names)
        print(f"| {row['tasks']} | {row['scores']} | {row['runs']} | {shares} |")


if __name__ == "__main__":
    main()
