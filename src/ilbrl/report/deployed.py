"""The file to deploy: what it is worth by its own episodes and by its estimate, beside the logs and the expert."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Literal

import numpy as np

from ilbrl.report.pictures import display
from ilbrl.report.scoreboard import Played, over_seeds, played, reference_score, scored
from ilbrl.report.statistics import NORMAL_95, Mean
from ilbrl.report.text import listed, number, plus_minus, several
from ilbrl.results.folder import Run
from ilbrl.results.schema import Chosen, TuningRecord
from ilbrl.results.tables import Candidate, committee_as_candidate, score_to_deploy

Standing = Literal["better", "unsure", "no better"]
PLAYED_BY_UNKNOWN = "An environment was played, but results.csv, which shows by whom, is missing or damaged"


def quantity(run: Run) -> str:
    """What offline values of this run measure, in words."""
    return run.tuning.quantity


def offline_label(run: Run) -> str:
    return f"estimated {quantity(run)}"


def chosen(run: Run) -> Chosen:
    """What was selected within the algorithm that was selected overall."""
    overall = run.selection.overall
    return run.selection.algorithms.get((overall.algorithm or "") if overall else "", Chosen())


def selected(run: Run, algorithm: str) -> list[Candidate]:
    """The seeds of an algorithm's selected configuration."""
    return [c for c in run.candidates if c.selected and c.algorithm == algorithm]


def file_of(run: Run, algorithm: str) -> Candidate | None:
    """Whose policy best.safetensors is: all seeds together, or the seed with the highest offline value."""
    entry = run.selection.algorithms.get(algorithm, Chosen())
    if (committee := entry.deployed_committee) is None:
        return next((c for c in selected(run, algorithm) if c.policy_seed == entry.best_seed), None)
    candidate = committee_as_candidate(algorithm, entry, committee, run.selection.penalty)
    return replace(candidate, true=score_to_deploy(run.selection, run.final, algorithm))


def whose(run: Run, algorithm: str) -> str | None:
    """In a few words, whose policy best.safetensors is."""
    entry = run.selection.algorithms.get(algorithm, Chosen())
    if (committee := entry.deployed_committee) is not None:
        return f"its {len(committee.seeds)} seeds together"
    return None if entry.best_seed is None else f"seed {entry.best_seed}"


def file_played(run: Run, algorithm: str) -> Played | None:
    """That file in the environment; None where it was not played."""
    file = file_of(run, algorithm)
    return None if file is None else played(run, file)


def seeds_played(run: Run, algorithm: str) -> Mean | None:
    """All seeds of the selected configuration in the environment; None where none was played."""
    found = [each for c in selected(run, algorithm) if (each := played(run, c)) is not None]
    return over_seeds(found) if found else None


def only_clones(tuning: TuningRecord) -> bool:
    """Whether clones of the logs stand in for policies of known value."""
    return bool(tuning.known) and all(known.clone for known in tuning.known.values())


def known_miss(tuning: TuningRecord) -> float | None:
    """How far the evaluator missed the known policies: root mean square of estimate less truth.

    A larger error that the evaluator found itself, on policies valued without their own logs, counts instead. A clone
    may be missed by its own fault: where only clones are known, the evaluator's error alone counts.
    """
    tried, trust = tuning.chosen_evaluator, tuning.trust
    if trust is not None and only_clones(tuning):
        return trust.error
    pairs = [(p.estimate, p.truth) for p in tried.policies.values()] if tried else []
    missed = [estimate - truth for estimate, truth in pairs if estimate is not None and truth is not None]
    found = [float(np.sqrt(np.mean(np.square(missed))))] if missed else []
    return max([*found, *([trust.error] if trust is not None and trust.error is not None else [])], default=None)


def estimated(run: Run) -> Mean | None:
    """The offline value of what is deployed, no surer than the evaluator was on policies whose value is known.

    Of a single seed it is that of its configuration, the mean over all seeds.
    """
    file = chosen(run).to_deploy
    if file.value is None:
        return None
    errors = [error for error in (file.value_std_error, known_miss(run.tuning)) if error is not None]
    error = float(np.hypot.reduce(errors)) if errors else np.nan
    return Mean(file.value, error, NORMAL_95 * error, 1)


