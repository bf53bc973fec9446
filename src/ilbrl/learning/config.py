"""Hyper-parameters: frozen dataclasses for the command line, jit and the vmapped sweep alike; and their limits."""

from __future__ import annotations

import math
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from numbers import Integral, Real
from typing import Any, Literal, TypeVar, Union, dataclass_transform, get_args, get_origin, get_type_hints

import jax
import numpy as np

from ilbrl.base.errors import IlbrlError
from ilbrl.base.records import LARGEST_INTEGER, shown

C = TypeVar("C")
TRACED = (float, float | None)


@dataclass_transform(frozen_default=True)
def config(cls: type[C]) -> type[C]:
    """A frozen dataclass registered as a pytree: its floats are traced, all else is static.

    Traced floats can differ between the members of one compiled population. Static fields shape the program, so all
    members share them. A field of type `float | None` is traced where it is a number; None switches the option off,
    which also shapes the program.
    """
    frozen: Any = dataclass(frozen=True)(cls)
    hints = get_type_hints(frozen)
    traced = [f.name for f in fields(frozen) if hints[f.name] in TRACED]
    static = [f.name for f in fields(frozen) if hints[f.name] not in TRACED]
    jax.tree_util.register_dataclass(frozen, data_fields=traced, meta_fields=static)
    return frozen


def stack(configs: Sequence[C]) -> C:
    """P configurations of one population → one whose floats are [P] arrays."""
    first: Any = configs[0]
    for other in configs[1:]:
        if jax.tree.structure(other) != jax.tree.structure(first):
            ours, theirs = static_fields(first), static_fields(other)
            differing = [name for name in ours if ours[name] != theirs.get(name)]
            raise IlbrlError(
                f"one population cannot mix values of {', '.join(differing) or 'the configuration class'}:"
                " they shape the compiled program; train these members as separate populations"
            )
    return jax.tree.map(lambda *values: np.asarray(values, np.float32), *configs)


def static_fields(one: Any) -> dict[str, Any]:
    """What shapes the compiled program: every field that is not traced, and which options are off."""
    hints, found = get_type_hints(type(one)), {}
    for f in fields(one):
        value = getattr(one, f.name)
        if hints[f.name] not in TRACED:
            found[f.name] = value
        elif hints[f.name] is not float:
            found[f.name] = "off" if value is None else "on"
    return found


# --- limits -----------------------------------------------------------------------------------------------------------

Limit = tuple[Callable[[float], bool], str]

_POSITIVE: Limit = (lambda x: x > 0, "above 0")
_NOT_NEGATIVE: Limit = (lambda x: x >= 0, "at least 0")
_ONE_OR_MORE: Limit = (lambda x: x >= 1, "at least 1")
_RATE: Limit = (lambda x: 0 < x <= 1, "above 0 and at most 1")


def between(smallest: float, largest: float) -> Limit:
    return (lambda x: smallest <= x <= largest, f"between {smallest:,} and {largest:,}")


