"""What a hyper-parameter is drawn from, written as text: `loguniform(0.1, 4)`, `choice(kl, chi2)`, or a constant.

    uniform(a, b)         a + u (b − a)
    loguniform(a, b)      a (b / a)^u
    choice(x, y, …)       the ⌊u · k⌋-th of k values
    anything else         that value itself: 0.3, [64, 64], bfloat16

One uniform number u in [0, 1) makes one draw, so that a draw stays what it was when another range changes.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from typing import Any, NamedTuple

from ilbrl.base.errors import IlbrlError

KINDS: dict[str, Callable[[tuple[Any, ...], float], Any]] = {
    "uniform": lambda ends, u: ends[0] + u * (ends[1] - ends[0]),
    "loguniform": lambda ends, u: ends[0] * (ends[1] / ends[0]) ** u,
    "choice": lambda values, u: values[math.floor(u * len(values))],
    "constant": lambda value, u: value[0],
}
_CALL = re.compile(r"\s*([a-z]+)\s*\((.*)\)\s*", re.DOTALL)


class Range(NamedTuple):
    """A distribution by its kind and what it is made of."""

    kind: str
    values: tuple[Any, ...]

    def draw(self, u: float) -> Any:
        """The value at the quantile u in [0, 1)."""
        return KINDS[self.kind](self.values, u)


def parse(text: str, field: str = "range") -> Range:
    """A range from its text; `field` is what an error names."""
    if text.count("(") != text.count(")") or text.count("[") != text.count("]"):
        raise IlbrlError(f"{field}: a bracket of {text.strip()!r} is missing")
    call = _CALL.fullmatch(text)
    if call is None:
        return Range("constant", (_value(text),))
    kind, values = call[1], _values(call[2])
    if kind not in ("uniform", "loguniform", "choice"):
        raise IlbrlError(f"{field}: no distribution {kind!r}; there are uniform, loguniform and choice")
    if kind == "choice":
        if not values:
            raise IlbrlError(f"{field}: choice() offers nothing to choose from")
        return Range(kind, values)
    if len(values) != 2 or not all(_is_number(value) for value in values):
        raise IlbrlError(f"{field}: {kind} takes two numbers, {text.strip()!r} has {len(values)} values")
    low, high = values
    if not low <= high or (kind == "loguniform" and low <= 0):
        lowest = "above 0 and " if kind == "loguniform" else ""
        raise IlbrlError(f"{field}: the first number of {text.strip()!r} must be {lowest}no larger than the second")
    return Range(kind, (float(low), float(high)))


def _values(text: str) -> tuple[Any, ...]:
    """Separated by commas, but not by those inside brackets."""
    return tuple(_value(part) for part in re.split(r",(?![^\[]*\])", text) if part.strip())


def _value(text: str) -> Any:
    """A number, a truth value, a list (as a tuple), None for `none`; else the text itself."""
    text = text.strip()
    if text == "none":
        return None
    try:
        value = json.loads(text)
    except json.JSONDecodeError:
        return text
    return tuple(value) if isinstance(value, list) else value


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
