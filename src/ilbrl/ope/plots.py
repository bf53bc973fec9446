"""Two figures: values over updates (the paper's figure on data composition), and estimates against the truth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ilbrl.base.files import written_whole
from ilbrl.ope.evaluation import Evaluation

COLOURS = {"converged": "#0072B2", "moving": "#E69F00", "diverged": "#D55E00"}
LINES = {"converged": "-", "moving": "--", "diverged": ":"}


class Curve(NamedTuple):
    updates: Sequence[float]
    values: Sequence[float]
    verdict: str


class Point(NamedTuple):
    name: str
    estimate: float
    interval: tuple[float, float]
    truth: float


def curves_of(evaluation: Evaluation, setting: int = 0) -> dict[str, list[Curve]]:
    """One panel per policy, one curve per evaluation seed."""
    return {
        policy: [Curve(e.updates.tolist(), e.values.tolist(), e.verdict) for e in evaluation.of(policy, setting)]
        for policy in evaluation.policies
    }


def plot_curves(panels: Mapping[str, Sequence[Curve]], path: Path, truths: Mapping[str, float] | None = None) -> None:
    """Value over updates, one panel per name; colour and dashes tell the verdict, a black line the truth."""
    columns = min(len(panels), 4)
    rows = -(-len(panels) // columns)
    figure, grid = _figure(rows, columns, 3.2 * columns, 2.6 * rows)
    for axes, (name, curves) in zip(grid.flat, panels.items()):
        for curve in curves:
            axes.plot(curve.updates, curve.values, color=COLOURS[curve.verdict], ls=LINES[curve.verdict], lw=1.2)
        if truths and name in truths:
            axes.axhline(truths[name], color="black", lw=1)
        axes.set(title=name, xlabel="updates")
        shown = [value for curve in curves if curve.verdict != "diverged" for value in curve.values]
        if shown:  # a diverged curve must not flatten the others
            low, high = min(0.0, *shown), max(0.0, *shown, (truths or {}).get(name, 0.0))
            axes.set_ylim(low - 0.05 * (high - low), high + 0.3 * (high - low))
    for axes in grid.flat[len(panels) :]:
        axes.set_axis_off()
    grid[0, 0].set_ylabel("value at initial states")
    seen = {curve.verdict for curves in panels.values() for curve in curves}
    handles = [_line(color=COLOURS[word], ls=LINES[word], label=word) for word in COLOURS if word in seen]
    grid[0, 0].legend(handles=handles, frameon=False, fontsize=8)
    _save(figure, path)


def plot_calibration(points: Sequence[Point], path: Path) -> None:
    """Estimated against true value, with 95 % intervals; on the diagonal they agree."""
    figure, grid = _figure(1, 1, 4.2, 4.0)
    axes = grid[0, 0]
    ends = [value for p in points for value in (p.truth, p.estimate)]
    axes.axline((min(ends), min(ends)), slope=1, color="black", lw=1, ls="--")
    for point in points:
        low, high = point.interval
        axes.plot([point.truth] * 2, [low, high], color="#0072B2", lw=1)
        axes.plot(point.truth, point.estimate, "o", color="#0072B2")
        axes.annotate(point.name, (point.truth, point.estimate), xytext=(5, 3), textcoords="offset points", fontsize=8)
    axes.set(xlabel="true value", ylabel="estimated value")
    _save(figure, path)


def _figure(rows: int, columns: int, width: float, height: float) -> tuple[Any, np.ndarray]:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure((width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure, figure.subplots(rows, columns, squeeze=False)


def _line(**style: Any) -> Any:
    from matplotlib.lines import Line2D

    return Line2D([], [], **style)


def _save(figure: Any, path: Path) -> None:
    with written_whole(path) as partial:
        figure.savefig(partial, dpi=130)
