"""Exact regret and total variation of ILBRL, BC and SMODICE against the amounts of expert and exploratory data."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ilbrl.base.progress import Advance
from ilbrl.tabular.dice import smodice
from ilbrl.tabular.exact import average_reward, occupancy, total_variation
from ilbrl.tabular.imitation import Config, behavioural_cloning, ilbrl
from ilbrl.tabular.logs import rollout
from ilbrl.tabular.mdp import FiniteMDP, uniform_policy
from ilbrl.tabular.planning import average_optimum
from ilbrl.tabular.worlds import grid_world

EXPERT_STEPS = (10, 30, 100, 300, 1_000, 3_000, 10_000)
EXPLORATORY_STEPS = (100, 300, 1_000, 3_000, 10_000, 30_000)
FIXED_EXPERT, FIXED_EXPLORATORY = 100, 30_000
METHODS: tuple[str, ...] = ("ILBRL", "ILBRL, optimistic", "SMODICE", "BC")


class Curves(NamedTuple):
    """[points, seeds, methods] exact results along one axis of data."""

    steps: tuple[int, ...]
    regret: np.ndarray  # as a share of the expert's average reward
    variation: np.ndarray


def slippery_room() -> FiniteMDP:
    """10 × 10 cells, one step in ten astray: every path is left sooner or later, so BC meets states it never saw."""
    return grid_world(10, 10, slip=0.1)


def against_expert_data(seeds: int, advance: Advance) -> Curves:
    return _curves(EXPERT_STEPS, [(n, FIXED_EXPLORATORY) for n in EXPERT_STEPS], seeds, advance)


def against_exploratory_data(seeds: int, advance: Advance) -> Curves:
    return _curves(EXPLORATORY_STEPS, [(FIXED_EXPERT, n) for n in EXPLORATORY_STEPS], seeds, advance)


def _curves(steps: tuple[int, ...], sizes: list[tuple[int, int]], seeds: int, advance: Advance) -> Curves:
    mdp = slippery_room()
    expert = average_optimum(mdp).policy
    reward, target = average_reward(mdp, expert), occupancy(mdp, expert)
    results = np.empty((2, len(sizes), seeds, len(METHODS)))
    for seed in range(seeds):
        rng = np.random.default_rng(seed)  # shorter logs are the beginnings of longer ones
        demonstrations = rollout(mdp, expert, max(n for n, _ in sizes), rng)
        exploration = rollout(mdp, uniform_policy(mdp), max(n for _, n in sizes), rng)
        for i, (shown, explored) in enumerate(sizes):
            for j, policy in enumerate(_policies(mdp, demonstrations[:shown], exploration[:explored])):
                mine = occupancy(mdp, policy)
                results[0, i, seed, j] = 1 - (mine * mdp.rewards).sum() / reward
                results[1, i, seed, j] = total_variation(mine, target)
            advance(1)
    return Curves(steps, *results)


def _policies(mdp: FiniteMDP, expert, exploratory) -> list[np.ndarray]:
    """In the order of METHODS."""
    data = expert, exploratory, mdp.num_states, mdp.num_actions
    return [
        ilbrl(*data).policy,
        ilbrl(*data, Config(unseen="optimistic")).policy,
        smodice(*data).policy,
        behavioural_cloning(expert, mdp.num_states, mdp.num_actions),
    ]
