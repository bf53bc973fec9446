"""SMODICE (Ma et al. 2022): match the expert's occupancy by a convex dual in V, then clone with the weights it finds.

With the reward r = k · f(s, a), f the logit of a discriminator of D_E against D_U (rewards/discriminator.py), and per
row

    e = r + γ · (1 − terminal) · V(s′) − V(s)

    KL:               L_V = (1 − γ) E_{s₀} V(s₀) + log E exp(e),                 w = exp(e) / E exp(e)
    χ², as printed:   L_V = (1 − γ) E_{s₀} V(s₀) + E [e²/2 + e],                 w = max(0, e + 1)
    χ² with d ≥ 0:    L_V = (1 − γ) E_{s₀} V(s₀) + E [max(0, e + 1)²/2 − 1/2],   w = max(0, e + 1)

    L_π = −E [w · log π(a | s)] + α E_{a ~ π} log π(a | s),      α keeps the entropy of π at −dim(A)

Of discrete actions the second expectation is a sum over all A of them, and the entropy is kept at 0.1 · log A (ours: a
tenth of that of a policy that chooses at random).

The expectations run over D_U and over the first observations of its episodes. Each L_V is the dual of
max_d E_d r − D_f(d ‖ d_U) over occupancies d = w · d_U; the printed χ² belongs to the program without d ≥ 0, which is
why its weights need the max. e takes the one successor that was logged, so that the dual is exact where the dynamics
are deterministic. For KL everything is a log-sum-exp, and the weights sum to the batch size.

What follows a terminal is worth 0. In KL the logarithm makes Σ d = 1, which with the flow constraints then leaves no
mass for terminal rows, so that steps into a fall end with weight 0. In χ² mass may leave through terminals, which
negative rewards favour: prefer KL (the authors' default) where episodes end by failure. With `absorbing_reward` r° a
terminal leads into an absorbing state instead, whose value V° is one more parameter:

    e = r + γ · V° − V(s) of a terminal row,      and for each such row one row more, the absorbing state's step to
    e° = r° + γ · V° − V°                         itself. Terminals have mass then, at the price r°.

The authors have absorbing states on, and their discriminator judges them. But their code never draws the rows that it
adds, and still values what follows a terminal at 0, so that `absorbing_reward = None` is what their policy learns from.

Departures from the authors' code: state–action discriminator by default (the expert's actions are known here); KL
weights normalised over the batch; the actor has a learning rate of its own, which the paper tunes; initial weights are
PyTorch's, theirs Xavier's with biases 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ilbrl.agents.agent import Solver
from ilbrl.learning import nets
from ilbrl.learning.batches import Batch
from ilbrl.learning.config import config
from ilbrl.learning.population import Info, Learner
from ilbrl.learning.spec import Spec

MEAN_BOUND = 7.24  # about artanh(1 − 10⁻⁶)
LOG_STD_BOUNDS = (-5.0, 2.0)
ENTROPY_SHARE = 0.1  # of log A, of discrete actions


@config
class Config:
    """Hyper-parameters; the defaults are the authors' (Ma et al. 2022, their code) unless noted."""

    actor_lr: float = 1e-4
    """Ours, after seeing scores (docs/results.md). The authors name 3e-5, but their code trains the policy at 3e-4."""
    value_lr: float = 3e-4
    entropy_lr: float = 3e-4
    """Of the coefficient α."""
    weight_decay: float = 1e-4
    """Of V: this times each parameter is added to its gradient."""
    gamma: float = 0.99
    divergence: Literal["kl", "chi2", "chi2_nonnegative"] = "kl"
    absorbing_reward: float | None = None
    """Reward of every step after a terminal, in an absorbing state; None: what follows a terminal is worth 0."""
    batch_size: int = 512
    hidden: tuple[int, ...] = (256, 256)
    dtype: str = "float32"


class Value(NamedTuple):
    layers: nets.Layers
    absorbing: jax.Array  # V°, a scalar


class State(NamedTuple):
    actor: nets.Optimised
    value: nets.Optimised
    log_alpha: nets.Optimised


class Acting(NamedTuple):
    """What depends on the kind of actions."""

    loss: Callable[[nets.Params, Config, Batch, jax.Array, jax.Array, jax.Array], tuple[jax.Array, jax.Array]]
    target_entropy: Callable[[int], float]  # of actions of so many numbers


def init(cfg: Config, spec: Spec, key: jax.Array) -> State:
    return init_networks(cfg, spec, key, actor_outputs=2 * spec.act_dim)


def init_networks(cfg: Config, spec: Spec, key: jax.Array, actor_outputs: int) -> State:
    actor_key, value_key = jax.random.split(key)
    actor = nets.init_mlp(actor_key, [spec.obs_dim, *cfg.hidden, actor_outputs])
    value = Value(nets.init_mlp(value_key, [spec.obs_dim, *cfg.hidden, 1]), jnp.zeros(()))
    return State(nets.optimised(actor), nets.optimised(value), nets.optimised(jnp.zeros(())))


def conjugate(cfg: Config, e: jax.Array, counts: jax.Array) -> jax.Array:
    """What the divergence makes of E over [R] residuals e, each of which counts so often."""
    if cfg.divergence == "kl":
        return jax.nn.logsumexp(e, b=counts) - jnp.log(counts.sum())
    each = jnp.square(e) / 2 + e if cfg.divergence == "chi2" else jnp.square(jax.nn.relu(e + 1)) / 2 - 0.5
    return (counts * each).sum() / counts.sum()


