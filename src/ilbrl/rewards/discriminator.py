"""The discriminator of SMODICE and ORIL: a logit that says how much likelier the expert is than the logs.

An MLP f is trained to tell the expert's rows from all rows, D_E against D_U = D_E ∪ D_X, both drawn equally often:

    L = E_{D_E} log(1 + exp(−f)) + E_{D_U} log(1 + exp(f)) + c · E (‖∇f(x̂)‖ − 1)²,    x̂ = u · x_E + (1 − u) · x_U

with u uniform in [0, 1] per row. Without the penalty (c = 0) the minimum is f = log(d_E / d_U); with it f cannot follow
a ratio whose slope is not 1, and stays bounded where the two sets do not overlap. x = [s, a] standardised and scaled,
or s alone.

The positive-unlabelled loss (Zolna et al. 2020) knows that a share η of the unlabelled rows is the expert's kind:

    L = η E_{D_E} log(1 + exp(−f)) + max(0, E_{D_U} log(1 + exp(f)) − η E_{D_E} log(1 + exp(f)))

so that σ(f) = η d_E / d_U. The max is Kiryo et al.'s (2017): the difference estimates a loss and cannot be negative.

Each distinct discriminator of a population (settings and seed) is trained once, by the same loop as the agents.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ilbrl.base.errors import IlbrlError
from ilbrl.data import Dataset, concatenate
from ilbrl.learning import nets
from ilbrl.learning import population as train
from ilbrl.learning.batches import Batch, Feed, transitions
from ilbrl.learning.config import config
from ilbrl.learning.spec import Spec
from ilbrl.rewards.ends import Ends, rewards_after
from ilbrl.rewards.labels import Labelling, Logits, Reward, Rewarded

Loss = Literal["logistic", "positive_unlabelled"]
BLOCK = 65_536  # rows judged at a time
OWN_DRAWS = 1 << 30  # flipped in the seed: a discriminator's draws are not its agent's


@config
class Config:
    """Hyper-parameters; the defaults are those of SMODICE's authors (Ma et al. 2022) unless noted."""

    lr: float = 3e-4
    """Adam's; the paper tunes it in U(1e-4, 1e-3)."""
    gradient_penalty: float = 10.0
    """c; 0: off."""
    positive_share: float = 0.5
    """η of the positive-unlabelled loss (Zolna et al. 2020)."""
    loss: Loss = "logistic"
    state_only: bool = False
    """Judge states instead of steps. The authors' choice without expert actions; here they are known."""
    passes: int = 1000
    """Over the expert's rows."""
    batch_size: int = 256
    hidden: tuple[int, ...] = (256, 256)


class State(NamedTuple):
    net: nets.Optimised


