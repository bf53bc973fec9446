"""What a picture is, before anybody draws it: series with their uncertainty, reference lines, a sentence to read it by.

A picture is data. `paper.py` draws it with matplotlib, the page's script draws it on screen; neither computes anything.
Both use the palette below: Okabe and Ito's colours, with markers and dashes for grey prints. Names and colours of
algorithms are the agents' own.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from ilbrl.agents import AGENTS
from ilbrl.report.text import OF_RUN
from ilbrl.results.schema import Grade
from ilbrl.results.tables import Curve

LINE_POINTS = 60
"""A line on paper or screen shows no more."""
MOST_TICKS = 12  # of a logarithmic axis


class Style(NamedTuple):
    """How one series looks; markers and dashes are matplotlib's, `dark` is the colour on a dark ground."""

    colour: str
    dark: str
    marker: str
    dash: str


STYLES = (
    Style("#0072B2", "#4FA9E3", "o", "-"),
    Style("#D55E00", "#F58B4C", "s", "--"),
    Style("#009E73", "#35C49B", "^", "-."),
    Style("#CC79A7", "#E2A0C4", "D", ":"),
    Style("#B07A00", "#F0BB45", "v", "-"),
    Style("#3B8FC2", "#8ED0F5", "P", "--"),
    Style("#555555", "#B5B5B5", "X", "-."),
)
NEUTRAL = Style("#555555", "#B5B5B5", "o", "--")
GRADES: dict[Grade, Style] = {
    "sound": STYLES[0],
    "doubtful": STYLES[4]._replace(dash="--"),
    "void": STYLES[1]._replace(dash=":"),
}
"""Verdicts have the words of their estimator, and the look of what they mean."""


def display(algorithm: str) -> str:
    """The name in print; of `algorithm · run` only the first part has one."""
    name, dot, run = algorithm.partition(OF_RUN)
    return (AGENTS[name].title if name in AGENTS else name) + dot + run


def styles(algorithms: Sequence[str]) -> dict[str, Style]:
    """An algorithm looks the same in every report, unless one report holds it twice or knows others."""
    if not set(algorithms) <= set(AGENTS):
        return {name: STYLES[i % len(STYLES)] for i, name in enumerate(algorithms)}
    places = list(AGENTS)
    return {name: _coloured(AGENTS[name].colour, STYLES[places.index(name) % len(STYLES)]) for name in algorithms}


def _coloured(colour: str, style: Style) -> Style:
    """On a dark ground a colour outside the palette is shown half way to white."""
    known = {each.colour: each.dark for each in STYLES}
    halfway = "#" + "".join(f"{(int(colour[i : i + 2], 16) + 255) // 2:02X}" for i in (1, 3, 5))
    return style._replace(colour=colour, dark=known.get(colour, halfway))


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
    name: str  # names it among the pictures of a run; its files are named after it
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
    x_ticks: tuple[float, ...] = ()  # of a logarithmic axis, from end to end; the axis is a usual one where empty
    y_ticks: tuple[float, ...] = ()


def by_name(pictures: Sequence[Picture | None]) -> dict[str, Picture]:
    """Those that show something, by name."""
    return {picture.name: picture for picture in pictures if picture is not None and picture.series}


def band(name: str, style: Style, seeds: Sequence[Curve], emphasis: bool = True, group: str = "") -> Series:
    """Mean over the seeds at the updates of the longest, thinned, with their range as the band."""
    longest = max(seeds, key=lambda curve: len(curve.updates))
    kept = longest.updates[np.unique(np.linspace(0, len(longest.updates) - 1, LINE_POINTS).round().astype(int))]
    found = np.stack([np.interp(kept, c.updates, c.values, right=np.nan) for c in seeds])
    alive = np.isfinite(found).any(axis=0)
    found = found[:, alive]
    middle = np.nanmean(found, axis=0)
    bounds = (np.nanmin(found, axis=0), np.nanmax(found, axis=0)) if len(seeds) > 1 else (None, None)
    return Series(name, style, kept[alive], middle, "line", *bounds, emphasis=emphasis, group=group)


def frame(series: Sequence[Series], lines: Sequence[Line] = (), margin: float = 1 / 12) -> tuple[float, float] | None:
    """Limits of y that hold these series with their bands, and `margin` of their span more.

    Give the series that matter: one that diverged would flatten the others, and may leave the frame.
    """
    edges = [edge for each in series for edge in (each.y, each.low, each.high) if edge is not None]
    values = np.concatenate([*edges, [line.value for line in lines if line.axis == "y"]])
    values = values[np.isfinite(values)]
    if not len(values):
        return None
    low, high = float(values.min()), float(values.max())
    more = margin * (high - low) or 1.0
    return low - more, high + more


def log_ticks(values: np.ndarray) -> tuple[float, ...]:
    """Ticks of a logarithmic axis that holds these values: 1, 2 and 5 of every decade, or the 1 alone of many."""
    known = np.clip(values[np.isfinite(values) & (values > 0)], 1e-9, 1e9)
    if not len(known):
        return ()
    low, high = float(known.min()), float(known.max())
    decades = range(int(np.floor(np.log10(low))) - 1, int(np.ceil(np.log10(high))) + 2)
    found: list[float] = []
    for digits in ((1, 2, 5), (1,)):
        every = [float(f"{digit}e{decade}") for decade in decades for digit in digits]
        first, last = bisect_right(every, low) - 1, bisect_left(every, high)
        found = every[first - (first == last) : last + 1 + (first == last)]  # of one value its neighbours too
        if len(found) <= MOST_TICKS:
            break
    return tuple(found)
