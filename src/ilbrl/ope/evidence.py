"""The evidence of an off-policy evaluation: logs to learn from, episodes held out, initial states.

Estimators read the true rewards of the logs through here alone. Beside them, oracles learn from true rewards, and
summaries of data show them; no imitator reads any. Logs without rewards get the intrinsic reward instead, closeness to
the expert's steps (`ope.closeness`), and every number says so (`Quantity.reward`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

import jax.numpy as jnp
import numpy as np

from ilbrl.base.errors import IlbrlError
from ilbrl.data import Dataset, concatenate, same_actions
from ilbrl.data.splits import Composition, split_episodes
from ilbrl.learning.spec import Spec
from ilbrl.ope.closeness import Closeness

Reward = Literal["logged", "intrinsic"]

HELD_OUT = 2 / 7  # the paper's: 200,000 of the 700,000 transitions for evaluation
FEWEST_EPISODES = 10  # complete ones, for some to be held out
FEWEST_STARTS = 20  # held-out initial states; with fewer, those of all episodes serve
FEWEST_LEFT = 0.1  # of all rows, for what is left without a log to say anything about policies


@dataclass(frozen=True)
class Quantity:
    """What a number is about; two numbers are comparable only if these are equal."""

    gamma: float = 1.0
    horizon: int | None = None
    """Steps that count; None: as long as the episode lasts."""
    reward: Reward = "logged"

    def __str__(self) -> str:
        what = "return" if self.reward == "logged" else "closeness to the expert, summed over the steps"
        if self.gamma < 1:
            return f"discounted {what} at γ = {self.gamma:g}"
        steps = "" if self.horizon is None else f" of at most {self.horizon:,} steps"
        return f"mean {what} of an episode{steps}"

    def left(self, steps: Any) -> Any:
        """Σ γ^k over the steps that are left after step t of an episode, discounted as from t: k = 1, …, H − 1 − t."""
        if self.horizon is None:
            return self.gamma / (1 - self.gamma)
        count = self.horizon - 1 - steps
        return count if self.gamma == 1 else self.gamma * (1 - self.gamma**count) / (1 - self.gamma)

    def returns(self, episodes: Dataset) -> np.ndarray:
        """[E] float64 Σ_{t < H} γ^t r_t of each episode, complete or not."""
        if self.horizon is None or not len(episodes) or episodes.episode_lengths.max() <= self.horizon:
            return episodes.returns(self.gamma)
        assert episodes.rewards is not None
        counted = np.where(episodes.step_of < self.horizon, episodes.rewards, 0.0)
        return replace(episodes, rewards=counted).returns(self.gamma)


@dataclass(frozen=True, eq=False)
class Evidence:
    """What estimators learn from and where they value policies. Make one with `of` or `of_composition`."""

    logs: Mapping[str, Dataset]  # name → rows to learn from, rewarded; the expert's are called "expert"
    held_out: Mapping[str, Dataset]  # name → episodes that nobody learns from, rewarded alike; may lack names
    initial_observations: np.ndarray  # [M, obs_dim] states at which policies are valued
    spec: Spec  # normaliser and action bounds
    horizon: int  # the logs' own time limit: the length of their longest episode
    closeness: Closeness | None = None  # the intrinsic reward, where it is valued
    notes: tuple[str, ...] = field(default=())  # reservations: each is a reason for care
    training: Mapping[str, Dataset] = field(default_factory=dict)
    """name → further rows of that log, which policies were trained on: good for learning dynamics, not for values."""
    unsplit: frozenset[str] = frozenset()
    """Logs too small to be split: what is learnt from and what is held out are the same episodes."""
    with_rewards: Mapping[str, Dataset] = field(default_factory=dict)
    """The logs with the task's rewards, where closeness is valued and they carry some: models learn these beside it."""
    end: Callable[[Any, Any, Any], Any] | None = None
    """(observations, actions, next observations), in the units of the logs → bool: where episodes end, for estimators
    that play them; None: as it was learned."""
    begun: tuple[tuple[str, Dataset], ...] = ()
    """(name of a log, episodes) whose first observations are the initial ones; none where these were given."""

    @staticmethod
    def of(
        logs: Mapping[str, Dataset],
        *,
        held_out: Mapping[str, Dataset] | None = None,
        initial_observations: np.ndarray | None = None,
        spec: Spec | None = None,
        demonstrations: Dataset | None = None,
        intrinsic: bool | None = None,
        notes: tuple[str, ...] = (),
        unsplit: frozenset[str] = frozenset(),
    ) -> Evidence:
        """Evidence from named logs.

        initial_observations: by default those of the held-out episodes, or of all where these are few.
        spec: by default the normaliser of all logs.
        demonstrations: the expert's steps that closeness is measured to; by default the log "expert".
        intrinsic: True: values of the intrinsic reward, whatever the logs carry. None: only where a log carries none.
        unsplit: logs whose held-out episodes are also learnt from; they begin once.
        """
        logs = {name: data for name, data in logs.items() if len(data)}
        if not logs:
            raise IlbrlError("evaluation needs logs to learn from: none has a row")
        held_out = {name: data for name, data in (held_out or {}).items() if len(data)}
        alike = iter(same_actions([*logs.values(), *held_out.values()]))  # a log may lack an action
        logs, held_out = ({name: next(alike) for name in part} for part in (logs, held_out))
        union = concatenate(list(logs.values()))
        spec = spec or Spec.of(union)
        every = (*logs.values(), *held_out.values())
        horizon = int(max(data.episode_lengths.max() for data in every))
        if intrinsic is None:
            intrinsic = any(data.rewards is None for data in every)
        closeness, with_rewards = None, {}
        if intrinsic:
            expert = demonstrations if demonstrations is not None else logs.get("expert")
            if expert is None:
                raise IlbrlError(
                    f"{union.source}: without rewards, policies are valued by their closeness to the expert, and no log"
                    ' is called "expert"; name the expert\'s, or add a rewards column'
                )
            others = [data for name, data in logs.items() if name != "expert"]
            with_rewards = logs if carry_rewards(logs.values()) else {}
            closeness = Closeness.to(expert, union, spec, beside=concatenate(others) if others else None)
            logs, held_out = ({name: closeness.label(data) for name, data in part.items()} for part in (logs, held_out))
            note = "values are of the intrinsic reward, closeness to the expert's steps, and not of a task's reward"
            notes = (*notes, note)
        else:
            _require_rewards(union, logs.values())
        starts, begun = initial_observations, ()
        if starts is None:
            begun = _begun(logs, held_out, unsplit)
            starts = np.concatenate([data.initial_observations for _, data in begun])
        if not len(starts):
            raise IlbrlError(f"{union.source}: no initial observations to value policies at")
        found = Evidence(logs, held_out, starts, spec, horizon, closeness, notes, unsplit=unsplit, begun=begun)
        return replace(found, with_rewards=with_rewards)

    @staticmethod
    def holding_out(logs: Mapping[str, Dataset], rng: np.random.Generator | int = 0, **options: Any) -> Evidence:
        """Evidence from logs that nobody has split: random whole episodes of each are held out, `HELD_OUT` of its rows.

        A log of fewer than `FEWEST_EPISODES` complete episodes gives none away and serves twice; a note says so.
        options: as for `of`.
        """
        rng, kept, held, notes = np.random.default_rng(rng), {}, {}, []
        for name, data in logs.items():
            complete = int(data.complete.sum())
            if complete < FEWEST_EPISODES:
                kept[name] = data
                notes.append(f"the log {name} has {complete} complete episodes, too few to hold any out")
                continue
            rows = int(data.episode_lengths[data.complete].sum())
            count = int(HELD_OUT * rows)
            held[name], kept[name] = split_episodes(data, [count, rows - count], rng)
        return Evidence.of(kept, held_out=held, notes=tuple(notes), **options)

    @staticmethod
    def of_composition(composition: Composition, intrinsic: bool | None = None) -> Evidence:
        """The evaluation and validation parts of a split, under the names "expert" and "logs", and the training part.

        The normaliser is that of the training data, and closeness is measured to the expert episodes trained on.
        """
        validation = composition.validation
        assert validation.is_expert is not None
        by_expert = validation.is_expert[validation.episode_starts]
        halves = {"expert": by_expert, "logs": ~by_expert}
        apart = {"expert": composition.expert_held_out, "logs": composition.logs_held_out}
        trained_on = {"expert": composition.training_expert, "logs": composition.training_logs}
        evidence = Evidence.of(
            {"expert": composition.evaluation_expert, "logs": composition.evaluation_logs},
            held_out={name: validation.episodes(np.flatnonzero(half)) for name, half in halves.items()},
            spec=Spec.of(composition.training),
            demonstrations=composition.training_expert,
            intrinsic=intrinsic,
            notes=tuple(
                f"the log {name} is too small to be split: evaluation reads the episodes that policies were trained on"
                for name in apart
                if not apart[name]
            ),
            unsplit=frozenset(name for name in apart if not apart[name]),
        )
        training = {name: data for name, data in trained_on.items() if apart[name]}
        with_rewards = evidence.with_rewards if carry_rewards(training.values()) else {}
        return replace(evidence, training=training, with_rewards=with_rewards)

    @property
    def reward(self) -> Reward:
        return "logged" if self.closeness is None else "intrinsic"

    @cached_property
    def union(self) -> Dataset:
        """All rows to learn from, log after log."""
        return concatenate(list(self.logs.values()))

    def without(self, log: str) -> Evidence | None:
        """The same without the rows of one log, its held-out episodes among them; initial states and horizon stay.

        None where too little would be left: what then fails are the models of a few rows, not those of all.
        """
        parts = ("logs", "training", "held_out", "with_rewards")
        left = replace(
            self, **{part: {name: data for name, data in getattr(self, part).items() if name != log} for part in parts}
        )
        return left if left.rows >= FEWEST_LEFT * self.rows else None

    @property
    def rows(self) -> int:
        """Of all logs, those included that policies were trained on."""
        return sum(len(data) for part in (self.logs, self.training) for data in part.values())

    def logged_returns(self, quantity: Quantity, log: str = "logs") -> np.ndarray:
        """[M] what this log's own episodes earned from each initial observation; NaN: another log's, or not known."""
        if not self.begun:
            return np.full(len(self.initial_observations), np.nan)
        episodes = [(name, self.arriving(data, quantity)) for name, data in self.begun]
        found = [np.where(data.complete & (name == log), quantity.returns(data), np.nan) for name, data in episodes]
        return np.concatenate(found)

    def rewarded(self, episodes: Dataset, quantity: Quantity) -> Dataset:
        """Other episodes with the reward that is valued here, and what follows their terminals."""
        return episodes if self.closeness is None else self.arriving(self.closeness.label(episodes), quantity)

    def arriving(self, rewarded: Dataset, quantity: Quantity) -> Dataset:
        """The same rows, whose terminals also earn what the absorbing state earns that they lead into, if any."""
        if self.closeness is None or self.closeness.goal is None or rewarded.rewards is None:
            return rewarded
        at = np.flatnonzero(rewarded.terminals)
        rewards = rewarded.rewards.astype(np.float64)
        likeness = np.asarray(self.closeness.arrival(jnp.asarray(rewarded.observations[at])))
        rewards[at] += likeness * np.maximum(quantity.left(rewarded.step_of[at]), 0.0)
        return replace(rewarded, rewards=rewards)

    def value_range(self, gamma: float) -> tuple[float, float]:
        """The discounted values that the logs' rewards allow; 0 is always among them, for an episode may end."""
        assert self.union.rewards is not None
        low, high = min(float(self.union.rewards.min()), 0.0), max(float(self.union.rewards.max()), 0.0)
        return low / (1 - gamma), high / (1 - gamma)


