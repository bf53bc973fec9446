"""TD3-BC for discrete actions: a categorical actor π(a | s), and critics that value all actions at once.

What was an expectation over one action is a sum over all A of them, in closed form. Per minibatch:

    y   = r + γ · (1 − terminal) · Σ_a π′(a | s′) · min_i Q′_i(s′, a)
    L_Q = Σ_i mean (Q_i(s, a) − y)²
    V   = Σ_a π(a | s) · Q₁(s, a)
    L_π = −λ · mean V / mean |V|  −  mean_b w_b · log π(a_b | s_b)

The rest is td3bc.py's: delay, targets, weights and their mean, bounds, LayerNorm, average of the actor, second actor.
There is no noise on the target's action (`policy_noise`, `noise_clip`): it smooths over neighbouring actions, and
discrete ones have no neighbours. `critic_penalty` is β E ‖a − a′‖² of one-hot rows, 2 β (1 − π′(a′ | s′)).

λ is not comparable with that of real-valued actions: a cross-entropy of 1 is much where a squared error of 1 is more.
"""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp

from ilbrl.agents import td3bc
from ilbrl.agents.agent import Solver
from ilbrl.agents.td3bc import Config, State
from ilbrl.learning import nets
from ilbrl.learning.batches import Batch, Spec
from ilbrl.learning.population import Learner


def init(cfg: Config, spec: Spec, key: jax.Array) -> State:
    return td3bc.init_networks(cfg, spec, key, critic_sizes=(spec.obs_dim, spec.act_dim))


def bootstrap_target(cfg: Config, state: State, batch: Batch, key: jax.Array) -> jax.Array:
    """[B] y = r + γ (1 − terminal) Σ_a π′(a | s′) (min_i Q′_i(s′, a) − β ‖a − a′‖²), clipped as `reward_bounds` say."""
    del key  # nothing is sampled
    chances = jnp.exp(nets.categorical(state.target_actor, batch.next_observations, cfg.dtype))
    next_values = (chances * nets.stacked(state.target_critic, batch.next_observations, cfg.dtype).min(0)).sum(-1)
    if cfg.critic_penalty is not None:
        deviation = 2 * (1 - (chances * batch.next_actions).sum(-1))
        next_values = next_values - cfg.critic_penalty * batch.next_known * deviation
    return td3bc.bounded(cfg, batch.rewards + cfg.gamma * batch.continues * next_values)


def critic_loss(critic: nets.Params, cfg: Config, batch: Batch, target: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Σ_i mean (Q_i(s, a) − y)² of the logged actions, and mean |Q| for the divergence check."""
    values = (nets.stacked(critic, batch.observations, cfg.dtype) * batch.actions).sum(-1)
    return jnp.square(values - target).mean(1).sum(), jnp.abs(values).mean()


def actor_loss(
    actor: nets.Params, critic: nets.Params, cfg: Config, batch: Batch, lam: float | jax.Array
) -> tuple[jax.Array, jax.Array]:
    """−λ mean V / mean |V| − mean w · log π(a | s), and the cloning term alone."""
    log_chances = nets.categorical(actor, batch.observations, cfg.dtype)
    values = (jnp.exp(log_chances) * nets.first_stacked(critic, batch.observations, cfg.dtype)).sum(-1)
    cloning = -(td3bc.weights(cfg, batch) * (log_chances * batch.actions).sum(-1)).mean()
    scale = jax.lax.stop_gradient(jnp.abs(values).mean())
    return -lam * values.mean() / scale + cloning, cloning


STEP = partial(td3bc.step, losses=td3bc.Losses(bootstrap_target, critic_loss, actor_loss))

SOLVER = Solver(
    Config,
    Learner(init, STEP, td3bc.period),
    td3bc.actor_layers,
    largest_value=td3bc.SOLVER.largest_value,
    needs=td3bc.SOLVER.needs,
    head={"head": "categorical"},
)
