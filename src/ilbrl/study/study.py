"""A study: everything that decides what Algorithm 2 does, as a tree of frozen dataclasses and as a TOML file.

    study = Study.load("study.toml")        (or a preset: "own", "large", "paper" …)
    result = study.run("runs/mine")

The command line reads the same classes, so every field is also an option of `ilbrl tune`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ilbrl.agents.fit import DIVERGENCE_FACTOR, LARGEST_COMMITTEE
from ilbrl.base import records
from ilbrl.base.errors import IlbrlError
from ilbrl.data import Reading
from ilbrl.learning.population import MOST_UPDATES
from ilbrl.ope import DEFAULT

if TYPE_CHECKING:
    from ilbrl.study.run import StudyResult

Ranges = Literal["default", "paper"]
OWN = "own"  # the preset for logs that are named alone
EVERY = "all"  # in search.ranges: every algorithm that has the setting
PRESETS = Path(__file__).parent / "presets"
SEEDS_PER_STUDY = 1000

LIMITS: dict[str, tuple[float, float]] = {
    "seed": (0, 2**32 // SEEDS_PER_STUDY - 1),  # seeds of policies have 32 bits: larger ones would repeat smaller ones
    "data.expert_episodes": (1, 10**9),
    "data.training_transitions": (1, 10**12),
    "data.evaluation_transitions": (1, 10**12),
    "data.validation_transitions": (1, 10**12),
    "search.configurations": (1, 10_000),
    "training.seeds": (1, SEEDS_PER_STUDY),
    "training.committee": (1, LARGEST_COMMITTEE),
    "training.updates": (1, MOST_UPDATES),
    "training.members_per_job": (1, 10**6),
    "training.divergence_factor": (1e-9, 1e300),
    "evaluation.evaluation_seeds": (1, SEEDS_PER_STUDY),
    "final.episodes": (1, 10**6),
    "final.environment_seeds": (1, 10**6),
}
"""Field → smallest and largest value."""

RENAMED = {
    "data.exploratory": "data.logs",
    "evaluation.grid": 'evaluation.settings.grid (with evaluation.estimator = "expected_sarsa")',
    "evaluation.evaluation_updates": "evaluation.settings.updates",
    "evaluation.evaluator": "evaluation.settings",
    "evaluation.disagreement_penalty": "evaluation.settings.seed_penalty",
}
"""Field of earlier studies → what has its place today."""


def preset_names() -> list[str]:
    return sorted(path.stem for path in PRESETS.glob("*.toml"))


@dataclass(frozen=True)
class Data:
    """The logs, and how they are split by episode. `{task}` in a name stands for the study's task.

    A size that is left out follows the data; one that is stated is an upper limit.
    """

    expert: str = "{task}/expert"
    """The expert's logs: a file, or a built-in name such as hopper/expert."""
    logs: str = "{task}/medium"
    """All other logs."""
    expert_episodes: int | None = None
    """Expert episodes that the algorithms may learn from; the rest of the expert's logs serves evaluation."""
    training_transitions: int | None = None
    """Training split: the expert episodes, filled up with other logs."""
    evaluation_transitions: int | None = None
    """What the estimator learns from, of each of the two logs. Models of the dynamics learn from the training split
    too, which would bias estimators that fit values."""
    validation_transitions: int | None = None
    """Half expert, half logs: initial states to estimate values at, and the known policies' true returns."""
    reading: Reading = field(default_factory=Reading)
    """What the files do not say themselves."""


@dataclass(frozen=True)
class Search:
    """Random search over each algorithm's hyper-parameters."""

    algorithms: tuple[str, ...] = ("ilbrl", "bc")
    """The one that you would take if you knew nothing goes first: another has to be clearly ahead."""
    configurations: int = 10
    """Of each algorithm."""
    configurations_of: dict[str, int] = field(default_factory=dict)
    """Another number for single algorithms: `bc` → 6."""
    default_first: bool = False
    """Configuration 0 is the algorithm's default (with what `ranges` set to one value), and the others are drawn."""
    even: bool = False
    """Draws that cover each range evenly, eight by eight, instead of independent ones."""
    preset: Ranges = "default"
    """Ranges to start from: ours, which suit the logs' kind of actions, or exactly the paper's."""
    ranges: dict[str, str] = field(default_factory=dict)
    """Changes to them: `ilbrl.lam` → `loguniform(0.1, 4)`; `all.hidden` → `[64, 64]` sets it wherever it exists."""


@dataclass(frozen=True)
class Training:
    """How each configuration is trained."""

    seeds: int = 6
    """Policy seeds per configuration."""
    committee: int = 1
    """Trainings behind each policy; with more than one, they answer together (docs/committees.md)."""
    updates: int | None = None
    """Of each member; by default about 200 passes through the training rows, 10,000 at least and 100,000 at most."""
    imagine: tuple[str, ...] = ()
    """Algorithms that also learn from imagined steps: what ILBRL's policies would do next in learned models
    (docs/imagination.md)."""
    imagination: dict[str, str] = field(default_factory=dict)
    """How these are made, where it is not the usual way: `rounds` → `1`, `rows` → `100000`."""
    divergence_factor: float = DIVERGENCE_FACTOR
    """A member whose mean |Q| exceeds this many times what its rewards allow is frozen and marked."""
    members_per_job: int = 60
    """Largest population trained as one program. Part of the study, so that every executor groups alike."""


