"""The shape of a picture: series with their uncertainty, reference lines and one sentence that says how to read it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from ilbrl.report.palette import Style
from ilbrl.results.tables import Curve

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
    y_range: tuple[float, float] | None = None  # all of it where None


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


def frame(series: Sequence[Series], lines: Sequence[Line] = (), margin: float = 1 / 12) -> tuple[float, float] | None:
    """Limits of y that hold these lines with their bands, and `margin` of their span more: what diverged leaves it."""
    edges = [edge for each in series for edge in (each.y, each.low, each.high) if edge is not None]
    values = np.concatenate([*edges, [line.value for line in lines if line.axis == "y"]])
    values = values[np.isfinite(values)]
    if not len(values):
        return None
    low, high = float(values.min()), float(values.max())
    more = margin * (high - low) or 1.0
    return low - more, high + more
