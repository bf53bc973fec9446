"""Batch imitation learning: from logged data alone to a policy you can deploy and what it is worth."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from ilbrl.agents.fit import fit
    from ilbrl.data import Dataset, concatenate, load
    from ilbrl.envs import rollout
    from ilbrl.models.imagination import imagine
    from ilbrl.ope import evaluate
    from ilbrl.policy import Policy
    from ilbrl.study import Study
    from ilbrl.study.tune import tune

# Where each public name lives; resolved on first use, so that `import ilbrl` stays fast and needs no JAX.
_HOMES = {
    "Dataset": "ilbrl.data",
    "Policy": "ilbrl.policy",
    "Study": "ilbrl.study",
    "concatenate": "ilbrl.data",
    "evaluate": "ilbrl.ope",
    "fit": "ilbrl.agents.fit",
    "imagine": "ilbrl.models.imagination",
    "load": "ilbrl.data",
    "rollout": "ilbrl.envs",
    "tune": "ilbrl.study.tune",
}
__all__ = ["Dataset", "Policy", "Study", "concatenate", "evaluate", "fit", "imagine", "load", "rollout", "tune"]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'ilbrl' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
