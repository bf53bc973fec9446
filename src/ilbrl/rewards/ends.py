"""What follows a terminal, for rewards that are never negative.

With such a reward a long episode earns more than a short one. That is right where terminals are falls, as in the
paper's tasks. Where they are what the expert is after, an agent would learn never to arrive. There a terminal leads
into an absorbing state, which earns for ever as much as the end resembles the expert's ends:

    k(x, y) = min(1, (σ / ‖x − y‖)²)
    c(x)    = min(1, mean_j k(x, x_j) / median_i mean_{j ≠ i} k(x_i, x_j))

x is the last observation before a terminal, standardised, x_j are the expert's, and σ is the median distance between
two of these, but at least √(2 D), as far as two logged observations of D numbers usually are. So ends as far apart as
the expert's are all worth about 1, and those of another kind (a crash, where the expert lands) less. Of an expert with
more than 1,000 ends, 1,000 spread evenly are x_j. What was observed after a terminal is not used, since logs seldom
have it.

The expert works towards terminals if it meets them sooner than the logs do, and most of its episodes end by one. Where
actions are continuous, terminals are falls more often than goals, so nearly all have to: one fall among two or three
demonstrations is no goal. An expert that always falls, but later than others, does not work towards that either.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal, NamedTuple

import numpy as np
from scipy.spatial.distance import cdist

from ilbrl.data import Dataset
from ilbrl.learning.config import config
from ilbrl.rewards.labels import Labelling

MOST_EXPERTS, BLOCK = 1000, 65_536  # ends of the expert that others are compared with; ends compared at a time
ARRIVING = 0.8  # share of the expert's episodes that end by a terminal, where that is what it is after
CHOOSING = 0.5  # the same with discrete actions


@config
class Ends:
    """What an agent can choose about it."""

    ends: Literal["auto", "failure", "success"] = "auto"
    """What a terminal is. failure: nothing more is earned, as in the paper. success: as much is earned for ever as the
    end resembles the expert's. auto: success where the expert has more terminals per step than the logs, and at least
    four fifths of its episodes end by one (half of them, where actions are discrete)."""


def settled(config: Any, expert: Dataset, logs: Dataset) -> Any:
    """The configuration with `ends` decided by these logs, which must not hold imagined steps: those seldom end."""
    if getattr(config, "ends", None) != "auto":
        return config
    most = CHOOSING if expert.discrete else ARRIVING
    sooner = expert.terminals.mean() > (logs.terminals.mean() if len(logs) else 0)
    arrives = sooner and expert.terminals.sum() >= most * expert.num_episodes
    return replace(config, ends="success" if arrives else "failure")


def rewards_after(asked: Labelling) -> np.ndarray | None:
    """[N] float32 in [0, 1]: c at terminal rows, 0 elsewhere; None: nothing follows a terminal."""
    expert = asked.expert
    if settled(asked.configs[0], expert, asked.logs).ends == "failure" or not expert.terminals.any():
        return None
    last = [asked.spec.standardise(data.observations[data.terminals]) for data in (expert, asked.logs)]
    at = np.flatnonzero(np.concatenate([expert.terminals, asked.logs.terminals]))
    found = np.zeros(len(expert) + len(asked.logs), np.float32)
    found[at] = likeness(np.concatenate(last), last[0])
    return found


class Goal(NamedTuple):
    """What ends are compared with."""

    ends: np.ndarray  # [m, D] x_j, the expert's
    sigma: float
    usual: float  # median_i mean_{j ≠ i} k(x_i, x_j)


def goal_of(experts: np.ndarray) -> Goal:
    """The goal of an expert whose last observations, standardised, are [m, D] `experts`."""
    if len(experts) > MOST_EXPERTS:
        experts = experts[np.linspace(0, len(experts) - 1, MOST_EXPERTS).astype(int)]
    among = cdist(experts, experts)
    pairs = among[np.triu_indices(len(experts), k=1)]
    sigma = max(float(np.median(pairs)) if len(pairs) else 0.0, float(np.sqrt(2 * experts.shape[1])))
    own = (_near(among, sigma).sum(1) - 1) / (len(experts) - 1) if len(pairs) else 1.0  # each beside the others
    return Goal(experts, sigma, float(np.median(own)))


def likeness(ends: np.ndarray, experts: np.ndarray) -> np.ndarray:
    """[n] c of [n, D] last observations beside [m, D] of the expert's."""
    goal = goal_of(experts)
    blocks = (ends[start : start + BLOCK] for start in range(0, len(ends), BLOCK))
    near = [_near(cdist(block, goal.ends), goal.sigma).mean(1) for block in blocks]
    return np.minimum(1, np.concatenate(near) / goal.usual)


def _near(distance: np.ndarray, sigma: float) -> np.ndarray:
    """k of observations this far apart."""
    return (sigma / np.maximum(distance, sigma)) ** 2
