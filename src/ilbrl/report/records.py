"""What the JSON files of a run folder hold, name for name as in docs/runs.md.

Everything has a default: a run that was interrupted, or made by an older version, leaves fields out.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Source:
    source: str | None = None
    content_hash: str | None = None
    transitions: int | None = None
    episodes: int | None = None


@dataclass(frozen=True)
class Event:
    time: str | None = None
    what: str | None = None


@dataclass(frozen=True)
class Audit:
    study_hash: str | None = None
    command: str | None = None
    started: str | None = None
    finished: str | None = None
    seeds: Any = None
    ranges: dict[str, Any] = field(default_factory=dict)
    data: dict[str, Source] = field(default_factory=dict)
    splits: dict[str, Source] = field(default_factory=dict)
    versions: dict[str, Any] = field(default_factory=dict)
    commit: str | None = None
    device: Any = None
    executor: Any = None
    environment_calls: dict[str, Any] = field(default_factory=dict)
    events: tuple[Event, ...] = ()


@dataclass(frozen=True)
class Finding:
    level: str = "note"
    what: str = ""
    where: str | None = None
    remedy: str | None = None


@dataclass(frozen=True)
class Logs:
    role: str | None = None
    source: str | None = None
    transitions: int | None = None
    episodes: int | None = None
    return_mean: float | None = None
    return_std: float | None = None
    returns: tuple[float, ...] = ()
    length_mean: float | None = None
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True)
class Labels:
    d_max: float | None = None
    bins: tuple[float, ...] = ()
    expert: tuple[float, ...] = ()
    exploratory: tuple[float, ...] = ()
    coverage: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Reference:
    logged_return: float | None = None
    logged_score: float | None = None
    true_return: float | None = None
    true_score: float | None = None


@dataclass(frozen=True)
class Data:
    datasets: dict[str, Logs] = field(default_factory=dict)
    splits: dict[str, Source] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    labels: Labels | None = None
    references: dict[str, Reference] = field(default_factory=dict)


@dataclass(frozen=True)
class KnownEstimate:
    estimate: float | None = None
    std_error: float | None = None
    truth: float | None = None
    truth_std_error: float | None = None
    verdict: str | None = None
    per_seed: tuple[float | None, ...] = ()


@dataclass(frozen=True)
class Evaluator:
    """One configuration of the off-policy evaluator that was tried."""

    id: Any = None
    expert_fraction: float | None = None
    lr: float | None = None
    target_update_every: float | None = None
    rank_error: float | None = None
    value_error: float | None = None
    diverged: Any = None
    policies: dict[str, KnownEstimate] = field(default_factory=dict)


@dataclass(frozen=True)
class Trust:
    verdict: str | None = None
    reasons: tuple[str, ...] = ()
    rule: str | None = None
    rank_error: float | None = None
    spearman: float | None = None
    kendall: float | None = None
    relative_value_error: float | None = None
    regret_at_1: float | None = None
    regret_at_k: Any = None
    intervals: Any = None
    distance_warning: Any = None


@dataclass(frozen=True)
class Known:
    source: str | None = None
    variant: str | None = None
    truth: float | None = None
    truth_std_error: float | None = None
    episodes: int | None = None


@dataclass(frozen=True)
class Tuning:
    configurations: tuple[Evaluator, ...] = ()
    chosen: Any = None
    updates: int | None = None
    trust: Trust | None = None
    known: dict[str, Known] = field(default_factory=dict)

    @property
    def chosen_evaluator(self) -> Evaluator | None:
        return next((each for each in self.configurations if each.id == self.chosen), None)


@dataclass(frozen=True)
class Ranked:
    configuration: int | None = None
    value: float | None = None
    converged_share: float | None = None
    eligible: bool | None = None


@dataclass(frozen=True)
class Chosen:
    """What was selected within one algorithm."""

    configuration: int | None = None
    hyperparameters: dict[str, Any] = field(default_factory=dict)
    value: float | None = None
    value_std_error: float | None = None
    eligible: Any = None
    converged_share: float | None = None
    best_seed: int | None = None
    policies: tuple[str, ...] = ()
    table: tuple[Ranked, ...] = ()
    reason: str | None = None

    @property
    def moving(self) -> bool:
        """Whether evaluations that had not converged had to count, of which only the reason tells."""
        return "still moving" in (self.reason or "")


@dataclass(frozen=True)
class Overall:
    algorithm: str | None = None
    configuration: int | None = None
    policy: str | None = None
    value: float | None = None
    reason: str | None = None


@dataclass(frozen=True)
class Selection:
    algorithms: dict[str, Chosen] = field(default_factory=dict)
    overall: Overall | None = None
    nothing: str | None = None


@dataclass(frozen=True)
class Score:
    algorithm: str = ""
    configuration: int | None = None
    policy_seed: int | None = None
    return_mean: float | None = None
    return_std: float | None = None
    score: float | None = None
    episodes: int | None = None


@dataclass(frozen=True)
class Scores:
    """final.json and reveal.json."""

    episodes: int | None = None
    environment_seeds: Any = None
    environment_calls: Any = None
    task: str | None = None
    scores: tuple[Score, ...] = ()
    references: dict[str, Reference] = field(default_factory=dict)
