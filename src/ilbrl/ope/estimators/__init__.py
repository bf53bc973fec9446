"""Ways to value policies from logs, one file each; a new one is a file beside these and a line below."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ilbrl.base.errors import IlbrlError
from ilbrl.base.records import shown
from ilbrl.learning.config import check
from ilbrl.learning.loggers import Log
from ilbrl.ope.estimates import Estimates, Estimator
from ilbrl.ope.estimators import doubly_robust, expected_sarsa, importance, models
from ilbrl.ope.evidence import Evidence
from ilbrl.ope.policies import Evaluable, require_same_names

ESTIMATORS: dict[str, Estimator] = {
    "models": models.ESTIMATOR,
    "expected_sarsa": expected_sarsa.ESTIMATOR,
    "importance": importance.ESTIMATOR,
    "doubly_robust": doubly_robust.ESTIMATOR,
}

DEFAULT = "models"


def find(estimator: str | Estimator) -> Estimator:
    """An estimator by its name, or itself."""
    if isinstance(estimator, Estimator):
        return estimator
    if estimator not in ESTIMATORS:
        raise IlbrlError(f"no estimator {shown(estimator)}: there are {', '.join(ESTIMATORS)}")
    return ESTIMATORS[estimator]


def estimate(
    policies: Mapping[str, Evaluable],
    evidence: Evidence,
    estimator: str | Estimator = DEFAULT,
    config: Any = None,
    seeds: Sequence[int] | None = None,
    *,
    workplace: Path | None = None,
    log: Log | None = None,
    quiet: bool = False,
) -> Estimates:
    """What every policy is worth under one configuration; by default the estimator's own, and its number of seeds.

    workplace: a folder for checkpoints and for what can be used again; the same call continues there after a crash.
    """
    if not policies:
        raise IlbrlError("an evaluation needs at least one policy")
    estimator = find(estimator)
    config = estimator.Config() if config is None else config
    check([config])
    for name, policy in policies.items():
        require_same_names(name, policy, evidence.union.action_names)
    seeds = range(estimator.seeds) if seeds is None else seeds
    if not len(seeds):
        raise IlbrlError("an evaluation needs at least one seed")
    (found,) = estimator.estimate(policies, evidence, [config], seeds, workplace=workplace, log=log, quiet=quiet)
    return found
