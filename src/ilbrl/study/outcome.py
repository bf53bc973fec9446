"""What a study leaves of its candidates: the selected policies as files, warnings about them, and results.csv."""

from __future__ import annotations

import re
from collections.abc import Sequence, Set
from dataclasses import replace
from pathlib import Path

from ilbrl import ope
from ilbrl.agents import AGENTS
from ilbrl.policy import Policy
from ilbrl.results.schema import Chosen, Selection, TuningRecord
from ilbrl.results.tables import Candidate, ResultRow, all_scores, result_rows, with_scores
from ilbrl.study import final, uniting
from ilbrl.study.estimator import estimator_of
from ilbrl.study.selection import chosen_candidates
from ilbrl.study.session import Session

EXPORTED = re.compile(r"(best|seed\d+)\.safetensors")  # in the folder of an algorithm


def export(s: Session, found: Sequence[Candidate], selection: Selection, tuning: TuningRecord) -> Selection:
    """policies/: all seeds of every selected configuration, and what to deploy; the selection with their paths.

    Each file replaces its predecessor in one step; only files of earlier selections are removed.
    """
    algorithms, overall, kept = dict(selection.algorithms), selection.overall, set[Path]()
    exported = s.folder / "policies"
    for place in (exported, *(exported / name for name in AGENTS)):
        if place.is_symlink() or place.is_file():  # somebody's; what it leads to is left alone
            place.unlink()
    for c in chosen_candidates(found, selection):
        entry = algorithms[c.algorithm]
        assert c.policy is not None
        policy = _told(Policy.load(c.policy), s, entry, entry.value, tuning)
        file = Path(c.algorithm) / f"seed{c.policy_seed}.safetensors"
        kept.add(policy.save(exported / file))
        algorithms[c.algorithm] = replace(entry, policies=(*entry.policies, f"policies/{file}"))
        if c.policy_seed == entry.deployed_seed:
            kept.add(policy.save(exported / c.algorithm / "best.safetensors"))
    for name, entry in algorithms.items():
        if (committee := entry.deployed_committee) is not None:
            made = Policy.load(s.store.path(committee.job or "") / uniting.FILE)
            policy = _told(made, s, entry, committee.value, tuning)
            kept.add(policy.save(exported / name / "best.safetensors"))
        best = exported / name / "best.safetensors"
        if overall is not None and name == overall.algorithm and best in kept:
            kept.add(Policy.load(best).save(exported / "best.safetensors"))
            overall = replace(overall, policy="policies/best.safetensors")
    _remove_earlier(exported, kept)
    return replace(selection, algorithms=algorithms, overall=overall)


def _told(policy: Policy, s: Session, entry: Chosen, value: float | None, tuning: TuningRecord) -> Policy:
    """The policy with what the study knows of it; value: its own, or the mean over all seeds of a single one's."""
    return policy.with_metadata(
        study=s.study.name, task=s.study.task, configuration=entry.configuration, offline_value=value,
        offline_quantity=tuning.quantity, trust=tuning.trust.verdict if tuning.trust else None,
    )  # fmt: skip


def _remove_earlier(exported: Path, kept: Set[Path]) -> None:
    """The policies that an earlier selection exported, and folders that are empty then; what else is there stays."""
    folders = [exported / name for name in AGENTS]
    own = (file for folder in folders for file in folder.glob("*.safetensors") if EXPORTED.fullmatch(file.name))
    for file in {*own, exported / "best.safetensors"} - kept:
        if file.is_file():
            file.unlink()
    for folder in (*folders, exported):
        if folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()


def warned(tuning: TuningRecord, found: Sequence[Candidate], selection: Selection) -> TuningRecord:
    """With warnings about the best policies: led farther from the data, or valued higher, than any known policy."""
    assert tuning.trust is not None
    limit, error = tuning.trust.distance_limit, tuning.trust.error or 0.0
    best = [c for c in chosen_candidates(found, selection) if c.policy_seed == _best_seed(c, selection)]
    away = {c.algorithm: c.distance for c in best}
    away |= {name: committee.valuation.distance for name, committee in selection.deployed_committees.items()}
    distances = {name: distance for name, distance in away.items() if distance is not None}
    worth = {name: entry.to_deploy.value for name, entry in selection.algorithms.items()}
    values = {name: value for name, value in worth.items() if value is not None}
    truths = [known.truth for known in tuning.known.values() if known.truth is not None]
    clones = all(known.clone for known in tuning.known.values())
    trust = replace(
        tuning.trust,
        distance_warning=None if limit is None else ope.distance_warning(distances, limit, clones),
        value_warning=ope.value_warning(values, max(truths), error, clones) if truths else None,
    )
    return replace(tuning, trust=trust)


def _best_seed(c: Candidate, selection: Selection) -> int | None:
    return selection.algorithms[c.algorithm].best_seed


def write_results(s: Session, found: Sequence[Candidate], selection: Selection) -> None:
    """results.csv, with the true scores that are known by now."""
    paths = (s.folder / "final.json", s.folder / "reveal.json")
    played, revealed = (final.read_scores(s, path) if path.exists() else None for path in paths)
    scored = with_scores(found, all_scores(played, revealed))
    chosen = {name: entry.configuration for name, entry in selection.algorithms.items()}
    marked = [replace(c, selected=chosen.get(c.algorithm) == c.configuration) for c in scored]
    seeds = estimator_of(s.study).seeds
    s.keep_table("results.csv", ResultRow, result_rows(marked, s.study.name, s.study.label, seeds))
