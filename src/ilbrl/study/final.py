"""Phase 5: the selected policies are played in the environment, once; the others afterwards, where that is asked for.

Jobs of the kind `final` are the only ones that may touch an environment.
"""

from __future__ import annotations

import math
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from ilbrl import envs
from ilbrl.base.errors import IlbrlError
from ilbrl.policy import Policy
from ilbrl.results.folder import remedy
from ilbrl.results.schema import ALL_SEEDS, Reference, Score, Scores, Selection
from ilbrl.results.tables import Candidate, with_scores
from ilbrl.results.vouching import read_vouched
from ilbrl.study import uniting
from ilbrl.study.estimator import discount_of
from ilbrl.study.jobs import Assignment, Job, fingerprint, read_result
from ilbrl.study.logs import Parts
from ilbrl.study.selection import chosen_candidates
from ilbrl.study.session import Session, do
from ilbrl.study.study import Final, Study

FINAL = "final evaluation"  # the event of the audit


def final_job(
    study: Study,
    parts: Parts,
    candidates: Sequence[Candidate],
    purpose: str,
    selection: Selection | None = None,
) -> Job:
    """With the selected policies (purpose `final`) the policies behind the logs are played too, for comparison.

    selection: whose seeds are deployed together are played together too.
    """
    references = {role: fingerprint(policy) for role, policy in _behind(parts, purpose).items()}
    entries = [[*c.key, c.job, c.policy.name if c.policy else None] for c in candidates]
    if selection is not None:
        entries += [
            [name, selection.algorithms[name].configuration, ALL_SEEDS, committee.job, uniting.FILE]
            for name, committee in selection.deployed_committees.items()
        ]
    inputs = {
        "task": study.task,
        "episodes": study.final.episodes,
        "environment_seeds": study.final.environment_seeds,
        "discount": discount_of(study),
        "policies": entries,
        "purpose": purpose,
        "references": references,
    }
    return Job(
        "final",
        inputs | ({"sampled": _sampled(parts, purpose)} if parts.discrete else {}),
        upstream=tuple(sorted({job for *_, job, _ in entries if job})),
        members=len(entries) + len(references),
    )


def play(task: Assignment) -> None:
    """The work of a `final` job: every policy in the same environments, with its mean or most probable action.

    Where actions are discrete, the policy behind the logs acts as when it made them, by its probabilities: always
    taking the most probable action is another policy, which may be worse.
    """
    inputs, entries = task.inputs, task.inputs["policies"]
    envs.import_module_of(inputs["task"])  # the name was checked before the study began, perhaps on another machine
    policies = [Policy.load(task.upstream[job] / file) for _, _, _, job, file in entries]
    behind = _behind(task.parts, inputs["purpose"])
    before = asdict(envs.environment_calls(inputs["purpose"]))
    sampled = inputs.get("sampled", [])
    surely = {role: policy for role, policy in behind.items() if role not in sampled}
    played = _played([*policies, *surely.values()], inputs)
    references = dict(zip(surely, played[len(entries) :]))
    if sampled:
        references |= zip(sampled, _played([behind[role] for role in sampled], inputs, stochastic=True))
    scores = [_score(inputs["task"], entry, each) for entry, each in zip(entries, played)]
    calls = {name: n - before[name] for name, n in asdict(envs.environment_calls(inputs["purpose"])).items()}
    task.finish(
        Scores(
            episodes=inputs["episodes"],
            environment_seeds=inputs["environment_seeds"],
            environment_calls=calls,
            task=inputs["task"],
            discount=inputs["discount"],
            scores=tuple(score for score in scores if score.policy_seed != ALL_SEEDS),
            committees=tuple(score for score in scores if score.policy_seed == ALL_SEEDS),
            references={role: _reference(inputs["task"], references[role]) for role in behind},
        )
    )


Episodes = Mapping[str, np.ndarray]
"""`returns`, `discounted_returns`, `lengths` → [E]."""


def _played(policies: Sequence[Any], inputs: Mapping[str, Any], stochastic: bool = False) -> list[Episodes]:
    """The episodes of each policy: as many of each environment seed as of the others."""
    each = inputs["episodes"] // inputs["environment_seeds"]
    options = {"quiet": True, "purpose": inputs["purpose"], "gamma": inputs["discount"], "stochastic": stochastic}
    by_seed = [
        list(envs.rollout_all(policies, inputs["task"], each, seed, **options))
        for seed in range(inputs["environment_seeds"])
    ]
    names = ("returns", "discounted_returns", "lengths")
    return [
        {name: np.concatenate([getattr(of_seed[p], name) for of_seed in by_seed]) for name in names}
        for p in range(len(policies))
    ]


