"""Numbers and sentences as a person reads them."""

from __future__ import annotations

import math
from typing import Any


def decimals(value: float) -> int:
    """Enough for three digits of a small number, one for a large one."""
    return 1 if abs(value) >= 10 else 2 if abs(value) >= 1 else 3


def number(value: Any, digits: int | None = None) -> str:
    """With thousands apart; a dash where there is no number."""
    if value is None or not math.isfinite(value):
        return "–"
    return f"{value:,.{decimals(value) if digits is None else digits}f}"


def plus_minus(value: float | None, half_width: float | None) -> str:
    """`271.0 ± 2.4`, to the decimals of the first; the value alone where its uncertainty is not known."""
    if value is None or half_width is None or not math.isfinite(half_width):
        return number(value)
    return f"{number(value)} ± {number(half_width, decimals(value))}"


def sentence(text: str) -> str:
    """With a capital and a full stop, whoever wrote it."""
    text = text.strip()
    return text[:1].upper() + text[1:] + ("" if not text or text.endswith((".", "!", "?")) else ".")
