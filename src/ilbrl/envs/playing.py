"""Playing a policy in *units*: a fixed number of lanes (environments) stepped in lock-step by one process.

One batched forward pass serves all lanes. A unit's environment seeds and noise come from (seed, stream, unit number)
alone and its batch never changes shape, so a unit is the same bits whichever process plays it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ilbrl.base.errors import IlbrlError
from ilbrl.envs.tasks import EnvironmentCalls, Sizes, build, sizes_of

DEFAULT_TIME_LIMIT = 1000  # for environments that register none
_INERT_WRAPPERS = ("OrderEnforcing", "TimeLimit")  # they check and count, and cost a tenth of a step


class UniformPolicy(NamedTuple):
    """Actions drawn uniformly between the bounds, or among the choices."""

    action_low: np.ndarray  # [act_dim]; of discrete actions [0]
    action_high: np.ndarray  # [act_dim]; of discrete actions [n − 1]
    num_actions: int | None = None  # None: actions are real-valued

    def act(self, observations: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        if self.num_actions is not None:
            return rng.integers(self.num_actions, size=observations.shape[:-1])
        shape = (*observations.shape[:-1], len(self.action_low))
        return rng.uniform(self.action_low, self.action_high, shape).astype(np.float32)

    def log_prob(self, observations: np.ndarray, actions: np.ndarray) -> np.ndarray:
        """[N] log-probabilities, or log-densities in the units of an action in [−1, 1], as `Policy.log_prob` gives."""
        each = len(self.action_low) * np.log(2.0) if self.num_actions is None else np.log(self.num_actions)
        return np.full(len(actions), -each)


class Play(NamedTuple):
    """What all units of one call share."""

    policy: Any  # has `act(observations[, rng])`, or is such a function
    task: str
    seed: int | Sequence[int]
    stream: int  # keeps the randomness of different uses apart
    stochastic: bool
    lanes: int
    min_steps: int  # a lane stops at the first end of an episode after this many steps
    gamma: float = 1.0


class Unit(NamedTuple):
    """What L lanes recorded in T steps; lane i is idle after its first `lengths[i]` steps."""

    observations: np.ndarray  # [T, L, obs_dim] float32
    actions: np.ndarray  # [T, L, act_dim] float32, or [T, L] int64 where they are discrete
    next_observations: np.ndarray  # [T, L, obs_dim] float32
    rewards: np.ndarray  # [T, L] float64
    terminals: np.ndarray  # [T, L] bool
    timeouts: np.ndarray  # [T, L] bool
    lengths: np.ndarray  # [L] int64
    calls: EnvironmentCalls


class _Lane(NamedTuple):
    """One environment without its inert wrappers; `play_unit` itself watches the time limit."""

    reset: Callable[..., tuple[np.ndarray, dict[str, Any]]]
    step: Callable[[Any], tuple[np.ndarray, float, bool, bool, dict[str, Any]]]
    time_limit: int
    sizes: Sizes


@functools.lru_cache(maxsize=2)
def _lanes(task: str, number: int) -> list[_Lane]:
    """A process keeps its environments: making sixteen takes as long as thousands of steps."""
    lanes = []
    for _ in range(number):
        env: Any = build(task, trusted=True)
        limit = env.spec.max_episode_steps or DEFAULT_TIME_LIMIT
        while type(env).__name__ in _INERT_WRAPPERS:
            env = env.env
        lanes.append(_Lane(env.reset, env.step, limit, sizes_of(env)))
    return lanes


def unit_randomness(play: Play, unit: int) -> tuple[list[int], np.random.Generator]:
    """The environment seed of each lane, and the generator of the unit's action noise."""
    if not all(0 <= word < 2**64 for word in np.atleast_1d(np.asarray(play.seed, object))):
        raise IlbrlError(f"a seed is a whole number from 0 to 2⁶⁴ − 1, not {play.seed}")
    sequence = np.random.SeedSequence(play.seed, spawn_key=(play.stream, unit))
    seeds = [int(word) for word in sequence.generate_state(play.lanes, np.uint64)]
    return seeds, np.random.default_rng(sequence.spawn(1)[0])


def play_unit(play: Play, unit: int, used_lanes: int) -> Unit:
    """Play the first `used_lanes` lanes of a unit; the others only fill the batch."""
    lanes = _lanes(play.task, play.lanes)
    seeds, rng = unit_randomness(play, unit)
    act = play.policy.act if hasattr(play.policy, "act") else play.policy
    obs_dim, act_dim, num_actions = lanes[0].sizes
    batch = (play.lanes, act_dim) if num_actions is None else (play.lanes,)
    live = list(range(used_lanes))
    observations = np.zeros((play.lanes, obs_dim), np.float32)
    for i in live:
        observations[i] = lanes[i].reset(seed=seeds[i])[0]
    age, lengths, resets, log = [0] * play.lanes, np.zeros(play.lanes, np.int64), used_lanes, []
    while live:
        answer = np.asarray(act(observations, rng) if play.stochastic else act(observations))
        if answer.shape != batch:
            raise IlbrlError(
                f"{play.task}: the policy answered observations {observations.shape} with actions {answer.shape},"
                f" expected {batch}"
            )
        actions = np.array(answer, np.float32) if num_actions is None else _choices(answer, num_actions, play.task)
        following, rewards = np.zeros_like(observations), np.zeros(play.lanes)
        terminals, timeouts = np.zeros(play.lanes, bool), np.zeros(play.lanes, bool)
        log.append((observations, actions, following, rewards, terminals, timeouts))
        ended = []
        for i in live:
            following[i], rewards[i], terminated, truncated, _ = lanes[i].step(actions[i])
            age[i] += 1
            if terminated or truncated or age[i] == lanes[i].time_limit:
                terminals[i], timeouts[i] = terminated, not terminated
                ended.append(i)
        observations = following.copy()
        for i in ended:
            age[i] = 0
            if len(log) >= play.min_steps:
                lengths[i] = len(log)
                live.remove(i)
            else:
                observations[i] = lanes[i].reset()[0]
                resets += 1
    stacked = [np.stack(column) for column in zip(*log)]
    if not np.isfinite(stacked[1]).all():
        raise IlbrlError(f"{play.task}: some actions of the policy are not finite; what it earned means nothing")
    return Unit(*stacked, lengths, EnvironmentCalls(0, resets, int(lengths.sum()), resets))  # pyright: ignore[reportCallIssue]


def _choices(answer: np.ndarray, num_actions: int, task: str) -> np.ndarray:
    """[L] int64 discrete actions; what is no choice is refused."""
    if not np.issubdtype(answer.dtype, np.integer) or answer.min() < 0 or answer.max() >= num_actions:
        raise IlbrlError(
            f"{task}: an action is a whole number from 0 to {num_actions - 1}, the policy answered {answer}"
        )
    return answer.astype(np.int64)
