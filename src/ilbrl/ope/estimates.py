"""The seam of this room: what an estimator is, and what it answers.

An `Estimator` is a value: a name, a configuration class, and a function from policies, evidence, configurations and
seeds to estimates. Calibration, trust, studies, the report and the command line know this seam and no estimator.
A new one is one file in `estimators/` and one line in its `ESTIMATORS`.

What is selected by is what is reported, so every estimate names its `Quantity`: the return of an episode of at most
H steps, or the discounted value at γ; of the logged rewards, or of the intrinsic reward where the logs carry none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from ilbrl.base.errors import IlbrlError
from ilbrl.learning.loggers import Log
from ilbrl.ope.evidence import Evidence, Quantity
from ilbrl.ope.policies import Evaluable
from ilbrl.results.schema import NORMAL_95, ErrorsRecord, Gain, Grade, Rule


@dataclass(frozen=True)
class Estimate:
    """What one policy is worth, as one estimator sees it."""

    value: float  # nan: there is none
    std_error: float  # over members or seeds and initial states; after `Calibration.widen` with the known error in it
    verdict: str  # one of the estimator's words
    parts: tuple[float, ...] = ()  # the value by each member or evaluation seed
    distance: float = float("nan")  # how far the policy leads from what the estimator learned from, in its own measure
    length: float = float("nan")  # mean steps of its episodes, where the estimator plays them
    gain: Gain | None = None  # over the logs' own episodes from the same initial observations; None: not known
    task_return: float | None = None
    """What the same episodes earn of the task's rewards, where closeness is valued and the logs carry rewards."""

    @property
    def interval(self) -> tuple[float, float]:
        """Normal 95 % interval."""
        half_width = NORMAL_95 * self.std_error
        return self.value - half_width, self.value + half_width

    @staticmethod
    def of(
        values: np.ndarray,
        verdict: str,
        rivals: bool = False,
        penalty: float = 0.0,
        distance: float = float("nan"),
        length: float = float("nan"),
    ) -> Estimate:
        """From [S, M] values by part and initial state.

        The variance of the mean is that over initial states / M and that over the parts: / S where they are repetitions
        (evaluation seeds), undivided where they are rivals (models, of which one may be right).
        penalty: standard deviations over the parts that the value loses.
        """
        values = np.asarray(values, np.float64)
        by_part, by_state = values.mean(1), values.mean(0)
        spread = float(by_part.var(ddof=1)) if len(by_part) > 1 else 0.0
        parts = [spread if rivals else spread / len(by_part)] if len(by_part) > 1 else []
        parts += [by_state.var(ddof=1) / len(by_state)] if len(by_state) > 1 else []
        error = float(np.sqrt(sum(parts))) if parts else float("nan")
        value = float(values.mean()) - penalty * spread**0.5
        return Estimate(value, error, verdict, tuple(by_part.tolist()), distance, length)

    def over(self, values: np.ndarray, logged: np.ndarray) -> Estimate:
        """With its gain: [S, M] values less [M] what the logs earned there, of rival parts; NaN: not the logs' own."""
        own = np.isfinite(logged)
        if own.sum() < 2:
            return self
        apart = Estimate.of(values[:, own] - logged[own], self.verdict, rivals=True)
        return replace(self, gain=Gain(apart.value, apart.std_error))


class Part(NamedTuple):
    """Who says a part of an estimate: an evaluation seed, or one model of the ensemble that it trained."""

    seed: int
    member: int | None = None


class Trace(NamedTuple):
    """How the value of one policy came about: a curve for each part, to be drawn and stored."""

    updates: np.ndarray  # [C]
    values: np.ndarray  # [S, C]
    verdicts: tuple[str, ...]  # [S]
    seeds: tuple[int, ...]  # [S]
    decided_at: tuple[int, ...]  # [S] update from which the verdict held


@dataclass(frozen=True, eq=False)
class Estimates:
    """Every policy's estimate under one configuration."""

    estimator: str
    config: Any
    quantity: Quantity
    policies: Mapping[str, Estimate]
    grades: Mapping[str, Grade]  # verdict → what it means
    seconds: float  # for all of them, what was prepared before not counted
    parts: tuple[Part, ...]  # who says each of `Estimate.parts`
    measure: str = "distance from the logs"  # what `Estimate.distance` measures
    traces: Mapping[str, Trace] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    model_errors: tuple[ErrorsRecord, ...] = ()  # of the models that the policies were played in, by evaluation seed

    def __getitem__(self, policy: str) -> Estimate:
        return self.policies[policy]

    def grade(self, policy: str) -> Grade:
        return self.grades[self.policies[policy].verdict]

    @property
    def sound(self) -> list[str]:
        """The policies whose value counts: all but the void ones."""
        return [name for name in self.policies if self.grade(name) != "void"]


