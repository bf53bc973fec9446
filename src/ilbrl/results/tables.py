"""The tables of a run folder: results.csv, curves.csv and values.csv, their columns once, and what rows add up to."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from ilbrl.base.records import read_csv
from ilbrl.results.schema import (
    ALL_SEEDS,
    CONVERGENCE,
    Chosen,
    Committee,
    EstimateRecord,
    EvaluatedRecord,
    Gain,
    Grade,
    Score,
    Scores,
    Selection,
    TrainedRecord,
    Valuation,
)

NO_VERDICT = "no verdict"
Key = tuple[str, int, int]  # algorithm, configuration, policy seed


class ResultRow(NamedTuple):
    """results.csv: one row per candidate, evaluation seed and, where an estimator has an ensemble, its member."""

    study: str
    task: str
    algorithm: str
    configuration: int
    policy_seed: int
    evaluation_seed: int | None
    offline_value: float | None
    verdict: str | None
    decided_at: int | None
    diverged: bool
    selected: bool
    true_return: float | None
    true_score: float | None
    true_episodes: int | None
    updates: int | None
    seconds: float | None
    hyperparameters: dict[str, Any] | None
    device: str | None
    distance: float | None = None
    versions: dict[str, Any] | None = None
    grade: Grade | None = None
    member: int | None = None
    task_return: float | None = None
    std_error: float | None = None


class CurveRow(NamedTuple):
    """curves.csv: a training metric of a candidate after some updates."""

    algorithm: str
    configuration: int
    policy_seed: int
    update: int
    metric: str
    value: float | None


class ValueRow(NamedTuple):
    """values.csv: an offline value after some updates, of a known policy (`tuning`) or of a candidate."""

    stage: Literal["tuning", "candidates"]
    policy: str | None
    algorithm: str | None
    configuration: int | None
    policy_seed: int | None
    ope_configuration: str
    evaluation_seed: int
    update: int
    value: float | None
    task: str | None = None


class Curve(NamedTuple):
    """[C] updates and [C] values; who they belong to is the key under which a curve is kept."""

    updates: np.ndarray
    values: np.ndarray


@dataclass(frozen=True)
class Candidate:
    """One trained policy, what its offline evaluations said, and its true score where it was played."""

    algorithm: str
    configuration: int
    policy_seed: int
    hyperparameters: dict[str, Any] = field(default_factory=dict)
    diverged: bool = False  # in training
    estimates: tuple[EstimateRecord, ...] = ()  # one per evaluation seed or member; none where training diverged
    counted: tuple[Grade, ...] = ("sound",)  # the grades of those that count
    penalty: float = 0.0  # standard deviations over those by which they are lowered
    std_error: float | None = None  # of their mean, as the estimator says it
    distance: float | None = None  # from the data; None where it is not known
    gain: Gain | None = None  # over the logs; not in results.csv
    task_return: float | None = None  # estimated beside a value of closeness, where the logs carry rewards
    selected: bool = False
    true: Score | None = None
    policy: Path | None = None
    updates: int | None = None
    seconds: float | None = None
    device: str | None = None
    versions: Mapping[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> Key:
        return self.algorithm, self.configuration, self.policy_seed

    @property
    def job(self) -> str | None:
        """Id of the job that trained it."""
        return None if self.policy is None else self.policy.parent.name

    @property
    def verdicts(self) -> tuple[str, ...]:
        """One per evaluation, in the estimator's words."""
        return tuple(e.verdict or NO_VERDICT for e in self.estimates)

    @property
    def verdict(self) -> str:
        """The gravest of its evaluations."""
        if self.diverged:
            return "diverged"
        by_grade = {e.grade: e.verdict for e in self.estimates}
        gravest = next((grade for grade in ("void", "doubtful", None, "sound") if grade in by_grade), None)
        return by_grade.get(gravest) or NO_VERDICT

    def values(self, *grades: Grade | None) -> list[float]:
        """Of the evaluations with one of these grades."""
        return [e.value for e in self.estimates if e.grade in grades and e.value is not None]

    @property
    def offline_value(self) -> float | None:
        """Mean over the evaluations that count in the selection, and those that no verdict speaks against, less the
        penalty on their disagreement."""
        return lowered_mean(self.values(*self.counted, None), self.penalty)

    @property
    def offline_std_error(self) -> float | None:
        """As the estimator says it. In tables of older runs that is not recorded: there it is the spread of the same
        evaluations, divided by the root of their number unless they are rivals."""
        values = self.values(*self.counted, None)
        if self.std_error is not None or len(values) < 2:
            return self.std_error
        return float(np.std(values, ddof=1)) / (1.0 if self.rivals else float(np.sqrt(len(values))))

    @property
    def rivals(self) -> bool:
        """Whether its evaluations are by models, of which one may be right, and are no repetitions."""
        return any(e.member is not None for e in self.estimates)

    @property
    def unsettled_value(self) -> float | None:
        """Mean of the doubtful evaluations where these do not count: where they stood at the end."""
        return None if "doubtful" in self.counted else lowered_mean(self.values("doubtful"), self.penalty)

    @property
    def true_return(self) -> float | None:
        return None if self.true is None else self.true.return_mean

    @property
    def true_score(self) -> float | None:
        return None if self.true is None else self.true.score

    @property
    def true_episodes(self) -> int | None:
        return None if self.true is None else self.true.episodes


