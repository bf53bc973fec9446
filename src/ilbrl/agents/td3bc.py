"""TD3-BC with a weight per transition: the offline RL solver inside ILBRL, ORIL and the oracle.

Fujimoto & Gu 2021, with each transition's cloning loss multiplied by w(s, a). Per minibatch:

    ã   = clip(π′(s′) + clip(ε, −c, c), −1, 1),           ε ~ N(0, σ²)
    y   = r + γ · (1 − terminal) · min_i Q′_i(s′, ã)
    L_Q = Σ_i mean (Q_i(s, a) − y)²
    L_π = −λ · mean Q₁(s, π(s)) / mean |Q₁(s, π(s))|  +  mean_b w_b · mean_d (π_d(s_b) − a_bd)²

The actor and the targets move every second update. The paper prints the update as an ascent on λQ + BC; BC is a
squared error, so what is maximised is λQ − BC. Its λ is TD3-BC's α, scaled by mean |Q| with no gradient through
the scale. Observations are standardised and actions scaled to [−1, 1] before they get here (`feed.py`), so noise
is in units of the action bound.

Two options beyond the paper cure the divergence that it suffers when λ ≥ 1 and expert data is scarce:
`reward_bounds` clips the bootstrapped target into the interval that the rewards allow, `layer_norm` normalises the
critics' hidden layers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ilbrl.agents.preparation import Prepared
from ilbrl.base.errors import IlbrlError
from ilbrl.data import Dataset, concatenate
from ilbrl.learning import batches as feeding
from ilbrl.learning import nets
from ilbrl.learning.batches import Batch, Feed, Spec
from ilbrl.learning.config import config


@config
class Config:
    """Hyper-parameters; the defaults are TD3-BC's own (Fujimoto & Gu 2021, table 3) unless noted."""

    lam: float = 2.5
    """λ: weight of the Q term against cloning (TD3-BC's α)."""
    actor_lr: float = 3e-4
    critic_lr: float = 3e-4
    gamma: float = 0.99
    tau: float = 0.005
    """Rate at which the targets follow."""
    policy_noise: float = 0.2
    """Standard deviation of the target action's noise, in units of the action bound."""
    noise_clip: float = 0.5
    reward_bounds: tuple[float, float] | None = None
    """Clip bootstrapped targets to what rewards in this interval allow: (0, 1) → [0, 1/(1 − γ)]. None: off."""
    layer_norm: bool = False
    """LayerNorm in the critics; off in the paper."""
    policy_delay: int = 2
    batch_size: int = 256
    hidden: tuple[int, ...] = (256, 256)
    dtype: str = "float32"
    """Matrix products in "float32" (tf32 on GPUs) or "bfloat16"; parameters stay float32."""


class State(NamedTuple):
    actor: nets.Optimised
    critic: nets.Optimised
    target_actor: nets.Params
    target_critic: nets.Params


def init(cfg: Config, spec: Spec, key: jax.Array) -> State:
    actor_key, critic_key = jax.random.split(key)
    actor = nets.init_mlp(actor_key, [spec.obs_dim, *cfg.hidden, spec.act_dim])
    critic = nets.init_twin(critic_key, [spec.obs_dim + spec.act_dim, *cfg.hidden, 1], cfg.layer_norm)
    return State(nets.optimised(actor), nets.optimised(critic), actor, critic)


def period(cfg: Config) -> int:
    return cfg.policy_delay


def bootstrap_target(cfg: Config, state: State, batch: Batch, key: jax.Array) -> jax.Array:
    """[B] y = r + γ (1 − terminal) min_i Q′_i(s′, ã), clipped to what `reward_bounds` allow."""
    noise = jnp.clip(cfg.policy_noise * jax.random.normal(key, batch.actions.shape), -cfg.noise_clip, cfg.noise_clip)
    next_actions = jnp.clip(nets.actor(state.target_actor, batch.next_observations, cfg.dtype) + noise, -1.0, 1.0)
    next_values = nets.twin_critics(state.target_critic, batch.next_observations, next_actions, cfg.dtype).min(0)
    target = batch.rewards + cfg.gamma * batch.continues * next_values
    if cfg.reward_bounds is None:
        return target
    low, high = min(cfg.reward_bounds[0], 0.0), max(cfg.reward_bounds[1], 0.0)  # a terminal is worth 0
    return jnp.clip(target, low / (1 - cfg.gamma), high / (1 - cfg.gamma))


def critic_loss(critic: nets.Params, cfg: Config, batch: Batch, target: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Σ_i mean (Q_i(s, a) − y)², and mean |Q| for the divergence check."""
    values = nets.twin_critics(critic, batch.observations, batch.actions, cfg.dtype)
    return jnp.square(values - target).mean(1).sum(), jnp.abs(values).mean()


def actor_loss(actor: nets.Params, critic: nets.Params, cfg: Config, batch: Batch) -> tuple[jax.Array, jax.Array]:
    """−λ mean Q₁ / mean |Q₁| + mean w · (π(s) − a)², and the cloning term alone."""
    actions = nets.actor(actor, batch.observations, cfg.dtype)
    values = nets.first_critic(critic, batch.observations, actions, cfg.dtype)
    cloning = (batch.weights * jnp.square(actions - batch.actions).mean(-1)).mean()
    scale = jax.lax.stop_gradient(jnp.abs(values).mean())
    return -cfg.lam * values.mean() / scale + cloning, cloning


def step(cfg: Config, state: State, batch: Batch, key: jax.Array, phase: int) -> tuple[State, dict[str, jax.Array]]:
    """One update of the critics; in the last `phase` of each period also of the actor and the targets."""
    target = bootstrap_target(cfg, state, batch, key)
    (loss, magnitude), gradients = jax.value_and_grad(critic_loss, has_aux=True)(
        state.critic.params, cfg, batch, target
    )
    critic = nets.descend(state.critic, gradients, cfg.critic_lr)
    info = {"critic_loss": loss, "q_magnitude": magnitude}
    if phase < cfg.policy_delay - 1:
        return state._replace(critic=critic), info

    (loss, cloning), gradients = jax.value_and_grad(actor_loss, has_aux=True)(
        state.actor.params, critic.params, cfg, batch
    )
    actor = nets.descend(state.actor, gradients, cfg.actor_lr)
    state = State(
        actor=actor,
        critic=critic,
        target_actor=nets.polyak(state.target_actor, actor.params, cfg.tau),
        target_critic=nets.polyak(state.target_critic, critic.params, cfg.tau),
    )
    return state, {**info, "actor_loss": loss, "cloning_loss": cloning}


def actor_layers(state: State) -> nets.Layers:
    """The network that acts."""
    return state.actor.params


def prepare(
    expert: Dataset,
    exploratory: Dataset,
    configs: Sequence[Config] = (),
    seeds: Sequence[int] = (),
    quiet: bool = False,
) -> Prepared:
    """The oracle: the true reward of the logs, and every row cloned alike; the same for all members."""
    del configs, seeds, quiet
    union = concatenate([expert.as_expert(), exploratory])
    if union.rewards is None:
        raise IlbrlError(f"{union.source}: td3bc learns from the true reward, and not all of these logs carry one")
    spec = Spec.of(union)
    columns = {"rewards": union.rewards, "weights": np.ones(len(union), np.float32)}
    return Prepared(spec, Feed(feeding.transitions(union, spec) | columns), float(np.abs(union.rewards).max()))


PRESETS = {"default": Config()}
