"""What a run says, in plain words: which policy, how good, how far to trust it, what would change the answer."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Literal

import numpy as np

from ilbrl.report.palette import display
from ilbrl.report.pertask import NORMAL_95, Mean, normal_mean
from ilbrl.report.selection import reference_score, scored, selection_regret, truth
from ilbrl.report.wording import number, plus_minus, sentence
from ilbrl.results.folder import Run
from ilbrl.results.schema import Chosen, Overall
from ilbrl.results.tables import NO_VERDICT

Grade = Literal["good", "care", "bad"]
TRUST: dict[str | None, tuple[Grade, str]] = {
    "trust": ("good", "The offline numbers can be trusted."),
    "care": ("care", "The offline numbers need care."),
    "distrust": ("bad", "The offline numbers cannot be trusted."),
}
UNKNOWN_TRUST: tuple[Grade, str] = ("care", "How far to trust the offline numbers is not known.")
FEW_KNOWN = 4
"""Fewer known policies can be put into the right order by luck: two by tossing a coin."""
PLAYED_BY_UNKNOWN = "An environment was played, but results.csv, which shows by whom, is missing or damaged"


@dataclass(frozen=True)
class Verdict:
    grade: Grade
    headline: str
    which: str
    how_good: str
    trust: str
    what_would_change: tuple[str, ...]
    score: Mean | None = None  # true score, or return, of the selected configuration's seeds


def verdict(run: Run) -> Verdict:
    grade, trusted = TRUST.get(run.tuning.trust.verdict if run.tuning.trust else None, UNKNOWN_TRUST)
    overall, reasons = run.selection.overall, run.tuning.trust.reasons if run.tuning.trust else ()
    trusted = " ".join([trusted, *(sentence(reason) for reason in reasons)])
    if run.selection.nothing or overall is None or overall.algorithm is None:
        why = run.selection.nothing or "The study has not come to its selection: continue it with the same command."
        nothing = "There is nothing to judge."
        return Verdict("bad", "No policy to deploy", sentence(why), nothing, trusted, _changes(run))
    name, chosen = display(overall.algorithm), run.selection.algorithms.get(overall.algorithm, Chosen())
    seed = "" if chosen.best_seed is None else f", seed {chosen.best_seed}"
    which = f"{name}, configuration {overall.configuration}{seed}. {sentence(overall.reason or '')}".strip()
    if chosen.moving:
        which += " Too few of its evaluations had converged: values still moving had to count."
    score = _score(run, overall.algorithm)
    logs = reference_score(run, "logs")
    headline = f"Deploy {name}"
    if score is not None and logs is not None and score.value <= logs:
        grade, headline = "bad", f"{name} is no better than the logs"
    elif grade == "bad":
        headline = f"{name}, but do not rely on it"
    return Verdict(grade, headline, which, _how_good(run, score, overall, chosen), trusted, _changes(run), score)


def _score(run: Run, algorithm: str) -> Mean | None:
    """Of the selected configuration's seeds in the environment; None where they were not played."""
    own = [truth(run, c) for c in run.candidates if c.selected and c.algorithm == algorithm]
    played = np.array([value for value in own if value is not None])
    return normal_mean(played) if len(played) else None


def _how_good(run: Run, score: Mean | None, overall: Overall, chosen: Chosen) -> str:
    said = []
    if score is not None:
        unit = "normalised score" if scored(run) else "return"
        of = f"mean of {score.runs} seeds, 95 % interval" if score.runs > 1 else "one seed: no interval"
        said.append(f"True {unit} {plus_minus(score.value, score.half_width)} ({of}).")
        said += _placed(score.value, reference_score(run, "logs"), reference_score(run, "expert"))
    if overall.value is not None:
        half = None if chosen.value_std_error is None else NORMAL_95 * chosen.value_std_error
        said.append(f"Estimated discounted value {plus_minus(overall.value, half)}, from logs alone.")
    if score is None and run.played:
        said.append(f"{PLAYED_BY_UNKNOWN}, so this estimate is all there is to show.")
    elif score is None:
        said.append("No environment was played, so this estimate is all there is.")
    return " ".join(said)


def _placed(value: float, logs: float | None, expert: float | None) -> list[str]:
    """Where a score stands between the policy that made the logs and the expert."""
    if logs is None:
        return []
    side = "above" if value > logs else "below"
    said = f"That is {number(abs(value - logs))} {side} the policy that made the logs ({number(logs)})"
    if expert is not None and expert > logs and value > logs:
        share = 100 * (value - logs) / (expert - logs)
        said += f", {share:.0f} % of the way to the expert ({number(expert)})"
    return [said + "."]


def _changes(run: Run) -> tuple[str, ...]:
    """Everything on record that could turn the answer, most important first."""
    damaged = ["Files are missing or damaged: see the list below."] if run.missing else []
    found = (*_rivals(run), *_regrets(run), *_few_known(run), *_unsettled(run), *_findings(run), *damaged)
    return found or ("Nothing on record stands against it.",)


def _rivals(run: Run) -> list[str]:
    """The algorithm that came second, measured in standard errors of the difference."""
    overall = run.selection.overall
    values = {name: c.value for name, c in run.selection.algorithms.items() if c.value is not None}
    if overall is None or overall.algorithm not in values or len(values) < 2:
        return []
    best = values.pop(overall.algorithm)
    second = max(values, key=lambda name: values[name])
    if values[second] > best:
        ahead = number(values[second] - best)
        return [f"{display(second)} is {ahead} ahead in offline value, from evaluations that had not converged."]
    errors = [run.selection.algorithms[name].value_std_error for name in (overall.algorithm, second)]
    said = f"{display(second)} came second, {number(best - values[second])} behind in offline value"
    known = [error for error in errors if error is not None]
    if len(known) < 2 or not any(known):
        return [said + "; the noise of that gap is not recorded."]
    width = (best - values[second]) / float(np.hypot(known[0], known[1]))
    return [
        f"{said} ({width:.1f} standard errors{': another seed could turn the order' if width < NORMAL_95 else ''})."
    ]


def _regrets(run: Run) -> list[str]:
    overall = run.selection.overall
    found = selection_regret(run).get(overall.algorithm or "") if overall else None
    if found is None:
        return []
    if found.regret <= 0:
        return ["Playing the others afterwards showed that no configuration of this algorithm was better."]
    return [
        f"Playing the others afterwards showed a better configuration: choosing offline cost {number(found.regret)}."
    ]


def _few_known(run: Run) -> list[str]:
    known = len(run.tuning.known)
    if not 0 < known < FEW_KNOWN:
        return []
    return [
        f"The evaluator was checked on only {known} known polic{'y' if known == 1 else 'ies'}; more would say more."
    ]


def _unsettled(run: Run) -> list[str]:
    counts = Counter(c.verdict for c in run.candidates)
    said, total = [], len(run.candidates)
    if counts["moving"]:
        said.append(f"{counts['moving']} of {total} candidates had values still moving at the end: evaluate longer.")
    if counts["diverged"]:
        said.append(f"{counts['diverged']} of {total} candidates diverged and were left out.")
    if counts[NO_VERDICT]:
        said.append(f"{counts[NO_VERDICT]} of {total} candidates have no verdict: results.csv does not say one.")
    return said


def _findings(run: Run) -> list[str]:
    levels = Counter(finding.level for logs in run.data.datasets.values() for finding in logs.findings)
    grave = [f"{levels[level]} {level}{'s' * (levels[level] > 1)}" for level in ("error", "warning") if levels[level]]
    return [f"The doctor has {' and '.join(grave)} about the logs: see below."] if grave else []
