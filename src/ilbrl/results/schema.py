"""Everything a run folder holds, each record once: the study writes these types and the report reads them.

A name that ends in Record is what a file keeps of an object of another room (an estimate, a trust report, labels).
Every field that an interrupted or older run may lack has a default. docs/runs.md explains the files to people.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

ROLES = ("expert", "logs")  # D_E and D_X
KNOWN = "known."  # begins, beside the roles, the name of a known policy's own episodes: known.operator
PARTS = ("training_expert", "training_logs", "evaluation_expert", "evaluation_logs", "validation")
STAGES = ("collection", "candidates_before_selection", "final", "reveal")  # when environments were played

Grade = Literal["sound", "doubtful", "void"]
"""What an estimator's verdict means: a void value does not count, a doubtful one has not settled or is far from the
logs."""
Rule = Literal["converged", "all"]
"""By which evaluations a configuration is judged; `ilbrl.study.selection` explains both rules."""
TrustWord = Literal["trust", "care", "distrust"]
"""How far an estimator is to be trusted; `ilbrl.ope.trust` has the rule."""
CONVERGENCE: dict[str, Grade] = {"converged": "sound", "moving": "doubtful", "diverged": "void"}
"""Verdicts on values that settle over updates, from good to bad. Tables of older runs have these words alone."""
NORMAL_95 = 1.959963984540054  # standard errors on each side of a normal 95 % interval


# --- audit.json -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Size:
    """How much data a part of a split holds."""

    transitions: int | None = None
    episodes: int | None = None
    content_hash: str | None = None


@dataclass(frozen=True)
class Source(Size):
    """Logs as they were read."""

    source: str | None = None


@dataclass(frozen=True)
class Event:
    time: str | None = None
    what: str | None = None


@dataclass(frozen=True)
class Audit:
    """What a study used, and what it touched when."""

    study_hash: str | None = None
    command: str | None = None  # the first one given here
    started: str | None = None
    finished: str | None = None
    seeds: dict[str, Any] = field(default_factory=dict)
    ranges: dict[str, Any] = field(default_factory=dict)  # algorithm → hyper-parameter → kind and values
    data: dict[str, Source] = field(default_factory=dict)  # by role, or known.NAME
    splits: dict[str, Size] = field(default_factory=dict)  # by part
    versions: dict[str, str] = field(default_factory=dict)
    commit: str | None = None  # of the first run here
    recipe: int | None = None  # of its jobs: those of another one are done anew; None: an older one
    device: str | None = None
    executor: str | None = None
    environment_calls: dict[str, int] = field(default_factory=dict)  # stage → environment steps
    files: dict[str, str] = field(default_factory=dict)  # file of this folder → SHA-256 of what the study wrote
    jobs: dict[str, str] = field(default_factory=dict)  # id of a job → SHA-256 of its job.json
    events: tuple[Event, ...] = ()


# --- data.json --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class FindingRecord:
    """Something that the doctor found."""

    level: str = "note"
    what: str = ""
    where: str | None = None
    remedy: str | None = None


@dataclass(frozen=True)
class LogsRecord:
    role: str | None = None
    source: str | None = None
    transitions: int | None = None
    episodes: int | None = None
    return_mean: float | None = None
    return_std: float | None = None
    returns: tuple[float, ...] = ()  # at most 500
    length_mean: float | None = None
    findings: tuple[FindingRecord, ...] = ()


@dataclass(frozen=True)
class LabelsRecord:
    """Histograms of the intrinsic rewards of the training part, and how well the logs cover the expert."""

    d_max: float | None = None
    bins: tuple[float, ...] = ()  # edges
    expert: tuple[float, ...] = ()  # counts
    logs: tuple[float, ...] = ()
    coverage: dict[str, float] = field(default_factory=dict)  # covered_share, mean_reward


@dataclass(frozen=True)
class ImaginedRecord:
    """What was imagined for the algorithms that ask for it."""

    rows: int
    episodes: int
    terminals: int


@dataclass(frozen=True)
class Reference:
    """The policy behind logs: as logged, and as played.

    It plays with its mean or most probable action; the one behind discrete `logs` by its probabilities.
    """

    logged_return: float | None = None
    logged_score: float | None = None
    true_return: float | None = None
    true_score: float | None = None
    returns: tuple[float, ...] = ()  # of each episode played
    discounted_returns: tuple[float, ...] = ()
    lengths: tuple[int, ...] = ()


@dataclass(frozen=True)
class DataRecord:
    datasets: dict[str, LogsRecord] = field(default_factory=dict)  # by role, or known.NAME
    splits: dict[str, Size] = field(default_factory=dict)  # by part
    notes: tuple[str, ...] = ()
    labels: LabelsRecord | None = None
    references: dict[str, Reference] = field(default_factory=dict)  # by role


# --- tuning.json: how an estimator was calibrated on the known policies -----------------------------------------------


@dataclass(frozen=True)
class Gain:
    """How much more a policy earns, by its estimate, than the logs' own episodes from the same initial observations.

    Both begin alike, so that good and bad beginnings are no part of its error; the disagreement of models is.
    """

    value: float
    std_error: float


@dataclass(frozen=True)
class KnownEstimate:
    """What a setting of the estimator says of one known policy."""

    estimate: float | None = None
    std_error: float | None = None
    truth: float | None = None
    truth_std_error: float | None = None
    verdict: str | None = None
    per_seed: tuple[float | None, ...] = ()  # by evaluation seed, or by member of the ensemble
    gain: Gain | None = None  # over the logs; None: not known


@dataclass(frozen=True)
class TriedSetting:
    """One setting of the estimator that was tried."""

    id: int | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    rank_error: float | None = None
    value_error: float | None = None  # mean |V − truth|, as a share of the spread of the truths
    diverged: int | None = None  # known policies whose value is void
    policies: dict[str, KnownEstimate] = field(default_factory=dict)
    unseen: dict[str, KnownEstimate] = field(default_factory=dict)  # valued without their own logs


@dataclass(frozen=True)
class CheckRecord:
    """Estimates of the known policies against their true values; errors are shares of the spread of the true values."""

    rank_error: float | None = None
    spearman: float | None = None
    kendall: float | None = None
    bias: float | None = None
    relative_value_error: float | None = None
    regret_at_1: float | None = None
    regret_at_k: tuple[float | None, ...] = ()


@dataclass(frozen=True)
class TrustRecord(CheckRecord):
    """How far the estimator can be trusted; the numbers are those of the chosen setting, of policies whose own logs are
    among the evidence."""

    unseen: CheckRecord | None = None  # the same without their own logs
    verdict: TrustWord | None = None
    reasons: tuple[str, ...] = ()
    rule: str | None = None
    intervals: dict[str, tuple[float | None, ...]] = field(default_factory=dict)
    distances: dict[str, float | None] = field(default_factory=dict)  # of the known policies
    distance_limit: float | None = None  # the verdict speaks about no policy beyond it
    distance_warning: str | None = None  # selected policies beyond it
    value_warning: str | None = None  # selected policies that are valued above every known one
    error: float | None = None  # of the estimator on the known policies, in the units of the values


@dataclass(frozen=True)
class KnownRecord:
    source: str | None = None
    variant: str | None = None
    truth: float | None = None
    truth_std_error: float | None = None
    episodes: int | None = None
    log: str | None = None  # the log that it made, or that it was cloned from
    clone: bool = False  # the truth is that of the log's episodes, which are not the clone's own


@dataclass(frozen=True)
class ErrorsRecord:
    """How right the models of one ensemble are on held-out episodes, in standard deviations of the observations."""

    held_out_loss: tuple[float | None, ...] = ()  # by model: the lowest one-step loss, at which it stopped
    steps: tuple[int, ...] = ()
    many_step: tuple[tuple[float | None, ...], ...] = ()  # [model][steps] error after so many steps
    left_out: tuple[int, ...] = ()  # seeds of models that were much worse than the others


@dataclass(frozen=True)
class TuningRecord:
    estimator: str = "expected_sarsa"
    quantity: str = "discounted value"  # what its numbers are about, in words
    gamma: float | None = None  # of that quantity; 1: the return of an episode
    horizon: int | None = None  # of that quantity: steps that count; None: all of an episode, or not recorded
    reward: str | None = None  # of that quantity: "logged", or the intrinsic one
    configurations: tuple[TriedSetting, ...] = ()
    chosen: int | None = None
    config: dict[str, Any] = field(default_factory=dict)  # what candidates are valued with
    updates: int | None = None  # of each evaluation of a candidate
    trust: TrustRecord | None = None
    known: dict[str, KnownRecord] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    evidence: dict[str, str] = field(default_factory=dict)  # log → content hash: the verdict is about these logs
    model_errors: tuple[ErrorsRecord, ...] = ()  # by evaluation seed, where the estimator learns models

    @property
    def chosen_evaluator(self) -> TriedSetting | None:
        return next((each for each in self.configurations if each.id == self.chosen), None)


# --- jobs -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class JobRecord:
    """job.json of a finished job."""

    kind: str
    inputs: dict[str, Any]
    upstream: tuple[str, ...]  # ids
    files: dict[str, str]  # name → SHA-256


@dataclass(frozen=True)
class TrainedMember:
    """One policy of a training job."""

    configuration: int
    policy_seed: int
    hyperparameters: dict[str, Any]
    policy: str  # file
    diverged_at: int  # −1: never


@dataclass(frozen=True)
class TrainedRecord:
    algorithm: str
    members: tuple[TrainedMember, ...]
    updates: int
    seconds: float  # of the population, divided by its members
    device: str
    versions: dict[str, str]


@dataclass(frozen=True)
class EstimateRecord:
    """What one evaluation seed, or one model of the ensemble that it trained, says of one policy."""

    evaluation_seed: int | None = None
    value: float | None = None  # None: void
    verdict: str | None = None  # a word of the estimator's
    grade: Grade | None = None  # what that means
    decided_at: int | None = None  # update from which the verdict held
    member: int | None = None  # of the ensemble; None: the estimator has none


@dataclass(frozen=True)
class Valuation:
    """What an estimator says of one policy."""

    estimates: tuple[EstimateRecord, ...] = ()
    std_error: float | None = None  # of their mean: over models or evaluation seeds, and over initial states
    distance: float | None = None  # from the data
    gain: Gain | None = None  # over the logs; None: not known
    task_return: float | None = None  # what its episodes earn of the task's rewards, where closeness was valued


@dataclass(frozen=True)
class EvaluatedPolicy:
    algorithm: str
    configuration: int
    policy_seed: int
    valuation: Valuation


@dataclass(frozen=True)
class EvaluatedRecord:
    policies: tuple[EvaluatedPolicy, ...]


# --- selection.json ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Ranked:
    """One configuration of an algorithm, as its evaluations show it."""

    configuration: int | None = None
    value: float | None = None
    converged_share: float | None = None
    eligible: bool | None = None


ALL_SEEDS = -1
"""Stands for a policy seed where all seeds of a configuration answer together."""


@dataclass(frozen=True)
class Committee:
    """All seeds of a selected configuration as one policy (docs/committees.md), valued as each of them was."""

    seeds: tuple[int, ...] = ()
    valuation: Valuation = Valuation()
    value: float | None = None  # by the evaluations that count; None: none does
    value_std_error: float | None = None
    deployed: bool = False  # best.safetensors is this policy, and not the best seed
    job: str | None = None  # that made it

    @property
    def gain(self) -> Gain | None:
        return self.valuation.gain

    @property
    def task_return(self) -> float | None:
        return self.valuation.task_return


@dataclass(frozen=True)
class Chosen:
    """What was selected within one algorithm."""

    configuration: int | None = None  # None: none is eligible
    hyperparameters: dict[str, Any] = field(default_factory=dict)
    value: float | None = None
    value_std_error: float | None = None  # over policy seeds, models and initial states
    gain: Gain | None = None  # over the logs, mean of its seeds; None: not known
    task_return: float | None = None  # estimated beside a value of closeness, mean of its seeds
    eligible: int | None = None  # how many configurations are
    converged_share: float | None = None
    best_seed: int | None = None
    committee: Committee | None = None  # None: `file` says why
    file: str | None = None  # whose policy best.safetensors is, and why, in words
    counted: tuple[Grade, ...] = ("sound",)  # evaluations with these grades make up the values
    moving: bool = False  # too few evaluations had converged, and some that still moved had to count
    policies: tuple[str, ...] = ()
    table: tuple[Ranked, ...] = ()
    reason: str | None = None

    @property
    def deployed_committee(self) -> Committee | None:
        """All seeds as one policy, where that is the policy to deploy."""
        return self.committee if self.committee is not None and self.committee.deployed else None

    @property
    def deployed_seed(self) -> int | None:
        """Whose policy best.safetensors is."""
        return self.best_seed if self.deployed_committee is None else ALL_SEEDS

    @property
    def to_deploy(self) -> Committee | Chosen:
        """Has `value`, `value_std_error`, `gain` and `task_return` of the file: where that is a single seed, the means
        over all seeds, which say more about it than its own."""
        return self.deployed_committee or self


@dataclass(frozen=True)
class Overall:
    algorithm: str
    configuration: int
    policy: str | None = None
    value: float | None = None
    reason: str | None = None


@dataclass(frozen=True)
class Selection:
    algorithms: dict[str, Chosen] = field(default_factory=dict)
    overall: Overall | None = None
    nothing: str | None = None  # why, where nothing could be selected
    rule: Rule = "converged"
    penalty: float = 0.0  # standard deviations over its evaluations that a policy's value loses

    @property
    def deployed_committees(self) -> dict[str, Committee]:
        """Algorithm → all seeds of its configuration as one policy, where that is its policy to deploy."""
        return {name: found for name, entry in self.algorithms.items() if (found := entry.deployed_committee)}


# --- choices.json: only where actions are discrete -------------------------------------------------------------------


@dataclass(frozen=True)
class ChoicesRecord:
    """What the policy selected overall chooses; all counts are of steps, in the order of `names`."""

    names: tuple[str, ...] = ()
    expert: tuple[int, ...] = ()
    logs: tuple[int, ...] = ()
    policy: tuple[int, ...] = ()  # at the observations of both
    confusion: tuple[tuple[int, ...], ...] = ()  # [expert's action][policy's]
    unseen: bool = False  # the confusion is of episodes that the policy was not trained on


# --- final.json and reveal.json ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Score:
    """One policy in the environment."""

    algorithm: str
    configuration: int
    policy_seed: int
    job: str | None = None  # that trained the policy
    return_mean: float | None = None
    return_std: float | None = None
    score: float | None = None
    episodes: int | None = None
    returns: tuple[float, ...] = ()  # of each episode
    discounted_returns: tuple[float, ...] = ()
    lengths: tuple[int, ...] = ()


@dataclass(frozen=True)
class Scores:
    episodes: int | None = None
    environment_seeds: int | None = None
    environment_calls: dict[str, int] = field(default_factory=dict)
    task: str | None = None
    discount: float | None = None  # of the discounted returns
    scores: tuple[Score, ...] = ()
    committees: tuple[Score, ...] = ()  # of all seeds of a configuration as one policy, where that is deployed
    references: dict[str, Reference] = field(default_factory=dict)  # by role