def lowered_mean(values: Sequence[float], penalty: float = 0.0) -> float | None:
    """The mean, less `penalty` standard deviations; None where there are no values."""
    if not values:
        return None
    spread = float(np.std(values, ddof=1)) if penalty and len(values) > 1 else 0.0
    return float(np.mean(values)) - penalty * spread


def candidates_of_jobs(trained: Mapping[Path, TrainedRecord], evaluated: Iterable[EvaluatedRecord]) -> list[Candidate]:
    """Every candidate of finished training jobs (by their folders), with the estimates of finished evaluation jobs."""
    judged = {
        (each.algorithm, each.configuration, each.policy_seed): each for record in evaluated for each in record.policies
    }
    found = []
    for folder, record in trained.items():
        for m in record.members:
            of_policy = judged.get((record.algorithm, m.configuration, m.policy_seed))
            found.append(
                Candidate(
                    record.algorithm,
                    m.configuration,
                    m.policy_seed,
                    m.hyperparameters,
                    diverged=m.diverged_at >= 0,
                    policy=folder / m.policy,
                    updates=record.updates,
                    seconds=record.seconds,
                    device=record.device,
                    versions=record.versions,
                    **vars(of_policy.valuation if of_policy else Valuation()),
                )
            )
    order = list(dict.fromkeys(c.algorithm for c in found))
    return sorted(found, key=lambda c: (order.index(c.algorithm), c.configuration, c.policy_seed))


def all_scores(final: Scores | None, reveal: Scores | None) -> list[Score]:
    """Of both evaluations; where both know a policy, the final one stands last, which `with_scores` takes."""
    return [*(reveal.scores if reveal else ()), *(final.scores if final else ())]


def with_scores(candidates: Iterable[Candidate], scores: Iterable[Score]) -> list[Candidate]:
    """The candidates with their true scores: of several scores the last.

    A score of a policy that another job trained is ignored.
    """
    by_key = {(s.algorithm, s.configuration, s.policy_seed): s for s in scores}
    found = []
    for c in candidates:
        score = by_key.get(c.key)
        own = score is not None and (c.job is None or score.job in (None, c.job))
        found.append(replace(c, true=score) if own else c)
    return found


def score_to_deploy(selection: Selection, scores: Scores | None, algorithm: str) -> Score | None:
    """Of an algorithm's best.safetensors; None: it was not played. A score of another job's committee is ignored."""
    entry = selection.algorithms.get(algorithm)
    if entry is None or scores is None:
        return None
    key, committee = (algorithm, entry.configuration, entry.deployed_seed), entry.deployed_committee
    every = scores.scores if committee is None else [s for s in scores.committees if s.job in (None, committee.job)]
    return next((s for s in every if (s.algorithm, s.configuration, s.policy_seed) == key), None)


