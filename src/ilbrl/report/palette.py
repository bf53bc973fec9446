"""One look for every picture, on paper and screen: Okabe and Ito's colours, markers and dashes for grey prints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


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

NAMES = {
    "ilbrl": "ILBRL",
    "ilbrl-unweighted": "ILBRL, unweighted",
    "bc": "BC",
    "smodice": "SMODICE",
    "oril": "ORIL",
    "td3bc": "TD3-BC, true reward",
}
_ORDER = ("ilbrl", "bc", "smodice", "oril", "ilbrl-unweighted", "td3bc")


def display(algorithm: str) -> str:
    """The name in print; of `algorithm · study` only the first part has one."""
    head, dot, study = algorithm.partition(" · ")
    return NAMES.get(head, head) + dot + study


def styles(algorithms: Sequence[str]) -> dict[str, Style]:
    """An algorithm looks the same in every report, unless one report holds it twice or knows others."""
    if set(algorithms) <= set(_ORDER):
        return {name: STYLES[_ORDER.index(name)] for name in algorithms}
    return {name: STYLES[i % len(STYLES)] for i, name in enumerate(algorithms)}
