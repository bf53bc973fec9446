"""The critics of Expected SARSA: the value of a policy, from logs of others.

Two critics are regressed on one target, for rows (s, a, r, s′) of the logs and the evaluated policy's a′ = π(s′):

    y   = r + γ · (1 − terminal) · [ mean_i Q′_i(s′, a′) − κ · std_i Q′_i(s′, a′) ]
    L   = Σ_i mean (Q_i(s, a) − y)²
    Q′ ← (1 − τ) Q′ + τ Q                    every `target_update_every` updates
    V   = the same bracket of Q at (s₀, π(s₀)), over held-out initial states

Where actions are discrete, a critic values all of them at once, and a probability for each action stands where an
action stands above: Q(s, p) = Σ_a p(a) Q(s, a). A logged action has probability 1, and p = π(· | s′) makes the target
the exact expectation over the policy's choices, sampled or not.

With κ = 0 this is the paper's estimator. (It prints an ascent on the squared error; a descent is meant, with the target
held fixed.) π never changes, so a′ comes with the batch (`next_actions`), computed once per policy and row.

Whether a value has converged is read off its curve over updates, v(t), up to now (update T):

    diverged    the loop froze the member (a loss that is not finite, or a mean |Q| beyond `FREEZE` times what the
                rewards allow), or v(T) lies outside the values that they allow, widened by `SLACK` of their range
    converged   what is left to go is at most `TOLERANCE` of |v|, and was so at every point of the last eighth
    moving      otherwise

What is left to go is slope × pace. The slope is that between the two halves of the curve's last quarter. The pace is
the targets': an error that all states share fades as exp(−t / pace) with pace = target_update_every / (τ (1 − γ))
updates, and for such an error slope × pace is exactly what is missing. All other errors fade faster. A curve may look
flat long before that: with updates every 16 and τ = 0.005 the pace is 320,000. Noise may excuse as much again, two
standard errors' worth; a curve too noisy to tell is still moving.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, get_args

import jax
import jax.numpy as jnp
import numpy as np

from ilbrl.learning import nets
from ilbrl.learning.batches import Batch
from ilbrl.learning.config import config
from ilbrl.learning.population import Learner
from ilbrl.learning.spec import Spec

NO_BOUND = 1e30  # a finite number, so that a configuration can be written down
FREEZE = 10.0
SLACK = 0.1
TOLERANCE = 0.02
NEAR_ZERO = 0.001  # of the possible values' range: an estimate nearer to 0 need not be accurate to 2 % of itself
FEWEST_POINTS = 16  # of a curve, for its last quarter to have two halves

Word = Literal["converged", "moving", "diverged"]
WORDS: tuple[Word, ...] = get_args(Word)  # from good to bad


@config
class Config:
    """The critics and what they learn from. Floats are traced, so one compiled program serves a whole grid of them."""

    updates: int = 100_000
    """Of each policy's critics; candidates get as many as the known policies needed to converge."""
    expert_fraction: float = 0.5
    """Share of the expert's rows among those that the critics learn from."""
    lr: float = 3e-4
    """Learning rate of both critics; the paper's final choice."""
    target_update_every: float = 2.0
    """Updates from one move of the targets to the next; 16 in the paper, which takes 8 times as long to converge."""
    tau: float = 0.005
    """How far the targets move."""
    gamma: float = 0.99
    pessimism: float = 0.0
    """κ: penalty on the critics' disagreement. 0: their mean, as in the paper; 1: their minimum, a clipped double
    target."""
    seed_penalty: float = 0.0
    """Standard deviations over evaluation seeds that a value loses; 0 in the paper."""
    informed_start: bool = True
    """Set out from the logs' mean value instead of `start`: an error that all states share fades slowest of all."""
    value_bounds: bool = False
    """Clip targets to the values that the logs' rewards allow; off in the paper."""
    start: float = 0.0
    """What the critics say everywhere before they learn, where the start is not informed; the paper's 0."""
    value_low: float = -NO_BOUND
    """Targets are clipped to [value_low, value_high]; by default not at all, as in the paper."""
    value_high: float = NO_BOUND
    layer_norm: bool = False
    """LayerNorm in the critics; off in the paper."""
    batch_size: int = 256
    hidden: tuple[int, ...] = (256, 256)
    dtype: str = "float32"
    """Matrix products in "float32" (tf32 on GPUs) or "bfloat16"; parameters stay float32."""
    grid: Literal["default", "paper", "paper-choice", "small", "none"] = "default"
    """What a calibration tries; none: this configuration alone."""

    @property
    def pace(self) -> float:
        """Updates in which an error that all states share shrinks by e, however fast the critics learn."""
        return self.target_update_every / (self.tau * (1 - self.gamma))


