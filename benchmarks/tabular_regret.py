"""Exact regret and total variation of tabular ILBRL, BC and SMODICE against the amounts of expert data and other logs.

    OMP_NUM_THREADS=1 python -m benchmarks.tabular_regret [--seeds 20] [--figures docs/figures]

The last tables and the last figure of docs/theory.md. One thread, because the matrices are small.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure

from ilbrl.base.progress import Advance, progress
from ilbrl.report.pictures import NEUTRAL, Style, styles
from ilbrl.tabular.dice import smodice
from ilbrl.tabular.exact import average_reward, occupancy, total_variation
from ilbrl.tabular.imitation import Config, behavioural_cloning, ilbrl
from ilbrl.tabular.logs import Log, rollout
from ilbrl.tabular.mdp import FiniteMDP, uniform_policy
from ilbrl.tabular.planning import average_optimum
from ilbrl.tabular.worlds import grid_world

EXPERT_STEPS = (10, 30, 100, 300, 1_000, 3_000, 10_000)
LOGS_STEPS = (100, 300, 1_000, 3_000, 10_000, 30_000)
FIXED_EXPERT, FIXED_LOGS = 100, 30_000
METHODS = ("ILBRL", "ILBRL, optimistic", "SMODICE", "BC")
STYLES: dict[str, Style] = dict(zip(METHODS, styles(["ilbrl", "ilbrl-unweighted", "smodice", "bc"]).values()))
FLOOR = 1e-5  # the lower end of the logarithmic axes, which have no zero


class Curves(NamedTuple):
    """[points, seeds, methods] exact results along one axis of data."""

    steps: tuple[int, ...]
    regret: np.ndarray  # as a share of the expert's average reward
    variation: np.ndarray


def slippery_room() -> FiniteMDP:
    """10 × 10 cells; one step in ten goes astray. So every walk leaves its path at last, and BC meets new states."""
    return grid_world(10, 10, slip=0.1)


def against_expert_data(seeds: int, advance: Advance) -> Curves:
    return _curves(EXPERT_STEPS, [(n, FIXED_LOGS) for n in EXPERT_STEPS], seeds, advance)


def against_logs(seeds: int, advance: Advance) -> Curves:
    return _curves(LOGS_STEPS, [(FIXED_EXPERT, n) for n in LOGS_STEPS], seeds, advance)


def _curves(steps: tuple[int, ...], sizes: list[tuple[int, int]], seeds: int, advance: Advance) -> Curves:
    mdp = slippery_room()
    expert = average_optimum(mdp).policy
    reward, target = average_reward(mdp, expert), occupancy(mdp, expert)
    results = np.empty((2, len(sizes), seeds, len(METHODS)))
    for seed in range(seeds):
        rng = np.random.default_rng(seed)  # shorter logs are the beginnings of longer ones
        demonstrations = rollout(mdp, expert, max(n for n, _ in sizes), rng)
        logs = rollout(mdp, uniform_policy(mdp), max(n for _, n in sizes), rng)
        for i, (shown, logged) in enumerate(sizes):
            for j, policy in enumerate(_policies(mdp, demonstrations[:shown], logs[:logged])):
                mine = occupancy(mdp, policy)
                results[0, i, seed, j] = 1 - (mine * mdp.rewards).sum() / reward
                results[1, i, seed, j] = total_variation(mine, target)
            advance(1)
    return Curves(steps, *results)


def _policies(mdp: FiniteMDP, expert: Log, logs: Log) -> list[np.ndarray]:
    """In the order of METHODS."""
    data = expert, logs, mdp.num_states, mdp.num_actions
    return [
        ilbrl(*data).policy,
        ilbrl(*data, Config(unseen="optimistic")).policy,
        smodice(*data).policy,
        behavioural_cloning(expert, mdp.num_states, mdp.num_actions),
    ]


# --- what is printed and drawn ------------------------------------------------------------------------------------


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=20, help="repetitions of each curve")
    parser.add_argument("--figures", type=Path, help="folder for theory-learning.png")
    options = parser.parse_args()
    with progress("curves", (len(EXPERT_STEPS) + len(LOGS_STEPS)) * options.seeds, "points") as advance:
        expert = against_expert_data(options.seeds, advance)
        logs = against_logs(options.seeds, advance)
    print(table("|D_E|", expert))
    print(table("|D_X|", logs))
    if options.figures:
        options.figures.mkdir(parents=True, exist_ok=True)
        learning_figure(expert, logs, np.random.default_rng(0)).savefig(
            options.figures / "theory-learning.png", dpi=130
        )


def table(axis: str, curves: Curves) -> str:
    rows = [f"| {axis} | {' | '.join(METHODS)} |", "|---" * (1 + len(METHODS)) + "|"]
    for i, steps in enumerate(curves.steps):
        cells = " | ".join(
            f"{100 * regret:.2f} % / {variation:.3f}"
            for regret, variation in zip(curves.regret[i].mean(axis=0), curves.variation[i].mean(axis=0))
        )
        rows.append(f"| {steps:,} | {cells} |")
    return "\n".join(rows) + "\n"


def learning_figure(expert: Curves, logs: Curves, rng: np.random.Generator) -> Figure:
    """Regret (left) and total variation (right), against expert data (top) and other logs (bottom)."""
    figure = Figure(figsize=(8.8, 6.4), layout="constrained")
    grid = figure.subplots(2, 2)
    held = f"|D_X| = {FIXED_LOGS:,}", f"|D_E| = {FIXED_EXPERT}"
    for axes_row, curves, name, fixed in zip(grid, (expert, logs), ("expert", "logged"), held):
        for axes, values, what in zip(axes_row, (curves.regret, curves.variation), ("regret", "total variation")):
            for j, method in enumerate(METHODS):
                if name == "logged" or "optimistic" not in method:  # 30,000 steps show every pair: the same line
                    _band(axes, curves.steps, values[:, :, j], method, rng)
            axes.set_xscale("log")
            axes.set_yscale("log")
            axes.set_xlabel(f"{name} transitions")
            axes.set_title(f"{what}, {fixed}", fontsize=10, loc="left")
            axes.grid(color="0.92")
            axes.spines[["top", "right"]].set_visible(False)
        axes_row[0].set_ylabel("share of the expert's reward lost")
        axes_row[1].set_ylabel("TV to the expert's occupancy")
    for axes, values in zip(grid[0], (expert.regret, expert.variation)):
        steps = np.array(expert.steps[1:5])
        line = np.mean(values[1, :, 0]) * 0.45 * (steps[0] / steps) ** 0.5
        axes.plot(steps, line, color=NEUTRAL.colour, linestyle=":", linewidth=1.5)
        axes.text(steps[0], line[-1] * 0.9, "slope −½: the theorem's rate", color=NEUTRAL.colour, fontsize=8, va="top")
    grid[1, 1].legend(frameon=False, fontsize=9)
    return figure


def _band(axes: Any, steps: tuple[int, ...], values: np.ndarray, method: str, rng: np.random.Generator) -> None:
    """Mean over seeds with a 95 % bootstrap interval (2,000 resamples)."""
    chosen = rng.integers(values.shape[1], size=(2_000, values.shape[1]))
    low, high = np.quantile(values[:, chosen].mean(axis=2), [0.025, 0.975], axis=1)
    style, shown = STYLES[method], np.clip(values.mean(axis=1), FLOOR, None)
    axes.plot(
        steps, shown, style.dash, color=style.colour, marker=style.marker, markersize=4.5, linewidth=1.6, label=method
    )
    axes.fill_between(steps, np.clip(low, FLOOR, None), high, color=style.colour, alpha=0.15, linewidth=0)


if __name__ == "__main__":
    main()