def committee_as_candidate(algorithm: str, entry: Chosen, committee: Committee, penalty: float) -> Candidate:
    """All seeds of a selected configuration, judged by the rules for one."""
    assert entry.configuration is not None
    return Candidate(
        algorithm,
        entry.configuration,
        ALL_SEEDS,
        entry.hyperparameters,
        counted=entry.counted,
        penalty=penalty,
        selected=True,
        **vars(committee.valuation),
    )


def as_selected(candidates: Iterable[Candidate], selection: Selection) -> list[Candidate]:
    """The candidates, valued as they were when the selection was made from them."""
    counted = {name: entry.counted for name, entry in selection.algorithms.items()}
    return [replace(c, counted=counted.get(c.algorithm, c.counted), penalty=selection.penalty) for c in candidates]


def result_rows(
    candidates: Iterable[Candidate], study: str, task: str, evaluation_seeds: Iterable[int]
) -> Iterator[ResultRow]:
    """The rows of results.csv; a policy whose training diverged has a row per evaluation that it would have had."""
    nothing = [EstimateRecord(seed, None, "diverged", "void") for seed in evaluation_seeds]
    for c in candidates:
        for e in c.estimates or nothing:
            yield ResultRow(
                study, task, *c.key, e.evaluation_seed, e.value, e.verdict, e.decided_at, c.diverged, c.selected,
                c.true_return, c.true_score, c.true_episodes, c.updates,
                None if c.seconds is None else round(c.seconds, 3), c.hyperparameters, c.device, c.distance,
                dict(c.versions), e.grade, e.member, c.task_return, c.std_error,
            )  # fmt: skip


def candidates_of_rows(rows: Iterable[ResultRow]) -> list[Candidate]:
    """The candidates of results.csv."""
    members: dict[Key, list[ResultRow]] = defaultdict(list)
    for row in rows:
        members[row.algorithm, row.configuration, row.policy_seed].append(row)
    return [_candidate(key, own) for key, own in members.items()]


def _candidate(key: Key, rows: Sequence[ResultRow]) -> Candidate:
    first = rows[0]
    played = first.true_return is not None or first.true_score is not None
    true = Score(*key, return_mean=first.true_return, score=first.true_score, episodes=first.true_episodes)
    return Candidate(
        *key,
        first.hyperparameters or {},
        diverged=any(row.diverged for row in rows),
        estimates=tuple(
            EstimateRecord(
                row.evaluation_seed,
                row.offline_value,
                row.verdict,
                row.grade or CONVERGENCE.get(row.verdict or ""),
                row.decided_at,
                row.member,
            )
            for row in rows
        ),
        std_error=first.std_error,
        distance=first.distance,
        task_return=first.task_return,
        selected=any(row.selected for row in rows),
        true=true if played else None,
        updates=first.updates,
        seconds=first.seconds,
        device=first.device,
        versions=first.versions or {},
    )


def join_tables(kind: type, parts: Iterable[Path], remedy: Callable[[Path], str], **filled: Any) -> Iterator[Any]:
    """The rows of several files of one kind, some columns `filled` alike in every row."""
    for part in parts:
        for row in read_csv(part, kind, remedy=remedy(part)):
            yield row._replace(**filled)


def curves(rows: Iterable[Any], *key: str) -> dict[tuple, Curve]:
    """Rows with `update` and `value` as curves, by the columns `key`."""
    found: dict[tuple, list[tuple[float, float]]] = defaultdict(list)
    for row in rows:
        point = (row.update, np.nan if row.value is None else row.value)
        found[tuple(getattr(row, name) for name in key)].append(point)
    return {name: Curve(*np.array(sorted(points, key=lambda point: point[0])).T) for name, points in found.items()}