def weights(cfg: Config, e: jax.Array, counts: jax.Array) -> jax.Array:
    """[R] w = d / d_U."""
    if cfg.divergence != "kl":
        return jax.nn.relu(e + 1)
    above = jnp.exp(e - jnp.where(counts > 0, e, -jnp.inf).max())  # as in a softmax: exp(e) alone overflows
    return counts.sum() * above / (counts * above).sum()


def residuals(
    value: Value, cfg: Config, batch: Batch, here: jax.Array, there: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """[R] e and how often each counts: of the batch's rows; then of the absorbing state, once per terminal row."""
    if cfg.absorbing_reward is None:
        return batch.rewards + cfg.gamma * batch.continues * there - here, jnp.ones_like(here)
    ends = 1 - batch.continues
    e = batch.rewards + cfg.gamma * (batch.continues * there + ends * value.absorbing) - here
    stays = cfg.absorbing_reward + cfg.gamma * value.absorbing - value.absorbing
    return jnp.append(e, jnp.full_like(e, stays)), jnp.append(jnp.ones_like(e), ends)


def value_loss(value: Value, cfg: Config, batch: Batch) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
    """(1 − γ) E V(s₀) + conjugate(e); and [B] weights of the batch's rows and mean |V|."""
    inputs = jnp.concatenate([batch.initial_observations, batch.observations, batch.next_observations])
    first, here, there = jnp.split(
        nets.mlp(value.layers, inputs, dtype=cfg.dtype)[:, 0],
        np.cumsum([len(batch.initial_observations), len(batch.actions)]),
    )
    e, counts = residuals(value, cfg, batch, here, there)
    w = weights(cfg, e, counts)[: len(here)]
    return (1 - cfg.gamma) * first.mean() + conjugate(cfg, e, counts), (w, jnp.abs(here).mean())


def actor_loss(
    actor: nets.Params, cfg: Config, batch: Batch, w: jax.Array, alpha: jax.Array, key: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """−E w log π(a | s) + α E log π(a′ | s), a′ ~ π; and the entropy −E log π(a′ | s)."""
    mean, log_std = nets.tanh_gaussian(actor, batch.observations, MEAN_BOUND, LOG_STD_BOUNDS, cfg.dtype)
    likelihood = (w * nets.tanh_gaussian_log_prob(mean, log_std, batch.actions)).mean()
    entropy = -nets.tanh_gaussian_sample(key, mean, log_std)[1].mean()
    return -likelihood - alpha * entropy, entropy


def categorical_loss(
    actor: nets.Params, cfg: Config, batch: Batch, w: jax.Array, alpha: jax.Array, key: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """−E w log π(a | s) + α E Σ_a π(a | s) log π(a | s), and the entropy; nothing is sampled."""
    del key
    log_chances = nets.categorical(actor, batch.observations, cfg.dtype)
    likelihood = (w * (log_chances * batch.actions).sum(-1)).mean()
    entropy = -(jnp.exp(log_chances) * log_chances).sum(-1).mean()
    return -likelihood - alpha * entropy, entropy


GAUSSIAN = Acting(actor_loss, target_entropy=lambda numbers: -numbers)
CATEGORICAL = Acting(categorical_loss, target_entropy=lambda actions: ENTROPY_SHARE * math.log(actions))


def step(
    cfg: Config, state: State, batch: Batch, key: jax.Array, phase: int, acting: Acting = GAUSSIAN
) -> tuple[State, Info]:
    """One update of V, of the policy with the weights from before it, and of the entropy's coefficient."""
    del phase
    (loss_v, (w, magnitude)), gradients = jax.value_and_grad(value_loss, has_aux=True)(state.value.params, cfg, batch)
    gradients = jax.tree.map(lambda g, p: g + cfg.weight_decay * p, gradients, state.value.params)
    value = nets.descend(state.value, gradients, cfg.value_lr)

    alpha = jnp.exp(state.log_alpha.params)
    (loss_pi, entropy), gradients = jax.value_and_grad(acting.loss, has_aux=True)(
        state.actor.params, cfg, batch, w, alpha, key
    )
    actor = nets.descend(state.actor, gradients, cfg.actor_lr)
    excess = entropy - acting.target_entropy(batch.actions.shape[-1])
    state = State(actor, value, nets.descend(state.log_alpha, excess, cfg.entropy_lr))
    effective = jnp.square(w.mean()) / jnp.maximum(jnp.square(w).mean(), 1e-12)
    info = {"value_loss": loss_v, "actor_loss": loss_pi, "entropy": entropy, "alpha": alpha}
    return state, {**info, "q_magnitude": magnitude, "effective_share_of_rows": effective}


def actor_layers(state: State) -> nets.Layers:
    return state.actor.params


SOLVER = Solver(
    Config,
    Learner(init, step),
    actor_layers,
    # e of order 1 is normal whatever the rewards
    largest_value=lambda cfg, reward: (1 + max(reward, abs(cfg.absorbing_reward or 0))) / (1 - cfg.gamma),
    needs=lambda cfg: ("initial_observations",),
    head={"head": "tanh_gaussian", "mean_bound": MEAN_BOUND, "log_std_bounds": LOG_STD_BOUNDS},
)
DISCRETE = SOLVER._replace(
    learner=Learner(
        lambda cfg, spec, key: init_networks(cfg, spec, key, actor_outputs=spec.act_dim),
        partial(step, acting=CATEGORICAL),
    ),
    head={"head": "categorical"},
)
