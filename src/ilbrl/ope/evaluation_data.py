"""The data of an off-policy evaluation. The true rewards of the logs live here and nowhere else in the project."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ilbrl.base.errors import IlbrlError
from ilbrl.data import Dataset, concatenate
from ilbrl.data.splits import Composition, split_episodes
from ilbrl.learning.batches import Spec

NOTED, REFUSED = 0.05, 0.2  # how far an expert fraction may miss before it is noted, and before it is refused
VALIDATION_SHARE = 2 / 7  # the paper's: 200,000 of the 700,000 transitions for evaluation


@dataclass(frozen=True, eq=False)
class EvaluationData:
    """Rows that all evaluations draw from, each from the subset of its expert fraction."""

    dataset: Dataset  # [N] the union of all subsets; it has rewards
    subsets: Mapping[float | None, np.ndarray]  # expert fraction → row numbers; None: a log taken whole
    initial_observations: np.ndarray  # [M, obs_dim] held-out states at which policies are valued
    spec: Spec  # the normaliser of the training data, and the action bounds
    notes: tuple[str, ...] = ()  # mixtures that missed their expert fraction

    def __post_init__(self) -> None:
        if self.dataset.rewards is None:
            raise IlbrlError(
                f"{self.dataset.source}: evaluation needs the true rewards, and not all of these logs carry them;"
                " add a rewards column, or judge policies without values (`ilbrl label`, `ilbrl rollout`)"
            )
        if not np.isfinite(self.dataset.rewards).all():
            row = int(np.flatnonzero(~np.isfinite(self.dataset.rewards))[0])
            raise IlbrlError(f"{self.dataset.source}: rewards: row {row} is not finite; repair it or leave it out")
        if not self.dataset.rewards.any():
            raise IlbrlError(
                f"{self.dataset.source}: all rewards are 0, so every policy is worth 0; is the column right?"
            )
        if not len(self.initial_observations):
            raise IlbrlError(f"{self.dataset.source}: no initial observations to value policies at")

    @staticmethod
    def of(dataset: Dataset, initial_observations: np.ndarray, spec: Spec) -> EvaluationData:
        """All rows of one log, whatever a setting says about the expert fraction."""
        return EvaluationData(dataset, {None: np.arange(len(dataset))}, initial_observations, spec)

    @staticmethod
    def of_composition(
        composition: Composition, fractions: Sequence[float], spec: Spec | None = None
    ) -> EvaluationData:
        """The evaluation mixtures of Algorithm 2, one subset of one union per fraction.

        A mixture takes the first episodes of each pool, so mixtures are prefixes and the union holds every row once.
        spec: by default the normaliser of the training data D_T.
        """
        fractions = sorted(set(fractions))
        counts = {fraction: _rows_of_each_pool(composition, fraction) for fraction in fractions}
        longest = np.max(list(counts.values()), axis=0)
        pools = (composition.evaluation_expert, composition.evaluation_logs)
        union = concatenate([pool.transitions(0, n) for pool, n in zip(pools, longest) if n])
        subsets: dict[float | None, np.ndarray] = {
            fraction: np.concatenate([np.arange(expert), longest[0] + np.arange(exploratory)])
            for fraction, (expert, exploratory) in counts.items()
        }
        notes = tuple(note for f, (e, x) in counts.items() if (note := _missed(composition, f, e / (e + x))))
        spec = spec or Spec.of(composition.training)
        return EvaluationData(union, subsets, composition.initial_observations, spec, notes)

    def subset(self, expert_fraction: float) -> np.ndarray:
        """[·] numbers of the rows that evaluations with this expert fraction draw from."""
        if None in self.subsets:
            return self.subsets[None]
        if expert_fraction not in self.subsets:
            prepared = ", ".join(f"{f:g}" for f in self.subsets if f is not None)
            raise IlbrlError(
                f"{self.dataset.source}: no evaluation data with expert fraction {expert_fraction:g} was prepared"
                f" (there is {prepared}); name it when the data is made"
            )
        return self.subsets[expert_fraction]

    def value_range(self, gamma: float) -> tuple[float, float]:
        """The discounted values that the logs' rewards allow; 0 is always among them, for an episode may end."""
        assert self.dataset.rewards is not None
        low, high = min(float(self.dataset.rewards.min()), 0.0), max(float(self.dataset.rewards.max()), 0.0)
        return low / (1 - gamma), high / (1 - gamma)

    def mean_value(self, expert_fraction: float, gamma: float) -> float:
        """What the logs are worth on average, were every row alike: r̄ / (1 − γ (1 − share of terminals))."""
        rows = self.subset(expert_fraction)
        assert self.dataset.rewards is not None
        ends = float(self.dataset.terminals[rows].mean())
        return float(self.dataset.rewards[rows].mean(dtype=np.float64)) / (1 - gamma * (1 - ends))


def held_out(expert: Dataset, exploratory: Dataset, rng: np.random.Generator | int = 0) -> Composition:
    """Logs split for evaluation alone: the policies may have been trained on any of them.

    Random whole episodes of each log, `VALIDATION_SHARE` of its transitions, are held out: their initial states, and
    their returns for the truth about known policies. "Training" is all of it and serves as the normaliser.
    """
    rng = np.random.default_rng(rng)
    parts = []
    for log in (expert, exploratory):
        transitions = int(log.episode_lengths[log.complete].sum())
        if log.complete.sum() < 2:
            raise IlbrlError(
                f"{log.source}: {log.complete.sum()} complete episodes; evaluation needs at least two,"
                " one to learn values from and one held out"
            )
        held = int(VALIDATION_SHARE * transitions)
        parts.append(split_episodes(log, [held, transitions - held], rng))
    (validation_expert, evaluation_expert), (validation, evaluation) = parts
    shuffled = [part.episodes(rng.permutation(part.num_episodes)) for part in (evaluation_expert, evaluation)]
    return Composition(
        training_expert=expert.as_expert(),
        training_logs=exploratory,
        evaluation_expert=shuffled[0].as_expert(),
        evaluation_logs=shuffled[1],
        validation=concatenate([validation_expert.as_expert(), validation]),
    )


def _rows_of_each_pool(composition: Composition, fraction: float) -> tuple[int, int]:
    mixture = composition.evaluation(fraction)
    expert = 0 if mixture.is_expert is None else int(mixture.is_expert.sum())
    return expert, len(mixture) - expert


def _missed(composition: Composition, fraction: float, came_out: float) -> str | None:
    """What to say about a mixture that whole episodes cannot give; too far off is an error."""
    pool = composition.evaluation_expert
    if abs(came_out - fraction) > REFUSED:
        raise IlbrlError(
            f"{pool.source}: {pool.num_episodes} expert episodes cannot make evaluation data with expert fraction"
            f" {fraction:g} (it came out as {came_out:.2f}); bring more expert episodes, train on fewer of them,"
            " or leave this fraction out"
        )
    if abs(came_out - fraction) > NOTED:
        return f"expert fraction {fraction:g} came out as {came_out:.2f}: {pool.num_episodes} expert episodes are few"
    return None
