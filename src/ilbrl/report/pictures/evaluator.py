"""Pictures of the off-policy evaluator on policies whose value is known."""

from __future__ import annotations

from typing import Any

import numpy as np

from ilbrl.report.palette import STYLES
from ilbrl.report.pertask import NORMAL_95
from ilbrl.report.pictures.picture import Line, Picture, Series, band, frame
from ilbrl.results.folder import Run
from ilbrl.results.schema import TriedSetting


def calibration(run: Run) -> Picture | None:
    """Estimate against truth for the known policies, under the chosen evaluator."""
    chosen = run.tuning.chosen_evaluator
    if chosen is None:
        return None
    series = []
    for i, (name, each) in enumerate(chosen.policies.items()):
        if each.estimate is None or each.truth is None:
            continue
        x, y, half = np.atleast_1d(each.truth), np.atleast_1d(each.estimate), NORMAL_95 * (each.std_error or 0.0)
        spread = "" if each.truth_std_error is None else f", truth ± {NORMAL_95 * each.truth_std_error:.3g}"
        label = f"{name}: {each.verdict or 'no verdict'}{spread}"
        series.append(Series(name, STYLES[i % len(STYLES)], x, y, "points", y - half, y + half, (label,)))
    if not series:
        return None
    return Picture(
        "calibration", "Estimate against truth",
        "Known policies: on the line the estimate is right, above it too hopeful. Bars are ± 1.96 standard errors.",
        "true discounted value", "estimated value", tuple(series), identity=True,
    )  # fmt: skip


def value_curves(run: Run) -> Picture | None:
    """OPE values over updates, by data composition, at the chosen learning rate and target period."""
    chosen = run.tuning.chosen_evaluator
    if chosen is None or not run.tuning_values:
        return None
    siblings = [each for each in run.tuning.configurations if _pace(each) == _pace(chosen)]
    policies, series = list(dict.fromkeys(key[0] for key in run.tuning_values)), []
    for i, each in enumerate(siblings):
        fraction = each.settings.get("expert_fraction")
        share = f"{fraction:.0%} expert" if isinstance(fraction, float | int) else ""
        group = share + (", chosen" if each.id == chosen.id else "")
        for j, policy in enumerate(policies):
            seeds = [v for (p, c, _), v in run.tuning_values.items() if p == policy and c == str(each.id)]
            if seeds:
                style = STYLES[i % len(STYLES)]._replace(dash=("-", "--", ":", "-.")[j % 4], marker="")
                series.append(band(f"{policy}, {group}", style, seeds, group=group))
    dashes = ", ".join(f"{how}: {policy}" for how, policy in zip(("solid", "dashed", "dotted"), policies))
    truths = tuple(
        Line("y", known.truth, f"{name}, true") for name, known in run.tuning.known.items() if known.truth is not None
    )
    return Picture(
        "value-curves", "Offline values while the evaluator learns, by data composition",
        f"Mean over evaluation seeds with their range; {dashes}. Compositions that settle near the truth can be used.",
        "updates of the evaluator", "estimated value", tuple(series), truths,
        y_range=frame([each for each in series if each.group.endswith(", chosen")], truths, margin=0.5),
    )  # fmt: skip


def _pace(tried: TriedSetting) -> tuple[Any, Any]:
    return tried.settings.get("lr"), tried.settings.get("target_update_every")
