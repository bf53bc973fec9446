"""Behavioural cloning: a deterministic actor fitted to the expert's steps, and to nothing else.

    L_π = mean_b mean_d (π_d(s_b) − a_bd)²            over D_E only; observations standardised by D_E alone

Early stopping, off in the paper, is an option: with `held_out_percent` > 0 the last part of the expert's rows is never
trained on. The loss there is followed by an exponential mean over about 1/`smoothing` batches, and the policy that is
returned is the one with which this mean was lowest. A contiguous part, because neighbouring steps are near-copies.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ilbrl.agents.preparation import Prepared
from ilbrl.base.errors import IlbrlError
from ilbrl.data import Dataset
from ilbrl.learning import batches as feeding
from ilbrl.learning import nets
from ilbrl.learning.batches import Batch, Feed, Spec
from ilbrl.learning.config import config


@config
class Config:
    lr: float = 1e-4
    """Ours: with it and 18 expert episodes BC reaches expert level on the built-in tasks. The paper tunes it in
    loguniform(3e-4, 3e-2)."""
    smoothing: float = 0.01
    """Rate of the mean that follows the held-out loss; ours."""
    held_out_percent: int = 0
    """Share of the expert's rows kept for early stopping; 0: train to the end, as in the paper."""
    batch_size: int = 256
    hidden: tuple[int, ...] = (256, 256)
    dtype: str = "float32"


class State(NamedTuple):
    actor: nets.Optimised
    best: nets.Params  # the actor at the lowest held-out loss; the latest one without early stopping
    held_out: jax.Array  # smoothed held-out loss; infinite before the first
    lowest: jax.Array


def init(cfg: Config, spec: Spec, key: jax.Array) -> State:
    actor = nets.init_mlp(key, [spec.obs_dim, *cfg.hidden, spec.act_dim])
    return State(nets.optimised(actor), actor, jnp.array(jnp.inf), jnp.array(jnp.inf))


def period(cfg: Config) -> int:
    del cfg
    return 1


def cloning_loss(actor: nets.Params, cfg: Config, batch: Batch) -> jax.Array:
    """mean (π(s) − a)² over rows and action dimensions."""
    return jnp.square(nets.actor(actor, batch.observations, cfg.dtype) - batch.actions).mean()


def step(cfg: Config, state: State, batch: Batch, key: jax.Array, phase: int) -> tuple[State, dict[str, jax.Array]]:
    """One Adam step; `batch.expert` is a draw from the held-out rows, where there are any."""
    del key, phase
    loss, gradients = jax.value_and_grad(cloning_loss)(state.actor.params, cfg, batch)
    actor = nets.descend(state.actor, gradients, cfg.lr)
    if batch.expert is None:
        return state._replace(actor=actor, best=actor.params), {"cloning_loss": loss}

    unseen = cloning_loss(actor.params, cfg, batch.expert)
    smoothed = state.held_out + cfg.smoothing * (unseen - state.held_out)
    held_out = jnp.where(jnp.isfinite(state.held_out), smoothed, unseen)
    better = held_out < state.lowest
    best = jax.tree.map(lambda new, old: jnp.where(better, new, old), actor.params, state.best)
    state = State(actor, best, held_out, jnp.minimum(held_out, state.lowest))
    return state, {"cloning_loss": loss, "held_out_loss": held_out}


def actor_layers(state: State) -> nets.Layers:
    return state.best


def prepare(
    expert: Dataset,
    exploratory: Dataset,
    configs: Sequence[Config] = (),
    seeds: Sequence[int] = (),
    quiet: bool = False,
) -> Prepared:
    """The expert's rows alone, the held-out ones first: `exploratory` is not looked at."""
    del exploratory, seeds, quiet
    if len(expert) == 0:
        raise IlbrlError(f"{expert.source}: no expert rows, so nothing to clone")
    spec = Spec.of(expert)
    columns = feeding.transitions(expert, spec)
    percent = configs[0].held_out_percent if configs else 0
    held_out = len(expert) * percent // 100
    if percent == 0:
        return Prepared(spec, Feed(columns), largest_reward=None)
    if not 0 < held_out < len(expert):
        raise IlbrlError(f"{expert.source}: cannot hold out {percent} % of its {len(expert)} rows; use 1 to 99, or 0")
    held_out_first = {name: np.roll(column, held_out, axis=0) for name, column in columns.items()}
    training = [np.arange(held_out, len(expert))]
    return Prepared(spec, Feed(held_out_first, subsets=training, expert_rows=held_out), largest_reward=None)


PRESETS = {
    "default": Config(),
    "paper-hopper": Config(lr=0.01463435996151319),
    "paper-halfcheetah": Config(lr=0.017457140313552756),
    "paper-walker2d": Config(lr=0.01463435996151319),
    "paper-ant": Config(lr=0.005028663892514822),
}
