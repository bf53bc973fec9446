"""Pictures of one run: its logs, its candidates, their training, and what choosing among them cost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from ilbrl.report.deployed import in_estimated_quantity, offline_label, quantity
from ilbrl.report.pictures import STYLES, Line, Picture, Series, band, by_name, display, frame, styles
from ilbrl.report.pictures.choices import action_frequencies, confusion
from ilbrl.report.pictures.evaluator import Point, calibration, model_errors, value_curves, values_against_scores
from ilbrl.report.scoreboard import selection_regret, true_label, truth
from ilbrl.report.statistics import NORMAL_95, Mean, normal_mean
from ilbrl.results.folder import Run
from ilbrl.results.schema import KNOWN
from ilbrl.results.tables import Curve

ABLATION = ("ilbrl", "ilbrl-unweighted")
COURSE = "Mean over seeds with their range, one line per configuration; what was selected is drawn strong."


def of_run(run: Run) -> dict[str, Picture]:
    """Every picture of one run that its folder has the data for, by name."""
    drawn = [
        reward_histogram(run), returns_histogram(run), calibration(run), model_errors(run.tuning.model_errors),
        value_curves(run), candidate_values(run), offline_values(run), estimated_against_true(run), regret_picture(run),
        action_frequencies(run), confusion(run),
        *(learning_curves(run, metric) for metric in metrics(run)),
    ]  # fmt: skip
    if set(ABLATION) <= set(run.algorithms):
        drawn.append(offline_values(run, ABLATION))
    return by_name(drawn)


def reward_histogram(run: Run) -> Picture | None:
    labels = run.data.labels
    if labels is None or len(labels.bins) < 2 or len(labels.logs) != len(labels.bins) - 1:
        return None
    return closeness(np.array(labels.bins), np.array(labels.logs))


def closeness(edges: np.ndarray, counts: np.ndarray) -> Picture:
    """[bins + 1] edges of the intrinsic reward and [bins] logged steps between them."""
    share = 100 * counts / max(1, counts.sum())
    return Picture(
        "rewards", "Closeness to the expert",
        "Intrinsic reward of each logged step, less the farther from the expert's. Mass on the right is good.",
        "intrinsic reward", "percent of steps", (Series("other logs", STYLES[0], _middles(edges), share, "bars"),),
        (Line("x", 1.0, "expert's own steps"),),
    )  # fmt: skip


def returns_histogram(run: Run) -> Picture | None:
    """Bars for the logs, a line for the expert and for each known policy's own episodes, of which there are few."""
    found = {name: each for name, each in run.data.datasets.items() if each.returns}
    lines = {name: each for name, each in found.items() if each.role == "expert" or name.startswith(KNOWN)}
    logs = {name: each for name, each in found.items() if name not in lines}
    if not logs:
        return None
    everything = np.concatenate([each.returns for each in logs.values()])
    edges = np.linspace(everything.min(), everything.max() + 1e-9, 31)
    series = tuple(
        Series(
            f"{name}, {len(each.returns)} episodes", STYLES[i % len(STYLES)], _middles(edges),
            100 * np.histogram(each.returns, edges)[0] / len(each.returns), "bars",
        )
        for i, (name, each) in enumerate(logs.items())
    )  # fmt: skip
    return Picture(
        "returns", "Returns in the logs", "How well the logged episodes did, by the logs' own rewards.",
        "return of an episode (sum of rewards)", "percent of episodes", series,
        tuple(Line("x", float(np.mean(each.returns)), f"{name}, mean") for name, each in lines.items()),
    )  # fmt: skip


def _middles(edges: np.ndarray) -> np.ndarray:
    return (edges[1:] + edges[:-1]) / 2


def offline_values(run: Run, only: Sequence[str] | None = None) -> Picture | None:
    """The offline value of what would be deployed of every algorithm."""
    chosen = {name: c for name, c in run.selection.algorithms.items() if c.value is not None}
    shown = [name for name in chosen if only is None or name in only]
    if not shown:
        return None
    look, series = styles(list(run.selection.algorithms)), []
    for i, name in enumerate(shown):
        file = chosen[name].to_deploy
        value, half = np.array([file.value], float), NORMAL_95 * (file.value_std_error or 0.0)
        y, label = np.array([len(shown) - 1.0 - i]), f"{display(name)}, configuration {chosen[name].configuration}"
        label += ", error not known" if file.value_std_error is None else ""
        label += ", still moving" if chosen[name].moving else ""
        series.append(Series(display(name), look[name], value, y, "points", value - half, value + half, (label,)))
    return Picture(
        "offline-values" if only is None else "ablation-offline", "What each algorithm is worth offline",
        "Of its selected configuration, as it would be deployed, from logs alone; bars are ± 1.96 standard errors.",
        offline_label(run), "", tuple(series), sideways=True, y_names=tuple(display(name) for name in reversed(shown)),
    )  # fmt: skip


