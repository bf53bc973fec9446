"""Algorithm 2, phase 2: choose the evaluator that orders policies of known value best."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ilbrl.base.errors import IlbrlError
from ilbrl.learning.loggers import Log
from ilbrl.ope.distance import distances_from_data
from ilbrl.ope.estimates import Quantity
from ilbrl.ope.evaluation import Combined, Evaluation, evaluate
from ilbrl.ope.evaluation_data import EvaluationData
from ilbrl.ope.known import Known, Truth, truth
from ilbrl.ope.ranking import rank_error
from ilbrl.ope.settings import Setting
from ilbrl.ope.trust import Trust, trust_report
from ilbrl.ope.verdicts import SLACK


@dataclass(frozen=True)
class Row:
    """What one setting makes of the known policies."""

    setting: int  # its number
    rank_error: float
    value_error: float  # Σ |V − truth|; infinite where a policy diverged
    diverged: int  # known policies
    policies: Mapping[str, Combined]


@dataclass(frozen=True, eq=False)
class Tuning:
    """The chosen setting, and the whole table it was chosen from."""

    chosen_id: int
    updates: int  # what the known policies needed to converge under the chosen setting
    table: list[Row]  # in the order of the settings
    truths: Mapping[str, Truth]
    known: list[Known]
    evaluation: Evaluation
    trust: Trust

    @property
    def chosen(self) -> Setting:
        return self.evaluation.settings[self.chosen_id]

    def to_json(self) -> dict[str, Any]:
        """As docs/runs.md says of tuning.json; numbers that are not finite become null."""
        trust = self.trust
        return _finite(
            {
                "configurations": [self._configuration(row) for row in self.table],
                "chosen": self.chosen_id,
                "updates": self.updates,
                "trust": {
                    "verdict": trust.verdict,
                    "reasons": list(trust.reasons),
                    "rule": trust.rule,
                    "rank_error": trust.rank_error,
                    "spearman": trust.spearman,
                    "kendall": trust.kendall,
                    "relative_value_error": trust.relative_value_error,
                    "regret_at_1": trust.regret_at_1,
                    "regret_at_k": list(trust.regret_at_k),
                    "intervals": {name: list(interval) for name, interval in trust.intervals.items()},
                    "distances": dict(trust.distances),
                    "distance_limit": trust.distance_limit,
                    "distance_warning": None,
                },
                "known": {
                    known.name: {
                        "source": known.episodes.source,
                        "variant": known.variant,
                        "truth": self.truths[known.name].value,
                        "truth_std_error": self.truths[known.name].std_error,
                        "episodes": self.truths[known.name].episodes,
                    }
                    for known in self.known
                },
            }
        )

    def _configuration(self, row: Row) -> dict[str, Any]:
        return {
            "id": row.setting,
            **self.evaluation.settings[row.setting].as_dict(),
            "rank_error": row.rank_error,
            "value_error": row.value_error,
            "diverged": row.diverged,
            "policies": {
                name: {
                    "estimate": combined.value,
                    "std_error": combined.std_error,
                    "truth": self.truths[name].value,
                    "truth_std_error": self.truths[name].std_error,
                    "verdict": combined.verdict,
                    "per_seed": list(combined.per_seed),
                }
                for name, combined in row.policies.items()
            },
        }


def tune(
    known: Sequence[Known],
    data: EvaluationData,
    settings: Sequence[Setting],
    seeds: Sequence[int],
    updates: int,
    *,
    slack: float = SLACK,
    chunk: int | None = None,
    resume_from: Path | None = None,
    log: Log | None = None,
    quiet: bool = False,
) -> Tuning:
    """Evaluate every known policy under every setting, and choose the setting with the smallest rank error.

    Estimates are averaged over seeds; a policy is diverged if any of its seeds is. Ties go to the smallest sum of value
    errors. Two known policies are the least that shows an order; with one the choice rests on its value alone, and
    the trust report says so.
    """
    if not known:
        raise IlbrlError("tuning needs policies of known value, and none was given: name at least two")
    if len({k.name for k in known}) < len(known):
        raise IlbrlError(f"known policies need different names, got {', '.join(k.name for k in known)}")
    gammas = {setting.config.gamma for setting in settings}
    if len(gammas) != 1:
        raise IlbrlError(f"settings of one tuning must share the discount, got {sorted(gammas)}: their values differ")
    (gamma,) = gammas
    truths = {k.name: truth(k, Quantity(gamma)) for k in known}
    policies = {k.name: k.evaluable for k in known}
    options: dict[str, Any] = {"slack": slack, "chunk": chunk, "resume_from": resume_from, "log": log, "quiet": quiet}
    evaluation = evaluate(policies, data, settings, seeds, updates, **options)
    table = [judge_setting(evaluation, s, truths) for s in range(len(settings))]
    best = min(table, key=lambda row: (row.rank_error, row.value_error))
    agreement = sum(row.rank_error == 0 for row in table), len(table)
    fraction = settings[best.setting].expert_fraction
    distances = distances_from_data(policies, data, fraction)
    return Tuning(
        chosen_id=best.setting,
        updates=_needed_updates(evaluation, best.setting),
        table=table,
        truths=truths,
        known=list(known),
        evaluation=evaluation,
        trust=trust_report(best.policies, truths, data.notes, distances, agreement),
    )


def judge_setting(evaluation: Evaluation, setting: int, truths: Mapping[str, Truth]) -> Row:
    """How one setting's estimates compare with the truth."""
    combined = {name: evaluation.combined(name, setting) for name in truths}
    values, true = (np.array([x[name].value for name in truths]) for x in (combined, truths))
    diverged = np.array([combined[name].verdict == "diverged" for name in truths])
    value_error = math.inf if diverged.any() else float(np.abs(values - true).sum())
    return Row(setting, rank_error(values, true, diverged), value_error, int(diverged.sum()), combined)


def _needed_updates(evaluation: Evaluation, setting: int) -> int:
    """The latest convergence under this setting; all updates where an estimate did not converge."""
    estimates = [e for e in evaluation.estimates if e.setting == setting]
    if any(e.verdict != "converged" for e in estimates):
        return evaluation.updates
    return max(e.decided_at for e in estimates)


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _finite(entry) for name, entry in value.items()}
    if isinstance(value, list):
        return [_finite(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