_SHARE = between(0, 1)
_FEW = between(1, 100)
LIMITS: dict[str, Limit] = {
    "gamma": (lambda x: 0 <= x < 1, "at least 0 and below 1"),
    "tau": _RATE, "smoothing": _RATE, "actor_average": _RATE,
    "expert_fraction": _SHARE, "expert_share": _SHARE, "positive_share": _SHARE,
    "lr": _POSITIVE, "reward_scale": _POSITIVE,
    "expert_odds": _POSITIVE, "lam": _NOT_NEGATIVE, "deploy_lam": _NOT_NEGATIVE, "critic_penalty": _NOT_NEGATIVE,
    "policy_noise": _NOT_NEGATIVE, "noise_clip": _NOT_NEGATIVE, "weight_decay": _NOT_NEGATIVE,
    "action_distance": _NOT_NEGATIVE,
    "gradient_penalty": _NOT_NEGATIVE, "pessimism": _NOT_NEGATIVE, "weight_horizon": _NOT_NEGATIVE,
    "agreement": between(0, 100), "allowed": _NOT_NEGATIVE,
    "batch_size": _ONE_OR_MORE, "hidden": _ONE_OR_MORE, "policy_delay": _FEW, "critics": _FEW,
    "target_update_every": _ONE_OR_MORE, "discriminator_passes": _ONE_OR_MORE, "passes": _ONE_OR_MORE,
    "updates": _ONE_OR_MORE, "starts": _ONE_OR_MORE, "horizon": _ONE_OR_MORE,
    "members": between(1, 1000),
    "held_out_batch": _ONE_OR_MORE,
    "noise": _NOT_NEGATIVE, "penalty": _NOT_NEGATIVE, "penalties": _NOT_NEGATIVE, "seed_penalty": _NOT_NEGATIVE,
    "held_out_percent": (lambda x: 0 <= x < 100, "at least 0 and below 100"),
    "start": (lambda _: True, "of any size"), "reward_bounds": (lambda _: True, "of any size"),
    "absorbing_reward": (lambda _: True, "of any size"),
}  # fmt: skip
"""Setting → what its numbers must be, beside finite; `lr` also stands for every …_lr. Others: any number but NaN."""
EPISODIC: Mapping[str, Limit] = {"gamma": _SHARE}
"""Of values over whole episodes, which need no discount; a Config says so with `limits: ClassVar = EPISODIC`."""
DTYPES = ("float32", "bfloat16")
MOST_ENTRIES = 32  # of a list: each layer of a network is a part of one program, which has to be compiled


def check(configs: Sequence[Any]) -> None:
    """Refuse values that no algorithm can mean, by name."""
    for one in configs:
        hints = get_type_hints(type(one))
        for f in fields(one):
            check_value(f.name, hints[f.name], getattr(one, f.name), f.name, type(one))


def check_value(name: str, hint: Any, value: Any, field: str, owner: type | None = None) -> None:
    """Refuse a value that the setting `name` of type `hint` cannot have; `field` is what the error names.

    owner: the configuration's class, which may have `limits` of its own.
    """
    if wanted := _unmet(name, hint, value, {**LIMITS, **getattr(owner, "limits", {})}):
        raise IlbrlError(f"{field}: must be {wanted}, got {_shown(value)}")


def _shown(value: Any) -> str:
    return (
        f"[{', '.join(map(shown, value[:8]))}{', …' * (len(value) > 8)}]" if isinstance(value, tuple) else shown(value)
    )


def _unmet(name: str, hint: Any, value: Any, limits: Mapping[str, Limit]) -> str | None:
    """What the value should have been; None where it is fine."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (types.UnionType, Union):  # of a type and None
        some = next(t for t in inner if t is not type(None))
        return None if value is None else _unmet(name, some, value, limits)
    if name == "dtype" or origin is Literal:
        allowed = DTYPES if name == "dtype" else inner
        return None if value in allowed else f"one of {', '.join(allowed)}"
    if origin is tuple:
        return _unmet_list(name, inner, value, limits)
    if hint is bool:
        return None if isinstance(value, bool) else "true or false"
    if isinstance(value, bool) or not isinstance(value, Integral if hint is int else Real):
        return "a whole number" if hint is int else "a number"
    if isinstance(value, Integral) and abs(int(value)) > LARGEST_INTEGER:
        return "a number of at most 64 bits"
    number = float(value)  # NumPy's too
    limit = limits.get("lr" if name.endswith("_lr") else name)
    if limit is None:
        return "a number" if math.isnan(number) else None
    holds, words = limit
    return None if math.isfinite(number) and holds(number) else f"a finite number, {words}"


def _unmet_list(name: str, inner: tuple[Any, ...], value: Any, limits: Mapping[str, Limit]) -> str | None:
    if not isinstance(value, tuple):
        return "a list, like [64, 64]"
    if Ellipsis not in inner and len(value) != len(inner):
        return f"a list of {len(inner)} numbers"
    if len(value) > MOST_ENTRIES:
        return f"a list of at most {MOST_ENTRIES} numbers"
    unmet = next((wanted for item in value if (wanted := _unmet(name, inner[0], item, limits))), None)
    return unmet and f"a list of numbers, each {unmet}"