def _begun(
    logs: Mapping[str, Dataset], held_out: Mapping[str, Dataset], unsplit: frozenset[str]
) -> tuple[tuple[str, Dataset], ...]:
    """(log, episodes) to begin where they did: those held out, and all others where these are few."""
    if sum(data.num_episodes for data in held_out.values()) >= FEWEST_STARTS:
        return tuple(held_out.items())
    return (*held_out.items(), *((name, data) for name, data in logs.items() if name not in unsplit & held_out.keys()))


def carry_rewards(logs: Iterable[Dataset]) -> bool:
    """Whether all of them carry rewards, and finite ones."""
    return all(data.rewards is not None and bool(np.isfinite(data.rewards).all()) for data in logs)


def _require_rewards(union: Dataset, logs: Iterable[Dataset]) -> None:
    if union.rewards is None:
        raise IlbrlError(
            f"{union.source}: not all of these logs carry rewards; add a rewards column, or value policies by their"
            " closeness to the expert (intrinsic=True)"
        )
    for data in logs:
        assert data.rewards is not None
        if not np.isfinite(data.rewards).all():
            row = data.source_row(np.argmin(np.isfinite(data.rewards)))
            raise IlbrlError(f"{data.source}: rewards: row {row} is not finite; repair it or leave it out")
    if not union.rewards.any():
        raise IlbrlError(f"{union.source}: all rewards are 0, so every policy is worth 0; is the column right?")