def known_truth(run: Run, role: str) -> float | None:
    """The true value of the policy behind the logs or of the expert, in the quantity that is estimated.

    None: it is not known, or several policies made that log.
    """
    known = run.tuning.known
    made = [each.truth for name, each in known.items() if (each.log or name) == role]  # older records say no log
    return made[0] if len(made) == 1 else None


def in_estimated_quantity(run: Run, candidate: Candidate) -> Mean | None:
    """What a policy was worth in the environment in the quantity that is estimated; None where that is not known."""
    true, scores = candidate.true, run.final
    if true is None or scores is None or run.tuning.gamma is None or run.tuning.reward != "logged":
        return None
    if run.tuning.horizon is not None and max(true.lengths, default=np.inf) > run.tuning.horizon:
        return None  # played for longer than the steps that count, and only whole episodes are recorded
    same_discount = scores.discount is not None and np.isclose(scores.discount, run.tuning.gamma)
    episodes = true.returns if run.tuning.gamma == 1 else true.discounted_returns if same_discount else ()
    if not episodes:
        return None
    error = float(np.std(episodes, ddof=1) / np.sqrt(len(episodes))) if len(episodes) > 1 else np.nan
    return Mean(float(np.mean(episodes)), error, NORMAL_95 * error, len(episodes))


def gain_over_logs(run: Run) -> Mean | None:
    """How much more than the logs' own episodes the policy earns from the same initial observations, by its estimate.

    What a clone of the logs is given beyond the logs is the evaluator's error, and is taken off. Where policies are
    known, but none is the one behind the logs, the gain is no surer than the evaluator was on them. None: not recorded,
    or that policy is known: how far it was missed says more.
    """
    gain = chosen(run).to_deploy.gain
    if gain is None:
        return None
    if only_clones(run.tuning):
        given, error = _given_to_clone(run), gain.std_error
    else:
        given = 0.0 if run.tuning.known and known_truth(run, "logs") is None else None
        error = float(np.hypot(gain.std_error, known_miss(run.tuning) or 0.0))
    return None if given is None else Mean(gain.value - given, error, NORMAL_95 * error, 1)


def _given_to_clone(run: Run) -> float | None:
    """What the evaluator gives a clone of the logs beyond what the logs earned, at least 0; None: not recorded."""
    tried = run.tuning.chosen_evaluator
    if tried is None or not only_clones(run.tuning):
        return None
    of_logs = [name for name, each in run.tuning.known.items() if each.log == "logs"]
    given = [own.gain.value for name in of_logs if (own := tried.policies.get(name)) is not None and own.gain]
    return max(0.0, *given) if given else None


def against_logs(run: Run, score: Mean | None) -> Standing | None:
    """How the true score, or the estimate where nothing was played, stands to the logs.

    better: its whole interval is above them. unsure: it is above them, but the interval reaches down to them. None:
    the worth of the logs is not known.
    """
    ours, logs = score, reference_score(run, "logs")
    if ours is None and (ours := gain_over_logs(run)) is not None:
        logs = 0.0
    elif ours is None:
        ours, logs = estimated(run), known_truth(run, "logs")
    if ours is None or logs is None:
        return None
    return "better" if ours.clearly_above(logs) else "unsure" if ours.value > logs else "no better"


def how_good(run: Run, algorithm: str) -> tuple[str, ...]:
    """One sentence for each thing that is known about the file's worth."""
    return (*_in_the_environment(run, algorithm), *_from_logs(run, algorithm))


def in_short(run: Run, algorithm: str) -> tuple[str, ...]:
    """Two lines that need no other: what the selected policy scores, and what everybody beside it does.

    Nothing where it was not played.
    """
    scores = {name: score for name in run.selection.algorithms if (score := _true_score(run, name)) is not None}
    if algorithm not in scores:
        return ()
    ours = scores.pop(algorithm)
    what = "scores" if scored(run) else "has a mean return of"
    rivals = [f"{display(name)} {number(score)}" for name, score in scores.items()]
    logs, expert = (reference_score(run, role) for role in ("logs", "expert"))
    beside = [] if logs is None else [f"the policy that made the logs {number(logs)}"]
    beside += [*rivals, *([] if expert is None else [f"the expert {number(expert)}"])]
    first = f"{display(algorithm)}, chosen from logs alone, {what} {number(ours)} in the environment."
    return (first, f"Beside it: {listed(beside)}.") if beside else (first,)


