"""Behavioural cloning: an actor fitted to logged steps, deterministic or, for discrete actions, categorical.

    L_π = mean_b w_b · mean_d (π_d(s_b) − a_bd)²          w = 1 where rows carry no weights
    L_π = −mean_b w_b · log π(a_b | s_b)                  where actions are discrete

Early stopping, off in the paper, is an option: with `held_out_percent` > 0 the last part of the expert's rows is never
trained on. The loss there is followed by an exponential mean over about 1/`smoothing` batches, and the policy that is
returned is the one with which this mean was lowest. A contiguous part, because neighbouring steps are near-copies.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp

from ilbrl.agents.agent import Solver
from ilbrl.learning import nets
from ilbrl.learning.batches import Batch
from ilbrl.learning.config import config
from ilbrl.learning.population import Info, Learner
from ilbrl.learning.spec import Spec


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


Loss = Callable[[nets.Params, Config, Batch], jax.Array]


class State(NamedTuple):
    actor: nets.Optimised
    best: nets.Params  # the actor at the lowest held-out loss; the latest one without early stopping
    held_out: jax.Array  # smoothed held-out loss; infinite before the first
    lowest: jax.Array


def init(cfg: Config, spec: Spec, key: jax.Array) -> State:
    actor = nets.init_mlp(key, [spec.obs_dim, *cfg.hidden, spec.act_dim])
    return State(nets.optimised(actor), actor, jnp.array(jnp.inf), jnp.array(jnp.inf))


def cloning_loss(actor: nets.Params, cfg: Config, batch: Batch) -> jax.Array:
    """mean w · (π(s) − a)² over rows and action dimensions."""
    errors = jnp.square(nets.actor(actor, batch.observations, cfg.dtype) - batch.actions)
    return errors.mean() if batch.weights is None else (batch.weights * errors.mean(-1)).mean()


def cross_entropy(actor: nets.Params, cfg: Config, batch: Batch) -> jax.Array:
    """−mean w · log π(a | s) of discrete actions."""
    errors = -(nets.categorical(actor, batch.observations, cfg.dtype) * batch.actions).sum(-1)
    return errors.mean() if batch.weights is None else (batch.weights * errors).mean()


def step(
    cfg: Config, state: State, batch: Batch, key: jax.Array, phase: int, cloning_loss: Loss = cloning_loss
) -> tuple[State, Info]:
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


SOLVER = Solver(Config, Learner(init, step), actor_layers, largest_value=None)
DISCRETE = SOLVER._replace(
    learner=Learner(init, partial(step, cloning_loss=cross_entropy)), head={"head": "categorical"}
)
