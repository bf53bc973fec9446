"""Pictures of the candidates: what they are worth offline, in truth, and what choosing among them cost."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ilbrl.report.palette import display, styles
from ilbrl.report.pertask import NORMAL_95
from ilbrl.report.pictures.picture import Picture, Series
from ilbrl.report.selection import selection_regret, true_label, truth
from ilbrl.results.folder import Run


def offline_values(run: Run, only: Sequence[str] | None = None) -> Picture | None:
    """The offline value of every algorithm's selected configuration."""
    chosen = {name: c for name, c in run.selection.algorithms.items() if c.value is not None}
    shown = [name for name in chosen if only is None or name in only]
    if not shown:
        return None
    look, series = styles(list(run.selection.algorithms)), []
    for i, name in enumerate(shown):
        value, half = np.array([chosen[name].value], float), NORMAL_95 * (chosen[name].value_std_error or 0.0)
        y, label = np.array([len(shown) - 1.0 - i]), f"{display(name)}, configuration {chosen[name].configuration}"
        label += ", error not known" if chosen[name].value_std_error is None else ""
        label += ", still moving" if chosen[name].moving else ""
        series.append(Series(display(name), look[name], value, y, "points", value - half, value + half, (label,)))
    return Picture(
        "offline-values" if only is None else "ablation-offline", "What each algorithm is worth offline",
        "Estimated discounted value of the selected configuration, from logs alone; bars are ± 1.96 standard errors.",
        "offline value", "", tuple(series), sideways=True, y_names=tuple(display(name) for name in reversed(shown)),
    )  # fmt: skip


def estimated_against_true(run: Run) -> Picture | None:
    both = [c for c in run.candidates if c.offline_value is not None and truth(run, c) is not None]
    look, series = styles(run.algorithms), []
    for algorithm in run.algorithms:
        for selected in (False, True):
            own = [c for c in both if (c.algorithm, c.selected) == (algorithm, selected)]
            if own:
                x = np.array([truth(run, c) for c in own], float)
                y = np.array([c.offline_value for c in own], float)
                half = NORMAL_95 * np.array([c.offline_std_error or 0.0 for c in own])
                labels = tuple(f"{display(algorithm)} {c.configuration}, seed {c.policy_seed}" for c in own)
                name = display(algorithm) + (", selected" if selected else "")
                place = look[algorithm], x, y, "points", y - half, y + half
                series.append(Series(name, *place, labels, selected, display(algorithm)))
    if not series:
        return None
    return Picture(
        "estimated-against-true", "Offline value against true score",
        "One dot per policy: rising to the right, offline values rank rightly. Bars are ± 1.96 standard errors.",
        true_label(run), "offline value", tuple(series),
    )  # fmt: skip


def regret_picture(run: Run) -> Picture | None:
    found = selection_regret(run)
    if not found:
        return None
    look, series, names = styles(run.algorithms), [], list(found)
    for row, (algorithm, each) in enumerate(reversed(found.items())):
        for number, mean in each.configurations.items():
            chosen = number == each.chosen
            name = display(algorithm) + (", selected" if chosen else "")
            label = f"{display(algorithm)} {number}" + (f", selected: regret {each.regret:.3g}" if chosen else "")
            x, half = np.array([mean.value]), np.nan_to_num(mean.half_width)
            place = look[algorithm], x, np.array([float(row)]), "points", x - half, x + half
            series.append(Series(name, *place, (label,), chosen, display(algorithm)))
    return Picture(
        "regret", "The regret of selection",
        "Mean true score of every configuration ± 95 %; the strong one was selected, the gap to its right is the cost.",
        true_label(run), "", tuple(series), sideways=True, y_names=tuple(display(name) for name in reversed(names)),
    )  # fmt: skip
