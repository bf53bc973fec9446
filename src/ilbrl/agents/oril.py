"""ORIL (Zolna et al. 2020): learn a reward that tells the expert's steps from the rest, then one offline RL call.

    f     discriminator of D_E against D_U                                               (rewards/discriminator.py)
    r     = k · f(s, a)     ("logit": what the code behind the paper feeds; preset `paper`)
    r     = k · σ(f(s, a))  ("probability": Zolna's own; the default)
    TD3-BC on r with every row cloned alike                                                       (agents/td3bc.py)

Each member has its own discriminator, since its learning rate and seed are the member's. The positive-unlabelled loss
is Zolna's remedy for expert-like rows among the unlabelled ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import jax
import numpy as np

from ilbrl.agents import preparation, td3bc
from ilbrl.agents.preparation import Prepared
from ilbrl.agents.td3bc import State, actor_layers, init, period
from ilbrl.base.errors import IlbrlError
from ilbrl.data import Dataset
from ilbrl.learning.batches import Batch
from ilbrl.learning.config import config
from ilbrl.rewards.discriminator import Loss

__all__ = ["PRESETS", "Config", "State", "actor_layers", "init", "period", "prepare", "step"]


@config
class Config(td3bc.Config):
    """TD3-BC's hyper-parameters and those of the reward."""

    reward: Literal["logit", "probability"] = "logit"
    reward_scale: float = 0.1
    """k; the paper's choice for every task, and SMODICE's authors' default."""
    discriminator_lr: float = 3e-4
    """SMODICE's authors'; the paper tunes it in U(1e-4, 1e-3)."""
    gradient_penalty: float = 10.0
    """SMODICE's authors'."""
    discriminator_loss: Loss = "logistic"
    positive_share: float = 0.5
    """η of the positive-unlabelled loss (Zolna et al. 2020)."""
    state_only: bool = False
    discriminator_passes: int = 1000
    """Over the expert's rows."""


def reward(cfg: Config, logits: jax.Array) -> jax.Array:
    """[B] what TD3-BC is rewarded with."""
    return cfg.reward_scale * (jax.nn.sigmoid(logits) if cfg.reward == "probability" else logits)


def step(cfg: Config, state: State, batch: Batch, key: jax.Array, phase: int) -> tuple[State, dict[str, jax.Array]]:
    return td3bc.step(cfg, state, batch._replace(rewards=reward(cfg, batch.rewards)), key, phase)


def prepare(
    expert: Dataset, exploratory: Dataset, configs: Sequence[Config], seeds: Sequence[int], quiet: bool = False
) -> Prepared:
    """Train the members' discriminators and label D_U with their logits."""
    for c in configs:
        if c.reward_bounds is not None and (c.reward != "probability" or c.reward_scale != 1.0):
            raise IlbrlError(
                "oril: reward_bounds hold for reward = probability with reward_scale = 1;"
                f" with {c.reward} and {c.reward_scale:g} set reward_bounds to None (--reward-bounds None)"
            )
    spec, feed, labels = preparation.judge(expert, exploratory, configs, seeds, quiet)
    feed = replace(feed, shared={**feed.shared, "weights": np.ones(feed.num_rows, np.float32)})
    largest = np.ones(len(configs)) if configs[0].reward == "probability" else labels.largest
    return Prepared(spec, feed, largest * [c.reward_scale for c in configs], labels)


PRESETS = {
    "default": Config(
        lam=1.0,
        actor_lr=4e-5,
        critic_lr=4e-5,
        reward="probability",
        reward_scale=1.0,
        reward_bounds=(0.0, 1.0),
        layer_norm=True,
    ),  # ILBRL's solver: a comparison shall be one of rewards
    "paper": Config(
        actor_lr=8.59713615304861e-5, critic_lr=3e-4, reward_scale=0.1, discriminator_lr=0.0006509491094594771
    ),
}
