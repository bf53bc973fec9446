"""Draw what `benchmarks.policy_ladder` and `benchmarks.data_composition` measured.

    python -m benchmarks.evaluation_plots results/ladder docs/figures
    python -m benchmarks.evaluation_plots results/ladder-models docs/figures
    python -m benchmarks.evaluation_plots results/composition docs/figures

TASK.json becomes ladder.png (estimates against true values, a panel per task, a colour per remedy) and
ladder-TASK.png (values over updates) if it is of Expected SARSA, and ladder-models.png (with the policies' own logs and
without them) if it is of models; composition.json becomes composition.png.
"""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ilbrl.report.pictures import STYLES, Picture, Series, paper
from ilbrl.report.pictures.evaluator import Point, courses, predicted
from ilbrl.results.schema import CONVERGENCE, NORMAL_95, Grade
from ilbrl.results.tables import Curve

OF = "discounted value"


def main(results: Path, figures: Path) -> None:
    records = {path.stem: json.loads(path.read_text()) for path in sorted(results.glob("*.json"))}
    figures.mkdir(parents=True, exist_ok=True)
    if "composition" in records:
        draw_composition(records.pop("composition"), figures / "composition.png")
    ladders = {task: record for task, record in records.items() if record.get("variants")}
    if ladders:
        draw_ladders(ladders, figures / "ladder.png")
    if both := {task: record for task, record in records.items() if "table" in record}:
        draw_both_views(both, figures / "ladder-models.png")
    for task, record in ladders.items():
        draw_curves(record, figures / f"ladder-{task}.png")


def draw_both_views(records: dict[str, Any], path: Path) -> None:
    """Estimates against the truth, with each policy's own logs and without them, a panel per task."""
    panels = []
    for task, record in records.items():
        row, points, blind = record["table"][record["chosen"]], [], []
        for view, hidden in (("seen", False), ("unseen", True)):
            for level, found in row[view].items():
                half = NORMAL_95 * found["std_error"]
                points.append(Point(level, record["truths"][level]["value"], found["value"], half))
                blind.append(hidden)
        panels.append(replace(predicted(points, blind), title=task))
    paper.save_as(path, *panels)


def draw_ladders(records: dict[str, Any], path: Path) -> None:
    """Estimated against true value after the last update, with intervals; on the dashed line they agree.

    Estimates farther from the true values than these are from each other are beyond the picture.
    """
    panels = []
    for task, record in records.items():
        levels = sorted(record["truths"], key=record["truths"].get)
        true = np.array([record["truths"][level] for level in levels])
        final = [found for found in record["variants"] if "std_error" in found]
        series = []
        for found, style in zip(final, STYLES):
            values = np.array([found["estimates"][level] for level in levels])
            errors = 1.96 * np.array([found["std_error"][level] for level in levels])
            series.append(Series(found["variant"], style, true, values, "points", values - errors, values + errors))
        limits = float(true.min() - np.ptp(true)), float(true.max() + np.ptp(true))
        panels.append(Picture(task, task, "", f"true {OF}", "estimate", tuple(series), identity=True, y_range=limits))
    paper.save_as(path, *panels)


def draw_curves(record: dict[str, Any], path: Path) -> None:
    """Values over updates of the informed estimator, a panel per policy."""
    final = [found for found in record["variants"] if "curves" in found]
    shown = next((found for found in final if found["variant"] == "informed start"), final[0])
    panels = []
    for level, curve in shown["curves"].items():
        verdicts = shown["verdicts"][level]
        own: list[tuple[Curve, str, Grade]] = [
            (Curve(curve["updates"], v), word, CONVERGENCE[word]) for v, word in zip(curve["values"], verdicts)
        ]
        panels.append(courses(level, own, OF, record["truths"][level]))
    paper.save_as(path, *panels)


def draw_composition(record: dict[str, Any], path: Path) -> None:
    """Values over updates, a panel per expert fraction and learning setting."""
    panels = []
    for found in record["entries"]:
        setting, curves = found["setting"], found["curves"]
        name = (
            f"{setting['expert_fraction']:.0%} expert, lr {setting['lr']:g}, every {setting['target_update_every']:g}"
        )
        words = found["verdicts"]
        own: list[tuple[Curve, str, Grade]] = [
            (Curve(curves["updates"], v), word, CONVERGENCE[word]) for v, word in zip(curves["values"], words)
        ]
        panels.append(courses(name, own, OF, record["truth"]))
    paper.save_as(path, *panels)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
