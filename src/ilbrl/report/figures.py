"""Pictures on paper: matplotlib files (PNG, SVG, PDF), told apart in grey by markers and dashes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ilbrl.base.files import written_whole
from ilbrl.report.pictures import Picture, Series

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORMATS = ("png", "svg", "pdf")
GREY = "#555555"


def draw(picture: Picture) -> Figure:
    from matplotlib.figure import Figure

    rows = len(picture.y_names)
    figure = Figure(figsize=(5.6, 0.42 * rows + 1.3 if rows else 3.5), layout="constrained")
    axes: Any = figure.subplots()
    drawers = {"line": _line, "points": _points, "bars": _bars}
    for series in sorted(picture.series, key=lambda each: each.emphasis):
        drawers[series.kind](axes, picture, series)
    for i, line in enumerate(picture.lines):
        across, dash = (axes.axvline if line.axis == "x" else axes.axhline), ("--", ":", "-.")[i % 3]
        across(line.value, color=GREY, linestyle=dash, linewidth=1, label=line.label, zorder=0)
    if picture.identity:
        axes.axline(
            (picture.series[0].x[0],) * 2, slope=1, color=GREY, linestyle="--", linewidth=1, label="estimate = truth"
        )
        axes.margins(0.25)
    axes.set(xlabel=picture.x, ylabel=picture.y)
    axes.set_title(picture.title[:1].upper() + picture.title[1:], loc="left", fontsize=11)
    if picture.x_names:
        axes.set_xticks(range(len(picture.x_names)), picture.x_names)
    if picture.y_names:
        axes.set_yticks(range(rows), picture.y_names)
        axes.set_ylim(-0.6, rows - 0.4)
    if picture.y_range is not None:
        axes.set_ylim(*picture.y_range)
    axes.grid(color="0.92")
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    _legend(axes, picture)
    return figure


def _line(axes: Any, picture: Picture, series: Series) -> None:
    strong = series.emphasis
    axes.plot(
        series.x, series.y, series.style.dash, marker="" if len(series.x) > 1 else "o",
        color=series.style.colour, linewidth=1.8 if strong else 0.8,
        alpha=1 if strong else 0.45, label=series.name if strong else "_", zorder=3 if strong else 2,
    )  # fmt: skip
    if strong and series.low is not None:
        axes.fill_between(series.x, series.low, series.high, color=series.style.colour, alpha=0.15, linewidth=0)


def _points(axes: Any, picture: Picture, series: Series) -> None:
    strong, uncertain = series.emphasis, {}
    if series.low is not None and series.high is not None:
        middle = series.x if picture.sideways else series.y
        uncertain = {"xerr" if picture.sideways else "yerr": np.abs([middle - series.low, series.high - middle])}
    axes.errorbar(
        series.x, series.y, fmt=series.style.marker, color=series.style.colour, markersize=7 if strong else 4.5,
        alpha=1 if strong else 0.5, elinewidth=2.2 if strong else 0.8, label=series.name, zorder=3 if strong else 2,
        markerfacecolor=series.style.colour if strong else "white", **uncertain,
    )  # fmt: skip


def _bars(axes: Any, picture: Picture, series: Series) -> None:
    hatch = "" if series is picture.series[0] else "//"
    width = series.x[1] - series.x[0] if len(series.x) > 1 else 1.0
    axes.bar(
        series.x, series.y, width, color=series.style.colour, alpha=0.6, hatch=hatch, edgecolor="white", linewidth=0.5,
        label=series.name,
    )  # fmt: skip


def _legend(axes: Any, picture: Picture) -> None:
    """Rows with names on the axis need a legend for the reference lines alone."""
    handles, names = axes.get_legend_handles_labels()
    lines = {line.label for line in picture.lines}
    kept = [(h, n) for h, n in zip(handles, names) if not picture.y_names or n in lines]
    if kept:
        axes.legend(*zip(*kept), frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5))


def save(pictures: Iterable[tuple[str, Picture]], folder: Path, formats: Sequence[str] = FORMATS) -> list[Path]:
    """Write every (stem, picture) in every format; the paths, in order."""
    import matplotlib

    written = []
    with matplotlib.rc_context({"svg.hashsalt": "ilbrl", "pdf.fonttype": 42}):  # the same picture, the same bytes
        for stem, picture in pictures:
            figure = draw(picture)
            for kind in formats:
                metadata = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(kind)
                with written_whole(folder / f"{stem}.{kind}") as path:
                    figure.savefig(path, dpi=150, metadata=metadata)
                written.append(folder / f"{stem}.{kind}")
    return written
