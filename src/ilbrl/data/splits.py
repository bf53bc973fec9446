"""Splits by episode, and the paper's composition of training, evaluation and validation data.

No episode ever stands in two parts: steps of one episode resemble each other, and a split by rows would let the
held-out part leak into the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ilbrl.base.errors import IlbrlError
from ilbrl.data.dataset import Dataset, concatenate


def split_episodes(dataset: Dataset, sizes_in_transitions: Sequence[float], rng: np.random.Generator) -> list[Dataset]:
    """One part per size, of random whole episodes, in the order they were logged.

    Each part comes within one episode of its size; what no part asks for is left out. An episode that the end
    of the file cut is never used: its return is unknown.
    """
    episodes = rng.permutation(np.flatnonzero(dataset.complete))
    lengths = dataset.episode_lengths[episodes]
    if sum(sizes_in_transitions) > lengths.sum():
        raise IlbrlError(
            f"{dataset.source}: holds {lengths.sum():,} transitions in {len(episodes):,} complete episodes,"
            f" {sum(sizes_in_transitions):,.0f} were asked for"
        )
    middles = np.cumsum(lengths) - lengths / 2  # an episode goes where its middle falls
    part_of = np.searchsorted(np.cumsum(sizes_in_transitions), middles, side="right")
    parts = []
    for part, size in enumerate(sizes_in_transitions):
        chosen = np.sort(episodes[part_of == part])
        if size > 0 and not len(chosen):
            raise IlbrlError(
                f"{dataset.source}: no whole episode falls into a part of {size:,.0f} transitions"
                f" (episodes have about {lengths.mean():,.0f}); use more data or larger parts"
            )
        parts.append(dataset.episodes(chosen))
    return parts


@dataclass(frozen=True)
class CompositionSizes:
    """How much data each part of the composition takes, in transitions; the defaults are the paper's."""

    training: int = 600_000  # expert_episodes, filled up with exploratory data
    expert_episodes: int = 18
    evaluation: int = 500_000  # of which a fraction, tuned later, is expert data
    validation: int = 200_000  # half expert, half exploratory, the same for every fraction


@dataclass(frozen=True)
class Composition:
    """The parts of Algorithm 2; no episode stands in two of them."""

    training_expert: Dataset
    training_logs: Dataset
    evaluation_expert: Dataset  # pools of one evaluation set each: `evaluation` mixes them
    evaluation_logs: Dataset
    validation: Dataset  # `is_expert` tells its halves apart
    notes: tuple[str, ...] = ()

    @property
    def training(self) -> Dataset:
        """The expert episodes, then the exploratory ones; `is_expert` tells them apart."""
        return concatenate([self.training_expert, self.training_logs])

    @property
    def initial_observations(self) -> np.ndarray:
        """[E, obs_dim] held-out first observations, on which values of policies are estimated."""
        return self.validation.initial_observations

    def evaluation(self, expert_fraction: float) -> Dataset:
        """Evaluation-training data with about this fraction of expert transitions, always of the same size.

        A larger fraction keeps the expert episodes of a smaller one and adds to them.
        """
        if not 0 <= expert_fraction <= 1:
            raise IlbrlError(f"the expert fraction must lie between 0 and 1, got {expert_fraction}")
        pools = [(self.evaluation_expert, expert_fraction), (self.evaluation_logs, 1 - expert_fraction)]
        size = min(len(pool) for pool, _ in pools)
        return concatenate([_first(pool, share * size) for pool, share in pools if share > 0])


def compose(
    expert: Dataset,
    exploratory: Dataset,
    sizes: CompositionSizes | None = None,
    rng: np.random.Generator | int = 0,
) -> Composition:
    """Split expert and exploratory logs into the paper's parts.

    Files too small for `sizes` shrink every part by the same factor, except the expert episodes trained on, and
    the composition carries a note that says so.
    """
    sizes, rng = sizes or CompositionSizes(), np.random.default_rng(rng)
    demonstrations, others = _draw_episodes(expert, sizes.expert_episodes, rng)
    taken = len(demonstrations)
    half = sizes.validation / 2
    available = _complete_transitions(exploratory)
    scale = min(
        1.0, len(others) / (half + sizes.evaluation), (available + taken) / (sizes.training + half + sizes.evaluation)
    )
    notes = ()
    if scale < 1:
        notes = (
            f"the data ({len(others) + taken:,} expert and {available:,} exploratory transitions) is too small for"
            f" the sizes asked for: every part shrank to {scale:.1%}, but not the"
            f" {sizes.expert_episodes} expert episodes trained on",
        )
    filling = scale * sizes.training - taken
    if filling <= 0:
        raise IlbrlError(
            f"{sizes.expert_episodes} expert episodes ({taken:,} transitions) leave no room for exploratory data in a"
            f" training set of {scale * sizes.training:,.0f}; ask for fewer episodes, or bring more exploratory data"
        )
    # Rounding down keeps sums of parts within the data.
    parts = [int(scale * half), int(scale * sizes.evaluation)]
    validation_expert, evaluation_expert = split_episodes(others, parts, rng)
    training, validation, evaluation = split_episodes(exploratory, [int(filling), *parts], rng)
    return Composition(
        training_expert=demonstrations.as_expert(),
        training_logs=_as_exploratory(training),
        evaluation_expert=_shuffled(evaluation_expert, rng).as_expert(),
        evaluation_logs=_as_exploratory(_shuffled(evaluation, rng)),
        validation=concatenate([validation_expert.as_expert(), _as_exploratory(validation)]),
        notes=notes,
    )


def _draw_episodes(dataset: Dataset, count: int, rng: np.random.Generator) -> tuple[Dataset, Dataset]:
    """(count random complete episodes, the other complete ones)."""
    complete = rng.permutation(np.flatnonzero(dataset.complete))
    if count < 1 or len(complete) < count + 2:
        raise IlbrlError(
            f"{dataset.source}: {len(complete)} complete episodes cannot give {count} to train on and at least one"
            " each to evaluation and validation"
        )
    return dataset.episodes(np.sort(complete[:count])), dataset.episodes(np.sort(complete[count:]))


def _complete_transitions(dataset: Dataset) -> int:
    return int(dataset.episode_lengths[dataset.complete].sum())


def _as_exploratory(dataset: Dataset) -> Dataset:
    return replace(dataset, is_expert=np.zeros(len(dataset), bool))


def _shuffled(dataset: Dataset, rng: np.random.Generator) -> Dataset:
    """Its episodes in random order, so that the first ones represent them all."""
    return dataset.episodes(rng.permutation(dataset.num_episodes))


def _first(dataset: Dataset, size: float) -> Dataset:
    """The first episodes, to within half an episode of `size` transitions, and at least one."""
    middles = np.cumsum(dataset.episode_lengths) - dataset.episode_lengths / 2
    return dataset.episodes(slice(0, max(1, int(np.searchsorted(middles, size)))))
