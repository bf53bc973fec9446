"""A made-up clinic: patients, four treatments, and the exact truth about every policy. It needs NumPy alone.

A patient has a severity 1 … 8 (0: recovered, 9: lost), a burden of side effects 0 … 4 and one of three types, which
never changes. Every day a treatment is chosen:

    wait       the burden fades
    gentle     improves any patient now and then, and adds no burden
    A, B       improve often where they suit the type, and mostly add to the burden; A suits type 0, B type 1,
               and both help type 2 a little less

A burden weakens every treatment and makes patients worse, so strong treatment must pause in time, and the right
moment depends on everything that is seen. A day costs up to 0.05 by severity and up to 0.05 by burden; recovery earns
1, a loss costs 1; after 30 days the episode is cut. What is observed is temperature (by severity), creatinine (by
burden) and the type, one-hot: a function of the finite state. So the value of any policy is a matter of linear algebra,
and no sampling (`value`).

The numbers are invented. Nothing here says anything about medicine.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

TREATMENTS = ("wait", "gentle", "A", "B")
OBSERVED = ("temperature", "creatinine", "type 0", "type 1", "type 2")
DAYS = 30
WORST, BURDENS, TYPES = 9, 5, 3  # severities 0 and 9 end the episode
LIVING = (WORST - 1) * BURDENS * TYPES  # states 0 … LIVING − 1; the next is recovery, the last is a loss
RECOVERED, LOST = LIVING, LIVING + 1

_IMPROVES = np.array(  # [treatment, type] chance that a treatment improves a patient without burden
    [[0.05, 0.05, 0.05], [0.20, 0.20, 0.20], [0.70, 0.15, 0.49], [0.15, 0.70, 0.49]]
)
_STRONG = 0.4  # chance that an improvement is of two steps
_FADES = 0.12  # share of the chance to improve that each step of burden takes away
_WORSENS, _PER_BURDEN = 0.25, 0.06  # chance that a patient who does not improve worsens; added per step of burden
_BURDENS = np.array([0.0, 0.1, 0.5, 0.5])  # [treatment] chance that the burden grows by one
_RELIEVES = np.array([0.5, 0.3, 0.0, 0.0])  # [treatment] chance that it shrinks by one


def states() -> np.ndarray:
    """[LIVING, 3] severity, burden and type of each state."""
    severity, burden, kind = np.indices((WORST - 1, BURDENS, TYPES)).reshape(3, -1)
    return np.stack([severity + 1, burden, kind], 1)


def observations() -> np.ndarray:
    """[LIVING, 5] float32: what is seen of each state (`OBSERVED`)."""
    return _seen(*states().T)


def _seen(severity: Any, burden: Any, kind: Any) -> np.ndarray:
    temperature = 36.5 + 0.45 * severity
    creatinine = 0.8 * 1.35**burden
    return np.concatenate([np.stack([temperature, creatinine], -1), np.eye(TYPES)[kind]], -1, dtype=np.float32)


def transitions() -> tuple[np.ndarray, np.ndarray]:
    """([LIVING, 4, LIVING + 2] chances of the next state, [LIVING, 4] expected reward of the day)."""
    chances = np.zeros((LIVING, len(TREATMENTS), LIVING + 2))
    rewards = np.zeros((LIVING, len(TREATMENTS)))
    for i, (severity, burden, kind) in enumerate(states()):
        for treatment in range(len(TREATMENTS)):
            improves = _IMPROVES[treatment, kind] * (1 - _FADES * burden)
            worsens = (1 - improves) * (_WORSENS + _PER_BURDEN * burden)
            moves = {-2: improves * _STRONG, -1: improves * (1 - _STRONG), 1: worsens, 0: 1 - improves - worsens}
            grows, shrinks = _BURDENS[treatment], _RELIEVES[treatment]
            for move, likely in moves.items():
                for change, chance in ((1, grows), (-1, shrinks), (0, 1 - grows - shrinks)):
                    after = _state(severity + move, int(np.clip(burden + change, 0, BURDENS - 1)), kind)
                    chances[i, treatment, after] += likely * chance
            cost = 0.05 * severity / WORST + 0.05 * burden / (BURDENS - 1)
            rewards[i, treatment] = chances[i, treatment, RECOVERED] - chances[i, treatment, LOST] - cost
    return chances, rewards


def _state(severity: int, burden: int, kind: int) -> int:
    if severity <= 0:
        return RECOVERED
    return LOST if severity >= WORST else int(((severity - 1) * BURDENS + burden) * TYPES + kind)


def initial() -> np.ndarray:
    """[LIVING] chances of the first state: severity 3 to 6, no burden, any type."""
    severity, burden, _ = states().T
    first = (severity >= 3) & (severity <= 6) & (burden == 0)
    return first / first.sum()


def value(policy: Any, gamma: float = 1.0, stochastic: bool = False, horizon: int = DAYS) -> float:
    """The exact expected return Σ_{t < horizon} γ^t r_t of a policy, from the first day on.

    policy: has `act(observations)` and, if it is to sample, `probabilities(observations)`; or [LIVING, 4] chances.
    """
    chances, rewards = transitions()
    if isinstance(policy, np.ndarray):
        taken = policy
    elif stochastic:
        taken = policy.probabilities(observations())
    else:
        taken = np.eye(len(TREATMENTS))[policy.act(observations())]
    moves = np.einsum("sa,sat->st", taken, chances)[:, :LIVING]
    earned, values = (taken * rewards).sum(1), np.zeros(LIVING)
    for _ in range(horizon):
        values = earned + gamma * moves @ values
    return float(initial() @ values)


def optimal_judgement() -> np.ndarray:
    """[LIVING, 4] Q* without discount and without a last day, by value iteration."""
    chances, rewards = transitions()
    judged = np.zeros_like(rewards)
    for _ in range(2_000):  # the error is below rounding long before
        judged = rewards + chances[:, :, :LIVING] @ judged.max(1)
    return judged


class Clinic:
    """One patient after the other, called as a Gymnasium environment is."""

    observation_space = SimpleNamespace(shape=(len(OBSERVED),))
    action_space = SimpleNamespace(n=len(TREATMENTS))
    spec = SimpleNamespace(max_episode_steps=DAYS)

    def __init__(self) -> None:
        chances, _ = transitions()
        self._cumulated, self._seen, self._states = chances.cumsum(-1), observations(), states()
        severity, burden, _ = self._states.T
        self._cost = 0.05 * severity / WORST + 0.05 * burden / (BURDENS - 1)
        self._first = np.flatnonzero(initial())
        self._rng, self._state, self._day = np.random.default_rng(0), 0, 0

    def close(self) -> None:
        """Nothing is open."""

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        del options
        if seed is not None:
            self._rng = np.random.default_rng(seed)
        self._state, self._day = int(self._rng.choice(self._first)), 0
        return self._seen[self._state].copy(), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """(what is seen of the next state; reward; terminated; truncated; {}). An end shows the last burden."""
        cost, row = self._cost[self._state], self._cumulated[self._state, action]
        after = min(int(np.searchsorted(row, self._rng.random(), side="right")), LOST)
        self._day += 1
        ended = after >= LIVING
        earned = float({RECOVERED: 1.0, LOST: -1.0}.get(after, 0.0) - cost)
        if ended:
            _, burden, kind = self._states[self._state]
            return _seen(0 if after == RECOVERED else WORST, burden, kind), earned, True, False, {}
        self._state = after
        return self._seen[after].copy(), earned, False, self._day >= DAYS, {}
