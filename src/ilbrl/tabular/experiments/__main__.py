"""Check every lemma, measure regret against data, and redraw the figures of docs/theory.md.

example: python -m ilbrl.tabular.experiments --out docs/figures
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Annotated

import numpy as np
import tyro
from tyro.conf import arg

from ilbrl.base.progress import progress
from ilbrl.tabular.experiments import checks, figures, learning

SWEEPS = [1, 10, 100, 1_000, 10_000]


def main(
    out: Annotated[Path, arg(help="folder for the figures")] = Path("docs/figures"),
    trials: Annotated[int, arg(help="random MDPs per lemma")] = 500,
    seeds: Annotated[int, arg(help="repetitions of each learning curve")] = 20,
    seed: Annotated[int, arg(help="of the lemma checks")] = 0,
) -> int:
    """Check every lemma, measure regret against data, and redraw the figures of docs/theory.md."""
    began = time.perf_counter()
    rng = np.random.default_rng(seed)
    results = []
    with progress("lemmas", len(checks.CHECKS) + len(SWEEPS), "checks") as advance:
        for check in checks.CHECKS:
            results.append(check(trials, rng))
            advance(1, results[-1].name)
        shares = np.empty((len(SWEEPS), 2))
        for i, sweeps in enumerate(SWEEPS):
            shares[i] = checks.sweeps_that_fail(sweeps, 400, 0.2, rng)
            advance(1)
    points = len(learning.EXPERT_STEPS) + len(learning.EXPLORATORY_STEPS)
    with progress("learning curves", points * seeds, "points") as advance:
        expert = learning.against_expert_data(seeds, advance)
        exploratory = learning.against_exploratory_data(seeds, advance)
    figures.save(figures.lemma_figure(results, rng), out / "theory-lemmas.png")
    figures.save(figures.sweep_figure(SWEEPS, shares, 0.2), out / "theory-sweeps.png")
    figures.save(figures.learning_figure(expert, exploratory, rng), out / "theory-learning.png")
    print(_lemma_table(results))
    print(_sweep_table(shares))
    print(_learning_table("|D_E|", expert))
    print(_learning_table("|D_X|", exploratory))
    print(f"{time.perf_counter() - began:.0f} s; figures in {out}")
    return int(any(check.failures > check.allowed * len(check.ratios) for check in results))


def _lemma_table(results: list[checks.Check]) -> str:
    rows = [
        "| lemma | trials | broken | may break | median of realised / bound | largest |",
        "|---|---|---|---|---|---|",
    ]
    for check in results:
        rows.append(
            f"| {check.name}: {check.claim} | {len(check.ratios)} | {check.failures} | {check.allowed:.0%} |"
            f" {np.median(check.ratios):.2g} | {check.ratios.max():.2g} |"
        )
    return "\n".join(rows) + "\n"


def _sweep_table(shares: np.ndarray) -> str:
    rows = ["| sweeps m·ℓ | δ″ = δ, as printed | δ″ = δ/(m·ℓ) |", "|---|---|---|"]
    rows += [f"| {n:,} | {printed:.3f} | {fixed:.3f} |" for n, (printed, fixed) in zip(SWEEPS, shares)]
    return "\n".join(rows) + "\n"


def _learning_table(axis: str, curves: learning.Curves) -> str:
    head = " | ".join(f"{method}" for method in learning.METHODS)
    rows = [f"| {axis} | {head} |", "|---" * (1 + len(learning.METHODS)) + "|"]
    for i, steps in enumerate(curves.steps):
        cells = " | ".join(
            f"{100 * regret:.2f} % / {variation:.3f}"
            for regret, variation in zip(curves.regret[i].mean(axis=0), curves.variation[i].mean(axis=0))
        )
        rows.append(f"| {steps:,} | {cells} |")
    return "\n".join(rows) + "\n"


if __name__ == "__main__":
    sys.exit(tyro.cli(main, description=__doc__))
