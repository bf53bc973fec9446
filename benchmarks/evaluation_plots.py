"""Draw what `benchmarks.policy_ladder` and `benchmarks.data_composition` measured.

    python -m benchmarks.evaluation_plots results/ladder docs/figures
    python -m benchmarks.evaluation_plots results/composition docs/figures

TASK.json becomes ladder.png (estimates against true values, a panel per task, a colour per remedy) and
ladder-TASK.png (values over updates); composition.json becomes composition.png.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np

matplotlib.use("Agg")
from matplotlib import pyplot

from ilbrl.ope.plots import Curve, plot_curves

COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000"]
MARKERS = "osv^D*x"


def main(results: Path, figures: Path) -> None:
    records = {path.stem: json.loads(path.read_text()) for path in sorted(results.glob("*.json"))}
    figures.mkdir(parents=True, exist_ok=True)
    if "composition" in records:
        draw_composition(records.pop("composition"), figures / "composition.png")
    ladders = {task: record for task, record in records.items() if record.get("variants")}
    if ladders:
        draw_ladders(ladders, figures / "ladder.png")
    for task, record in ladders.items():
        draw_curves(record, figures / f"ladder-{task}.png")


def draw_ladders(records: dict[str, Any], path: Path) -> None:
    """Estimated against true value after the last update, with intervals; on the dashed line they agree.

    Estimates farther from the true values than these are from each other are beyond the picture.
    """
    figure, panels = pyplot.subplots(
        1, len(records), figsize=(3.6 * len(records), 3.6), layout="constrained", squeeze=False
    )
    for axes, (task, record) in zip(panels[0], records.items()):
        levels = sorted(record["truths"], key=record["truths"].get)
        true = np.array([record["truths"][level] for level in levels])
        final = [found for found in record["variants"] if "std_error" in found]
        for found, colour, marker in zip(final, COLOURS, MARKERS):
            values = np.array([found["estimates"][level] for level in levels])
            errors = 1.96 * np.array([found["std_error"][level] for level in levels])
            style = {"color": colour, "marker": marker, "markersize": 4, "linewidth": 0.8, "label": found["variant"]}
            axes.errorbar(true, values, errors, **style)
        axes.axline((true.min(), true.min()), slope=1, color="black", linestyle="--", linewidth=1)
        limits = true.min() - np.ptp(true), true.max() + np.ptp(true)
        axes.set(title=task, xlabel="true value", ylabel="estimate" if axes is panels[0][0] else "", ylim=limits)
    handles, labels = panels[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False, fontsize=8)
    figure.savefig(path, dpi=130)


def draw_curves(record: dict[str, Any], path: Path) -> None:
    """Values over updates of the informed estimator, a panel per policy."""
    final = [found for found in record["variants"] if "curves" in found]
    shown = next((found for found in final if found["variant"] == "informed start"), final[0])
    panels = {
        level: [
            Curve(curve["updates"], values, word) for values, word in zip(curve["values"], shown["verdicts"][level])
        ]
        for level, curve in shown["curves"].items()
    }
    plot_curves(panels, path, record["truths"])


def draw_composition(record: dict[str, Any], path: Path) -> None:
    """Values over updates, a panel per expert fraction and learning setting."""
    panels, truths = {}, {}
    for found in record["entries"]:
        setting = found["setting"]
        name = (
            f"{setting['expert_fraction']:.0%} expert, lr {setting['lr']:g}, every {setting['target_update_every']:g}"
        )
        curves = found["curves"]
        panels[name] = [Curve(curves["updates"], v, word) for v, word in zip(curves["values"], found["verdicts"])]
        if record["truth"] is not None:
            truths[name] = record["truth"]
    plot_curves(panels, path, truths)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
