"""The evaluator's settings as a study names them."""

from __future__ import annotations

from typing import Any, get_type_hints

from ilbrl import ope
from ilbrl.base.errors import IlbrlError
from ilbrl.learning.config import check_value
from ilbrl.study.search import parse
from ilbrl.study.study import Evaluation

EVALUATION_PARTS = (
    "training_expert", "training_logs", "evaluation_expert", "evaluation_logs", "validation",
)  # fmt: skip
"""What an evaluation reads; of the training part only its normaliser."""


def settings_of(evaluation: Evaluation) -> list[ope.Setting]:
    """The grid, with the study's changes to each of its settings."""
    if evaluation.grid not in ope.GRIDS:
        raise IlbrlError(f"evaluation.grid: no grid {evaluation.grid!r}; there are {', '.join(ope.GRIDS)}")
    grid = ope.GRIDS[evaluation.grid]
    hints = get_type_hints(ope.Setting) | get_type_hints(ope.Config)
    known = grid[0].as_dict()
    changes: dict[str, Any] = {}
    for name, text in evaluation.evaluator.items():
        if name not in known:
            raise IlbrlError(
                f"evaluation.evaluator.{name}: the evaluator has no such setting; it has {', '.join(known)}"
            )
        field = f"evaluation.evaluator.{name}"
        kind, (value, *_) = parse(text, field)
        if kind != "constant":
            raise IlbrlError(f"{field}: takes one value, not {text!r}; what is tried is the grid's")
        check_value(name, hints[name], value, field)
        changes[name] = float(value) if hints[name] is float else value
    changed = [ope.Setting.from_dict(setting.as_dict() | changes) for setting in grid]
    return list(dict.fromkeys(changed))  # a change may make two alike
