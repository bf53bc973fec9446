"""Algorithm 2, phase 4: which configuration of each algorithm is selected, from offline values alone. Pure functions.

Two rules. An estimator whose values settle over updates (Expected SARSA) is judged by the paper's rule, `converged`:

    A policy has converged when its training did not diverge, none of its evaluations is void, and at least half of them
    are sound. A configuration is eligible when at least half of its policy seeds have converged. Its value is the mean
    over all sound evaluations of policies whose training did not diverge. An algorithm none of whose configurations is
    eligible is judged again with doubtful evaluations counted as sound, and its entry says so (`moving`): an estimate
    that needed more updates is worth less, but not nothing. An algorithm judged by sound evaluations goes before one
    that was not.

Every other estimator is judged by the rule `all`: a configuration's value is the mean over all its policy seeds. A
policy that diverged, or whose value is void, counts with the lowest value of any candidate: to leave it out would
favour configurations whose bad seeds drop out. A configuration is eligible when at least half of its seeds have a
value.

By both rules the eligible configuration with the highest value wins; ties go to the earlier draw. Its best seed is the
one with the highest value.

Between algorithms the value of what would be deployed decides: that of the seeds together, where they are one policy
(`ilbrl.study.uniting`), else their mean. Of those that cannot be told from the highest, the study's first is taken.

`penalty` standard deviations by which the evaluations of a policy disagree are taken off its value: the estimator's own
setting, so that candidates are valued as the known policies were (0 in the paper).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from ilbrl.results.gaps import noise_between
from ilbrl.results.schema import NORMAL_95, Chosen, Gain, Grade, Overall, Ranked, Rule, Selection
from ilbrl.results.tables import Candidate, as_selected, lowered_mean

SOUND: tuple[Grade | None, ...] = ("sound", None)
NOT_VOID: tuple[Grade | None, ...] = ("sound", None, "doubtful")


class Judged(NamedTuple):
    """One configuration, as its evaluations show it."""

    configuration: int
    value: float | None  # None: no evaluation counts
    value_std_error: float | None  # over policy seeds, models and initial states
    gain: Gain | None  # over the logs
    task_return: float | None
    converged_share: float  # of its policy seeds, those that have a value to count
    eligible: bool
    best_seed: int | None
    hyperparameters: Mapping[str, Any]


class JudgedAlgorithm(NamedTuple):
    """All configurations of an algorithm, in the order of their draws."""

    configurations: list[Judged]
    counted: tuple[Grade, ...]  # the grades of the evaluations that count
    moving: bool = False  # doubtful evaluations had to count


def select(candidates: Sequence[Candidate], rule: Rule, penalty: float = 0.0) -> Selection:
    """What selection.json holds, without the paths of policies, which are not decided here."""
    judged = judge_all(candidates, rule, penalty)
    entries = {name: _entry(table, winner(table.configurations)) for name, table in judged.items()}
    return among_algorithms(Selection(entries, rule=rule, penalty=penalty), candidates)


def among_algorithms(selection: Selection, candidates: Sequence[Candidate]) -> Selection:
    """The selection with one of its algorithms: of those that cannot be told from the one with the highest value of
    what would be deployed, the first. One whose values have settled goes before others."""
    values = {
        name: (not entry.moving, value)
        for name, entry in selection.algorithms.items()
        if (value := entry.to_deploy.value) is not None
    }
    if not values:
        return replace(selection, overall=None, nothing=_nothing(candidates))
    highest, valued = max(values, key=lambda name: values[name]), as_selected(candidates, selection)
    noises = {name: noise_between(selection, valued, highest, name) for name in values if name != highest}
    taken = next(name for name in values if name == highest or _alike(values[highest], values[name], noises[name]))
    reason = _reason(highest, values) if taken == highest else _alike_reason(taken, highest, values, noises[taken])
    configuration = selection.algorithms[taken].configuration
    assert configuration is not None
    return replace(selection, overall=Overall(taken, configuration, None, values[taken][1], reason))


def _alike(highest: tuple[bool, float], other: tuple[bool, float], noise: float | None) -> bool:
    """Whether two values, (settled, value), may be one; not where the noise of their gap is not known."""
    return highest[0] == other[0] and noise is not None and highest[1] - other[1] <= NORMAL_95 * noise


def judge_all(candidates: Sequence[Candidate], rule: Rule, penalty: float = 0.0) -> dict[str, JudgedAlgorithm]:
    """Algorithm → its table."""
    groups: dict[str, dict[int, list[Candidate]]] = {}
    for c in candidates:
        groups.setdefault(c.algorithm, {}).setdefault(c.configuration, []).append(c)
    known = [v for c in candidates if (v := policy_value(c, NOT_VOID, penalty)) is not None]
    lowest = min(known, default=None)
    tables = {}
    for name, by_number in groups.items():
        configurations = [by_number[n] for n in sorted(by_number)]
        if rule == "all":
            judged = [judge_by_all(seeds, lowest, penalty) for seeds in configurations]
            tables[name] = JudgedAlgorithm(judged, _named(NOT_VOID))
            continue
        strict, lenient = (
            [judge_by_converged(seeds, counting, penalty) for seeds in configurations] for counting in (SOUND, NOT_VOID)
        )
        moving = winner(strict) is None and winner(lenient) is not None
        tables[name] = JudgedAlgorithm(lenient if moving else strict, _named(NOT_VOID if moving else SOUND), moving)
    return tables


def _named(counting: Sequence[Grade | None]) -> tuple[Grade, ...]:
    return tuple(grade for grade in counting if grade is not None)


def policy_value(candidate: Candidate, counting: Sequence[Grade | None], penalty: float = 0.0) -> float | None:
    """Mean of the evaluations that count, less the penalty; None where there are none, or its training diverged."""
    return None if candidate.diverged else lowered_mean(candidate.values(*counting), penalty)


def has_converged(candidate: Candidate, counting: Sequence[Grade | None] = SOUND) -> bool:
    grades = [e.grade for e in candidate.estimates]
    if candidate.diverged or not grades or "void" in grades:
        return False
    return 2 * sum(grade in counting for grade in grades) >= len(grades)


def judge_by_converged(
    seeds: Sequence[Candidate], counting: Sequence[Grade | None] = SOUND, penalty: float = 0.0
) -> Judged:
    """One configuration by the paper's rule; its candidates differ in the policy seed alone."""
    settled = [c.policy_seed for c in seeds if has_converged(c, counting)]
    share = len(settled) / len(seeds)
    means = {c.policy_seed: v for c in seeds if (v := policy_value(c, counting, penalty)) is not None}
    counts = [len(c.values(*counting)) for c in seeds if c.policy_seed in means]
    return Judged(
        configuration=seeds[0].configuration,
        value=float(np.average(list(means.values()), weights=counts)) if means else None,
        value_std_error=_std_error(list(means.values()), seeds),
        gain=mean_gain(seeds),
        task_return=mean_task_return(seeds),
        converged_share=share,
        eligible=share >= 0.5 and bool(means),
        best_seed=max(settled, key=lambda seed: means[seed]) if settled else None,
        hyperparameters=seeds[0].hyperparameters,
    )


