"""The page: one HTML file with everything inside, to be mailed, printed and read on a telephone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ilbrl import __version__
from ilbrl.base.files import written_whole
from ilbrl.report.deployed import known_miss, offline_label, only_clones, quantity
from ilbrl.report.formats import score_table
from ilbrl.report.pictures import Picture, Series, display
from ilbrl.report.pictures.evaluator import served
from ilbrl.report.pictures.runs import of_run
from ilbrl.report.pictures.scores import of_scores
from ilbrl.report.scoreboard import reference_score, scored, selection_regret, true_label
from ilbrl.report.statistics import NORMAL_95
from ilbrl.report.summary import Summary, comparison_sentence, small_print, summarise, why_no_scores
from ilbrl.report.text import command, number, on_page, percent, plain, plus_minus, script, sentence, several, short
from ilbrl.report.verdict import Verdict
from ilbrl.results.folder import Run
from ilbrl.results.schema import KnownEstimate

HERE = Path(__file__).parent
DIGITS = 5
"""Significant digits of a plotted number: more than a screen can show, and half the weight."""
LINE_BUDGET = 60_000
"""Points of all lines of a page together, so that a large study stays within what a mail server takes."""


def write_page(runs: Sequence[Path], out: Path) -> Path:
    """Write the report of these run folders to `out` and return it."""
    page = render(summarise([Path(run) for run in runs]))
    with written_whole(out) as path:
        path.write_text(page, encoding="utf-8", errors="replace")
    return Path(out)


def render(summary: Summary, rng: np.random.Generator | None = None) -> str:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup

    rng = np.random.default_rng(0) if rng is None else rng
    scores = of_scores(summary.board, summary.aggregates, rng) if summary.board else {}
    of_runs = [of_run(run) for run in summary.runs]
    drawn = {f"scores-{name}": picture for name, picture in scores.items()}
    for i, own in enumerate(of_runs):
        drawn |= {f"run{i}-{name}": picture for name, picture in own.items()}
    loader = FileSystemLoader(HERE / "templates")
    engine = Environment(
        loader=loader,
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: on_page(value) if isinstance(value, str) and not isinstance(value, Markup) else value,
    )
    engine.filters |= {"number": number, "percent": percent, "plus_minus": plus_minus, "count": count, "short": short}
    engine.filters |= {"plain": plain, "display": display, "sentence": sentence, "several": several}
    engine.filters |= {"ninety_five": ninety_five, "error": error, "vouched": lambda name, run: run.vouched[name].why}
    page = engine.get_template("page.html").render(
        comparison=comparison_sentence(summary),
        table=score_table(summary),
        why_no_scores=why_no_scores(summary),
        small_print=small_print(summary),
        runs=[_run(i, run, summary, own) for i, (run, own) in enumerate(zip(summary.runs, of_runs))],
        scores=scores,
        version=__version__,
        style=(HERE / "templates" / "page.css").read_text(encoding="utf-8"),
        script=(HERE / "templates" / "page.js").read_text(encoding="utf-8"),
        plotly=(HERE / "vendor" / "plotly-basic.min.js").read_text(encoding="utf-8"),
        drawn=script(_as_json(drawn)),
    )
    return page.strip() + "\n"


def _run(index: int, run: Run, summary: Summary, own: dict[str, Picture]) -> dict[str, Any]:
    values = different(candidate.hyperparameters for candidate in run.candidates)
    tried = different(each.settings for each in run.tuning.configurations)
    overall = run.selection.overall
    chosen = run.selection.algorithms.get(overall.algorithm or "") if overall else None
    return {
        "id": f"run{index}",
        "run": run,
        "verdict": summary.verdicts[index],
        "moving": chosen is not None and chosen.moving,
        "pictures": own,
        "training": [name for name in own if name.startswith("training-")],
        "clones": only_clones(run.tuning),
        "known": run.tuning.chosen_evaluator.policies if run.tuning.chosen_evaluator else {},
        "models": served(run.tuning.model_errors),
        "regret": selection_regret(run),
        "logs": reference_score(run, "logs"),
        "expert": reference_score(run, "expert"),
        "gauge": gauge(run, summary.verdicts[index]),
        "searched": [name for name, found in values.items() if len(found) > 1],
        "tried": [name for name, found in tried.items() if len(found) > 1],
        "fixed": {name: value for name, (value, *others) in values.items() if not others},
        "scored": scored(run),
        "quantity": quantity(run),
        "offline": offline_label(run),
        "true_label": true_label(run),
        "coverage": coverage(run),
        "missed": known_miss(run.tuning),
        "rivals": any(candidate.rivals for candidate in run.candidates),
        "states": any(candidate.std_error is not None for candidate in run.candidates),  # older runs lack it
        "reveal": command("ilbrl", "tune", "--reveal", run.path),
        "played": any(c.true_return is not None or c.true_score is not None for c in run.candidates),
    }


def different(settings: Iterable[dict[str, Any]]) -> dict[str, list[Any]]:
    """The different values of every setting, in order of appearance."""
    values: dict[str, list[Any]] = {}
    for each in settings:
        for name, value in each.items():
            if value not in values.setdefault(name, []):
                values[name].append(value)
    return values


def coverage(run: Run) -> str:
    """How well the logs cover the expert, where it was measured."""
    found = run.data.labels.coverage if run.data.labels else {}
    share, reward = found.get("covered_share"), found.get("mean_reward")
    if share is None:
        return ""
    steps = f"{number(100 * share, 0)} % of the expert's steps"
    said = f"Coverage of the expert: {steps} are the nearest expert step of some logged step"
    return f"{said}." if reward is None else f"{said}; the mean intrinsic reward of the logs is {number(reward, 2)}."


def gauge(run: Run, verdict: Verdict) -> dict[str, tuple[float, float]] | None:
    """The logs, the selected policy with the ends of its interval, expert → (value, place on the scale in %)."""
    known = {name: reference_score(run, name) for name in ("logs", "expert")}
    marks = {name: value for name, value in known.items() if value is not None}
    if verdict.score is None or not marks:
        return None
    half = 0.0 if np.isnan(verdict.score.half_width) else verdict.score.half_width
    marks |= {"low": verdict.score.value - half, "selected": verdict.score.value, "high": verdict.score.value + half}
    low, high = min(marks.values()), max(marks.values())
    margin = 0.1 * (high - low) or 1.0
    return {name: (value, 100 * (value - low + margin) / (high - low + 2 * margin)) for name, value in marks.items()}


def _as_json(drawn: dict[str, Picture]) -> dict[str, Any]:
    lines = sum(series.kind == "line" for picture in drawn.values() for series in picture.series)
    points = max(12, LINE_BUDGET // max(1, lines))
    return {name: _picture(picture, points) for name, picture in drawn.items()}


def _picture(picture: Picture, points: int) -> dict[str, Any]:
    return {
        "title": picture.title,
        "x": picture.x,
        "y": picture.y,
        "lines": [line._asdict() for line in picture.lines],
        "sideways": picture.sideways,
        "x_names": picture.x_names,
        "y_names": picture.y_names,
        "identity": picture.identity,
        "range": picture.y_range,
        "x_ticks": picture.x_ticks,
        "y_ticks": picture.y_ticks,
        "series": [_series(series, points) for series in picture.series],
    }


def _series(series: Series, points: int) -> dict[str, Any]:
    kept: Any = slice(None)
    if series.kind == "line" and len(series.x) > points:
        kept = np.unique(np.linspace(0, len(series.x) - 1, points).round().astype(int))
    arrays = {"x": series.x, "y": series.y, "low": series.low, "high": series.high}
    return {
        "name": series.name,
        "group": series.group or series.name,
        "kind": series.kind,
        "strong": series.emphasis,
        "labels": series.labels,
        **series.style._asdict(),
        **{name: None if array is None else _rounded(array[kept]) for name, array in arrays.items()},
    }


def _rounded(array: np.ndarray) -> list[float | None]:
    return [float(f"{value:.{DIGITS}g}") if np.isfinite(value) else None for value in array.tolist()]


def ninety_five(std_error: float | None) -> float | None:
    """Half of a normal 95 % interval."""
    return None if std_error is None else NORMAL_95 * std_error


def error(known: KnownEstimate) -> str:
    """Estimate less truth, with its sign."""
    if known.estimate is None or known.truth is None:
        return "–"
    return ("+" if known.estimate > known.truth else "") + number(known.estimate - known.truth)


def count(value: Any) -> str:
    """Environment calls are a number, or an object of numbers by kind."""
    if isinstance(value, dict):
        return ", ".join(f"{count(each)} {kind}" for kind, each in value.items()) or "–"
    return f"{value:,}" if isinstance(value, int) else "–" if value is None else str(value)