def estimated_against_true(run: Run) -> Picture | None:
    """Offline value against true score of every configuration whose policies were played."""
    like_with_like = all(in_estimated_quantity(run, c) for c in run.candidates if truth(run, c) is not None)
    label = f"true {quantity(run)}" if like_with_like else true_label(run)
    points = list(_configurations(run, like_with_like))
    return values_against_scores(points, styles(run.algorithms), label, quantity(run), like_with_like)


def _configurations(run: Run, like_with_like: bool) -> Iterator[Point]:
    """Mean and normal interval over the seeds of each configuration; truths in the estimated quantity if asked."""
    grouped: dict[tuple[str, int], list[tuple[float, float]]] = {}
    for c in run.candidates:
        same = in_estimated_quantity(run, c) if like_with_like else None
        true = truth(run, c) if same is None else same.value
        if true is not None and c.offline_value is not None:
            grouped.setdefault((c.algorithm, c.configuration), []).append((true, c.offline_value))
    selected = {(c.algorithm, c.configuration) for c in run.candidates if c.selected}
    for (algorithm, number), pairs in grouped.items():
        true, value = normal_mean(np.array(pairs)[:, 0]), normal_mean(np.array(pairs)[:, 1])
        label = f"{display(algorithm)} {number}, {len(pairs)} seeds"
        half = float(np.nan_to_num(value.half_width))
        yield Point(label, true.value, value.value, half, algorithm, (algorithm, number) in selected)


def regret_picture(run: Run) -> Picture | None:
    found = selection_regret(run)
    if not found:
        return None
    look, series, names = styles(run.algorithms), [], list(found)
    for row, (algorithm, each) in enumerate(reversed(found.items())):
        for number, mean in each.configurations.items():
            series.append(_configuration(algorithm, number, mean, row, look[algorithm], each.chosen, each.regret))
    return Picture(
        "regret", "The regret of selection",
        "Mean true score of every configuration ± 95 %; the strong one was selected, the gap to its right is the cost.",
        true_label(run), "", tuple(series), sideways=True, y_names=tuple(display(name) for name in reversed(names)),
    )  # fmt: skip


def _configuration(algorithm: str, number: int, mean: Mean, row: int, style, chosen: int, regret: float) -> Series:
    selected = number == chosen
    name = display(algorithm) + (", selected" if selected else "")
    label = f"{display(algorithm)} {number}" + (f", selected: regret {regret:.3g}" if selected else "")
    x, half = np.array([mean.value]), np.nan_to_num(mean.half_width)
    place = style, x, np.array([float(row)]), "points", x - half, x + half
    return Series(name, *place, (label,), selected, display(algorithm))


def candidate_values(run: Run) -> Picture | None:
    """Offline values of the candidates over the evaluator's updates."""
    title, x = "Offline values of the candidates", "updates of the evaluator"
    return _by_configuration(run, run.candidate_values, "candidate-values", title, x, "estimate")


def metrics(run: Run) -> tuple[str, ...]:
    return tuple(dict.fromkeys(key[3] for key in run.curves))


def learning_curves(run: Run, metric: str) -> Picture | None:
    own, title = {key: curve for key, curve in run.curves.items() if key[3] == metric}, metric.replace("_", " ")
    return _by_configuration(run, own, f"training-{metric}", title, "updates", title)


def _by_configuration(run: Run, curves: dict, name: str, title: str, x: str, y: str) -> Picture | None:
    grouped: dict[tuple[str, int], list[Curve]] = {}
    for key, curve in curves.items():
        grouped.setdefault((key[0], key[1]), []).append(curve)
    if not grouped:
        return None
    selected = {(c.algorithm, c.configuration) for c in run.candidates if c.selected} or set(grouped)
    look = styles(list(dict.fromkeys([*run.algorithms, *(name for name, _ in grouped)])))  # results.csv may be cut
    series = tuple(
        band(
            f"{display(algorithm)} {number}",
            look[algorithm]._replace(marker=""),
            seeds,
            (algorithm, number) in selected,
            display(algorithm),
        )
        for (algorithm, number), seeds in grouped.items()
    )
    strong = [each for each in series if each.emphasis]
    return Picture(name, title, COURSE, x, y, series, y_range=frame(strong or series))
