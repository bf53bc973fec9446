"""Pictures of courses: training metrics and offline values of the candidates, one line per configuration."""

from __future__ import annotations

from ilbrl.report.palette import display, styles
from ilbrl.report.pictures.picture import Picture, band, frame
from ilbrl.results.folder import Run
from ilbrl.results.tables import Curve

SAYS = "Mean over seeds with their range, one line per configuration; what was selected is drawn strong."


def candidate_values(run: Run) -> Picture | None:
    """Offline values of the candidates over the evaluator's updates."""
    title, x = "Offline values of the candidates", "updates of the evaluator"
    return _by_configuration(run, run.candidate_values, "candidate-values", title, x, "estimated value")


def metrics(run: Run) -> tuple[str, ...]:
    return tuple(dict.fromkeys(key[3] for key in run.curves))


def learning_curves(run: Run, metric: str) -> Picture | None:
    own, title = {key: curve for key, curve in run.curves.items() if key[3] == metric}, metric.replace("_", " ")
    return _by_configuration(run, own, f"training-{metric}", title, "updates", title)


def _by_configuration(run: Run, curves: dict, stem: str, title: str, x: str, y: str) -> Picture | None:
    grouped: dict[tuple[str, int], list[Curve]] = {}
    for key, curve in curves.items():
        grouped.setdefault((key[0], key[1]), []).append(curve)
    if not grouped:
        return None
    selected = {(c.algorithm, c.configuration) for c in run.candidates if c.selected} or set(grouped)
    look = styles(list(dict.fromkeys([*run.algorithms, *(name for name, _ in grouped)])))  # results.csv may be cut
    series = tuple(
        band(
            f"{display(name)} {number}",
            look[name]._replace(marker=""),
            seeds,
            (name, number) in selected,
            display(name),
        )
        for (name, number), seeds in grouped.items()
    )
    strong = [each for each in series if each.emphasis]
    return Picture(stem, title, SAYS, x, y, series, y_range=frame(strong or series))