def updates(cfg: Config, expert_rows: int, at_most: int | None = None) -> int:
    """As many batches as `passes` passes over the expert's rows fill, but `at_most` so many."""
    wanted = -(-cfg.passes * expert_rows // cfg.batch_size)
    return wanted if at_most is None else min(wanted, at_most)


def init(cfg: Config, spec: Spec, key: jax.Array) -> State:
    inputs = spec.obs_dim if cfg.state_only else spec.obs_dim + spec.act_dim
    return State(nets.optimised(nets.init_mlp(key, [inputs, *cfg.hidden, 1])))


def features(cfg: Config, batch: Batch) -> jax.Array:
    """[B, obs_dim + act_dim] what is judged, or [B, obs_dim] states alone."""
    return batch.observations if cfg.state_only else jnp.concatenate([batch.observations, batch.actions], -1)


def logit(layers: nets.Layers, inputs: jax.Array) -> jax.Array:
    """[B] f(x)."""
    return nets.mlp(layers, inputs, jnp.tanh)[..., 0]


def classification_loss(cfg: Config, expert: jax.Array, union: jax.Array) -> jax.Array:
    """The loss of the logits of expert rows [B] and of rows of D_U [B]."""
    found, false_alarm = jax.nn.softplus(-expert).mean(), jax.nn.softplus(union).mean()
    if cfg.loss == "logistic":
        return found + false_alarm
    share = cfg.positive_share
    return share * found + jax.nn.relu(false_alarm - share * jax.nn.softplus(expert).mean())


def slope_penalty(layers: nets.Layers, expert: jax.Array, union: jax.Array, key: jax.Array) -> jax.Array:
    """E (‖∇f(x̂)‖ − 1)² between random pairs of rows [B, D]."""
    share = jax.random.uniform(key, (len(expert), 1))
    slopes = jax.grad(lambda x: logit(layers, x).sum())(share * expert + (1 - share) * union)
    norms = jnp.sqrt(jnp.square(slopes).sum(-1) + 1e-12)  # the root of 0 has no derivative
    return jnp.square(norms - 1).mean()


def step(cfg: Config, state: State, batch: Batch, key: jax.Array, phase: int) -> tuple[State, dict[str, jax.Array]]:
    del phase
    expert, union = features(cfg, batch.expert), features(cfg, batch)

    def loss(layers: nets.Layers) -> tuple[jax.Array, jax.Array]:
        mistaken = classification_loss(cfg, logit(layers, expert), logit(layers, union))
        return mistaken + cfg.gradient_penalty * slope_penalty(layers, expert, union, key), mistaken

    (total, mistaken), gradients = jax.value_and_grad(loss, has_aux=True)(state.net.params)
    state = State(nets.descend(state.net, gradients, cfg.lr))
    return state, {"discriminator_loss": total, "classification_loss": mistaken}


LEARNER = train.Learner(init, step)


def label(
    expert: Dataset,
    logs: Dataset,
    configs: Sequence[Config],
    seeds: Sequence[int],
    quiet: bool = False,
    at_most: int | None = None,
) -> Logits:
    """Train the discriminators of P members, configs[p] with seeds[p], and let each judge every row of D_U.

    at_most: updates of each, where its passes over the expert's rows would take more.
    """
    if len(expert) == 0:
        raise IlbrlError(f"{expert.source}: no expert rows, so there is nothing to tell from the other logs")
    train.require_seeds(seeds)
    union = concatenate([expert, logs])
    spec = Spec.of(union)
    columns = transitions(union, spec)
    members = list(zip(configs, seeds))
    distinct = list(dict.fromkeys(members))
    chosen = [cfg for cfg, _ in distinct]
    fitted = train.fit(
        LEARNER,
        chosen,
        [seed ^ OWN_DRAWS for _, seed in distinct],
        Feed(columns, expert_rows=len(expert), second_draw=True),
        spec,
        updates(chosen[0], len(expert), at_most),
        label="training discriminators",
        quiet=quiet,
    )
    judged = np.stack([logits(cfg, fitted.member(g).net.params, columns) for g, cfg in enumerate(chosen)])
    judged[fitted.diverged_at >= 0] = np.nan  # the agents that read these are then marked diverged too
    return Logits(judged, [distinct.index(member) for member in members], len(expert))


def logits(cfg: Config, layers: nets.Layers, columns: dict[str, np.ndarray]) -> np.ndarray:
    """[N] float32 f of every row, block by block."""
    names = ["observations"] if cfg.state_only else ["observations", "actions"]
    judge, blocks = jax.jit(logit), range(0, len(columns["observations"]), BLOCK)
    inputs = (np.hstack([columns[name][start : start + BLOCK] for name in names]) for start in blocks)
    return np.concatenate([np.asarray(judge(layers, block)) for block in inputs])


@config
class LearnedReward(Ends):
    """What an agent can choose about this reward; the rest is the discriminator's default. `ends` are k · σ(f)'s."""

    reward: Literal["logit", "probability"] = "logit"
    """k · f, or k · σ(f)."""
    reward_scale: float = 0.1
    """k; SMODICE's authors' default, and where the paper's tuning in U(0.05, 3) ends: 0.10 to 0.17."""
    discriminator_lr: float = 3e-4
    """SMODICE's authors'; the paper tunes it in U(1e-4, 1e-3)."""
    gradient_penalty: float = 10.0
    """SMODICE's authors'."""
    positive_share: float = 0.5
    """η of the positive-unlabelled loss (Zolna et al. 2020)."""
    discriminator_loss: Loss = "logistic"
    state_only: bool = False
    """Judge states instead of steps: SMODICE's authors' choice, for experts whose actions are unknown."""
    discriminator_passes: int = 1000
    """Over the expert's rows; but a discriminator never gets more updates than the agent that learns from it, so that
    small studies stay small."""


def rewarded(asked: Labelling) -> Rewarded:
    """Train each member's discriminator, and reward D_U with what it says; equal members share a set."""
    settings = [
        Config(
            lr=c.discriminator_lr,
            gradient_penalty=c.gradient_penalty,
            positive_share=c.positive_share,
            loss=c.discriminator_loss,
            state_only=c.state_only,
            passes=c.discriminator_passes,
            hidden=c.hidden,
        )
        for c in asked.configs
    ]
    judged = label(asked.expert, asked.logs, settings, asked.seeds, asked.quiet, asked.updates)
    said = judged.logit if asked.configs[0].reward == "logit" else judged.probability
    members = [(one, c.reward_scale) for one, c in zip(judged.set_of, asked.configs)]
    distinct = list(dict.fromkeys(members))
    after = rewards_after(asked) if asked.configs[0].reward == "probability" else None  # a logit may be negative
    return Rewarded(
        rewards=np.stack([np.float32(scale) * said[one] for one, scale in distinct]),
        set_of=[distinct.index(member) for member in members],
        labels=judged,
        absorbing=None if after is None else np.stack([np.float32(scale) * after for _, scale in distinct]),
        identity={"discriminator_updates": updates(settings[0], len(asked.expert), asked.updates)},
    )


REWARD = Reward(LearnedReward, rewarded)
