"""Splits by episode, and the composition of training, evaluation and validation data.

Steps of one episode resemble each other, so a split by rows would let the held-out part leak into the other. Where a
log is large enough, no episode stands in two parts. Where it is not, every part reads the whole log, and the
composition says so: `expert_held_out`, `logs_held_out` and its `notes`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from ilbrl.base.errors import IlbrlError
from ilbrl.data.dataset import Dataset
from ilbrl.data.joining import concatenate

FEWEST = 10  # complete episodes: with fewer, a log is not split unless sizes are stated
SHARES = {"training": 0.6, "validation": 0.1, "evaluation": 0.3}  # of a log, where no size is stated


def split_episodes(dataset: Dataset, sizes_in_transitions: Sequence[float], rng: np.random.Generator) -> list[Dataset]:
    """One part per size, of random whole episodes, in the order they were logged.

    Each part comes within one episode of its size; what no part asks for is left out. An episode that the end
    of the file cut is never used: its return is unknown.
    """
    total = sum(sizes_in_transitions)
    if total > _complete_transitions(dataset):
        raise IlbrlError(
            f"{dataset.source}: holds {_complete_transitions(dataset):,} transitions in {dataset.complete.sum():,}"
            f" complete episodes, {total:,.0f} were asked for"
        )
    parts = _random_parts(dataset, sizes_in_transitions, rng)
    for part, size in zip(parts, sizes_in_transitions):
        if size > 0 and not len(part):
            raise IlbrlError(
                f"{dataset.source}: no whole episode falls into a part of {size:,.0f} transitions (episodes have about"
                f" {dataset.episode_lengths[dataset.complete].mean():,.0f}); use more data or larger parts"
            )
    return parts


@dataclass(frozen=True)
class CompositionSizes:
    """How much each part takes at most, in transitions. None: its share of what is there."""

    training: int | None = None  # the expert episodes, filled up with the other logs
    expert_episodes: int | None = None  # complete ones, to train on
    evaluation: int | None = None  # of which a fraction, tuned later, is expert data
    validation: int | None = None  # half expert, half logs, the same for every fraction


PAPER_SIZES = CompositionSizes(training=600_000, expert_episodes=18, evaluation=500_000, validation=200_000)


@dataclass(frozen=True)
class Composition:
    """The parts of Algorithm 2."""

    training_expert: Dataset
    training_logs: Dataset
    evaluation_expert: Dataset  # pools of evaluation data: `evaluation` mixes them
    evaluation_logs: Dataset
    validation: Dataset  # `is_expert` tells its expert episodes from the others
    notes: tuple[str, ...] = ()  # sizes that were not met, and rows that serve twice
    expert_held_out: bool = True  # False: evaluation and validation read the expert episodes trained on
    logs_held_out: bool = True  # False: they read the logs trained on

    @property
    def training(self) -> Dataset:
        """The expert episodes, then the logs; `is_expert` tells them apart."""
        return concatenate([self.training_expert, self.training_logs])

    @property
    def initial_observations(self) -> np.ndarray:
        """[E, obs_dim] first observations of the validation part, on which values of policies are estimated."""
        return self.validation.initial_observations

    def evaluation(self, expert_fraction: float | None = None) -> Dataset:
        """Evaluation data with about this fraction of expert transitions; None: all there is.

        It is as large as the larger pool, or less where one pool is too small for the fraction. A larger fraction
        keeps the expert episodes of a smaller one and adds to them.
        """
        if expert_fraction is None:
            return concatenate([self.evaluation_expert, self.evaluation_logs])
        if not 0 <= expert_fraction <= 1:
            raise IlbrlError(f"the expert fraction must lie between 0 and 1, got {expert_fraction}")
        pools = self.evaluation_expert, self.evaluation_logs
        counts = episodes_of_each(pools, expert_fraction)
        return concatenate([pool.episodes(slice(0, count)) for pool, count in zip(pools, counts) if count])

    def described(self) -> str:
        """What was done with how much, in one sentence."""
        held = self.validation.is_expert
        assert held is not None
        by_expert = held[self.validation.episode_starts]
        return (
            f"Policies learn from {_amount(self.training_expert)} of the expert and {_amount(self.training_logs)} of"
            f" the logs; evaluation learns from {_amount(self.evaluation_expert)} and {_amount(self.evaluation_logs)}"
            " (its models of the dynamics also from what policies learn from); policies are valued from where"
            f" {by_expert.sum():,} episodes of the expert and {(~by_expert).sum():,} of the logs began."
        )


def episodes_of_each(pools: tuple[Dataset, Dataset], expert_fraction: float) -> tuple[int, int]:
    """How many of the first episodes of the expert's pool and of the logs' make a mixture with this fraction.

    It has as many rows as the pools can give, to within half an episode of each; a pool with a share gives at least one
    episode.
    """
    shares = expert_fraction, 1 - expert_fraction
    size = min([max(map(len, pools)), *(len(pool) / share for pool, share in zip(pools, shares) if share > 0)])
    middles = [np.cumsum(pool.episode_lengths) - pool.episode_lengths / 2 for pool in pools]
    expert, logs = (int(share > 0 and max(1, np.searchsorted(m, share * size))) for m, share in zip(middles, shares))
    return expert, logs


def compose(
    expert: Dataset,
    logs: Dataset,
    sizes: CompositionSizes | None = None,
    rng: np.random.Generator | int = 0,
) -> Composition:
    """Split the expert's logs and the other logs into the parts of Algorithm 2.

    Sizes that are not stated follow the data (`SHARES`). Stated sizes are upper limits: a log too small for them
    shrinks its parts by one factor. A log too small to be split serves every part. `notes` tells both.
    """
    sizes, rng, notes = sizes or CompositionSizes(), np.random.default_rng(rng), []
    split_expert = _split_expert(expert, sizes, rng, notes)
    split_logs = _split_logs(logs, sizes, len(split_expert.training), rng, notes)
    evaluation_expert = _shuffled(split_expert.evaluation, rng).as_expert()
    return Composition(
        training_expert=split_expert.training.as_expert(),
        training_logs=_not_expert(split_logs.training),
        evaluation_expert=evaluation_expert,
        evaluation_logs=_not_expert(_shuffled(split_logs.evaluation, rng)),
        validation=concatenate([split_expert.validation.as_expert(), _not_expert(split_logs.validation)]),
        notes=tuple(notes),
        expert_held_out=split_expert.held_out,
        logs_held_out=split_logs.held_out,
    )


class _Parts(NamedTuple):
    training: Dataset
    validation: Dataset
    evaluation: Dataset
    held_out: bool = True


def _split_expert(expert: Dataset, sizes: CompositionSizes, rng: np.random.Generator, notes: list[str]) -> _Parts:
    """The episodes to train on are drawn first, because there are few; evaluation and validation divide the rest."""
    count, episodes, complete = sizes.expert_episodes, expert.num_episodes, int(expert.complete.sum())
    if count is None:
        if complete < FEWEST:
            return _whole(expert, "expert", notes)
        count = round(SHARES["training"] * complete)
    if not 1 <= count <= episodes:
        raise IlbrlError(
            f"{expert.source}: holds {episodes} episodes, and {count} expert episodes to train on were asked for;"
            " ask for as many as there are, or leave the number out"
        )
    if complete < count + 2:  # at least one each for evaluation and validation, where there are any
        first = expert.episodes(slice(0, count)) if complete < count else _drawn(expert, count, rng)[0]
        return _whole(expert, "expert", notes)._replace(training=first)
    training, rest = _drawn(expert, count, rng)
    wanted = [None if sizes.validation is None else sizes.validation / 2, sizes.evaluation]
    parts = _random_parts(rest, _fitted(rest, wanted, ("validation", "evaluation"), "expert", notes), rng)
    if not all(len(part) for part in parts):
        return _whole(expert, "expert", notes)._replace(training=training)
    validation, evaluation = parts
    return _Parts(training, validation, evaluation)


def _split_logs(
    logs: Dataset, sizes: CompositionSizes, taken: int, rng: np.random.Generator, notes: list[str]
) -> _Parts:
    """taken: expert transitions, which count towards the size of the training set."""
    filling = None if sizes.training is None else sizes.training - taken
    if filling is not None and filling <= 0:
        raise IlbrlError(
            f"{taken:,} transitions of expert episodes leave no room for other logs in a training set of"
            f" {sizes.training:,}; ask for fewer expert episodes or a larger training set"
        )
    wanted = [filling, None if sizes.validation is None else sizes.validation / 2, sizes.evaluation]
    if logs.complete.sum() < FEWEST and None in wanted:
        return _whole(logs, "logs", notes)
    parts = _random_parts(logs, _fitted(logs, wanted, tuple(SHARES), "logs", notes), rng)
    if not all(len(part) for part in parts):
        return _whole(logs, "logs", notes)
    training, validation, evaluation = parts
    return _Parts(training, validation, evaluation)


def _fitted(
    log: Dataset, wanted: Sequence[float | None], names: Sequence[str], what: str, notes: list[str]
) -> list[int]:
    """Transitions of each part: as stated, or its share of the log; all smaller by one factor where they do not fit."""
    available = _complete_transitions(log)
    whole = sum(SHARES[name] for name in names)
    sizes = [SHARES[name] / whole * available if size is None else size for name, size in zip(names, wanted)]
    scale = min(1.0, available / sum(sizes))
    if scale < 1:
        notes.append(
            f"the {what} ({available:,} transitions{' beside those trained on' if what == 'expert' else ''}) are too"
            f" few for the sizes asked for: their parts for {', '.join(names)} shrank to {scale:.1%}"
        )
    return [int(scale * size) for size in sizes]  # rounding down keeps the sum within the data


def _whole(log: Dataset, what: str, notes: list[str]) -> _Parts:
    notes.append(
        f"{what}: {_amount(log)} cannot be divided into parts of whole episodes, so evaluation reads rows that policies"
        " learn from, and its values may be too high"
    )
    return _Parts(log, log, log, held_out=False)


def _random_parts(dataset: Dataset, sizes: Sequence[float], rng: np.random.Generator) -> list[Dataset]:
    """Random complete episodes for each size; a part may come out empty."""
    episodes = rng.permutation(np.flatnonzero(dataset.complete))
    lengths = dataset.episode_lengths[episodes]
    middles = np.cumsum(lengths) - lengths / 2  # an episode goes where its middle falls
    part_of = np.searchsorted(np.cumsum(sizes), middles, side="right")
    return [dataset.episodes(np.sort(episodes[part_of == part])) for part in range(len(sizes))]


def _drawn(dataset: Dataset, count: int, rng: np.random.Generator) -> tuple[Dataset, Dataset]:
    """(count random complete episodes, the other complete ones)."""
    complete = rng.permutation(np.flatnonzero(dataset.complete))
    return dataset.episodes(np.sort(complete[:count])), dataset.episodes(np.sort(complete[count:]))


def _complete_transitions(dataset: Dataset) -> int:
    return int(dataset.episode_lengths[dataset.complete].sum())


def _amount(dataset: Dataset) -> str:
    episodes = dataset.num_episodes
    return f"{episodes:,} episode{'s' * (episodes != 1)} ({len(dataset):,} transitions)"


def _not_expert(dataset: Dataset) -> Dataset:
    return replace(dataset, is_expert=np.zeros(len(dataset), bool))


def _shuffled(dataset: Dataset, rng: np.random.Generator) -> Dataset:
    """Its episodes in random order, so that the first ones represent them all; an unfinished one stays last."""
    order = rng.permutation(dataset.num_episodes)
    return dataset.episodes(order[np.argsort(~dataset.complete[order], kind="stable")])
