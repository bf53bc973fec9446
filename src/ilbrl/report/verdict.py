"""What a run says, in plain words: which policy, how good, how far to trust it, what would change the answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from ilbrl.report.deployed import (
    against_logs,
    chosen,
    file_played,
    how_good,
    in_short,
    only_clones,
    seeds_played,
    whose,
)
from ilbrl.report.pictures import display
from ilbrl.report.scoreboard import selection_regret
from ilbrl.report.statistics import NORMAL_95, Mean
from ilbrl.report.text import listed, number, sentence, several
from ilbrl.results.folder import Run
from ilbrl.results.gaps import noise_between

Grade = Literal["good", "care", "bad"]
TRUST: dict[str | None, tuple[Grade, str]] = {
    "trust": ("good", "The offline numbers can be trusted."),
    "care": ("care", "The offline numbers need care."),
    "distrust": ("bad", "The offline numbers cannot be trusted."),
}
UNKNOWN_TRUST: tuple[Grade, str] = ("care", "How far to trust the offline numbers is not known.")
NARROWER = "More episodes would narrow the interval: of the logs, or of the policy where it may be played (--task)."
FEW_KNOWN = 4
"""Fewer known policies can be put into the right order by luck: two by tossing a coin."""


@dataclass(frozen=True)
class Verdict:
    grade: Grade
    headline: str
    which: str
    how_good: tuple[str, ...]
    trusted: str
    reasons: tuple[str, ...]  # sentences, why so far
    what_would_change: tuple[str, ...]
    score: Mean | None = None  # true score, or return, of the file to deploy, over episodes
    seeds: Mean | None = None  # of all seeds of its configuration
    in_short: tuple[str, ...] = ()  # its true score, and those beside it; nothing where it was not played

    @property
    def trust(self) -> str:
        return " ".join([self.trusted, *self.reasons])

    @property
    def call(self) -> str:
        """The headline where no colour shows the grade: nothing but an estimate that needs care speaks for it."""
        return f"{self.headline}, with care" if self.grade == "care" and self.score is None else self.headline


def verdict(run: Run) -> Verdict:
    grade, trusted = TRUST.get(run.tuning.trust.verdict if run.tuning.trust else None, UNKNOWN_TRUST)
    overall, reasons = run.selection.overall, run.tuning.trust.reasons if run.tuning.trust else ()
    why_so_far = tuple(sentence(reason) for reason in reasons)
    if run.selection.nothing or overall is None or not overall.algorithm:
        why = run.selection.nothing or "The study has not come to its selection: continue it with the same command."
        nothing = "There is nothing to judge."
        return Verdict("bad", "No policy to deploy", sentence(why), (nothing,), trusted, why_so_far, _changes(run))
    name, file = display(overall.algorithm), whose(run, overall.algorithm)
    which = f"{name}, configuration {overall.configuration}" + ("" if file is None else f", {file}")
    which = f"{which}. {sentence(overall.reason or '')}".strip()
    if chosen(run).moving:
        which += " Too few of its evaluations had converged: values still moving had to count."
    file, seeds = file_played(run, overall.algorithm), seeds_played(run, overall.algorithm)
    score = file.mean if file else seeds
    headline = f"Deploy {name}"
    standing = against_logs(run, score)
    if standing in ("no better", "unsure"):
        be = "is" if standing == "no better" else "may be"
        grade, headline = "bad", f"{name} {be} no better than the logs"
    elif grade == "bad":
        headline = f"{name}, but do not rely on it"
    elif grade == "good" and any(_better_played(run, clearly=True)):
        grade = "care"
    changes = (*([NARROWER] if standing == "unsure" else []), *_changes(run))
    return Verdict(
        grade, headline, which, how_good(run, overall.algorithm), trusted, why_so_far, changes, score, seeds,
        in_short(run, overall.algorithm),
    )  # fmt: skip


def _changes(run: Run) -> tuple[str, ...]:
    """Everything on record that could turn the answer, most important first."""
    played = (*_better_played(run), *_rivals(run), *_regrets(run))
    found = (*played, *_few_known(run), *_unsettled(run), *_findings(run), *_files(run))
    return found or ("Nothing on record stands against it.",)


def _better_played(run: Run, clearly: bool = False) -> Iterator[str]:
    """The algorithm whose file did best in the final play, where that is not the one selected offline."""
    overall = run.selection.overall
    ours = file_played(run, overall.algorithm or "") if overall else None
    files = {name: found for name in run.selection.algorithms if (found := file_played(run, name)) is not None}
    if ours is None or not files:
        return
    best = max(files, key=lambda name: files[name].mean.value)
    gap = files[best].mean.value - ours.mean.value
    chance = not gap > np.nan_to_num(NORMAL_95 * np.hypot(files[best].mean.std_error, ours.mean.std_error))
    if gap <= 0 or (clearly and chance):
        return
    scores = f"{number(files[best].mean.value)} against {number(ours.mean.value)}"
    how = "within what episodes vary by" if chance else "more than episodes vary by"
    file = f"the file of {display(best)} (policies/{best}/best.safetensors)"
    yield f"Played in the environment, {file} did better: {scores}, {how}."


def _rivals(run: Run) -> Iterator[str]:
    """The other algorithm of the highest offline value, in standard errors of the gap."""
    overall = run.selection.overall
    files = {name: c.to_deploy for name, c in run.selection.algorithms.items()}
    values = {name: file.value for name, file in files.items() if file.value is not None}
    if overall is None or overall.algorithm not in values or len(values) < 2:
        return
    best = values.pop(overall.algorithm)
    second = max(values, key=lambda name: values[name])
    ahead = values[second] - best
    if ahead > 0 and run.selection.algorithms[second].moving > run.selection.algorithms[overall.algorithm].moving:
        yield f"{display(second)} is {number(ahead)} ahead in offline value, from evaluations that had not converged."
        return
    place = f"is {number(ahead)} ahead" if ahead > 0 else f"came second, {number(-ahead)} behind"
    said = f"{display(second)} {place} in offline value"
    noise = noise_between(run.selection, run.candidates, overall.algorithm, second)
    if not noise:
        yield f"{said}; the noise of that gap is not recorded."
        return
    width = abs(ahead) / noise
    turn = ": the order may be chance" if width < NORMAL_95 else ""
    yield f"{said} ({width:.1f} standard errors{turn})."


def _regrets(run: Run) -> Iterator[str]:
    overall = run.selection.overall
    found = selection_regret(run).get(overall.algorithm or "") if overall else None
    if found is None:
        return
    after = "Playing the others afterwards showed"
    if found.regret <= 0:
        yield f"{after} that no configuration of this algorithm was better."
    else:
        yield f"{after} a better configuration: choosing offline cost {number(found.regret)}."


def _few_known(run: Run) -> Iterator[str]:
    known = len(run.tuning.known)
    if only_clones(run.tuning):
        yield "The evaluator was checked on clones alone; policies of known value would say more (--known)."
    elif 0 < known < FEW_KNOWN:
        policies = several(known, "known policy", "known policies")
        yield f"The evaluator was checked on only {policies}; more would say more."


def _unsettled(run: Run) -> Iterator[str]:
    """Candidates by the gravest grade of their evaluations."""
    order, total = ("void", "doubtful", None, "sound"), len(run.candidates)
    grades = [{e.grade for e in c.estimates} for c in run.candidates if c.estimates and not c.diverged]
    counts = Counter(next(grade for grade in order if grade in found) for found in grades)
    gone = counts["void"] + sum(c.diverged for c in run.candidates)
    by_all = run.selection.rule == "all"
    if counts["doubtful"]:
        words = listed(sorted({e.verdict or "" for c in run.candidates for e in c.estimates if e.grade == "doubtful"}))
        so = "they count like the others" if by_all else "evaluate longer"
        yield f"{counts['doubtful']} of {total} candidates have doubtful values ({words}): {so}."
    if gone:
        so = "count with the lowest value of any candidate" if by_all else "were left out"
        yield f"{gone} of {total} candidates diverged in training or have no value, and {so}."
    if counts[None]:
        yield f"{counts[None]} of {total} candidates have no verdict: results.csv does not say one."


def _findings(run: Run) -> Iterator[str]:
    levels = Counter(finding.level for logs in run.data.datasets.values() for finding in logs.findings)
    grave = [several(levels[level], level) for level in ("error", "warning") if levels[level]]
    if grave:
        yield f"The doctor has {' and '.join(grave)} about the logs: see below."


def _files(run: Run) -> Iterator[str]:
    if run.missing:
        yield "Files are missing or damaged: see the list below."
    if run.unchecked:
        yield f"Nothing vouches for {listed(run.unchecked)}: the audit has no hash to check them by."