def _score(task: str, entry: Sequence[Any], episodes: Episodes) -> Score:
    algorithm, configuration, policy_seed, job, _ = entry
    returns = episodes["returns"]
    return Score(
        algorithm,
        configuration,
        policy_seed,
        job,
        return_mean=float(returns.mean()),
        return_std=float(returns.std(ddof=1)) if len(returns) > 1 else None,
        score=_normalised(task, returns),
        episodes=len(returns),
        **_columns(episodes),
    )


def _reference(task: str, episodes: Episodes) -> Reference:
    returns = episodes["returns"]
    return Reference(true_return=float(returns.mean()), true_score=_normalised(task, returns), **_columns(episodes))


def _normalised(task: str, returns: np.ndarray) -> float | None:
    scores = envs.normalised_score(task, returns)
    return None if scores is None else float(scores.mean())


def _columns(episodes: Episodes) -> dict[str, Any]:
    return {name: tuple(column.tolist()) for name, column in episodes.items()}


def _behind(parts: Parts, purpose: str) -> dict[str, Any]:
    """Role → the policy behind its logs, where these are played for comparison."""
    return {role: known.policy for role, known in parts.behind.items()} if purpose == "final" else {}


def _sampled(parts: Parts, purpose: str) -> list[str]:
    """Roles whose policies choose by their probabilities: that behind the logs, if it made them so."""
    sampled = {role for role, known in parts.behind.items() if known.variant == "sampled"}
    return sorted({"logs"} & sampled & _behind(parts, purpose).keys())


# --- the phase --------------------------------------------------------------------------------------------------------


def play_once(
    s: Session, parts: Parts, found: Sequence[Candidate], selection: Selection, again: bool = False
) -> Scores | None:
    """The selected policies in the environment, once; what is recorded is shown, not played again."""
    path, started, chosen = s.folder / "final.json", time.monotonic(), chosen_candidates(found, selection)
    if not chosen:
        return None
    if path.exists() and not again:
        recorded = read_scores(s, path)
        own = [c for c in with_scores(chosen, recorded.scores) if c.true is not None]
        jobs = {committee.job for committee in selection.deployed_committees.values()}
        if not len(chosen) == len(recorded.scores) == len(own) or jobs != {score.job for score in recorded.committees}:
            raise IlbrlError(
                f"{path}: holds the scores of another selection, and the final evaluation happens once; use another"
                " folder, or say --again to play these policies too, which the audit records"
            )
        s.auditor.played_once("final", recorded.environment_calls["steps"], FINAL)
        s.finished("final", "played before: the recorded scores stand (--again repeats it; the audit says so)", started)
        return recorded
    job = final_job(s.study, parts, chosen, "final", selection)
    repeated = path.exists()
    if repeated:
        s.auditor.event(f"{FINAL} repeated and overwritten by name (--again)")
        shutil.rmtree(s.store.path(job.id), ignore_errors=True)
    scores = _do(s, parts, job, "final.json")
    if repeated:
        s.auditor.played("final", scores.environment_calls["steps"])
    s.auditor.played_once("final", scores.environment_calls["steps"], FINAL)
    count = len(scores.scores) + len(scores.committees)
    s.finished("final", f"{count} policies, {scores.episodes} episodes each in {s.study.task}", started)
    return scores


def play_others(
    s: Session, parts: Parts, found: Sequence[Candidate], selection: Selection, episodes: int | None = None
) -> Scores:
    """The candidates that were not selected, for the regret of selection.

    episodes: of each, over as many environment seeds as it can be spread over evenly; by default the study's number.
    """
    selected = {c.key for c in chosen_candidates(found, selection)}
    others = [c for c in found if c.key not in selected and not c.diverged]
    if not others:
        raise IlbrlError(
            f"{s.folder}: nothing is left to reveal: every policy that did not diverge was selected and played"
        )
    study = s.study
    if episodes is not None:
        seeds = math.gcd(episodes, study.final.environment_seeds)
        study = replace(study, final=Final(episodes, seeds))
    scores = _do(s, parts, final_job(study, parts, others, "reveal"), "reveal.json")
    what = f"revealed: {len(others)} candidates that were not selected were played, {scores.episodes} episodes each"
    s.auditor.played_once("reveal", scores.environment_calls["steps"], what)
    return scores


def _do(s: Session, parts: Parts, job: Job, name: str) -> Scores:
    (result,) = do(s, parts, [job])
    scores = read_result(result, Scores)
    s.keep(name, scores)
    return scores


def read_scores(s: Session, path: Path) -> Scores:
    """final.json or reveal.json, if it is what this study wrote."""
    scores = read_vouched(path, Scores, s.auditor.audit, remedy(path))
    if "steps" not in scores.environment_calls:
        raise IlbrlError(f"{path}: environment_calls.steps: not there; {remedy(path)}")
    return scores