class Estimating(Protocol):
    """Values of every policy under every configuration: one `Estimates` for each, in their order.

    workplace: a folder for checkpoints and for what can be used again (trained models), under names that hash their
    inputs; the same call continues there after a crash. None: nothing is kept.
    """

    def __call__(
        self,
        policies: Mapping[str, Evaluable],
        evidence: Evidence,
        configs: Sequence[Any],
        seeds: Sequence[int],
        *,
        workplace: Path | None = None,
        log: Log | None = None,
        quiet: bool = False,
    ) -> list[Estimates]: ...


class Preparing(Protocol):
    """What `estimate` would do first and what depends on no policy, left in `workplace` for it to find."""

    def __call__(
        self,
        evidence: Evidence,
        configs: Sequence[Any],
        seeds: Sequence[int],
        *,
        workplace: Path,
        log: Log | None = None,
        quiet: bool = False,
    ) -> None: ...


class Choices(NamedTuple):
    """The configurations that a calibration chooses from; the first one wins ties."""

    configs: Sequence[Any]
    notes: tuple[str, ...] = ()  # what was left out, and why


@dataclass(frozen=True)
class Estimator:
    """A way to value policies from logs."""

    name: str
    display: str
    Config: type
    verdicts: Mapping[str, Grade]  # its words, from good to bad
    quantity: Callable[[Any, Evidence], Quantity]  # (config, evidence)
    estimate: Estimating
    choices: Callable[[Any, Evidence], Choices] = lambda config, evidence: Choices([config])
    """(config, evidence) → what a calibration chooses from."""
    settle: Callable[[Any, Estimates], Any] = lambda config, known: config
    """(chosen config, its estimates of the known policies) → the configuration that candidates are valued with."""
    prepare: Preparing | None = None
    """None: nothing can be prepared."""
    updates: Callable[[Any, Sequence[int]], int] = lambda config, seeds: 0
    """(config, seeds) → updates of networks that each policy costs, for progress bars and job sizes."""
    preparation: Callable[[Any, Sequence[int]], int] = lambda config, seeds: 0
    """(config, seeds) → updates of networks that `prepare` costs, whatever the number of policies."""
    networks: Callable[[Any], Any] = lambda config: config if hasattr(config, "hidden") else None
    """config → the hyper-parameters of the networks it trains (hidden, batch_size); None: it trains none."""
    blind: bool = False
    """Whether a calibration also values each known policy from evidence without its own logs."""
    rule: Rule = "all"
    """converged: the paper's, for values that settle over updates; all: every policy seed counts."""
    disagreement_penalty: Callable[[Any], float] = lambda config: 0.0
    """(config) → standard deviations over its parts that a policy's value loses."""
    pessimistic: bool = False
    """Whether `choices` are degrees of pessimism, among which rank errors alone decide."""
    plays: bool = False
    """Whether policies are played, so that the user may say where episodes end (`Evidence.end`)."""
    seeds: int = 1
    """Evaluation seeds, where the user names no number."""
    of_machine: tuple[str, ...] = ()
    """Settings whose default suits the machine: a study writes them down when it begins, and keeps them elsewhere."""

    def changed(self, changes: Mapping[str, Any], config: Any = None) -> Any:
        """`config` (by default the estimator's) with some of its settings changed; `part.name` reaches into a part."""
        config = self.Config() if config is None else config
        for name, value in changes.items():
            config = _with(config, name.split("."), value, f"{self.name} has no setting {name!r}")
        return config


def _with(config: Any, path: list[str], value: Any, said: str) -> Any:
    names = list(getattr(config, "__dataclass_fields__", {}))
    if path[0] not in names:
        raise IlbrlError(f"{said}; there are {', '.join(names)}")
    inner = value if len(path) == 1 else _with(getattr(config, path[0]), path[1:], value, said)
    return replace(config, **{path[0]: inner})
