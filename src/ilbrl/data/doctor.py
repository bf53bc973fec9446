"""The doctor: looks for what is wrong with logs before anything is trained on them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal

import numpy as np

from ilbrl.base.errors import IlbrlError
from ilbrl.data import actions, checks, rows
from ilbrl.data.checks import GRADES, Finding
from ilbrl.data.dataset import Dataset
from ilbrl.data.on_disk import release

__all__ = ["CHECKS", "Finding", "Purpose", "examine", "require_healthy"]

Purpose = Literal["imitation", "evaluation"]
CHECKS: dict[str, Callable[[Dataset], Iterator[Finding]]] = {
    "finite": checks.check_finite,
    "actions": actions.check_bounds,
    "choices": actions.check_choices,
    "outliers": checks.check_outliers,
    "columns": checks.check_columns,
    "ends": checks.check_ends,
    "continuity": rows.check_continuity,
    "lengths": checks.check_lengths,
    "duplicates": rows.check_duplicates,
    "policy": actions.check_policy,
    "reader": checks.check_notes,
}


def examine(
    dataset: Dataset, expert: Dataset | None = None, purpose: Purpose = "imitation", demonstrations: bool = False
) -> list[Finding]:
    """All findings, gravest first. `evaluation` needs rewards; imitation never looks at them.

    With `expert`, its overlap with `dataset` is checked too; `examine(expert, demonstrations=True)` for its own health.
    """
    if len(dataset) == 0:
        return [Finding("error", "empty", None, None, "there is not a single transition")]
    with np.errstate(all="ignore"):  # NaN and infinity are findings, not faults of the checks
        findings = [finding for check in CHECKS.values() for finding in check(dataset)]
    findings += _check_rewards(dataset, purpose)
    if expert is not None:
        findings += rows.check_expert(dataset, expert)
    if demonstrations:
        findings += checks.check_demonstrations(dataset)
    release(dataset)
    return sorted(findings, key=lambda finding: GRADES.index(finding.grade))


def require_healthy(
    dataset: Dataset,
    expert: Dataset | None = None,
    purpose: Purpose = "imitation",
    warn: Callable[[str], None] = lambda said: None,
    demonstrations: bool = False,
) -> list[Finding]:
    """Raise IlbrlError on the first error in either dataset; else the remaining findings about `dataset`.

    warn: takes a sentence per warning, which names the dataset it is about.
    demonstrations: `dataset` is the expert's own.
    """
    examined = [(dataset, examine(dataset, expert, purpose, demonstrations))]
    if expert is not None:
        examined.append((expert, examine(expert, purpose=purpose, demonstrations=True)))
    for whose, findings in examined:
        errors = [finding for finding in findings if finding.grade == "error"]
        if errors:
            more = f" (and {len(errors) - 1} more: see `ilbrl data inspect`)" if len(errors) > 1 else ""
            raise IlbrlError(f"{whose.source}: {errors[0].message}{more}")
    for whose, findings in examined:
        for finding in findings:
            if finding.grade == "warning":
                warn(f"{whose.source}: {finding.message}")
    return examined[0][1]


def _check_rewards(dataset: Dataset, purpose: Purpose) -> Iterator[Finding]:
    """Rewards that are missing or not finite: fatal for evaluation, harmless for imitation."""
    needed = purpose == "evaluation"
    if dataset.rewards is None:
        meaning = (
            "off-policy evaluation needs them"
            if needed
            else "imitation does not need them; evaluation uses closeness to the expert instead"
        )
        yield Finding("error" if needed else "note", "rewards", "rewards", None, f"no rewards: {meaning}")
    else:
        yield from checks.not_finite(dataset, "rewards", "error" if needed else "warning")