def _true_score(run: Run, algorithm: str) -> float | None:
    """Of the algorithm's file, or the mean of its seeds where the file was not played."""
    file, seeds = file_played(run, algorithm), seeds_played(run, algorithm)
    mean = file.mean if file else seeds
    return None if mean is None else mean.value


def _in_the_environment(run: Run, algorithm: str) -> Iterator[str]:
    """What was measured of the file, with the spread over seeds beside it."""
    file, seeds = file_played(run, algorithm), seeds_played(run, algorithm)
    score = file.mean if file else seeds
    if score is None:
        return
    unit = "normalised score" if scored(run) else "return of an episode"
    if file is None:
        assert seeds is not None
        yield f"True {unit} {plus_minus(seeds.value, seeds.half_width)}: mean of {several(seeds.runs, 'seed')}."
        yield "The file to deploy was not played itself."
    else:
        over = f"mean of {several(score.runs, 'episode')}" if score.runs else "episodes not recorded"
        spread = f", which vary by ± {number(file.spread)}" if np.isfinite(file.spread) else ""
        yield f"True {unit} of this file {plus_minus(score.value, score.half_width)} ({over}{spread})."
        if seeds is not None and seeds.runs > 1:
            values = [each.mean.value for c in selected(run, algorithm) if (each := played(run, c)) is not None]
            reach = f"{number(min(values))} to {number(max(values))}, {number(seeds.value)} on average"
            yield f"The {seeds.runs} seeds of its configuration reach {reach}."
    yield from _placed(score, reference_score(run, "logs"), reference_score(run, "expert"))


def _placed(score: Mean, logs: float | None, expert: float | None) -> Iterator[str]:
    """Where a number stands between those of the policy that made the logs and of the expert."""
    if logs is None:
        return
    side = "above" if score.value > logs else "below"
    said = f"That is {number(abs(score.value - logs))} {side} the policy that made the logs ({number(logs)})"
    if score.value > logs and not score.clearly_above(logs):
        said += ": within the interval, so the difference may be chance"
    elif expert is not None and expert > logs and score.value > logs:
        share = 100 * (score.value - logs) / (expert - logs)
        said += f", {share:.0f} % of the way to the expert ({number(expert)})"
    yield said + "."


def _from_logs(run: Run, algorithm: str) -> Iterator[str]:
    """The estimate, and the same quantity as it was played."""
    estimate, missed, file = estimated(run), known_miss(run.tuning), file_of(run, algorithm)
    if estimate is not None:
        clones = only_clones(run.tuning)
        whom = "the best clone misses its log's episodes by" if clones else "known policies were missed by"
        how = "" if missed is None else f"; {whom} {number(missed)}"
        yield f"Estimated {quantity(run)}: {plus_minus(estimate.value, estimate.half_width)} (from logs alone{how})."
    if (beside := chosen(run).to_deploy.task_return) is not None:
        yield f"In the same imagined episodes its return by the logs' rewards is {number(beside)}."
    same = in_estimated_quantity(run, file) if file else None
    if same is not None:
        yield f"In the environment this quantity was {plus_minus(same.value, same.half_width)}."
    if _true_score(run, algorithm) is not None:
        return
    gain, logs = gain_over_logs(run), known_truth(run, "logs")
    if gain is not None:
        much = f"{plus_minus(abs(gain.value), gain.half_width)} {'more' if gain.value > 0 else 'less'}"
        chance = "" if gain.value <= 0 or gain.clearly_above(0.0) else ": the difference may be chance"
        given = _given_to_clone(run)
        off = f", after {number(given)} were taken off that a clone of the logs is given too much" if given else ""
        in_all = "" if logs is None else f" ({number(logs)} in all)"
        logged = f"the logs earned from the same first observations{in_all}"
        yield f"That is {much} than {logged}{off}{chance}."
    elif estimate is not None:
        yield from _placed(estimate, logs, known_truth(run, "expert"))
    if run.played:
        yield f"{PLAYED_BY_UNKNOWN}, so this estimate is all there is to show."
    else:
        yield "No environment was played, so this estimate is all there is."
