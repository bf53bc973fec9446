"""Calibration: an estimator tried on known policies, one of its settings chosen, and how far it can be trusted then.

The choice follows one rule for every estimator, written down before any candidate's true score was seen, but for the
exception at its end, which was added after true scores of candidates that served for exploration. Each known
policy is valued from evidence with its own logs and, by estimators that are `blind`, from evidence without them. The
setting with the smallest sum of rank errors over both is chosen; among equals the one with the smallest mean value
error; among equals the first. (Algorithm 2, phase 2, has the first of the two views alone.) An estimator whose settings
are degrees of pessimism (`Estimator.pessimistic`) skips the value error: known policies are near the logs and need no
pessimism, candidates are not, so that the error would always choose the least of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from ilbrl.base.errors import IlbrlError
from ilbrl.learning.config import check
from ilbrl.learning.loggers import Log
from ilbrl.ope.estimates import Estimate, Estimates, Estimator, Trace
from ilbrl.ope.estimators import DEFAULT, find
from ilbrl.ope.evidence import Evidence, Quantity
from ilbrl.ope.policies import Known, Truth, require_same_names, truth
from ilbrl.ope.ranking import Check
from ilbrl.ope.trust import Trust, check_of, trust_report, warnings, widen


@dataclass(frozen=True)
class Tried:
    """What one setting makes of the known policies."""

    config: Any
    seen: Mapping[str, Estimate]  # with their own logs among the evidence
    unseen: Mapping[str, Estimate]  # without them; empty: not tried
    seen_check: Check
    unseen_check: Check | None
    traces: Mapping[str, Trace] = field(default_factory=dict)  # of `seen`, to be drawn

    @property
    def order(self) -> tuple[float, float]:
        """Smaller is better: rank errors, then value errors."""
        checks = [check for check in (self.seen_check, self.unseen_check) if check is not None]
        return sum(c.rank_error for c in checks), float(np.mean([c.value_error for c in checks]))


@dataclass(frozen=True, eq=False)
class Calibration:
    """The chosen setting, the table it was chosen from, and the verdict."""

    estimator: str
    quantity: Quantity
    config: Any  # what candidates are valued with
    chosen: int  # number of the setting in `table`
    table: list[Tried]
    known: list[Known]
    truths: Mapping[str, Truth]
    trust: Trust
    estimates: Estimates  # of the known policies under the chosen setting, with their own logs; traces to be drawn
    evidence: Mapping[str, str]  # log → content hash: the verdict is about estimates from the same logs
    seconds: float
    notes: tuple[str, ...] = ()

    def widen(self, estimates: Estimates) -> Estimates:
        """The estimates with intervals that contain the estimator's own error on the known policies."""
        return widen(estimates, self.trust.error)

    def warnings(self, estimates: Estimates) -> list[str]:
        """What must be said about policies that the verdict does not speak about."""
        return warnings(estimates, self.trust.limit, self.trust.best_truth, self.trust.error, self.trust.clones)


def calibrate(
    known: Sequence[Known],
    evidence: Evidence,
    estimator: str | Estimator = DEFAULT,
    config: Any = None,
    seeds: Sequence[int] | None = None,
    *,
    blind: bool | None = None,
    workplace: Path | None = None,
    log: Log | None = None,
    quiet: bool = False,
) -> Calibration:
    """Value every known policy under every setting, choose one, and judge it.

    config: the estimator's configuration; `Estimator.choices` says which variations of it are tried.
    blind: also value each known policy without the logs it made; by default what suits the estimator.
    """
    estimator = find(estimator)
    if not known:
        raise IlbrlError("a calibration needs policies of known value, and none was given: name at least two")
    if len({k.name for k in known}) < len(known):
        raise IlbrlError(f"known policies need different names, got {', '.join(k.name for k in known)}")
    if strangers := [f"{k.name} ({k.log})" for k in known if k.log is not None and k.log not in evidence.logs]:
        raise IlbrlError(
            f"known policies are said to have made logs that are not among the evidence: {', '.join(strangers)};"
            f" there are {', '.join(evidence.logs)}"
        )
    for k in known:
        require_same_names(k.name, k.policy, evidence.union.action_names)
    config = estimator.Config() if config is None else config
    check([config])
    configs, notes = estimator.choices(config, evidence)
    seeds = range(estimator.seeds) if seeds is None else seeds
    if not len(seeds):
        raise IlbrlError("a calibration needs at least one evaluation seed")
    quantities = {estimator.quantity(c, evidence) for c in configs}
    if len(quantities) != 1:
        raise IlbrlError(
            f"settings of one calibration must estimate one quantity, got {', '.join(map(str, quantities))}"
        )
    (quantity,) = quantities
    truths = {k.name: truth(replace(k, episodes=evidence.rewarded(k.episodes, quantity)), quantity) for k in known}
    options: dict[str, Any] = {"workplace": workplace, "log": log, "quiet": quiet}
    seen = estimator.estimate({k.name: k.evaluable for k in known}, evidence, configs, seeds, **options)
    seconds = sum(e.seconds for e in seen)
    unseen: list[dict[str, Estimate]] = [{} for _ in configs]
    if estimator.blind if blind is None else blind:
        for made in dict.fromkeys(k.log for k in known):
            makers = [k for k in known if k.log == made]
            rest = evidence if made is None else evidence.without(made)
            if rest is None:
                named = ", ".join(k.name for k in makers)
                notes = (*notes, f"{named} was not valued without the log {made}: too few rows would be left")
                continue
            found = seen
            if made is not None:
                found = estimator.estimate({k.name: k.evaluable for k in makers}, rest, configs, seeds, **options)
                seconds += sum(e.seconds for e in found)
            for number, estimates in enumerate(found):
                unseen[number] |= {k.name: estimates[k.name] for k in makers}
    table = [_tried(c, s, u, truths) for c, s, u in zip(configs, seen, unseen)]
    criteria = 1 if estimator.pessimistic else 2
    chosen = min(range(len(table)), key=lambda number: table[number].order[:criteria])
    agreement = sum(row.order[0] == 0 for row in table), len(table)
    best = seen[chosen]
    reservations = (*evidence.notes, *best.notes)
    return Calibration(
        estimator=estimator.name,
        quantity=quantity,
        config=estimator.settle(configs[chosen], best),
        chosen=chosen,
        table=table,
        known=list(known),
        truths=truths,
        trust=trust_report(known, truths, best, unseen[chosen] or None, reservations, agreement),
        estimates=best,
        evidence={name: data.content_hash for name, data in evidence.logs.items()},
        seconds=seconds,
        notes=tuple(notes),
    )


def _tried(config: Any, seen: Estimates, unseen: Mapping[str, Estimate], truths: Mapping[str, Truth]) -> Tried:
    whole = len(unseen) == len(truths)
    return Tried(
        config,
        seen.policies,
        unseen,
        check_of(seen.policies, truths, seen.grades),
        check_of(unseen, truths, seen.grades) if whole else None,
        seen.traces,
    )
