"""Hyper-parameters: frozen dataclasses that serve the command line, jit and the vmapped sweep alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, TypeVar, dataclass_transform, get_type_hints

import jax
import numpy as np

from ilbrl.base.errors import IlbrlError

C = TypeVar("C")


@dataclass_transform(frozen_default=True)
def config(cls: type[C]) -> type[C]:
    """A frozen dataclass registered as a pytree: its floats are traced, all else is static.

    Traced floats can differ between the members of one compiled population; static fields shape the program
    and must be shared.
    """
    frozen: Any = dataclass(frozen=True)(cls)
    hints = get_type_hints(frozen)
    traced = [f.name for f in fields(frozen) if hints[f.name] is float]
    static = [f.name for f in fields(frozen) if hints[f.name] is not float]
    jax.tree_util.register_dataclass(frozen, data_fields=traced, meta_fields=static)
    return frozen


_RANGES = {  # by the last word of a field's name
    "lr": (lambda v: v >= 0, "at least 0"),
    "gamma": (lambda v: 0 <= v < 1, "at least 0 and below 1"),
    "tau": (lambda v: 0 <= v <= 1, "between 0 and 1"),
    "noise": (lambda v: v >= 0, "at least 0"),
    "size": (lambda v: v >= 1, "at least 1"),
    "hidden": (lambda v: all(units >= 1 for units in v), "layers of at least one unit"),
}


def check(configs: Sequence[Any]) -> None:
    """Refuse values that no algorithm can mean, by name."""
    for one in configs:
        for f in fields(one):
            value = getattr(one, f.name)
            sensible, words = _RANGES.get(f.name.split("_")[-1], (lambda _: True, ""))
            if not sensible(value):
                raise IlbrlError(f"{f.name} = {value}: must be {words}")


def stack(configs: Sequence[C]) -> C:
    """P configurations of one population → one whose floats are [P] arrays."""
    first: Any = configs[0]
    shared = jax.tree.structure(first)
    for other in configs[1:]:
        if jax.tree.structure(other) != shared:
            differing = [f.name for f in fields(first) if _static_differs(first, other, f.name)]
            raise IlbrlError(
                f"one population cannot mix values of {', '.join(differing) or 'the configuration class'}:"
                " they shape the compiled program; train these members as separate populations"
            )
    return jax.tree.map(lambda *values: np.asarray(values, np.float32), *configs)


def _static_differs(a: Any, b: Any, name: str) -> bool:
    left, right = getattr(a, name, None), getattr(b, name, None)
    return not isinstance(left, float) and left != right
