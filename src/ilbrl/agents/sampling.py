"""Logs whose rows do not fit into memory: every row is labelled, and whole episodes drawn at random are trained on.

The expert's rows are always all there. Rewards that are made row by row (soft support, the logs' own) are those of all
logs; what must be learned to reward rows (discriminators) learns from the sample.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ilbrl.agents.agent import Agent, PerRow, Prepared, prepare
from ilbrl.base.errors import IlbrlError
from ilbrl.data import Dataset, same_choices
from ilbrl.data.on_disk import release
from ilbrl.learning.memory import bytes_per_row, room_for_rows
from ilbrl.learning.spec import Spec
from ilbrl.rewards import Labelling


def prepare_within(
    memory: float | None,
    agent: Agent,
    expert: Dataset,
    logs: Dataset,
    configs: Sequence[Any],
    seeds: Sequence[int],
    *,
    reward: PerRow | None = None,
    weight: PerRow | None = None,
    updates: int | None = None,
    warn: Callable[[str], None] = lambda said: None,
    quiet: bool = False,
) -> Prepared:
    """`prepare`, with a sample of the logs where their rows would take more than `memory` gigabytes.

    memory: None: half of what this machine has.
    warn: is told in a sentence what was sampled.
    """
    expert, logs = same_choices([expert, logs])  # the sample may lack an action
    room, per_row = (
        room_for_rows(memory),
        bytes_per_row(logs.obs_dim, logs.num_actions if logs.discrete else logs.act_dim),
    )
    options: dict[str, Any] = {"updates": updates, "quiet": quiet}
    if agent.rows == "expert" or per_row * (len(expert) + len(logs)) <= room:
        return prepare(agent, expert, logs, configs, seeds, reward=reward, weight=weight, **options)
    episodes = sample_episodes(logs, room // per_row - len(expert))
    rows = np.concatenate([np.arange(len(expert)), len(expert) + logs.rows_of(episodes)])
    made, after = None, None
    if reward is None and agent.reward is not None and agent.reward.row_by_row:
        made = agent.reward.label(Labelling(expert, logs, Spec.of(expert, logs), configs, seeds, updates, quiet=quiet))
        if made.set_of is not None:
            raise IlbrlError("logs that exceed memory are labelled once: give all configurations one action_distance")
        reward, after = made.rewards, made.absorbing
    chosen = logs.episodes(episodes)
    assert logs.content_hash  # reads every page, and is kept
    release(logs)  # the pages would stay in memory beside the sample
    warn(
        f"{logs.source}: {len(logs):,} rows take about {per_row * len(logs) / 1e9:.1f} GB in training, and"
        f" {room / 1e9:.1f} GB are allowed: {'all are labelled, and ' if made else ''}{len(chosen):,} of them are"
        f" trained on ({len(episodes):,} of {logs.num_episodes:,} episodes, drawn at random), with all"
        f" {len(expert):,} of the expert's"
    )
    prepared = prepare(
        agent, expert, chosen, configs, seeds, reward=_at(reward, rows), weight=_at(weight, rows),
        absorbing=None if after is None else after[rows], **options,
    )  # fmt: skip
    labels = prepared.labels if made is None else made.labels
    return replace(prepared, labels=labels, identity={**prepared.identity, "sampled_rows": len(chosen)})


def sample_episodes(logs: Dataset, room: int) -> np.ndarray:
    """[E] numbers of episodes, in order: drawn at random, as many as have no more rows than there is room for."""
    drawn = np.random.default_rng(0).permutation(logs.num_episodes)
    fitting = np.cumsum(logs.episode_lengths[drawn]) <= room
    if not fitting[0]:
        raise IlbrlError(
            f"{logs.source}: there is room for {max(room, 0):,} rows of it in memory, and its first episode drawn has"
            f" {logs.episode_lengths[drawn[0]]:,}; allow more memory (--memory), or mark where episodes end"
        )
    return np.sort(drawn[fitting])


def _at(given: PerRow | None, rows: np.ndarray) -> PerRow | None:
    """One number per row, of these rows alone; a function sees them anyway."""
    return given if given is None or callable(given) else np.asarray(given)[rows]