def judge_by_all(seeds: Sequence[Candidate], lowest: float | None, penalty: float = 0.0) -> Judged:
    """One configuration by the mean over all its seeds; `lowest` stands for the value of a policy that has none."""
    means = {c.policy_seed: v for c in seeds if (v := policy_value(c, NOT_VOID, penalty)) is not None}
    filled = [means.get(c.policy_seed, lowest) for c in seeds]
    values = [value for value in filled if value is not None]
    share = len(means) / len(seeds)
    return Judged(
        configuration=seeds[0].configuration,
        value=float(np.mean(values)) if means else None,
        value_std_error=_std_error(values, seeds),
        gain=mean_gain(seeds),
        task_return=mean_task_return(seeds),
        converged_share=share,
        eligible=share >= 0.5,
        best_seed=max(means, key=lambda seed: means[seed]) if means else None,
        hyperparameters=seeds[0].hyperparameters,
    )


def mean_gain(seeds: Sequence[Candidate]) -> Gain | None:
    """Over the seeds that have one."""
    gains = [c.gain for c in seeds if c.gain is not None]
    if not gains:
        return None
    values, errors = [gain.value for gain in gains], [gain.std_error for gain in gains]
    return Gain(float(np.mean(values)), _error_of_mean(values, errors) or 0.0)


def mean_task_return(seeds: Sequence[Candidate]) -> float | None:
    """What was estimated beside a value of closeness, over the seeds that have it."""
    found = [c.task_return for c in seeds if c.task_return is not None]
    return float(np.mean(found)) if found else None


