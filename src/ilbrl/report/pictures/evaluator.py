"""Pictures of the off-policy evaluator: its estimates beside what is true, its course, and the error of its models.

All but `calibration` and `value_curves`, which read a run, are functions of plain arrays: commands and benchmarks draw
with them what they have just computed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from ilbrl.report.deployed import only_clones, quantity
from ilbrl.report.pictures import (
    GRADES,
    STYLES,
    Line,
    Picture,
    Series,
    Style,
    band,
    display,
    frame,
    log_ticks,
)
from ilbrl.report.statistics import NORMAL_95
from ilbrl.report.text import several, short
from ilbrl.results.folder import Run
from ilbrl.results.schema import ErrorsRecord, Grade, KnownEstimate, TriedSetting
from ilbrl.results.tables import Curve

OF_CLONES = (
    "What clones are worth by the models, against the episodes they were cloned from: below the dashed line the clone"
    " may be at fault as well as the models, above it they are too hopeful. Bars are 95 % intervals."
)
SEEN, BLIND = "with its own logs", "without its own logs"


class Point(NamedTuple):
    """What something is truly worth, and what was estimated: of a policy, or of a configuration's policies together."""

    name: str
    truth: float
    estimate: float
    half_width: float = 0.0  # of the estimate's 95 % interval
    group: str = ""  # one colour and one entry of the legend; its own name where empty
    strong: bool = True


def calibration(run: Run) -> Picture | None:
    """Estimate against truth for the known policies, under the chosen evaluator.

    Where each was also valued without its own logs, these estimates stand beside the others.
    """
    chosen = run.tuning.chosen_evaluator
    if chosen is None:
        return None
    seen, unseen = _points(chosen.policies), _points(chosen.unseen)
    if seen and only_clones(run.tuning):
        of_log = f"{quantity(run)}, as logged"
        return replace(estimates_against_truth(seen), title="Clones against their logs", says=OF_CLONES, x=of_log)
    if unseen:
        return predicted(seen + unseen, [False] * len(seen) + [True] * len(unseen), quantity(run))
    return estimates_against_truth(seen, quantity(run)) if seen else None


def _points(known: Mapping[str, KnownEstimate]) -> list[Point]:
    points = []
    for name, each in known.items():
        if each.estimate is not None and each.truth is not None:
            spread = "" if each.truth_std_error is None else f", truth ± {NORMAL_95 * each.truth_std_error:.3g}"
            label = f"{name}: {each.verdict or 'no verdict'}{spread}"
            points.append(Point(label, each.truth, each.estimate, NORMAL_95 * (each.std_error or 0.0), name))
    return points


def estimates_against_truth(points: Sequence[Point], of: str = "discounted value") -> Picture:
    """On the line estimates are right; `of` is the quantity that both axes measure."""
    groups = list(dict.fromkeys(point.group or point.name for point in points))
    series = tuple(
        _dots([p for p in points if (p.group or p.name) == group], group, STYLES[i % len(STYLES)])
        for i, group in enumerate(groups)
    )
    return Picture(
        "calibration", "Estimate against truth",
        "Policies of known value: on the dashed line the estimate is right, above it too hopeful. Bars are 95 %"
        " intervals of the estimate.",
        f"true {of}", "estimate", series, identity=True,
    )  # fmt: skip


def predicted(points: Sequence[Point], blind: Sequence[bool], of: str = "return of an episode") -> Picture:
    """Estimates against truth, of policies of which some were valued `blind`.

    A blind policy's own logs were kept from the evaluator: how it does on this one is how it will do on new policies.
    """
    grouped = [point._replace(group=BLIND if hidden else SEEN) for point, hidden in zip(points, blind, strict=True)]
    ordered = sorted(grouped, key=lambda point: point.group == BLIND)
    says = (
        "Policies of known value: on the dashed line the estimate is right, above it too hopeful. Estimates without a"
        " policy's own logs show what to expect of new policies. Bars are 95 % intervals."
    )
    return replace(estimates_against_truth(ordered, of), says=says)


def values_against_scores(
    points: Sequence[Point], look: Mapping[str, Style], true_label: str, of: str, same: bool = False
) -> Picture | None:
    """Offline value against true score, one dot per configuration; `group` is its algorithm.

    `of` is the quantity that is estimated. `same`: truths are of it too, so that dots should lie on the line x = y. It
    is drawn where estimates and truths overlap at all; elsewhere it would press the dots into a corner.
    """
    series = []
    for algorithm in dict.fromkeys(point.group for point in points):
        for strong in (False, True):
            own = [p for p in points if p.group == algorithm and p.strong == strong]
            if own:
                name = display(algorithm) + (", selected" if strong else "")
                series.append(_dots(own, name, look[algorithm], strong, display(algorithm)))
    if not series:
        return None
    return Picture(
        "estimated-against-true", "Offline value against true score",
        f"Estimates are of the {of}. One dot per configuration, its seeds averaged: where dots rise to the right, they"
        " choose well. Bars are 95 % intervals over seeds.",
        true_label, "estimate", tuple(series), identity=same and _overlap(points),
    )  # fmt: skip


def _overlap(points: Sequence[Point]) -> bool:
    truths, estimates = [p.truth for p in points], [p.estimate for p in points]
    return max(min(truths), min(estimates)) < min(max(truths), max(estimates))


