"""Expected SARSA with target networks: the value of a deterministic policy, from logs of others.

Two critics are regressed on one target, for rows (s, a, r, s′) of the logs and the evaluated policy's a′ = π(s′):

    y   = r + γ · (1 − terminal) · [ mean_i Q′_i(s′, a′) − κ · std_i Q′_i(s′, a′) ]
    L   = Σ_i mean (Q_i(s, a) − y)²
    Q′ ← (1 − τ) Q′ + τ Q                    every `target_update_every` updates
    V   = the same bracket of Q at (s₀, π(s₀)), over held-out initial states

With κ = 0 this is the paper's estimator. (It prints an ascent on the squared error; a descent is meant, with the target
held fixed.) π never changes, so a′ comes with the batch (`next_actions`), computed once per policy and row.

Beyond the paper, off unless asked for: κ > 0 penalises disagreement of the critics, and since there are two,
mean − std is their minimum, so κ = 1 is fitted Q evaluation with a clipped double target; `value_low`, `value_high`
clip y to what the rewards allow; `start` sets out from a likely value instead of 0, since an error that all states
share fades slowest of all, as exp(−t / pace) with a pace of target_update_every / (τ (1 − γ)) updates; `layer_norm`
normalises the critics' hidden layers.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from ilbrl.learning import nets
from ilbrl.learning.batches import Batch, Spec
from ilbrl.learning.config import config
from ilbrl.learning.population import Learner


@config
class Config:
    """Hyper-parameters; all floats are traced, so one compiled program serves a whole grid of them."""

    lr: float = 3e-4
    """Learning rate of both critics; the paper's final choice."""
    target_update_every: float = 16.0
    """Updates from one move of the targets to the next; the paper's final choice."""
    tau: float = 0.005
    """How far the targets move."""
    gamma: float = 0.99
    pessimism: float = 0.0
    """κ: penalty on the critics' disagreement. 0: their mean, as in the paper; 1: their minimum."""
    value_low: float = float("-inf")
    """Targets are clipped to [value_low, value_high]; infinite: not at all, as in the paper."""
    value_high: float = float("inf")
    start: float = 0.0
    """What the critics say everywhere before they learn; 0, as in the paper, is far away from most values."""
    layer_norm: bool = False
    """LayerNorm in the critics; off in the paper."""
    batch_size: int = 256
    hidden: tuple[int, ...] = (256, 256)
    dtype: str = "float32"
    """Matrix products in "float32" (tf32 on GPUs) or "bfloat16"; parameters stay float32."""


class State(NamedTuple):
    critic: nets.Optimised
    target: nets.Params
    updates: jax.Array  # int32, counted here because the targets' rhythm may differ between members


def init(cfg: Config, spec: Spec, key: jax.Array) -> State:
    *hidden, last = nets.init_critics(key, [spec.obs_dim + spec.act_dim, *cfg.hidden, 1], layer_norm=cfg.layer_norm)
    critic = (*hidden, last | {"b": last["b"] + cfg.start})
    return State(nets.optimised(critic), critic, jnp.zeros((), jnp.int32))


def pace(cfg: Config) -> float:
    """Updates in which an error that all states share shrinks by e, however fast the critics learn."""
    return cfg.target_update_every / (cfg.tau * (1 - cfg.gamma))


def judge(critic: nets.Params, cfg: Config, observations: jax.Array, actions: jax.Array) -> jax.Array:
    """[B] mean_i Q_i(s, a) − κ · std_i Q_i(s, a) of two critics."""
    first, second = nets.critics(critic, observations, actions, cfg.dtype)
    return (first + second) / 2 - cfg.pessimism * jnp.abs(first - second) / 2


def bootstrap_target(cfg: Config, target: nets.Params, batch: Batch) -> jax.Array:
    """[B] y = r + γ (1 − terminal) · [mean − κ std] of Q′ at (s′, π(s′)), clipped to the value bounds."""
    following = judge(target, cfg, batch.next_observations, batch.next_actions)
    return jnp.clip(batch.rewards + cfg.gamma * batch.continues * following, cfg.value_low, cfg.value_high)


def critic_loss(critic: nets.Params, cfg: Config, batch: Batch, target: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Σ_i mean (Q_i(s, a) − y)², and mean |Q| for the divergence check."""
    values = nets.critics(critic, batch.observations, batch.actions, cfg.dtype)
    return jnp.square(values - target).mean(1).sum(), jnp.abs(values).mean()


def step(cfg: Config, state: State, batch: Batch, key: jax.Array, phase: int) -> tuple[State, dict[str, jax.Array]]:
    """One update of both critics; the targets move when it is their turn."""
    del key, phase
    target = bootstrap_target(cfg, state.target, batch)
    (loss, magnitude), gradients = jax.value_and_grad(critic_loss, has_aux=True)(
        state.critic.params, cfg, batch, target
    )
    critic = nets.descend(state.critic, gradients, cfg.lr)
    updates = state.updates + 1
    turn = updates % jnp.asarray(cfg.target_update_every, jnp.int32) == 0
    moved = nets.polyak(state.target, critic.params, cfg.tau * turn)
    return State(critic, moved, updates), {"critic_loss": loss, "q_magnitude": magnitude}


LEARNER = Learner(init, step)


def value(cfg: Config, state: State, batch: Batch) -> dict[str, jax.Array]:
    """The policy's value, as the loop reports it: initial states stand where a batch has (s′, π(s′))."""
    return {"value": judge(state.critic.params, cfg, batch.next_observations, batch.next_actions).mean()}
