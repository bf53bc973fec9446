"""Hyper-parameters: frozen dataclasses that serve the command line, jit and the vmapped sweep alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, TypeVar, dataclass_transform, get_type_hints

import jax
import numpy as np

from ilbrl.errors import IlbrlError

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
