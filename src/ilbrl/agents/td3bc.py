"""TD3-BC with a weight per transition: the offline RL solver inside ILBRL, ORIL and the oracle.

Fujimoto & Gu 2021, with each transition's cloning loss multiplied by w(s, a). Per minibatch:

    ã   = clip(π′(s′) + clip(ε, −c, c), −1, 1),           ε ~ N(0, σ²)
    y   = r + γ · (1 − terminal) · min_i Q′_i(s′, ã)
    L_Q = Σ_i mean (Q_i(s, a) − y)²
    L_π = −λ · mean Q₁(s, π(s)) / mean |Q₁(s, π(s))|  +  mean_b w_b · mean_d (π_d(s_b) − a_bd)²

The actor and the targets move every second update. The paper prints the update as an ascent on λQ + BC; BC is a
squared error, so what is maximised is λQ − BC. Its λ is TD3-BC's α, scaled by mean |Q| with no gradient through
the scale. Observations are standardised and actions scaled to [−1, 1] before they get here (learning/spec.py), so
noise is in units of the action bound.

What follows a terminal is worth 0, or ρ / (1 − γ) where the agent's reward says that an absorbing state with reward ρ
follows it (rewards/soft_support.py).

Options beyond the paper, all off by default:

    reward_bounds       clips y into the interval that the rewards allow
    layer_norm          LayerNorm in the critics; both cure the divergence that the paper suffers when λ ≥ 1 and expert
                        data is scarce
    actor_layer_norm    the same in the actor
    normalise_weights   w / mean_b w: λ then means the same with weights and without, whatever rows are drawn
    critics             more than two of them (EDAC, An et al. 2021, without its diversity term)
    critic_penalty      β: y = r + γ (1 − terminal) (min_i Q′_i(s′, ã) − β ‖ã − a′‖²), a′ the logged next action
                        (ReBRAC, Tarasov et al. 2023); no penalty at the last step of an episode, whose a′ is unknown
    deploy_lam          a second actor with this λ, trained beside the first and deployed in its place; the targets keep
                        to the first (MCEP, Xu et al. 2023)
    actor_average       deploy a mean of the actor's weights: its t-th update moves it by max(rate, 10 / (t + 10)).
                        So a short training averages its last tenth or so, and a long one its last 1 / rate updates
"""

from __future__ import annotations

from collections.abc import Callable
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
    actor_layer_norm: bool = False
    """LayerNorm in the actor; off in the paper."""
    normalise_weights: bool = False
    """Divide the weights of a batch by their mean; off in the paper."""
    critics: int = 2
    """How many; targets take the minimum over all of them."""
    critic_penalty: float | None = None
    """β, ReBRAC's penalty in the critics' target, on a sum over action dimensions. None: off."""
    deploy_lam: float | None = None
    """λ of a second actor, the one that is deployed. None: there is no second actor."""
    actor_average: float | None = None
    """Rate of the mean of weights that is deployed, such as 2e-4. None: the last weights are."""
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
    second_actor: nets.Optimised | None  # of `deploy_lam`
    average: nets.Params | None  # of `actor_average`


class Losses(NamedTuple):
    """What depends on the kind of actions; td3bc_discrete.py has those of discrete ones."""

    target: Callable[[Config, State, Batch, jax.Array], jax.Array]  # [B] y
    critic: Callable[[nets.Params, Config, Batch, jax.Array], tuple[jax.Array, jax.Array]]
    actor: Callable[[nets.Params, nets.Params, Config, Batch, float | jax.Array], tuple[jax.Array, jax.Array]]
    target_rate: Callable[[Config, jax.Array], float | jax.Array] = lambda cfg, updates: cfg.tau
    """(configuration, the actor's updates so far) → how far the targets follow."""


def init(cfg: Config, spec: Spec, key: jax.Array) -> State:
    return init_networks(cfg, spec, key, critic_sizes=(spec.obs_dim + spec.act_dim, 1))


def init_networks(cfg: Config, spec: Spec, key: jax.Array, critic_sizes: tuple[int, int]) -> State:
    """critic_sizes: how many numbers go into a critic and come out."""
    actor_key, critic_key = jax.random.split(key)
    actor = nets.init_mlp(actor_key, [spec.obs_dim, *cfg.hidden, spec.act_dim], cfg.actor_layer_norm)
    fan_in, fan_out = critic_sizes
    critic = nets.init_critics(critic_key, [fan_in, *cfg.hidden, fan_out], cfg.critics, cfg.layer_norm)
    return State(
        actor=nets.optimised(actor),
        critic=nets.optimised(critic),
        target_actor=actor,
        target_critic=critic,
        second_actor=None if cfg.deploy_lam is None else nets.optimised(actor),
        average=None if cfg.actor_average is None else actor,
    )


def period(cfg: Config) -> int:
    return cfg.policy_delay


