"""The shape of a picture: series with their uncertainty, reference lines and one sentence that says how to read it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from ilbrl.report.palette import Style
from ilbrl.report.results import Curve

LINE_POINTS = 60
"""A line on paper or screen shows no more."""


class Line(NamedTuple):
    """A reference line across the picture, at `value` of the axis."""

    axis: Literal["x", "y"]
    value: float
    label: str


@dataclass(frozen=True)
class Series:
    """[n] points; `low` and `high` bound y (a band for lines, bars for points) or, if the picture is sideways, x."""

    name: str
    style: Style
    x: np.ndarray
    y: np.ndarray
    kind: Literal["line", "points", "bars"] = "line"
    low: np.ndarray | None = None
    high: np.ndarray | None = None
    labels: tuple[str, ...] = ()  # what hovering over each point says first
    emphasis: bool = True  # drawn faintly if not
    group: str = ""  # shown and hidden together in a legend; its own name where empty


@dataclass(frozen=True)
class Picture:
    name: str  # of its files
    title: str
    says: str  # one sentence under it
    x: str
    y: str
    series: tuple[Series, ...]
    lines: tuple[Line, ...] = ()
    sideways: bool = False  # uncertainty lies along x
    x_names: tuple[str, ...] = ()  # names for x = 0, 1, …
    y_names: tuple[str, ...] = ()
    identity: bool = False  # draw the line x = y
    focused: bool = False  # the strong lines set the scale: what diverged leaves the frame


def band(name: str, style: Style, seeds: Sequence[Curve], emphasis: bool = True, group: str = "") -> Series:
    """Mean over the seeds at the updates of the first, thinned, with their range as the band."""
    longest = max(seeds, key=lambda curve: len(curve.updates))
    kept = longest.updates[np.unique(np.linspace(0, len(longest.updates) - 1, LINE_POINTS).round().astype(int))]
    found = np.stack([np.interp(kept, c.updates, c.values, right=np.nan) for c in seeds])
    alive = np.isfinite(found).any(axis=0)
    found = found[:, alive]
    middle = np.nanmean(found, axis=0)
    bounds = (np.nanmin(found, axis=0), np.nanmax(found, axis=0)) if len(seeds) > 1 else (None, None)
    return Series(name, style, kept[alive], middle, "line", *bounds, emphasis=emphasis, group=group)


def focus(picture: Picture) -> tuple[float, float] | None:
    """Limits of y that hold every strong line with its band, and a twelfth more; None where nothing is strong."""
    strong = [series for series in picture.series if series.emphasis]
    if not picture.focused or not strong:
        return None
    values = np.concatenate([edge for s in strong for edge in (s.y, s.low, s.high) if edge is not None])
    values = np.concatenate([values, [line.value for line in picture.lines if line.axis == "y"]])
    low, high = float(np.nanmin(values)), float(np.nanmax(values))
    margin = (high - low) / 12 or 1.0
    return low - margin, high + margin
