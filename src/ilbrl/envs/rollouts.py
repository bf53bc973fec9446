"""Playing policies with all cores: `rollout` and `rollout_all` keep the returns, `collect` the transitions."""

from __future__ import annotations

import itertools
import time
from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ilbrl.base.errors import IlbrlError
from ilbrl.base.processes import run_units, usable_cores
from ilbrl.base.progress import progress
from ilbrl.envs.playing import Play, play_unit
from ilbrl.envs.tasks import EnvironmentCalls, count, normalised_score, require_imported, require_open

EVALUATION, COLLECTION = 0, 1  # streams of randomness
EVALUATION_LANES = 4  # few, so that 30 episodes spread over many cores
COLLECTION_LANES = 16  # many, so that the forward pass costs little
COLLECTION_STEPS = 1000  # per lane and unit
MOST_EPISODES = 1_000_000  # of one rollout; more is a slip of the finger
_PIECE = 960  # rows of log-probabilities at a time: their activations stay in the processor's cache


@dataclass(frozen=True, eq=False)
class Rollouts:
    """The episodes of one policy in one environment."""

    task: str
    returns: np.ndarray  # [E] Σ r
    discounted_returns: np.ndarray  # [E] Σ γ^t r
    lengths: np.ndarray  # [E]
    seconds: float

    @property
    def scores(self) -> np.ndarray | None:
        """[E] normalised scores; None for tasks without constants."""
        return normalised_score(self.task, self.returns)

    @property
    def score(self) -> float | None:
        return None if self.scores is None else float(self.scores.mean())

    @property
    def standard_error(self) -> float:
        """Standard error of the mean return (nan for a single episode)."""
        return float(self.returns.std(ddof=1) / np.sqrt(len(self.returns))) if len(self.returns) > 1 else float("nan")


def rollout(
    policy: Any,
    task: str,
    episodes: int = 30,
    seed: int | Sequence[int] = 0,
    stochastic: bool = False,
    workers: int | None = None,
    quiet: bool = False,
    purpose: str = "evaluation",
    gamma: float = 0.99,
) -> Rollouts:
    """Play whole episodes. Fewer episodes are the first of more, and the number of `workers` never changes a bit.

    `policy` is a `Policy`, any object with `act(observations, rng)` on [N, obs_dim] batches, or such a function;
    unless `stochastic` it is called without `rng`.
    """
    settings = (episodes, seed, stochastic, workers, quiet, purpose, gamma)
    return next(rollout_all([policy], task, *settings))


def rollout_all(
    policies: Sequence[Any],
    task: str,
    episodes: int = 30,
    seed: int | Sequence[int] = 0,
    stochastic: bool = False,
    workers: int | None = None,
    quiet: bool = False,
    purpose: str = "evaluation",
    gamma: float = 0.99,
) -> Generator[Rollouts]:
    """`rollout` of each policy, in order and with the same environment seeds, by one set of processes."""
    require_open(purpose)
    require_imported(task)
    if not 1 <= episodes <= MOST_EPISODES:
        raise IlbrlError(f"a rollout plays at least one episode and at most {MOST_EPISODES:,}, not {episodes:,}")
    plays = [Play(policy, task, seed, EVALUATION, stochastic, EVALUATION_LANES, 1, gamma) for policy in policies]
    units = [
        (i, min(EVALUATION_LANES, episodes - i * EVALUATION_LANES)) for i in range(-(-episodes // EVALUATION_LANES))
    ]
    workers = min(usable_cores() if workers is None else workers, len(units) * len(plays))
    work = [(policy, unit) for policy in range(len(plays)) for unit in units]
    started, parts = time.perf_counter(), []
    with progress(f"{task} rollouts", episodes * len(plays), "episodes", quiet) as advance:
        for returns, discounted, lengths, calls in run_units(_evaluate, plays, work, workers):
            count(purpose, calls)
            parts.append((returns, discounted, lengths))
            advance(len(returns))
            if len(parts) == len(units):
                columns = (np.concatenate(column) for column in zip(*parts))
                yield Rollouts(task, *columns, seconds=time.perf_counter() - started)
                started, parts = time.perf_counter(), []


def _evaluate(
    plays: Sequence[Play], work: tuple[int, tuple[int, int]]
) -> tuple[np.ndarray, np.ndarray, np.ndarray, EnvironmentCalls]:
    """One episode per lane: returns, discounted returns, lengths."""
    play, (index, used) = plays[work[0]], work[1]
    played = play_unit(play, index, used)
    discounts = play.gamma ** np.arange(len(played.rewards))[:, None]
    discounted = (discounts * played.rewards).sum(0)  # rewards are zero where a lane rests
    return played.rewards.sum(0)[:used], discounted[:used], played.lengths[:used], played.calls


def collect_units(
    policy: Any,
    task: str,
    units: Iterable[int],
    seed: int | Sequence[int] = 0,
    stochastic: bool = True,
    workers: int | None = None,
    purpose: str = "collection",
) -> Generator[dict[str, np.ndarray]]:
    """Transitions of the numbered units, in order: whole episodes, at least `COLLECTION_STEPS` of each lane.

    A lane plays on until an episode ends. Long episodes are therefore as frequent as in endless play; stopping after a
    fixed number of steps would keep more of the short ones.
    """
    require_open(purpose)
    require_imported(task)
    play = Play(policy, task, seed, COLLECTION, stochastic, COLLECTION_LANES, COLLECTION_STEPS)
    for arrays, calls in run_units(log_unit, play, units, workers or usable_cores()):
        count(purpose, calls)
        yield arrays


def collection_workers(transitions: int) -> int:
    """As many processes as there are units to collect, at most one per core."""
    return min(usable_cores(), -(-transitions // (COLLECTION_LANES * COLLECTION_STEPS)))


def collect(
    policy: Any,
    task: str,
    transitions: int,
    seed: int | Sequence[int] = 0,
    stochastic: bool = True,
    workers: int | None = None,
    quiet: bool = False,
    purpose: str = "collection",
) -> dict[str, np.ndarray]:
    """Exactly so many transitions, as columns named like the fields of a `Dataset`; the last episode may be cut."""
    parts, rows = [], 0
    workers = workers or collection_workers(transitions)
    with progress(f"collecting {task}", transitions, "transitions", quiet) as advance:
        for part in collect_units(policy, task, itertools.count(), seed, stochastic, workers, purpose):
            parts.append(part)
            rows += len(part["rewards"])
            advance(len(part["rewards"]))
            if rows >= transitions:
                break
    return {name: np.concatenate([part[name] for part in parts])[:transitions] for name in parts[0]}


def log_unit(play: Play, unit: int) -> tuple[dict[str, np.ndarray], EnvironmentCalls]:
    """The transitions of a unit, lane after lane."""
    played = play_unit(play, unit, play.lanes)
    lived = np.arange(len(played.rewards)) < played.lengths[:, None]  # [L, T]
    names = ("observations", "actions", "next_observations", "rewards", "terminals", "timeouts")
    arrays = {name: getattr(played, name).swapaxes(0, 1)[lived] for name in names}
    arrays["rewards"] = arrays["rewards"].astype(np.float32)
    if play.stochastic and hasattr(play.policy, "log_prob"):
        pieces = (slice(start, start + _PIECE) for start in range(0, len(arrays["rewards"]), _PIECE))
        log_probs = [play.policy.log_prob(arrays["observations"][rows], arrays["actions"][rows]) for rows in pieces]
        arrays["log_probs"] = np.concatenate(log_probs, dtype=np.float32)
    return arrays, played.calls