def _dots(points: Sequence[Point], name: str, style: Style, strong: bool = True, group: str = "") -> Series:
    x, y = np.array([p.truth for p in points]), np.array([p.estimate for p in points])
    half = np.array([p.half_width for p in points])
    return Series(name, style, x, y, "points", y - half, y + half, tuple(p.name for p in points), strong, group)


def courses(policy: str, curves: Sequence[tuple[Curve, str, Grade]], of: str, truth: float | None = None) -> Picture:
    """Value of one policy over the evaluator's updates: curve, verdict and what it means, of every evaluation seed."""
    series = tuple(
        Series(verdict, GRADES[grade]._replace(marker=""), np.asarray(c.updates), np.asarray(c.values, float))
        for c, verdict, grade in curves
    )
    lines = () if truth is None else (Line("y", truth, "true value"),)
    settled = [each for each, (_, _, grade) in zip(series, curves) if grade != "void"]
    return Picture(
        f"values-{policy}", policy, f"Estimated {of}, one line per evaluation seed; dashes tell the verdict.",
        "updates", "estimate", series, lines, y_range=frame(settled or series, lines),
    )  # fmt: skip


def _but_composition(tried: TriedSetting) -> dict[str, Any]:
    return {name: value for name, value in tried.settings.items() if name != "expert_fraction"}


def value_curves(run: Run) -> Picture | None:
    """Values of known policies over the evaluator's updates, by data composition; all else as chosen."""
    chosen = run.tuning.chosen_evaluator
    if chosen is None or not run.tuning_values:
        return None
    siblings = [each for each in run.tuning.configurations if _but_composition(each) == _but_composition(chosen)]
    policies, series, strong = list(dict.fromkeys(key[0] for key in run.tuning_values)), [], []
    for i, each in enumerate(siblings):
        fraction = each.settings.get("expert_fraction")
        share = f"{fraction:.0%} expert" if isinstance(fraction, int | float) else "as logged"
        group = share + (", chosen" if each.id == chosen.id else "")
        for j, policy in enumerate(policies):
            seeds = [v for (p, c, _), v in run.tuning_values.items() if p == policy and c == str(each.id)]
            if seeds:
                style = STYLES[i % len(STYLES)]._replace(dash=("-", "--", ":", "-.")[j % 4], marker="")
                series.append(band(f"{policy}, {group}", style, seeds, group=group))
                strong += [series[-1]] if each.id == chosen.id else []
    dashes = ", ".join(f"{how}: {policy}" for how, policy in zip(("solid", "dashed", "dotted"), policies))
    truths = tuple(
        Line("y", known.truth, f"{name}, true") for name, known in run.tuning.known.items() if known.truth is not None
    )
    several = len({each.group for each in series}) > 1
    return Picture(
        "value-curves", "Offline values while the evaluator learns" + (", by data composition" if several else ""),
        f"Estimated {quantity(run)}: mean over evaluation seeds with their range; {dashes}."
        + (" Compositions that settle near the truth can be used." if several else ""),
        "updates of the evaluator", "estimate", tuple(series), truths,
        y_range=frame(strong, truths, margin=0.5),
    )  # fmt: skip


def served(ensembles: Sequence[ErrorsRecord]) -> list[ErrorsRecord]:
    """Those that have errors to show; a damaged record, in which something is missing, has none."""
    return [
        each
        for each in ensembles
        if each.many_step
        and len(each.held_out_loss) == len(each.many_step)
        and {len(errors) for errors in each.many_step} == {len(each.steps)}
        and min(each.steps, default=0) > 0
    ]


def model_errors(ensembles: Sequence[ErrorsRecord]) -> Picture | None:
    """How wrong every model is after so many steps of a held-out episode, whose actions it is told."""
    found, series = served(ensembles), []
    for i, each in enumerate(found):
        place = f"ensemble {i}, " if len(found) > 1 else ""
        for k, errors in enumerate(np.array(each.many_step, float)):
            style = STYLES[len(series) % len(STYLES)]._replace(marker="")
            shown = np.where(errors > 0, errors, np.nan)  # the axis has no zero
            series.append(Series(f"{place}model {k}", style, np.array(each.steps, float), shown))
    points = np.array([point for each in series for point in zip(each.x, each.y) if np.isfinite(point[1])])
    if not len(points):
        return None
    steps, errors = points.T
    return Picture(
        "model-errors", "How far the models can see", _how_wrong(steps, errors, found),
        "steps predicted in a row", "error (standard deviations)", tuple(series),
        x_ticks=log_ticks(steps), y_ticks=log_ticks(errors),
    )  # fmt: skip


def _how_wrong(steps: np.ndarray, errors: np.ndarray, ensembles: Sequence[ErrorsRecord]) -> str:
    """[n] errors of all models, after [n] steps, in words."""

    def mean(after: float) -> str:
        return short(float(errors[steps == after].mean()))

    first, last = steps.min(), steps.max()
    said = f"After {several(int(last), 'step')} the models are wrong by {mean(last)} standard deviations of a state"
    said += f", after {several(int(first), 'step')} by {mean(first)}" if first < last else ""
    said += ". They follow the actions of held-out episodes; the mean state as a guess is wrong by about 1."
    left_out = sum(len(each.left_out) for each in ensembles)
    return f"{said} Left out: {several(left_out, 'model')} much worse than the others." if left_out else said
