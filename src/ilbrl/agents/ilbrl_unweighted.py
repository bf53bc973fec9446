"""The ablation: ILBRL with every row's cloning loss weighted alike (plain TD3-BC on the intrinsic reward)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ilbrl.agents import ilbrl
from ilbrl.agents.ilbrl import PRESETS
from ilbrl.agents.preparation import Prepared
from ilbrl.agents.td3bc import Config, State, actor_layers, init, period, step
from ilbrl.data import Dataset

__all__ = ["PRESETS", "Config", "State", "actor_layers", "init", "period", "prepare", "step"]


def prepare(
    expert: Dataset,
    exploratory: Dataset,
    configs: Sequence[Config] = (),
    seeds: Sequence[int] = (),
    quiet: bool = False,
) -> Prepared:
    prepared = ilbrl.prepare(expert, exploratory, configs, seeds, quiet)
    weights = np.ones(prepared.feed.num_rows, np.float32)
    return replace(prepared, feed=replace(prepared.feed, shared={**prepared.feed.shared, "weights": weights}))
