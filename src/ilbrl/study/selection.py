"""Algorithm 2, phase 4: which configuration of each algorithm is selected, from offline values alone.

A policy has *converged* when its training did not diverge, none of its evaluations did, and at least half of them
converged. A configuration is *eligible* when at least half of its policy seeds have converged; its value is the mean
over all converged evaluations of policies whose training did not diverge, less `penalty` standard deviations by which
the evaluation seeds of a policy disagree (0 in the paper). The eligible configuration with the highest
value wins; ties go to the earlier draw. Its best seed is the converged one with the highest mean.

An algorithm none of whose configurations is eligible is judged again with evaluations that are still moving counted as
converged, and its entry says so: an estimate that needed more updates is worth less, but not nothing. Only where an
algorithm diverged, in training or in evaluation, nothing of it is selected. An algorithm judged by converged
evaluations goes before one that was not. Pure functions all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ilbrl.ope.evaluation import lowered
from ilbrl.study.tables import Candidate

CONVERGED, NOT_DIVERGED = ("converged",), ("converged", "moving")


class Judged(NamedTuple):
    """One configuration, as its evaluations show it."""

    configuration: int
    value: float | None  # mean of the evaluations that count; None: there are none
    value_std_error: float | None  # over policy seeds
    converged_share: float  # of its policy seeds
    eligible: bool
    best_seed: int | None
    hyperparameters: dict[str, Any]


def values_of(candidate: Candidate, counting: Sequence[str] = CONVERGED) -> list[float]:
    """Values of the evaluations whose verdict is one of `counting`; none where its training diverged."""
    if candidate.diverged:
        return []
    return [e["value"] for e in candidate.estimates if e["verdict"] in counting]


def has_converged(candidate: Candidate, counting: Sequence[str] = CONVERGED) -> bool:
    verdicts = [e["verdict"] for e in candidate.estimates]
    if candidate.diverged or not verdicts or "diverged" in verdicts:
        return False
    return 2 * sum(verdict in counting for verdict in verdicts) >= len(verdicts)


def judge(seeds: Sequence[Candidate], counting: Sequence[str] = CONVERGED, penalty: float = 0.0) -> Judged:
    """One configuration: its candidates differ in the policy seed alone."""
    settled = [c.policy_seed for c in seeds if has_converged(c, counting)]
    share = len(settled) / len(seeds)
    values = {c.policy_seed: v for c in seeds if (v := values_of(c, counting))}
    means = {seed: lowered(v, penalty) for seed, v in values.items()}
    counts = [len(v) for v in values.values()]
    spread = float(np.std(list(means.values()), ddof=1) / np.sqrt(len(means))) if len(means) > 1 else None
    return Judged(
        configuration=seeds[0].configuration,
        value=float(np.average(list(means.values()), weights=counts)) if values else None,
        value_std_error=spread,
        converged_share=share,
        eligible=share >= 0.5 and bool(values),
        best_seed=max(settled, key=lambda seed: means[seed]) if settled else None,
        hyperparameters=seeds[0].hyperparameters,
    )


class Table(NamedTuple):
    """All configurations of an algorithm, in the order of their draws."""

    configurations: list[Judged]
    moving: bool  # evaluations that are still moving had to count


def judge_all(candidates: Sequence[Candidate], penalty: float = 0.0) -> dict[str, Table]:
    """Algorithm → its table."""
    groups: dict[str, dict[int, list[Candidate]]] = {}
    for c in candidates:
        groups.setdefault(c.algorithm, {}).setdefault(c.configuration, []).append(c)
    return {name: _table([by_number[n] for n in sorted(by_number)], penalty) for name, by_number in groups.items()}


def _table(configurations: Sequence[Sequence[Candidate]], penalty: float) -> Table:
    strict, lenient = (
        [judge(seeds, counting, penalty) for seeds in configurations] for counting in (CONVERGED, NOT_DIVERGED)
    )
    moving = winner(strict) is None and winner(lenient) is not None
    return Table(lenient if moving else strict, moving)


def winner(configurations: Sequence[Judged]) -> Judged | None:
    """The eligible configuration with the highest value; the earlier draw among equals."""
    eligible = [c for c in configurations if c.eligible]
    return max(eligible, key=lambda c: (c.value, -c.configuration)) if eligible else None


def select(candidates: Sequence[Candidate], penalty: float = 0.0) -> dict[str, Any]:
    """selection.json (docs/runs.md), without the paths of policies, which are not decided here."""
    judged = judge_all(candidates, penalty)
    chosen = {name: won for name, table in judged.items() if (won := winner(table.configurations))}
    selection: dict[str, Any] = {"algorithms": {name: _entry(judged[name], chosen.get(name)) for name in judged}}
    if not chosen:
        selection["overall"] = None
        selection["nothing"] = (
            "Nothing was selected: in every configuration of every algorithm over half of the policy seeds diverged"
            f" ({_fates(candidates)}). Smaller learning rates or more data may help; tuning.json and curves.csv show"
            " where it went wrong."
        )
        return selection
    best = max(chosen, key=lambda name: (not judged[name].moving, chosen[name].value, name))
    won = chosen[best]
    selection["overall"] = {
        "algorithm": best,
        "configuration": won.configuration,
        "value": won.value,
        "reason": _reason(best, {name: (judged[name].moving, c.value) for name, c in chosen.items()}),
    }
    selection["nothing"] = None
    return selection


def _reason(best: str, chosen: Mapping[str, tuple[bool, float | None]]) -> str:
    """Why an algorithm was selected, of those judged alike; chosen: name → (still moving, value)."""
    shown = {name: f"{name} ({value:.4g})" for name, (_, value) in chosen.items()}
    alike = [shown[name] for name, (moving, _) in chosen.items() if moving == chosen[best][0]]
    after = [shown[name] for name, (moving, _) in chosen.items() if moving != chosen[best][0]]
    reason = (
        f"the highest offline value ({chosen[best][1]:.4g}) among the selected configurations of {', '.join(alike)}"
    )
    if not after:
        return reason
    verbs = "was still moving and comes" if len(after) == 1 else "were still moving and come"
    return f"{reason}; {', '.join(after)} {verbs} after"


def _entry(table: Table, won: Judged | None) -> dict[str, Any]:
    eligible = sum(c.eligible for c in table.configurations)
    shown = [c._asdict() for c in table.configurations]
    columns = ("configuration", "value", "converged_share", "eligible")
    entry = {
        "configuration": None,
        "hyperparameters": {},
        "value": None,
        "value_std_error": None,
        "eligible": eligible,
        "converged_share": None,
        "best_seed": None,
        "moving": table.moving,
        "policies": [],
        "table": [{name: row[name] for name in columns} for row in shown],
        "reason": f"none of its {len(shown)} configurations is eligible: too many policy seeds diverged",
    }
    if won is None:
        return entry
    caveat = ", from evaluations of which too few had converged: some were still moving" if table.moving else ""
    taken = ("configuration", "hyperparameters", "value", "value_std_error", "converged_share", "best_seed")
    return (
        entry
        | {name: won._asdict()[name] for name in taken}
        | {"reason": f"the highest offline value ({won.value:.4g}) of {eligible} eligible configurations{caveat}"}
    )


def _fates(candidates: Sequence[Candidate]) -> str:
    verdicts = [e["verdict"] for c in candidates if not c.diverged for e in c.estimates]
    diverged = sum(c.diverged for c in candidates)
    return (
        f"training diverged for {diverged} of {len(candidates)} policies; of {len(verdicts)} evaluations"
        f" {verdicts.count('converged')} converged, {verdicts.count('moving')} were still moving and"
        f" {verdicts.count('diverged')} diverged"
    )
