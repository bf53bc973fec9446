"""What `ilbrl evaluate` prints and draws."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ilbrl import ope
from ilbrl.base.errors import printable
from ilbrl.report.pictures import evaluator as pictures
from ilbrl.report.pictures import paper
from ilbrl.report.text import percent
from ilbrl.results.schema import NORMAL_95
from ilbrl.results.tables import Curve


def as_text(result: dict[str, Any]) -> str:
    """Calibration and evaluation, as far as they were done."""
    lines = []
    if "calibration" in result:
        lines += _calibration_lines(result["calibration"])
    if "evaluation" in result:
        lines += _evaluation_lines(result["evaluation"], calibrated_here="calibration" in result)
    return "\n".join(map(printable, lines))


def _calibration_lines(tuning: dict[str, Any]) -> list[str]:
    chosen = tuning["configurations"][tuning["chosen"]]
    tried = len(tuning["configurations"])
    clones = all(known["clone"] for known in tuning["known"].values())
    one, many, truth = ("clone of", "clones", "its log") if clones else ("known policy", "known policies", "truth")
    lines = [
        f"{many}, {tuning['quantity']}; setting {tuning['chosen'] + 1} of {tried}{_differences(tuning)}",
        f"  {one:<24}{truth:>10}{'estimate':>12}{'without its logs':>18}   verdict",
    ]
    for name, entry in chosen["policies"].items():
        unseen = chosen["unseen"].get(name, {}).get("estimate")
        lines.append(
            f"  {name:<24}{_number(entry['truth']):>10}{_number(entry['estimate']):>12}{_number(unseen):>18}"
            f"   {entry['verdict']}"
        )
    if not clones:
        lines += _check_lines(tuning["trust"])
    return lines + [f"note: {note}" for note in tuning["notes"]] + _trust_lines(tuning["trust"])


def _check_lines(trust: dict[str, Any]) -> Iterator[str]:
    """How the known policies came out, in shares of the spread of their true values."""
    views = {"with their own logs": trust, "without them": trust["unseen"]}
    for where, check in ((where, check) for where, check in views.items() if check is not None):
        shares = {"mean error": "relative_value_error", "bias": "bias", "regret": "regret_at_1"}
        told = ", ".join(f"{name} {percent(check[field])}" for name, field in shares.items())
        yield f"  {where:<24}rank error {_number(check['rank_error'])}, {told}"


def _differences(tuning: dict[str, Any]) -> str:
    """The settings in which the tried configurations differ, as they were chosen."""
    every = [each["settings"] for each in tuning["configurations"]]
    chosen = every[tuning["chosen"]]
    differing = [name for name in chosen if any(each[name] != chosen[name] for each in every)]
    return f" ({', '.join(f'{name} {chosen[name]}' for name in differing)})" if differing else ""


def _evaluation_lines(found: dict[str, Any], calibrated_here: bool) -> list[str]:
    lines = [
        f"{found['quantity']}, by {ope.ESTIMATORS[found['estimator']].display}"
        if found["estimator"] in ope.ESTIMATORS
        else found["quantity"],
        f"{'policy':<40}{'value':>10}{'95 % interval':>22}{'distance':>10}{'steps':>8}   verdict",
    ]
    for name, entry in found["policies"].items():
        low, high = entry["interval"]
        interval = "–" if low is None else f"{low:.4g} … {high:.4g}"
        lines.append(
            f"{name:<40}{_number(entry['value']):>10}{interval:>22}{_number(entry['distance'], '.2f'):>10}"
            f"{_number(entry['length'], '.0f'):>8}   {entry['verdict']}"
        )
    lines.append(f"distance: {found['measure']}")
    lines += [
        f"{name}: {_gain(entry['gain'])} than the logs earned from the same first observations"
        for name, entry in found["policies"].items()
        if entry.get("gain")
    ]
    lines += [
        f"{name}: in the same rollouts the return by the logs' rewards is {entry['task_return']:.4g}"
        for name, entry in found["policies"].items()
        if entry.get("task_return") is not None
    ]
    lines += [f"note: {note}" for note in found["notes"]]
    lines += [f"warning: {said}" for said in found["warnings"]]
    if found["trust_withheld"]:
        lines.append(found["trust_withheld"])
    elif found["trust"] is None:
        lines.append(
            "not calibrated: how far to trust these numbers is unknown until --known NAME=POLICY … says so"
            " (or --clones, a weaker check that needs no policy)"
        )
    elif not calibrated_here:
        lines += _trust_lines(found["trust"])
    return lines


def _trust_lines(trust: dict[str, Any]) -> list[str]:
    return [f"{ope.SAYINGS[trust['verdict']]}:", *(f"  {reason}" for reason in trust["reasons"])]


def _gain(gain: dict[str, float]) -> str:
    return f"{abs(gain['value']):.4g} ± {NORMAL_95 * gain['std_error']:.2g} {'more' if gain['value'] > 0 else 'less'}"


def _number(value: float | None, how: str = ".4g") -> str:
    return "–" if value is None else f"{value:{how}}"


def draw_calibration(calibration: ope.Calibration, folder: Path) -> None:
    """calibration.png: estimates against the truth, with and without the known policies' own logs."""
    row, points, blind = calibration.table[calibration.chosen], [], []
    for view, hidden in ((row.seen, False), (row.unseen, True)):
        for name, estimate in view.items():
            if calibration.estimates.grades[estimate.verdict] != "void":
                half_width = estimate.interval[1] - estimate.value
                points.append(pictures.Point(name, calibration.truths[name].value, estimate.value, half_width))
                blind.append(hidden)
    if points:
        paper.save_as(folder / "calibration.png", pictures.predicted(points, blind, str(calibration.quantity)))
    truths = {name: truth.value for name, truth in calibration.truths.items()}
    draw_values(calibration.estimates, folder / "known-values.png", truths)


def draw_values(found: ope.Estimates, path: Path, truths: Mapping[str, float] | None = None) -> None:
    """Values over updates, a panel per policy; nothing where the estimator has no such curves."""
    panels = []
    for name, trace in found.traces.items():
        curves: list[tuple[Curve, str, ope.Grade]] = [
            (Curve(trace.updates, values), word, found.grades[word])
            for values, word in zip(trace.values, trace.verdicts)
        ]
        panels.append(pictures.courses(name, curves, str(found.quantity), (truths or {}).get(name)))
    if panels:
        paper.save_as(path, *panels)
