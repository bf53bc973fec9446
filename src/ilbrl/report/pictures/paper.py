"""Pictures on paper: matplotlib files (PNG, SVG, PDF), told apart in grey by markers and dashes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ilbrl.base.errors import IlbrlError
from ilbrl.base.files import written_whole
from ilbrl.report.pictures import NEUTRAL, Picture, Series
from ilbrl.report.text import file_name, on_paper

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORMATS = ("png", "svg", "pdf")
COLUMNS = 4  # of panels


def draw(*pictures: Picture) -> Figure:
    """One picture, or several as panels of one figure with one legend."""
    from matplotlib.figure import Figure

    if len(pictures) == 1:
        rows = len(pictures[0].y_names)
        figure = Figure(figsize=(5.6, 0.42 * rows + 1.3 if rows else 3.5), layout="constrained")
        axes: Any = figure.subplots()
        _panel(axes, pictures[0])
        handles, names = _legend(axes, pictures[0])
        if handles:
            axes.legend(handles, names, frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5))
        return figure
    across = min(len(pictures), COLUMNS)
    down = -(-len(pictures) // across)
    figure = Figure(figsize=(3.2 * across, 2.6 * down + 0.4), layout="constrained")
    grid: Any = figure.subplots(down, across, squeeze=False)
    shown: dict[str, Any] = {}
    for axes, picture in zip(grid.flat, pictures):
        _panel(axes, picture)
        shown |= {name: handle for handle, name in zip(*_legend(axes, picture))}
    for axes in grid.flat[len(pictures) :]:
        axes.set_axis_off()
    if shown:
        figure.legend(
            shown.values(), shown.keys(), loc="outside lower center", ncols=len(shown), frameon=False, fontsize=8
        )
    return figure


def _panel(axes: Any, picture: Picture) -> None:
    drawers = {"line": _line, "points": _points, "bars": _bars}
    for series in sorted(picture.series, key=lambda each: each.emphasis):
        drawers[series.kind](axes, picture, series)
    for i, line in enumerate(picture.lines):
        across, dash = (axes.axvline if line.axis == "x" else axes.axhline), ("--", ":", "-.")[i % 3]
        across(line.value, color=NEUTRAL.colour, linestyle=dash, linewidth=1, label=on_paper(line.label), zorder=0)
    if picture.identity:
        start = (picture.series[0].x[0],) * 2
        axes.axline(start, slope=1, color=NEUTRAL.colour, linestyle="--", linewidth=1, label="estimate = truth")
        axes.margins(0.25)
    axes.set(xlabel=on_paper(picture.x), ylabel=on_paper(picture.y))
    axes.set_title(on_paper(picture.title[:1].upper() + picture.title[1:]), loc="left", fontsize=11)
    if picture.x_names:
        axes.set_xticks(range(len(picture.x_names)), [on_paper(name) for name in picture.x_names])
    if picture.y_names:
        axes.set_yticks(range(len(picture.y_names)), [on_paper(name) for name in picture.y_names])
        axes.set_ylim(-0.6, len(picture.y_names) - 0.4)
    if picture.y_range is not None:
        axes.set_ylim(*picture.y_range)
    for name, ticks in (("x", picture.x_ticks), ("y", picture.y_ticks)):
        if ticks:
            axes.set(**{f"{name}scale": "log", f"{name}lim": (ticks[0], ticks[-1])})
            getattr(axes, f"{name}axis").set_ticks(ticks, [f"{tick:g}" for tick in ticks])
            getattr(axes, f"{name}axis").set_ticks([], minor=True)
    axes.grid(color="0.92")
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def _line(axes: Any, picture: Picture, series: Series) -> None:
    strong = series.emphasis
    axes.plot(
        series.x, series.y, series.style.dash, marker="" if len(series.x) > 1 else "o",
        color=series.style.colour, linewidth=1.8 if strong else 0.8,
        alpha=1 if strong else 0.45, label=on_paper(series.name) if strong else "_", zorder=3 if strong else 2,
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
        alpha=1 if strong else 0.5, elinewidth=2.2 if strong else 0.8, label=on_paper(series.name),
        zorder=3 if strong else 2, markerfacecolor=series.style.colour if strong else "white", **uncertain,
    )  # fmt: skip


def _bars(axes: Any, picture: Picture, series: Series) -> None:
    hatch = "" if series is picture.series[0] else "//"
    width = series.x[1] - series.x[0] if len(series.x) > 1 else 1.0
    axes.bar(
        series.x, series.y, width, color=series.style.colour, alpha=0.6, hatch=hatch, edgecolor="white", linewidth=0.5,
        label=on_paper(series.name),
    )  # fmt: skip


def _legend(axes: Any, picture: Picture) -> tuple[list[Any], list[str]]:
    """Each name once; rows with names on the axis need a legend for the reference lines alone."""
    lines = {on_paper(line.label) for line in picture.lines}
    found = {name: handle for handle, name in zip(*axes.get_legend_handles_labels())}
    kept = {name: handle for name, handle in found.items() if not picture.y_names or name in lines}
    return list(kept.values()), list(kept)


def save(pictures: Iterable[tuple[str, Picture]], folder: Path, formats: Sequence[str] = FORMATS) -> list[Path]:
    """Write every (name, picture) in every format; the paths, in order. Names may say anything: see `file_name`."""
    written = []
    for name, picture in pictures:
        figure = draw(picture)
        for kind in formats:
            written.append(folder / f"{file_name(name)}.{kind}")
            _write(figure, written[-1])
    return written


def save_as(path: Path, *pictures: Picture) -> None:
    """One figure in the file that a user named; several pictures are its panels."""
    check_format(path)
    _write(draw(*pictures), path)


def check_format(path: Path) -> None:
    """Refuse a file name that is no figure's, before any work is done for it."""
    if path.suffix.lower().removeprefix(".") not in FORMATS:
        endings = ", ".join(f".{kind}" for kind in FORMATS)
        raise IlbrlError(f"{path}: is no figure; name a file that ends in {endings}")


def _write(figure: Figure, path: Path) -> None:
    import matplotlib

    metadata = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}.get(path.suffix.lower())
    # settings that make the same picture the same bytes
    with matplotlib.rc_context({"svg.hashsalt": "ilbrl", "pdf.fonttype": 42}), written_whole(path) as partial:
        figure.savefig(partial, dpi=150, metadata=metadata)
