"""What a run says, in plain words: which policy, how good, how far to trust it, what would change the answer."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Literal

import numpy as np

from ilbrl.report.pictures import display
from ilbrl.report.scoreboard import Played, over_seeds, played, reference_score, scored, selection_regret
from ilbrl.report.statistics import NORMAL_95, Mean
from ilbrl.report.text import number, plus_minus, sentence, several
from ilbrl.results.folder import Run
from ilbrl.results.schema import Chosen, Overall
from ilbrl.results.tables import NO_VERDICT, Candidate

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
    how_good: tuple[str, ...]
    trust: str
    what_would_change: tuple[str, ...]
    score: Mean | None = None  # true score, or return, of the file to deploy, over episodes
    seeds: Mean | None = None  # of all seeds of its configuration


def quantity(run: Run) -> str:
    """What offline values of this run measure."""
    return run.tuning.quantity


def offline_label(run: Run) -> str:
    return f"estimated {quantity(run)}"


def verdict(run: Run) -> Verdict:
    grade, trusted = TRUST.get(run.tuning.trust.verdict if run.tuning.trust else None, UNKNOWN_TRUST)
    overall, reasons = run.selection.overall, run.tuning.trust.reasons if run.tuning.trust else ()
    trusted = " ".join([trusted, *(sentence(reason) for reason in reasons)])
    if run.selection.nothing or overall is None or overall.algorithm is None:
        why = run.selection.nothing or "The study has not come to its selection: continue it with the same command."
        nothing = "There is nothing to judge."
        return Verdict("bad", "No policy to deploy", sentence(why), (nothing,), trusted, _changes(run))
    name, chosen = display(overall.algorithm), run.selection.algorithms.get(overall.algorithm, Chosen())
    seed = "" if chosen.best_seed is None else f", seed {chosen.best_seed}"
    which = f"{name}, configuration {overall.configuration}{seed}. {sentence(overall.reason or '')}".strip()
    if chosen.moving:
        which += " Too few of its evaluations had converged: values still moving had to count."
    file, seeds = _file(run, overall.algorithm), _seeds(run, overall.algorithm)
    score = file.mean if file else seeds
    logs = reference_score(run, "logs")
    headline = f"Deploy {name}"
    if score is not None and logs is not None and not score.clearly_above(logs):
        grade, headline = "bad", f"{name} is no better than the logs"
    elif grade == "bad":
        headline = f"{name}, but do not rely on it"
    elif grade == "good" and _better_played(run, clearly=True):
        grade = "care"
    how_good = (*_played(run, file, seeds), *_estimated(run, overall, chosen, score is None))
    return Verdict(grade, headline, which, how_good, trusted, _changes(run), score, seeds)


def _selected(run: Run, algorithm: str) -> list[Candidate]:
    return [c for c in run.candidates if c.selected and c.algorithm == algorithm]


def _file(run: Run, algorithm: str) -> Played | None:
    """The file that would be deployed, in the environment: the best seed by offline value. None where not played."""
    best = run.selection.algorithms.get(algorithm, Chosen()).best_seed
    found = [played(run, c) for c in _selected(run, algorithm) if c.policy_seed == best]
    return found[0] if found else None


def _seeds(run: Run, algorithm: str) -> Mean | None:
    """All seeds of the selected configuration in the environment; None where none was played."""
    found = [each for c in _selected(run, algorithm) if (each := played(run, c)) is not None]
    return over_seeds(found) if found else None


def _played(run: Run, file: Played | None, seeds: Mean | None) -> list[str]:
    """What the environment said about the file, with the spread over seeds beside it."""
    if seeds is None:
        return []
    unit = "normalised score" if scored(run) else "return of an episode"
    if file is None:
        score = seeds
        said = [f"True {unit} {plus_minus(seeds.value, seeds.half_width)}: mean of {several(seeds.runs, 'seed')}."]
        said.append("The file to deploy was not played itself.")
    else:
        score = file.mean
        over = f"mean of {several(score.runs, 'episode')}" if score.runs else "episodes not recorded"
        spread = f", which vary by ± {number(file.spread)}" if np.isfinite(file.spread) else ""
        said = [f"True {unit} of this file {plus_minus(score.value, score.half_width)} ({over}{spread})."]
        if seeds.runs > 1:
            said.append(_beside(run, seeds))
    logs, expert = reference_score(run, "logs"), reference_score(run, "expert")
    return said + _placed(score, logs, expert)


def _beside(run: Run, seeds: Mean) -> str:
    algorithm = run.selection.overall.algorithm if run.selection.overall else None
    values = [each.mean.value for c in _selected(run, algorithm or "") if (each := played(run, c)) is not None]
    low, high = number(min(values)), number(max(values))
    return f"The {seeds.runs} seeds of its configuration reach {low} to {high}, {number(seeds.value)} on average."


def _placed(score: Mean, logs: float | None, expert: float | None) -> list[str]:
    """Where a score stands between the policy that made the logs and the expert."""
    if logs is None:
        return []
    side = "above" if score.value > logs else "below"
    said = f"That is {number(abs(score.value - logs))} {side} the policy that made the logs ({number(logs)})"
    if score.value > logs and not score.clearly_above(logs):
        return [f"{said}: within the interval, so the difference may be chance."]
    if expert is not None and expert > logs and score.value > logs:
        share = 100 * (score.value - logs) / (expert - logs)
        said += f", {share:.0f} % of the way to the expert ({number(expert)})"
    return [said + "."]


def _estimated(run: Run, overall: Overall, chosen: Chosen, alone: bool) -> list[str]:
    """What the logs alone say of it, no surer than the evaluator was on the policies whose value is known."""
    said = []
    if overall.value is not None:
        missed, error = known_miss(run), chosen.value_std_error
        half = None if error is None and missed is None else NORMAL_95 * float(np.hypot(error or 0.0, missed or 0.0))
        how = "" if missed is None else f"; known policies were missed by {number(missed)}"
        said.append(f"Estimated {quantity(run)} {plus_minus(overall.value, half)} (from logs alone{how}).")
    if alone and run.played:
        said.append(f"{PLAYED_BY_UNKNOWN}, so this estimate is all there is to show.")
    elif alone:
        said.append("No environment was played, so this estimate is all there is.")
    return said


def known_miss(run: Run) -> float | None:
    """Root mean square of estimate less truth over the known policies, under the chosen evaluator."""
    chosen = run.tuning.chosen_evaluator
    pairs = [(p.estimate, p.truth) for p in chosen.policies.values()] if chosen else []
    missed = [estimate - truth for estimate, truth in pairs if estimate is not None and truth is not None]
    return float(np.sqrt(np.mean(np.square(missed)))) if missed else None


def _changes(run: Run) -> tuple[str, ...]:
    """Everything on record that could turn the answer, most important first."""
    damaged = ["Files are missing or damaged: see the list below."] if run.missing else []
    played = (*_better_played(run), *_rivals(run), *_regrets(run))
    found = (*played, *_few_known(run), *_unsettled(run), *_findings(run), *damaged)
    return found or ("Nothing on record stands against it.",)


def _better_played(run: Run, clearly: bool = False) -> list[str]:
    """The algorithm whose file did best in the final play, where that is not the one selected offline."""
    overall = run.selection.overall
    ours = _file(run, overall.algorithm or "") if overall else None
    files = {name: found for name in run.selection.algorithms if (found := _file(run, name)) is not None}
    if ours is None or not files:
        return []
    best = max(files, key=lambda name: files[name].mean.value)
    gap = files[best].mean.value - ours.mean.value
    error = NORMAL_95 * np.hypot(files[best].mean.std_error, ours.mean.std_error)
    chance = not gap > np.nan_to_num(error)
    if gap <= 0 or (clearly and chance):
        return []
    scores = f"{number(files[best].mean.value)} against {number(ours.mean.value)}"
    how = "within what episodes vary by" if chance else "more than episodes vary by"
    file = f"the file of {display(best)} (policies/{best}/best.safetensors)"
    return [f"Played in the environment, {file} did better: {scores}, {how}."]


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
    policies = several(known, "known policy", "known policies")
    return [f"The evaluator was checked on only {policies}; more would say more."]


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
    grave = [several(levels[level], level) for level in ("error", "warning") if levels[level]]
    return [f"The doctor has {' and '.join(grave)} about the logs: see below."] if grave else []