class State(NamedTuple):
    critic: nets.Optimised
    target: nets.Params
    updates: jax.Array  # int32, counted here because the targets' rhythm may differ between members


def init(cfg: Config, spec: Spec, key: jax.Array) -> State:
    ends = (spec.obs_dim, spec.act_dim) if spec.discrete else (spec.obs_dim + spec.act_dim, 1)
    *hidden, last = nets.init_critics(key, [ends[0], *cfg.hidden, ends[1]], layer_norm=cfg.layer_norm)
    critic = (*hidden, last | {"b": last["b"] + cfg.start})
    return State(nets.optimised(critic), critic, jnp.zeros((), jnp.int32))


def values(critic: nets.Params, cfg: Config, observations: jax.Array, actions: jax.Array) -> jax.Array:
    """[2, B] Q_i(s, a), or Σ_a p(a) Q_i(s, a) of critics that take observations alone."""
    if critic[0]["w"].shape[-2] > observations.shape[-1]:
        return nets.critics(critic, observations, actions, cfg.dtype)
    every = jax.vmap(lambda one: nets.mlp(one, observations, dtype=cfg.dtype))(critic)
    return (every * actions).sum(-1)


def judge(critic: nets.Params, cfg: Config, observations: jax.Array, actions: jax.Array) -> jax.Array:
    """[B] mean_i Q_i(s, a) − κ · std_i Q_i(s, a) of two critics."""
    first, second = values(critic, cfg, observations, actions)
    return (first + second) / 2 - cfg.pessimism * jnp.abs(first - second) / 2


def bootstrap_target(cfg: Config, target: nets.Params, batch: Batch) -> jax.Array:
    """[B] y = r + γ (1 − terminal) · [mean − κ std] of Q′ at (s′, π(s′)), clipped to the value bounds."""
    following = judge(target, cfg, batch.next_observations, batch.next_actions)
    return jnp.clip(batch.rewards + cfg.gamma * batch.continues * following, cfg.value_low, cfg.value_high)


def critic_loss(critic: nets.Params, cfg: Config, batch: Batch, target: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Σ_i mean (Q_i(s, a) − y)², and mean |Q| for the divergence check."""
    found = values(critic, cfg, batch.observations, batch.actions)
    return jnp.square(found - target).mean(1).sum(), jnp.abs(found).mean()


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


# --- has it converged? ------------------------------------------------------------------------------------------------


class Decision(NamedTuple):
    word: Word
    decided_at: int  # update at which it could first be given and has held since; for a moving estimate, the last


def verdict(
    updates: np.ndarray,
    values: np.ndarray,
    diverged_at: int,
    value_range: tuple[float, float],
    pace: float,
    slack: float = SLACK,
) -> Decision:
    """The verdict on a curve: [C] update numbers and [C] values.

    diverged_at: the update at which the loop froze the member; −1: never.
    value_range: the smallest and largest value that the rewards allow.
    """
    if diverged_at >= 0:
        return Decision("diverged", int(diverged_at))
    low, high = value_range
    margin = slack * (high - low)
    possible = (values >= low - margin) & (values <= high + margin)  # false for nan
    if not possible[-1]:
        impossible_since = len(values) - np.argmax(possible[::-1]) if possible.any() else 0
        return Decision("diverged", int(updates[impossible_since]))
    smallest = NEAR_ZERO * (high - low)
    since = len(values)
    while since >= FEWEST_POINTS and has_settled(updates[:since], values[:since], pace, smallest):
        since -= 1
    decided = -(-8 * (since + 1) // 7) - 1  # settled from point `since` on, and for an eighth of the curve by then
    if decided >= len(values):
        return Decision("moving", int(updates[-1]))
    return Decision("converged", int(updates[decided]))


def has_settled(updates: np.ndarray, values: np.ndarray, pace: float, smallest: float) -> bool:
    """Whether what is left to go, slope × pace, is within tolerance of |v|, or of `smallest` where |v| is less."""
    length = len(values) // 4
    before, after = np.array_split(values[-length:], 2)
    earlier, later = np.array_split(updates[-length:], 2)
    reach = max(pace / (later.mean() - earlier.mean()), 1.0)
    left_to_go = reach * abs(after.mean() - before.mean())
    steps = np.diff(values[-2 * length :])  # differences, so that a trend is not taken for noise
    by_chance = 2 * reach * steps.std() / np.sqrt(2) * np.sqrt(1 / len(before) + 1 / len(after))
    allowed = TOLERANCE * max(abs(values[-length:].mean()), smallest)
    return bool(left_to_go <= allowed + min(by_chance, allowed))
