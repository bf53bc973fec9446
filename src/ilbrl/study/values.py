"""Whether a setting can have a value: its type as its Config says, and limits where only some numbers make sense."""

from __future__ import annotations

import math
import types
from collections.abc import Callable
from typing import Any, Literal, get_args, get_origin

from ilbrl.base.errors import IlbrlError

Limit = tuple[Callable[[float], bool], str]

_POSITIVE: Limit = (lambda x: x > 0, "above 0")
_NOT_NEGATIVE: Limit = (lambda x: x >= 0, "at least 0")
_ONE_OR_MORE: Limit = (lambda x: x >= 1, "at least 1")
_SHARE: Limit = (lambda x: 0 <= x <= 1, "between 0 and 1")
_RATE: Limit = (lambda x: 0 < x <= 1, "above 0 and at most 1")
LIMITS: dict[str, Limit] = {
    "gamma": (lambda x: 0 <= x < 1, "at least 0 and below 1"),
    "tau": _RATE, "smoothing": _RATE, "expert_fraction": _SHARE, "positive_share": _SHARE,
    "lr": _POSITIVE, "reward_scale": _POSITIVE,
    "lam": _NOT_NEGATIVE, "policy_noise": _NOT_NEGATIVE, "noise_clip": _NOT_NEGATIVE, "weight_decay": _NOT_NEGATIVE,
    "gradient_penalty": _NOT_NEGATIVE, "pessimism": _NOT_NEGATIVE,
    "batch_size": _ONE_OR_MORE, "hidden": _ONE_OR_MORE, "policy_delay": _ONE_OR_MORE,
    "target_update_every": _ONE_OR_MORE, "discriminator_passes": _ONE_OR_MORE,
    "held_out_percent": (lambda x: 0 <= x < 100, "at least 0 and below 100"),
}  # fmt: skip
"""Setting → what its numbers must be; `lr` also stands for every …_lr. Those not named here take any finite number."""
DTYPES = ("float32", "bfloat16")


def check(name: str, hint: Any, value: Any, field: str) -> None:
    """Refuse a value that the setting `name` of type `hint` cannot have; `field` is what the error names."""
    if wanted := _unmet(name, hint, value):
        shown = list(value) if isinstance(value, tuple) else value
        raise IlbrlError(f"{field}: must be {wanted}, got {shown!r}")


def _unmet(name: str, hint: Any, value: Any) -> str | None:
    """What the value should have been; None where it is fine."""
    origin, inner = get_origin(hint), get_args(hint)
    if name == "dtype" or origin is Literal:
        allowed = DTYPES if name == "dtype" else inner
        return None if value in allowed else f"one of {', '.join(allowed)}"
    if origin is types.UnionType:
        some = next(t for t in inner if t is not type(None))
        return None if value is None else _unmet(name, some, value)
    if origin is tuple:
        return _unmet_list(name, inner, value)
    if hint is bool:
        return None if isinstance(value, bool) else "true or false"
    if isinstance(value, bool) or not isinstance(value, int if hint is int else (int, float)):
        return "a whole number" if hint is int else "a number"
    holds, words = LIMITS.get("lr" if name.endswith("_lr") else name, (math.isfinite, "finite"))
    return None if math.isfinite(value) and holds(value) else f"a finite number, {words}"


def _unmet_list(name: str, inner: tuple[Any, ...], value: Any) -> str | None:
    if not isinstance(value, tuple):
        return "a list, like [64, 64]"
    if Ellipsis not in inner and len(value) != len(inner):
        return f"a list of {len(inner)} numbers"
    unmet = next((wanted for item in value if (wanted := _unmet(name, inner[0], item))), None)
    return unmet and f"a list of numbers, each {unmet}"