def _std_error(values: Sequence[float], seeds: Sequence[Candidate]) -> float | None:
    """Of the mean of the seeds' values. Evaluations that are repetitions are in the spread over seeds already."""
    told = [c.offline_std_error for c in seeds if c.rivals or len(values) == 1]
    return _error_of_mean(values, [error for error in told if error is not None])


def _error_of_mean(values: Sequence[float], errors: Sequence[float]) -> float | None:
    """Over seeds, and the seeds' own errors: the same models value them all, so that these do not average out."""
    parts = [float(np.std(values, ddof=1) / np.sqrt(len(values)))] if len(values) > 1 else []
    parts += [float(np.mean(errors))] if errors else []
    return float(np.hypot.reduce(parts)) if parts else None


def winner(configurations: Sequence[Judged]) -> Judged | None:
    """The eligible configuration with the highest value; the earlier draw among equals."""
    eligible = [c for c in configurations if c.eligible]
    return max(eligible, key=lambda c: (c.value, -c.configuration)) if eligible else None


def chosen_candidates(found: Sequence[Candidate], selection: Selection) -> list[Candidate]:
    """All seeds of the selected configurations whose training did not diverge."""
    chosen = {name: entry.configuration for name, entry in selection.algorithms.items()}
    return [c for c in found if chosen.get(c.algorithm) == c.configuration and not c.diverged]


# --- in words ---------------------------------------------------------------------------------------------------------


def _entry(table: JudgedAlgorithm, won: Judged | None) -> Chosen:
    eligible = sum(c.eligible for c in table.configurations)
    ranked = tuple(Ranked(c.configuration, c.value, c.converged_share, c.eligible) for c in table.configurations)
    if won is None:
        reason = f"none of its {len(ranked)} configurations is eligible: too many policy seeds diverged"
        return Chosen(eligible=eligible, counted=table.counted, table=ranked, reason=reason)
    caveat = ", from evaluations of which too few had converged: some were still moving" if table.moving else ""
    return Chosen(
        configuration=won.configuration,
        hyperparameters=dict(won.hyperparameters),
        value=won.value,
        value_std_error=won.value_std_error,
        gain=won.gain,
        task_return=won.task_return,
        eligible=eligible,
        converged_share=won.converged_share,
        best_seed=won.best_seed,
        counted=table.counted,
        moving=table.moving,
        table=ranked,
        reason=f"the highest offline value ({won.value:.4g}) of {eligible} eligible configurations{caveat}",
    )


def _reason(best: str, values: Mapping[str, tuple[bool, float]]) -> str:
    """Why an algorithm was selected, of those judged alike; values: name → (settled, value)."""
    shown = {name: f"{name} ({value:.4g})" for name, (_, value) in values.items()}
    alike = [shown[name] for name, (settled, _) in values.items() if settled == values[best][0]]
    after = [shown[name] for name, (settled, _) in values.items() if settled != values[best][0]]
    reason = f"the highest offline value ({values[best][1]:.4g}) among the choices of {', '.join(alike)}"
    if not after:
        return reason
    verbs = "was still moving and comes" if len(after) == 1 else "were still moving and come"
    return f"{reason}; {', '.join(after)} {verbs} after"


def _alike_reason(taken: str, highest: str, values: Mapping[str, tuple[bool, float]], noise: float | None) -> str:
    """Why an algorithm was selected although another is valued higher."""
    ahead = values[highest][1] - values[taken][1]
    return (
        f"it stands first in the study, and its value ({values[taken][1]:.4g}) cannot be told from the highest:"
        f" {highest} ({values[highest][1]:.4g}) is {ahead:.3g} ahead, with a standard error of {noise:.3g}"
    )


def _nothing(candidates: Sequence[Candidate]) -> str:
    grades = [e.grade for c in candidates if not c.diverged for e in c.estimates]
    diverged = sum(c.diverged for c in candidates)
    return (
        "Nothing was selected: in every configuration of every algorithm over half of the policy seeds have no value"
        f" (training diverged for {diverged} of {len(candidates)} policies; of {len(grades)} evaluations"
        f" {grades.count('sound')} are sound, {grades.count('doubtful')} doubtful and {grades.count('void')} void)."
        " Smaller learning rates or more data may help; tuning.json and curves.csv show where it went wrong."
    )