def bootstrap_target(cfg: Config, state: State, batch: Batch, key: jax.Array) -> jax.Array:
    """[B] y = r + γ (1 − terminal) (min_i Q′_i(s′, ã) − β ‖ã − a′‖²), clipped to what `reward_bounds` allow."""
    noise = jnp.clip(cfg.policy_noise * jax.random.normal(key, batch.actions.shape), -cfg.noise_clip, cfg.noise_clip)
    next_actions = jnp.clip(nets.actor(state.target_actor, batch.next_observations, cfg.dtype) + noise, -1.0, 1.0)
    next_values = nets.critics(state.target_critic, batch.next_observations, next_actions, cfg.dtype).min(0)
    if cfg.critic_penalty is not None:
        deviation = jnp.square(next_actions - batch.next_actions).sum(-1)
        next_values = next_values - cfg.critic_penalty * batch.next_known * deviation
    return backed_up(cfg, batch, next_values)


def backed_up(cfg: Config, batch: Batch, next_values: jax.Array) -> jax.Array:
    """[B] y from the values of s′, clipped to what `reward_bounds` allow."""
    target = batch.rewards + cfg.gamma * batch.continues * next_values
    if batch.absorbing is not None:
        target = target + cfg.gamma * (1 - batch.continues) * batch.absorbing / (1 - cfg.gamma)
    if cfg.reward_bounds is None:
        return target
    low, high = min(cfg.reward_bounds[0], 0.0), max(cfg.reward_bounds[1], 0.0)  # a terminal is worth 0
    return jnp.clip(target, low / (1 - cfg.gamma), high / (1 - cfg.gamma))


def critic_loss(critic: nets.Params, cfg: Config, batch: Batch, target: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Σ_i mean (Q_i(s, a) − y)², and mean |Q| for the divergence check."""
    values = nets.critics(critic, batch.observations, batch.actions, cfg.dtype)
    return jnp.square(values - target).mean(1).sum(), jnp.abs(values).mean()


def weights(cfg: Config, batch: Batch) -> jax.Array | float:
    """[B] w, with mean 1 where `normalise_weights` says so."""
    if batch.weights is None:
        return 1.0
    if not cfg.normalise_weights:
        return batch.weights
    return batch.weights / jnp.maximum(batch.weights.mean(), 1e-6)  # all 0: nothing is cloned, and nothing breaks


def actor_loss(
    actor: nets.Params, critic: nets.Params, cfg: Config, batch: Batch, lam: float | jax.Array
) -> tuple[jax.Array, jax.Array]:
    """−λ mean Q₁ / mean |Q₁| + mean w · (π(s) − a)², and the cloning term alone."""
    actions = nets.actor(actor, batch.observations, cfg.dtype)
    values = nets.first_critic(critic, batch.observations, actions, cfg.dtype)
    cloning = (weights(cfg, batch) * jnp.square(actions - batch.actions).mean(-1)).mean()
    scale = jax.lax.stop_gradient(jnp.abs(values).mean())
    return -lam * values.mean() / scale + cloning, cloning


def averaging_rate(rate: float | jax.Array, updates: jax.Array) -> jax.Array:
    """How far the mean of weights moves at the actor's t-th update."""
    return jnp.maximum(rate, 10 / (updates + 10))


LOSSES = Losses(bootstrap_target, critic_loss, actor_loss)


def step(
    cfg: Config, state: State, batch: Batch, key: jax.Array, phase: int, losses: Losses = LOSSES
) -> tuple[State, Info]:
    """One update of the critics; in the last `phase` of each period also of the actors and the targets."""
    target = losses.target(cfg, state, batch, key)
    (loss, magnitude), gradients = jax.value_and_grad(losses.critic, has_aux=True)(
        state.critic.params, cfg, batch, target
    )
    critic = nets.descend(state.critic, gradients, cfg.critic_lr)
    info = {"critic_loss": loss, "q_magnitude": magnitude}
    if phase < cfg.policy_delay - 1:
        return state._replace(critic=critic), info

    improve = jax.value_and_grad(losses.actor, has_aux=True)
    (loss, cloning), gradients = improve(state.actor.params, critic.params, cfg, batch, cfg.lam)
    actor, second = nets.descend(state.actor, gradients, cfg.actor_lr), state.second_actor
    info |= {"actor_loss": loss, "cloning_loss": cloning}
    if second is not None:
        (info["second_actor_loss"], _), gradients = improve(second.params, critic.params, cfg, batch, cfg.deploy_lam)
        second = nets.descend(second, gradients, cfg.actor_lr)
    average, acting = state.average, actor if second is None else second
    if average is not None and cfg.actor_average is not None:
        average = nets.polyak(average, acting.params, averaging_rate(cfg.actor_average, nets.updates_of(acting)))
    rate = losses.target_rate(cfg, nets.updates_of(actor))
    state = State(
        actor=actor,
        critic=critic,
        target_actor=nets.polyak(state.target_actor, actor.params, rate),
        target_critic=nets.polyak(state.target_critic, critic.params, rate),
        second_actor=second,
        average=average,
    )
    return state, info


def actor_layers(state: State) -> nets.Layers:
    """The network that is deployed."""
    if state.average is not None:
        return state.average
    return (state.actor if state.second_actor is None else state.second_actor).params


SOLVER = Solver(
    Config,
    Learner(init, step, period),
    actor_layers,
    largest_value=lambda cfg, reward: reward / (1 - cfg.gamma),
    needs=lambda cfg: () if cfg.critic_penalty is None else ("next_actions",),
)
