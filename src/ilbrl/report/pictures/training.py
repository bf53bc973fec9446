"""Pictures of courses: training metrics and offline values of the candidates, one line per configuration."""

from __future__ import annotations

from ilbrl.report.palette import display, styles
from ilbrl.report.pictures.picture import Picture, band
from ilbrl.report.results import Curve, Run


def candidate_values(run: Run) -> Picture | None:
    """Offline values of the candidates over the evaluator's updates, one line per configuration."""
    return _by_configuration(
        run, run.candidate_values, "candidate-values",
        "Offline values of the candidates", "Mean over seeds with their range; selected configurations are drawn strong.",
        "updates of the evaluator", "estimated value",
    )  # fmt: skip


def metrics(run: Run) -> tuple[str, ...]:
    return tuple(dict.fromkeys(key[3] for key in run.curves))


def learning_curves(run: Run, metric: str) -> Picture | None:
    own = {key: curve for key, curve in run.curves.items() if key[3] == metric}
    return _by_configuration(
        run, own, f"training-{metric}", metric.replace("_", " "),
        "Mean over seeds with their range; selected configurations are drawn strong.", "updates", metric.replace("_", " "),
    )  # fmt: skip


def _by_configuration(run: Run, curves: dict, name: str, title: str, says: str, x: str, y: str) -> Picture | None:
    grouped: dict[tuple[str, int], list[Curve]] = {}
    for key, curve in curves.items():
        grouped.setdefault((key[0], key[1]), []).append(curve)
    if not grouped:
        return None
    selected = {(c.algorithm, c.configuration) for c in run.candidates if c.selected}
    look = styles(run.algorithms or list(dict.fromkeys(algorithm for algorithm, _ in grouped)))
    series = tuple(
        band(f"{display(key[0])} {key[1]}", look[key[0]]._replace(marker=""), seeds, emphasis=key in selected)
        for key, seeds in grouped.items()
    )
    return Picture(name, title, says, x, y, series)
