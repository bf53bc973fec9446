"""The doctor: looks for what is wrong with logs before anything is trained on them."""

from __future__ import annotations

from collections.abc import Callable

from ilbrl.base.errors import IlbrlError
from ilbrl.data.checks import CHECKS, Purpose, check_expert, check_rewards
from ilbrl.data.dataset import Dataset
from ilbrl.data.findings import GRADES, Finding


def examine(dataset: Dataset, expert: Dataset | None = None, purpose: Purpose = "imitation") -> list[Finding]:
    """All findings, gravest first. `evaluation` needs rewards; imitation never looks at them.

    With `expert`, its overlap with `dataset` is checked too; run `examine(expert)` for its own health.
    """
    if len(dataset) == 0:
        return [Finding("error", "empty", None, None, "there is not a single transition")]
    findings = [finding for check in CHECKS.values() for finding in check(dataset)]
    findings += check_rewards(dataset, purpose)
    if expert is not None:
        findings += check_expert(dataset, expert)
    return sorted(findings, key=lambda finding: GRADES.index(finding.grade))


def require_healthy(
    dataset: Dataset,
    expert: Dataset | None = None,
    purpose: Purpose = "imitation",
    warn: Callable[[str], None] = lambda said: None,
) -> list[Finding]:
    """Raise IlbrlError on the first error in either dataset; else the remaining findings.

    warn: takes a sentence per warning, which names the dataset it is about.
    """
    examined = [(dataset, examine(dataset, expert, purpose))]
    if expert is not None:
        examined.append((expert, examine(expert, purpose=purpose)))
    for whose, findings in examined:
        errors = [finding for finding in findings if finding.grade == "error"]
        if errors:
            more = f" (and {len(errors) - 1} more: see `ilbrl data inspect`)" if len(errors) > 1 else ""
            raise IlbrlError(f"{whose.source}: {errors[0].message}{more}")
    for whose, findings in examined:
        for finding in findings:
            if finding.grade == "warning":
                warn(f"{whose.source}: {finding.message}")
    return [finding for _, findings in examined for finding in findings]
