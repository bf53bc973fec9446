"""The page: one HTML file with everything inside, to be mailed, printed and read on a telephone."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ilbrl import __version__
from ilbrl.base.files import written_whole
from ilbrl.report import pictures
from ilbrl.report.palette import display
from ilbrl.report.pictures.picture import Picture, Series
from ilbrl.report.selection import reference_score, scored, selection_regret
from ilbrl.report.summary import Summary, comparison_sentence, summarise, why_no_scores
from ilbrl.report.tables import score_table, small_print
from ilbrl.report.verdict import Verdict
from ilbrl.report.wording import number, plus_minus, sentence
from ilbrl.results.folder import Run

HERE = Path(__file__).parent
DIGITS = 5
"""Significant digits of a plotted number: more than a screen can show, and half the weight."""
LINE_BUDGET = 60_000
"""Points of all lines of a page together, so that a large study stays within what a mail server takes."""


def write_page(runs: Sequence[Path], out: Path) -> Path:
    """Write the report of these run folders to `out` and return it."""
    page = render(summarise([Path(run) for run in runs]))
    with written_whole(out) as path:
        path.write_text(page, encoding="utf-8")
    return Path(out)


def render(summary: Summary, rng: np.random.Generator | None = None) -> str:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    rng = np.random.default_rng(0) if rng is None else rng
    of_scores = pictures.of_scores(summary.board, summary.aggregates, rng) if summary.board else {}
    of_runs = [pictures.of_run(run) for run in summary.runs]
    drawn = {f"scores-{name}": picture for name, picture in of_scores.items()}
    for i, own in enumerate(of_runs):
        drawn |= {f"run{i}-{name}": picture for name, picture in own.items()}
    loader = FileSystemLoader(HERE / "templates")
    engine = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    engine.filters |= {"number": number, "count": count, "short": short, "plain": plain}
    engine.filters |= {"display": display, "sentence": sentence, "plus_minus": plus_minus}
    page = engine.get_template("page.html").render(
        comparison=comparison_sentence(summary),
        table=score_table(summary),
        why_no_scores=why_no_scores(summary),
        small_print=small_print(summary),
        runs=[_run(i, run, summary, own) for i, (run, own) in enumerate(zip(summary.runs, of_runs))],
        scores=of_scores,
        version=__version__,
        style=(HERE / "templates" / "page.css").read_text(encoding="utf-8"),
        script=(HERE / "templates" / "page.js").read_text(encoding="utf-8"),
        plotly=(HERE / "vendor" / "plotly-basic.min.js").read_text(encoding="utf-8"),
        drawn=embedded(_as_json(drawn)),
    )
    return page.strip() + "\n"


def _run(index: int, run: Run, summary: Summary, own: dict[str, Picture]) -> dict[str, Any]:
    values: dict[str, list[Any]] = {}  # the different values of every hyper-parameter
    for candidate in run.candidates:
        for name, value in candidate.hyperparameters.items():
            if value not in values.setdefault(name, []):
                values[name].append(value)
    overall = run.selection.overall
    chosen = run.selection.algorithms.get(overall.algorithm or "") if overall else None
    searched = tuple(name for name, found in values.items() if len(found) > 1)
    return {
        "id": f"run{index}",
        "run": run,
        "verdict": summary.verdicts[index],
        "moving": chosen is not None and chosen.moving,
        "pictures": own,
        "training": [name for name in own if name.startswith("training-")],
        "evaluator": run.tuning.chosen_evaluator,
        "regret": selection_regret(run),
        "logs": reference_score(run, "logs"),
        "expert": reference_score(run, "expert"),
        "gauge": gauge(run, summary.verdicts[index]),
        "searched": searched,
        "fixed": {name: value for name, (value, *others) in values.items() if not others},
        "scored": scored(run),
        "played": any(c.true_return is not None or c.true_score is not None for c in run.candidates),
    }


def gauge(run: Run, verdict: Verdict) -> dict[str, tuple[float, float]] | None:
    """Exploratory policy, selected policy with the ends of its interval, expert → (value, place on the scale in %)."""
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


def embedded(value: Any) -> str:
    """JSON that may stand inside <script>: no tag can begin or end in it."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def count(value: Any) -> str:
    """Environment calls are a number, or an object of numbers by kind."""
    if isinstance(value, dict):
        return ", ".join(f"{count(each)} {kind}" for kind, each in value.items()) or "–"
    return f"{value:,}" if isinstance(value, int) else "–" if value is None else str(value)


def short(value: Any) -> str:
    """A hyper-parameter: three significant digits, whatever else as it is."""
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def plain(value: Any) -> str:
    """Recorded settings in words: a distribution as `uniform(0.2, 0.5)`, an object as `name value, …`."""
    if isinstance(value, dict) and set(value) == {"kind", "values"}:
        return f"{value['kind']}({plain(value['values'])})"
    if isinstance(value, dict):
        return "; ".join(f"{name} {plain(each)}" for name, each in value.items())
    return ", ".join(map(short, value)) if isinstance(value, list | tuple) else short(value)
