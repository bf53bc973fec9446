"""An ensemble of learned dynamics: (s, a) → change of state, reward, end of the episode.

Each member is an MLP f with LayerNorm and SiLU. Inputs are the standardised observation and the action scaled to
[−1, 1]; outputs are

    Δ    (s′ − s) / σ_Δ per dimension, less its mean
    r    the standardised reward; absent where the logs carry none
    R    the same of a step that ends the episode; absent where such rewards are like all others
    p    logits of the patterns: combinations of flags and one-hot numbers; absent where there are none, or too many
    e    the logit of "the episode ends here"; absent where no logged episode ends in a terminal

    L = mean_d (Δ_d − f_Δd)² + (r − f_r)² + CE(p, f_p) + c · BCE(e, f_e)          f_R for f_r where the episode ends

Squared errors, because likelihoods with learned variances ranked policies worse. Patterns have likelihoods, because the
mean of a flag is none of its values: a rare event would never come to pass. Adam with decoupled weight decay and a
cosine schedule. A part of the episodes is held out: its loss is followed by an exponential mean, and what a member ends
with are the parameters at the lowest mean. The members are a population of THE loop and differ in their seed alone.

Rows are drawn from each log with its share, whatever its size (`ensemble.default_shares`): the states that good
policies visit are rare in most logs, and a model must be right there above all.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp

from ilbrl.learning import nets
from ilbrl.learning.batches import Batch
from ilbrl.learning.config import config
from ilbrl.learning.population import Learner
from ilbrl.learning.spec import Spec


@config
class Config:
    """Hyper-parameters; `SIZES` holds those for an accelerator and for two cores."""

    lr: float = 1e-3
    final_lr: float = 0.02
    """Share of `lr` that is left at the end of the cosine schedule."""
    updates: float = 50_000.0
    """Length of the schedule."""
    weight_decay: float = 1e-4
    end_weight: float = 1.0
    """c: weight of the end of the episode in the loss."""
    smoothing: float = 1e-3
    """Rate of the mean that follows the held-out loss."""
    batch_size: int = 1024
    held_out_batch: int = 128
    """Held-out rows looked at in every update."""
    hidden: tuple[int, ...] = (512, 512, 512, 512)
    rewards: bool = True
    """Whether there is a reward to predict."""
    ends: bool = True
    """Whether there are terminals to predict."""
    end_rewards: bool = False
    """Whether the reward of a last step is predicted apart."""
    patterns: int = 0
    """Combinations of flags and one-hot numbers that there are; 0: none, or too many to predict."""
    dtype: str = "float32"


SIZES: dict[str, Config] = {
    "large": Config(dtype="bfloat16"),
    "medium": Config(updates=20_000.0, batch_size=512, hidden=(256, 256, 256)),
    "small": Config(updates=10_000.0, batch_size=256, held_out_batch=64, hidden=(200, 200)),
}
"""large: a minute on a GPU; medium: some minutes on two cores; small: a minute there."""


Size = Literal["large", "medium", "small"]


def size_for_this_machine() -> Size:
    return "small" if jax.default_backend() == "cpu" else "large"


class State(NamedTuple):
    net: nets.Optimised
    best: nets.Params  # at the lowest held-out loss
    held_out: jax.Array  # the mean of the held-out loss; infinite before the first update
    lowest: jax.Array
    updates: jax.Array  # int32


def outputs(cfg: Config, obs_dim: int) -> int:
    return obs_dim + cfg.rewards + cfg.end_rewards + cfg.patterns + cfg.ends


def pattern_logits(cfg: Config, found: jax.Array) -> jax.Array:
    """[…, outputs] → […, patterns]; they stand before the end of the episode."""
    return found[..., found.shape[-1] - cfg.ends - cfg.patterns : found.shape[-1] - cfg.ends]


def init(cfg: Config, spec: Spec, key: jax.Array) -> State:
    sizes = [spec.obs_dim + spec.act_dim, *cfg.hidden, outputs(cfg, spec.obs_dim)]
    layers = nets.init_mlp(key, sizes, layer_norm=True)
    infinite = jnp.array(jnp.inf)
    return State(nets.optimised(layers), layers, infinite, infinite, jnp.zeros((), jnp.int32))


def predict(layers: nets.Layers, inputs: jax.Array, dtype: str = "float32") -> jax.Array:
    """[…, obs_dim + act_dim] → […, outputs] in the network's units."""
    return nets.mlp(layers, inputs, jax.nn.silu, dtype)


def loss(layers: nets.Layers, cfg: Config, batch: Batch) -> jax.Array:
    """The equation above. `rewards` of the batch are scaled, and for `next_observations` it has the scaled change of
    state, followed by the number of the next pattern where there are any."""
    found = predict(layers, jnp.concatenate([batch.observations, batch.actions], -1), cfg.dtype)
    obs_dim = batch.observations.shape[-1]
    total = jnp.square(found[:, :obs_dim] - batch.next_observations[:, :obs_dim]).mean()
    if cfg.end_rewards:
        reward = jnp.where(batch.continues > 0, found[:, obs_dim], found[:, obs_dim + 1])
        total += jnp.square(reward - batch.rewards).mean()
    elif cfg.rewards:
        total += jnp.square(found[:, obs_dim] - batch.rewards).mean()
    if cfg.patterns:
        chances = jax.nn.log_softmax(pattern_logits(cfg, found))
        number = batch.next_observations[:, obs_dim:].astype(jnp.int32)
        total -= jnp.take_along_axis(chances, number, -1).mean()
    if cfg.ends:
        logit = found[:, -1]
        total += cfg.end_weight * (jax.nn.softplus(logit) - (1 - batch.continues) * logit).mean()
    return total


def learning_rate(cfg: Config, done: jax.Array) -> jax.Array:
    """lr · (f + (1 − f) (1 + cos(π t / T)) / 2)."""
    course = jnp.clip(done / cfg.updates, 0.0, 1.0)
    return cfg.lr * (cfg.final_lr + (1 - cfg.final_lr) * (1 + jnp.cos(jnp.pi * course)) / 2)


def step(cfg: Config, state: State, batch: Batch, key: jax.Array, phase: int) -> tuple[State, dict[str, jax.Array]]:
    """One update; `batch.expert` is a draw from the held-out rows."""
    del key, phase
    value, gradients = jax.value_and_grad(loss)(state.net.params, cfg, batch)
    rate = learning_rate(cfg, state.updates)
    net = nets.descend(state.net, gradients, rate)
    net = net._replace(params=jax.tree.map(lambda p: p * (1 - rate * cfg.weight_decay), net.params))
    unseen = loss(net.params, cfg, jax.tree.map(lambda rows: rows[: cfg.held_out_batch], batch.expert))
    smoothed = state.held_out + cfg.smoothing * (unseen - state.held_out)
    held_out = jnp.where(jnp.isfinite(state.held_out), smoothed, unseen)
    better = held_out < state.lowest
    best = jax.tree.map(lambda new, old: jnp.where(better, new, old), net.params, state.best)
    state = State(net, best, held_out, jnp.minimum(held_out, state.lowest), state.updates + 1)
    return state, {"model_loss": value, "held_out_loss": held_out}


LEARNER = Learner(init, step)
