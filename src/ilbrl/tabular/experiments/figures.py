"""The figures of docs/theory.md, in the colour-blind-safe palette of Okabe and Ito."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from ilbrl.tabular.experiments.checks import Check
from ilbrl.tabular.experiments.learning import FIXED_EXPERT, FIXED_EXPLORATORY, METHODS, Curves

COLOURS = dict(zip(METHODS, ("#0072B2", "#56B4E9", "#009E73", "#D55E00")))
MARKERS = dict(zip(METHODS, "osD^"))
FLOOR = 1e-5  # where logarithmic axes end: they have no zero
GREY = "#666666"


def save(figure: Figure, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130, metadata={"Software": None})


def lemma_figure(checks: list[Check], rng: np.random.Generator) -> Figure:
    """Every trial of every lemma as a dot: realised / bound, the inequality being broken right of 1."""
    figure = Figure(figsize=(8.6, 4.4), layout="constrained")
    axes = figure.subplots()
    for row, check in enumerate(checks):
        shown = check.ratios[check.ratios > FLOOR]
        axes.scatter(shown, row + rng.uniform(-0.28, 0.28, len(shown)), s=7, color="#0072B2", alpha=0.35, linewidths=0)
        if (median := np.median(check.ratios)) > FLOOR:
            axes.plot([median] * 2, [row - 0.36, row + 0.36], color="#D55E00", linewidth=2.2)
        axes.plot([check.ratios.max()] * 2, [row - 0.36, row + 0.36], color="black", linewidth=1.2)
    axes.axvspan(1, 3, color="#D55E00", alpha=0.12, linewidth=0)
    axes.axvline(1, color="black", linewidth=1)
    axes.text(1.08, -0.45, "broken", color="#A04000", va="center", fontsize=9)
    axes.set_xscale("log")
    axes.set_xlim(FLOOR, 3)
    axes.set_ylim(len(checks) - 0.4, -0.7)
    axes.set_yticks(range(len(checks)), [_label(check) for check in checks])
    axes.set_xlabel("realised / bound (orange: median, black: largest)")
    axes.grid(axis="x", color="0.9")
    axes.set_axisbelow(True)
    _tidy(axes)
    return figure


def _label(check: Check) -> str:
    below = np.mean(check.ratios <= FLOOR)
    return f"{check.name}: {check.claim}" + (f"\n({below:.0%} of trials at or below 10⁻⁵)" if below else "")


def sweep_figure(sweeps: list[int], shares: np.ndarray, delta: float) -> Figure:
    """Failure of at least one sweep against the number of sweeps: [points, 2] shares, printed and corrected."""
    figure = Figure(figsize=(5.6, 3.2), layout="constrained")
    axes = figure.subplots()
    for column, (label, colour, marker) in enumerate(
        (("δ″ = δ for each sweep, as printed", "#D55E00", "^"), ("δ″ = δ / (m·ℓ)", "#0072B2", "o"))
    ):
        axes.plot(sweeps, shares[:, column], color=colour, marker=marker, markersize=5, label=label)
    axes.axhline(delta, color=GREY, linestyle="--", linewidth=1)
    axes.text(sweeps[-1], delta + 0.02, f"promised: δ = {delta:g}", color=GREY, fontsize=9, ha="right")
    axes.set_xscale("log")
    axes.set_ylim(-0.03, 1.03)
    axes.set_xlabel("parallel sweeps, m·ℓ")
    axes.set_ylabel("share of runs in which\nsome sweep misses a pair")
    axes.legend(frameon=False, loc="upper left", bbox_to_anchor=(0, 0.95))
    _tidy(axes)
    return figure


def learning_figure(expert: Curves, exploratory: Curves, rng: np.random.Generator) -> Figure:
    """Regret (left) and total variation (right), against expert (top) and exploratory (bottom) data."""
    figure = Figure(figsize=(8.8, 6.4), layout="constrained")
    grid = figure.subplots(2, 2)
    held = f"|D_X| = {FIXED_EXPLORATORY:,}", f"|D_E| = {FIXED_EXPERT}"
    for axes_row, curves, name, fixed in zip(grid, (expert, exploratory), ("expert", "exploratory"), held):
        for axes, values, what in zip(axes_row, (curves.regret, curves.variation), ("regret", "total variation")):
            for j, method in enumerate(METHODS):
                if name == "exploratory" or "optimistic" not in method:  # nothing is unseen in 30,000 steps: same line
                    _band(axes, curves.steps, values[:, :, j], method, rng)
            axes.set_xscale("log")
            axes.set_yscale("log")
            axes.set_xlabel(f"{name} transitions")
            axes.set_title(f"{what}, {fixed}", fontsize=10, loc="left")
            axes.grid(color="0.92")
            _tidy(axes)
        axes_row[0].set_ylabel("share of the expert's reward lost")
        axes_row[1].set_ylabel("TV to the expert's occupancy")
    for axes, values in zip(grid[0], (expert.regret, expert.variation)):
        steps = np.array(expert.steps[1:5])
        line = np.mean(values[1, :, 0]) * 0.45 * (steps[0] / steps) ** 0.5
        axes.plot(steps, line, color=GREY, linestyle=":", linewidth=1.5)
        axes.text(steps[0], line[-1] * 0.9, "slope −½: the theorem's rate", color=GREY, fontsize=8, va="top")
    grid[1, 1].legend(frameon=False, fontsize=9)
    return figure


def _band(axes, steps: tuple[int, ...], values: np.ndarray, method: str, rng: np.random.Generator) -> None:
    """Mean over seeds with a 95 % bootstrap interval (2,000 resamples)."""
    chosen = rng.integers(values.shape[1], size=(2_000, values.shape[1]))
    low, high = np.quantile(values[:, chosen].mean(axis=2), [0.025, 0.975], axis=1)
    style = "--" if "optimistic" in method else "-"
    size = {"markersize": 4.5, "linewidth": 1.6}
    shown = np.clip(values.mean(axis=1), FLOOR, None)
    axes.plot(steps, shown, style, color=COLOURS[method], marker=MARKERS[method], label=method, **size)
    axes.fill_between(steps, np.clip(low, FLOOR, None), high, color=COLOURS[method], alpha=0.15, linewidth=0)


def _tidy(axes) -> None:
    axes.spines[["top", "right"]].set_visible(False)
