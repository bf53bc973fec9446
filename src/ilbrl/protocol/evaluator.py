"""The evaluator's settings as a study names them, and as jobs carry them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, fields, replace
from typing import Any, get_type_hints

from ilbrl import ope
from ilbrl.errors import IlbrlError
from ilbrl.protocol.ranges import parse
from ilbrl.protocol.study import Evaluation

EVALUATION_PARTS = (
    "training_expert", "training_exploratory", "evaluation_expert", "evaluation_exploratory", "validation",
)  # fmt: skip
"""What an evaluation reads; of the training part only its normaliser."""


def settings_of(evaluation: Evaluation) -> list[ope.Setting]:
    """The grid, with the study's changes to each of its settings."""
    if evaluation.grid not in ope.GRIDS:
        raise IlbrlError(f"evaluation.grid: no grid {evaluation.grid!r}; there are {', '.join(ope.GRIDS)}")
    hints = get_type_hints(ope.Config)
    changes, bounds = {}, None
    for name, text in evaluation.evaluator.items():
        value = parse(text, f"evaluation.evaluator.{name}").draw(0.0)
        if name == "value_bounds":
            bounds = bool(value)
        elif name in hints:
            changes[name] = float(value) if hints[name] is float else value
        else:
            known = ", ".join(["value_bounds", *(f.name for f in fields(ope.Config))])  # pyright: ignore[reportArgumentType]
            raise IlbrlError(f"evaluation.evaluator.{name}: the evaluator has no such setting; it has {known}")
    changed = [replace(s, config=replace(s.config, **changes)) for s in ope.GRIDS[evaluation.grid]]
    changed = changed if bounds is None else [replace(s, value_bounds=bounds) for s in changed]
    return list(dict.fromkeys(changed))  # a change may make two alike


def as_inputs(setting: ope.Setting) -> dict[str, Any]:
    """A setting as JSON, which has neither tuples nor infinities."""
    table = asdict(setting)
    table["config"] = {k: str(v) if isinstance(v, float) and math.isinf(v) else v for k, v in table["config"].items()}
    return table


def from_inputs(table: Mapping[str, Any]) -> ope.Setting:
    hints = get_type_hints(ope.Config)
    config: dict[str, Any] = {
        name: float(value) if hints[name] is float else tuple(value) if isinstance(value, list) else value
        for name, value in table["config"].items()
    }
    return ope.Setting(**{**table, "config": ope.Config(**config)})
