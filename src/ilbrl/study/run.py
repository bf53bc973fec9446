"""Algorithm 2 from end to end: logs → split → tune the evaluator → train → evaluate offline → select → play once.

Everything up to selection runs with environments closed (`envs.closed`): candidates cannot touch one, whatever an
algorithm tries.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ilbrl import envs
from ilbrl.base.errors import IlbrlError
from ilbrl.policy import Policy
from ilbrl.study import phases
from ilbrl.study.folder import read_json, write_json
from ilbrl.study.kinds import final
from ilbrl.study.narration import duration
from ilbrl.study.session import do, open_session, showing_progress
from ilbrl.study.study import Study


@dataclass(frozen=True)
class StudyResult:
    """What a study came to; everything is also in its folder."""

    folder: Path
    tuning: Mapping[str, Any]
    selection: Mapping[str, Any]
    final: Mapping[str, Any] | None  # None: no environment was given, or nothing was selected
    roles: Mapping[str, str] = field(default_factory=dict)  # known policy → whose episodes are its own

    @property
    def nothing(self) -> str | None:
        """Why nothing was selected; None where something was."""
        return self.selection["nothing"]

    @property
    def policy(self) -> Policy:
        """The best seed of the selected configuration of the selected algorithm."""
        if self.nothing:
            raise IlbrlError(self.nothing)
        return Policy.load(self.folder / self.selection["overall"]["policy"])


def run(
    study: Study,
    out: Path,
    *,
    executor: str = "local",
    change: bool = False,
    again: bool = False,
    dashboards: Sequence[str] = (),
    quiet: bool = False,
    command: str | None = None,
    **options: Any,
) -> StudyResult:
    """All phases, in the folder `out`; what an earlier run finished there is not done again.

    executor: "local" or "ray"; `options` are the executor's own (Ray's `address`).
    change: go on in a folder whose study differed; only what depends on the difference is computed again.
    again: repeat the final evaluation although it was done, which the audit records.
    dashboards: names from `ilbrl.learning.loggers.DASHBOARDS` that are told of training metrics, job by job.
    """
    with open_session(study, out, executor, change, dashboards, quiet, command, options) as s:
        before = _candidates_calls()
        with envs.closed("a study before its selection"):
            parts = phases.prepare(s)
            with showing_progress(s) as working:
                tuning = phases.tune_evaluator(working, parts)
                trained = phases.train_candidates(working, parts)
                evaluated = phases.evaluate_candidates(working, parts, trained, tuning)
            found = phases.candidates(s, trained, evaluated)
            selection = phases.select_and_export(s, found, tuning)
        s.audit.played("candidates_before_selection", _candidates_calls() - before)
        played = phases.play_once(s, parts, found, selection, again) if study.task else None
        phases.write_results(s, found, selection)
        s.audit.finish()
        s.narrator.say(f"done in {s.narrator.elapsed}: {out}")
        return StudyResult(out, tuning, selection, played, parts.roles)


def reveal(out: Path, *, executor: str = "local", quiet: bool = False, **options: Any) -> dict[str, Any]:
    """After the final evaluation: play the candidates that were not selected, for the regret of selection."""
    if not (out / "study.toml").exists():
        raise IlbrlError(f"{out}: is no run folder: it has no study.toml")
    study = Study.load(out / "study.toml")
    if study.task is None:
        raise IlbrlError(f"{out}: its study names no task, so there is no environment to play anything in")
    if not (out / "final.json").exists():
        raise IlbrlError(f"{out}: has no final.json; the others can be revealed once the selected policies were played")
    with open_session(study, out, executor, quiet=quiet, options=options) as s:
        parts = phases.prepare(s)
        tuning = read_json(out / "tuning.json", "configurations", "chosen", "updates")
        trained = phases.training_jobs(study, parts)
        evaluated = phases.evaluation_jobs(study, parts, trained, tuning)
        if missing := [job.id for job in (*trained, *evaluated) if not s.store.has(job)]:
            raise IlbrlError(
                f"{out}: {len(missing)} jobs are missing ({missing[0]}, …); run the study to its end first"
            )
        for job in (*trained, *evaluated):
            s.store.check(job)
        found, selection = phases.candidates(s, trained, evaluated), read_json(out / "selection.json", "algorithms")
        selected = phases.chosen_candidates(found, selection)
        others = [c for c in found if c not in selected and not c.diverged]
        if not others:
            raise IlbrlError(
                f"{out}: nothing is left to reveal: every policy that did not diverge was selected and played"
            )
        started = time.monotonic()
        job = final.job(study, parts, [phases.as_entry(c) for c in others], "reveal")
        (result,) = do(s, parts, [job])
        scores = read_json(result / "result.json", *phases.SCORES)
        write_json(out / "reveal.json", scores)
        what = f"revealed: {len(others)} candidates that were not selected were played"
        s.audit.played_once("reveal", scores["environment_calls"]["steps"], what)
        phases.write_results(s, found, selection)
        took = duration(time.monotonic() - started)
        s.narrator.say(f"reveal: {len(others)} policies that were not selected ({took})")
        return scores


def _candidates_calls() -> int:
    """Environment calls of any kind in this process, except collection's."""
    everything, collection = envs.environment_calls(), envs.environment_calls("collection")
    return sum(getattr(everything, n) - getattr(collection, n) for n in ("environments", "resets", "steps"))