@dataclass(frozen=True)
class Evaluation:
    """Off-policy evaluation: an estimator is calibrated on the known policies, and then values the candidates."""

    estimator: str = DEFAULT
    """How policies are valued (docs/evaluation.md)."""
    settings: dict[str, str] = field(default_factory=dict)
    """Settings of the estimator, in every configuration that is tried: `hidden` → `[64, 64]`, `updates` → `50000`."""
    evaluation_seeds: int | None = None
    """Evaluations of each policy; by default what suits the estimator."""
    blind: bool | None = None
    """Also value each known policy by models that have not seen its own logs; by default what suits the estimator."""
    together: bool = True
    """Deploy all seeds of the selected configuration as one policy (docs/committees.md), unless that is valued clearly
    below the mean of its seeds; false: the seed with the highest value, whose network is smaller."""
    intrinsic: bool = False
    """Value policies by closeness to the expert although the logs carry rewards; without rewards it is always so."""


@dataclass(frozen=True)
class Final:
    """The one evaluation in the environment, after selection."""

    episodes: int = 30
    """Per selected policy, spread evenly over the environment seeds."""
    environment_seeds: int = 10


@dataclass(frozen=True)
class Study:
    """One run of Algorithm 2."""

    name: str = "study"
    """What reports and policy files call it; empty: as its first run folder."""
    task: str | None = None
    """Where the selected policies are played at the end: a built-in task or a Gymnasium id. None: nowhere."""
    seed: int = 0
    """Of the splits, the draws of hyper-parameters, and all training and evaluation."""
    data: Data = field(default_factory=Data)
    known: dict[str, str] = field(default_factory=dict)
    """Known policies to calibrate the estimator on: NAME.policy (a file or built-in name), NAME.logs (expert or logs:
    the log that it made), NAME.episodes (a file or built-in name of its own episodes; without it all those of its log
    are its own), NAME.variant (sampled or mean). Empty: the policies that come with the logs, or clones of the logs
    where none does, which is a weaker check."""
    search: Search = field(default_factory=Search)
    training: Training = field(default_factory=Training)
    evaluation: Evaluation = field(default_factory=Evaluation)
    final: Final = field(default_factory=Final)

    @staticmethod
    def load(path: str | Path) -> Study:
        """A TOML file, or a preset by its name; what it does not name keeps its default."""
        if str(path) in preset_names() and not Path(path).is_file():
            return records.read_toml(PRESETS / f"{path}.toml", Study)
        try:
            return records.read_toml(Path(path), Study, RENAMED)
        except IlbrlError as error:
            if Path(path).suffix == ".toml":
                raise
            raise IlbrlError(f"{error}, nor is it a preset: {', '.join(preset_names())}") from None

    def save(self, path: str | Path) -> None:
        """Write every field, defaults included."""
        records.write_toml(Path(path), self)

    def run(self, out: str | Path, **options: Any) -> StudyResult:
        """All phases, continuing in the folder `out` where an earlier run stopped; see `ilbrl.study.run.run`."""
        from ilbrl.study.run import run

        return run(self, Path(out), **options)

    def __post_init__(self) -> None:
        for where, (smallest, largest) in LIMITS.items():
            value: Any = self
            for part in where.split("."):
                value = getattr(value, part)
            if value is not None and not smallest <= value <= largest:  # also false for NaN
                raise IlbrlError(f"{where}: must be between {smallest:,} and {largest:,}, got {value}")
        if self.final.episodes % self.final.environment_seeds:
            raise IlbrlError(
                f"final.episodes: {self.final.episodes} episodes cannot be spread evenly over"
                f" final.environment_seeds = {self.final.environment_seeds}"
            )
        smallest, largest = LIMITS["search.configurations"]
        for name, count in self.search.configurations_of.items():
            if not smallest <= count <= largest:
                raise IlbrlError(
                    f"search.configurations_of.{name}: must be between {smallest:,} and {largest:,}, got {count}"
                )
        if self.task is not None and not self.task.strip():
            raise IlbrlError("task: must name an environment; leave it out where there is none")
        if not self.search.algorithms or len(set(self.search.algorithms)) < len(self.search.algorithms):
            raise IlbrlError("search.algorithms: name each algorithm once, and at least one")

    @property
    def policy_seeds(self) -> list[int]:
        """0, 1, … for study seed 0; 1000, 1001, … for 1: no training repeats in another study's."""
        return [SEEDS_PER_STUDY * self.seed + i for i in range(self.training.seeds)]

    @property
    def trainings_per_configuration(self) -> int:
        return self.training.seeds * self.training.committee

    def evaluation_seeds(self, usual: int) -> list[int]:
        """Likewise; `usual`: how many, where the study does not say."""
        return [SEEDS_PER_STUDY * self.seed + i for i in range(self.evaluation.evaluation_seeds or usual)]

    @property
    def label(self) -> str:
        """What tables call the task: its name, or the study's where there is no environment."""
        return self.task or self.name

    def named(self, text: str, field: str) -> str:
        """A name of the study with `{task}` filled in."""
        if "{task}" in text and self.task is None:
            raise IlbrlError(f"{field}: {text!r} needs a task; set `task`, or name your own file here")
        return text.replace("{task}", self.task or "")
