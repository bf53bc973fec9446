"""TD3-BC for discrete actions: a categorical actor π(a | s), and critics that value all actions at once.

What was an expectation over one action is a sum over all A of them, in closed form. Per minibatch:

    y   = r + γ · (1 − terminal) · Σ_a π′(a | s′) · min_i Q′_i(s′, a)
    L_Q = Σ_i mean (Q_i(s, a) − y)²
    D   = mean_b mean_a |Q₁(s_b, a) − mean_a′ Q₁(s_b, a′)|           how much the choice of action matters
    L_π = −λ · mean_b Σ_a π(a | s_b) · Q₁(s_b, a) / (0.3 · D)  −  mean_b w_b · log π(a_b | s_b)

The rest is td3bc.py's: delay, targets, weights and their mean, bounds, LayerNorm, average of the actor, second actor.

The Q term is divided by D, where td3bc.py divides by mean |Q|. One wrong action among good ones costs a hundredth of Q
at γ = 0.99. That moves a real-valued action a little, but cannot outweigh the logarithm in L_π: with mean |Q|, λ = 1 is
cloning alone. 0.3 is ours, so that λ has the same range for both kinds of actions (docs/paper.md).

Targets follow at the rate max(τ, 300 / (t + 300)) at the actor's t-th update. With τ = 0.005 alone, n updates bring Q
to 1 − exp(−(1 − γ) n τ / 2) of its value: 10,000 of them, which are many for a small problem, to a fifth.

There is no noise on the target's action (`policy_noise`, `noise_clip`): it smooths over neighbouring actions, and
discrete ones have no neighbours. `critic_penalty` is β E ‖a − a′‖² of one-hot rows, 2 β (1 − π′(a′ | s′)). Networks of
more than 16 actions run without the fused kernels.
"""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp

from ilbrl.agents import td3bc
from ilbrl.agents.agent import Solver
from ilbrl.agents.td3bc import Config, State
from ilbrl.learning import nets
from ilbrl.learning.batches import Batch
from ilbrl.learning.population import Learner
from ilbrl.learning.spec import Spec

SHARE = 0.3  # of D: a difference between actions that weighs as much as cloning at λ = 1
EARLY = 300.0  # updates of the actor in which the targets follow closely


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
    return td3bc.backed_up(cfg, batch, next_values)


def critic_loss(critic: nets.Params, cfg: Config, batch: Batch, target: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Σ_i mean (Q_i(s, a) − y)² of the logged actions, and mean |Q| for the divergence check."""
    values = (nets.stacked(critic, batch.observations, cfg.dtype) * batch.actions).sum(-1)
    return jnp.square(values - target).mean(1).sum(), jnp.abs(values).mean()


def actor_loss(
    actor: nets.Params, critic: nets.Params, cfg: Config, batch: Batch, lam: float | jax.Array
) -> tuple[jax.Array, jax.Array]:
    """−λ mean Σ_a π Q₁ / (0.3 D) − mean w · log π(a | s), and the cloning term alone."""
    log_chances = nets.categorical(actor, batch.observations, cfg.dtype)
    values = nets.first_stacked(critic, batch.observations, cfg.dtype)
    cloning = -(td3bc.weights(cfg, batch) * (log_chances * batch.actions).sum(-1)).mean()
    gain = (jnp.exp(log_chances) * values).sum(-1).mean()
    return -lam * gain / (SHARE * spread(values)) + cloning, cloning


def spread(values: jax.Array) -> jax.Array:
    """D of [B, A] values; a little more than 0 where there is but one action."""
    return jnp.maximum(jnp.abs(values - values.mean(-1, keepdims=True)).mean(), 1e-6)


def target_rate(cfg: Config, updates: jax.Array) -> jax.Array:
    """max(τ, 300 / (t + 300)) at the actor's t-th update."""
    return jnp.maximum(cfg.tau, EARLY / (updates + EARLY))


LOSSES = td3bc.Losses(bootstrap_target, critic_loss, actor_loss, target_rate)

SOLVER = Solver(
    Config,
    Learner(init, partial(td3bc.step, losses=LOSSES), td3bc.period),
    td3bc.actor_layers,
    largest_value=td3bc.SOLVER.largest_value,
    needs=td3bc.SOLVER.needs,
    head={"head": "categorical"},
)
