"""Roll many policies out in learned models: every policy × member × initial state × step as one compiled program.

Each member k plays every policy, from the same logged initial states, for the logs' own time limit:

    a_t     = π(s_t)
    s_{t+1} = s_t + Δ_k(s_t, a_t) + κ ε_t          clipped to the range of the logs
    R      += γ^t · l_t · (r_k(s_t, a_t) − c · σ_r · max(u(s_t, a_t) − b, 0))
    l_{t+1} = l_t · (1 − e_k(s_t, a_t))            the chance that the episode still lives, l_0 = 1

u is the members' disagreement about the next state, divided by its median on held-out rows: what the models do not know
costs, but for the b that is `allowed`: with b = 1 usual logged steps cost next to nothing. ε is Gaussian with the
standard deviation that predictions miss on held-out rows: a policy that only a perfect course of events keeps upright
falls. The same ε meets every policy. e_k is the learned chance of an end, or the user's function. Numbers that take few
values in the logs (ordinal) take the nearest of them after every step. Flags and one-hot numbers take the values of a
pattern (`models.scales`) that is drawn by its predicted chance, with the same luck for every policy. A step that may
end the episode earns its reward and its last reward, each with its chance, where the models learned these apart. The
learned reward is clipped to what the logs show. A `score` of states and actions may take its place; what the learned
reward comes to is then counted beside it. Where episodes end in an absorbing state that earns on (`arrival`), the
chance of an end earns that for all steps that are left.

A member plays alone. Where models are small, each has faults of its own that end episodes which last in truth: then
rollout k may follow the mean of all members but k (`averaged`), in which such faults are smaller.

The first steps are a test. There every policy is in states that the logs know well, so members that disagree do so
about its actions, and whatever they imagine later rests on a guess. A policy whose mean u over the first ten steps
exceeds 0.75 of the 99th percentile on held-out rows is played no further in that member: the remaining steps earn the
lowest logged reward, or nothing where that is positive.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ilbrl.base.errors import IlbrlError
from ilbrl.base.progress import progress
from ilbrl.models import acting
from ilbrl.models.dynamics import Config
from ilbrl.models.ensemble import outlook, spread
from ilbrl.models.file import Models, Predict
from ilbrl.models.stepping import constants_of, drawn_pattern, in_network_units, in_units, next_state
from ilbrl.policy import Policy

Score = Callable[[jax.Array, jax.Array], jax.Array]
"""([…, obs_dim] standardised observations, […, act_dim] actions in [−1, 1] or one-hot) → […] reward of the step."""
Arrival = Callable[[jax.Array], jax.Array]
"""[…, obs_dim] standardised observations → […] reward of every step after an episode that ends here."""
End = Callable[[jax.Array, jax.Array, jax.Array], jax.Array]
"""([…, obs_dim] s, […, act_dim] a, […, obs_dim] s′, in the environment's units) → […] bool: the episode ends here.
Discrete actions are one-hot rows."""

PENALTY, NOISE = 0.1, 1.0  # c and κ; like the next line chosen on policies whose true scores were known
FIRST_STEPS, STRANGE = 10, 0.75  # the test of the first steps: how many, and the share of the 99th percentile
STARTS = 40  # initial states that a policy is played from
SCORE_UNIT = 0.02  # what stands for σ_r where a score in [0, 1] takes the reward's place
ROOM = 2**21  # trajectories × members × outputs kept at a time: policies beyond it take turns


class Imagined(NamedTuple):
    """By policy, member and initial state, all [P, K, M] float64."""

    returns: np.ndarray  # penalised
    unpenalised: np.ndarray
    lengths: np.ndarray  # expected steps until the end or the horizon
    disagreement: np.ndarray  # mean over the steps, in medians of the held-out rows
    outside: np.ndarray  # share of the steps whose state had to be clipped to the range of the logs
    strange: np.ndarray  # 1 where the first steps were too unlike the logs to be played on, else 0
    rewarded: np.ndarray  # `unpenalised` by the learned reward, also where a score has its place; NaN: none was learned

    @property
    def values(self) -> np.ndarray:
        """[P] mean over members and initial states."""
        return self.returns.mean((1, 2))


class Game(NamedTuple):
    """What is the same for every policy; static parts of the program."""

    predict: Predict
    config: Config
    horizon: int
    sampled: bool
    score: Score | None
    arrival: Arrival | None
    end: End | None
    learned_end: bool
    disagree: bool
    averaged: bool


def rollout(
    policies: Mapping[str, Policy] | Sequence[Policy],
    models: Models,
    starts: np.ndarray,
    horizon: int | None = None,
    *,
    penalty: float = PENALTY,
    allowed: float = 0.0,
    noise: float = NOISE,
    gamma: float = 1.0,
    score: Score | None = None,
    arrival: Arrival | None = None,
    end: End | bool = True,
    sampled: bool = False,
    averaged: bool = False,
    seed: int = 0,
    quiet: bool = False,
) -> Imagined:
    """Play every policy in every member from every one of `starts` ([M, obs_dim] observations).

    horizon: steps; by default the logs' own time limit.
    penalty: c, standard deviations of the logged rewards that a step loses per unit of disagreement.
    allowed: b, disagreement that costs nothing.
    noise: κ, share of the models' own error that is added to every step.
    score: values a step instead of the learned reward; needed where the logs carry none.
    arrival: rewards every step that is left after the end of an episode; by default nothing does.
    end: True: the learned end of episodes; False: they last to the horizon; or the user's own function.
    sampled: draw actions of stochastic policies instead of taking their mean, or the most probable.
    averaged: rollout k follows the mean of all members but k, instead of member k; one member alone cannot.
    """
    named = dict(policies) if isinstance(policies, Mapping) else {str(i): p for i, p in enumerate(policies)}
    if not named or not len(starts):
        raise IlbrlError("rollouts need at least one policy and one initial state")
    if score is None and not models.config.rewards:
        raise IlbrlError(
            "these models have learned no reward, for their logs carry none: give a score of states and actions"
        )
    for name, policy in named.items():
        _require_fitting(name, policy, models)
    horizon = models.horizon if horizon is None else horizon
    if horizon < 1:
        raise IlbrlError(f"a rollout needs a horizon of at least one step, got {horizon}")
    learned_end = end is True and models.config.ends
    game = Game(
        models.predict,
        models.config,
        horizon,
        sampled,
        score,
        arrival,
        end if callable(end) else None,
        learned_end,
        models.members > 1,
        averaged and models.members > 1,
    )
    found = np.empty((len(Imagined._fields), len(named), models.members, len(starts)))
    places = {name: place for place, name in enumerate(named)}
    constants = constants_of(models)
    with progress("rolling out", horizon * len(named), "policy steps", quiet) as advance:
        for shape, names in acting.by_shape(named).items():
            size = max(1, ROOM // (models.members**2 * len(starts) * 8))
            for first in range(0, len(names), size):
                group = names[first : first + size]
                padded = group + [group[-1]] * (min(size, len(names)) - len(group))  # one shape: one compilation
                stacked = acting.stack([named[name] for name in padded])
                out = _play(
                    shape, game, stacked, jax.random.key(seed), constants, jnp.asarray(starts, jnp.float32),
                    penalty, allowed, noise, gamma,
                )  # fmt: skip
                found[:, [places[name] for name in group]] = np.asarray(out, np.float64)[:, : len(group)]
                advance(horizon * len(group))
    return Imagined(*found)


def _require_fitting(name: str, policy: Policy, models: Models) -> None:
    acted, choices = len(models.scales.action_low), models.scales.spec.num_actions
    if policy.num_actions != choices:
        own = f"{policy.act_dim} numbers" if policy.num_actions is None else f"one of {policy.num_actions} choices"
        logged = f"{acted} numbers" if choices is None else f"one of {choices} choices"
        raise IlbrlError(
            f"policy {name}: its action is {own}, and that of these logs {logged}; is it a policy of this task? (Logs"
            " that do not show every choice need to be told how many there are: --num-actions)"
        )
    for what, own, logged in (("observations", policy.obs_dim, models.obs_dim), ("actions", policy.act_dim, acted)):
        if own != logged:
            raise IlbrlError(
                f"policy {name}: has {what} of {own} numbers, and those of the logs have {logged}; is it a policy of"
                " this task?"
            )


@partial(jax.jit, static_argnums=(0, 1))
def _play(shape, game, stacked, key, constants, starts, penalty, allowed, noise, gamma):
    """[7, P, K, M] the fields of `Imagined`."""
    members, count = len(constants["layers"][0]["w"]), len(starts)
    _, reward_std, reward_low, _ = constants["reward"]
    policies, obs_dim = len(stacked.obs_mean), starts.shape[-1]
    batch = (policies, members, count)
    too_strange = STRANGE * constants["high_disagreement"] / constants["typical_disagreement"]
    lowest = jnp.minimum(reward_low, 0.0) if game.config.rewards else jnp.nan
    least = jnp.stack([lowest] * 3 if game.score is None else [0.0, 0.0, lowest])[:, None, None, None]
    discounts = gamma ** jnp.arange(game.horizon)
    remaining = jnp.sum(discounts[FIRST_STEPS:])
    left = jnp.append(jnp.cumsum(discounts[::-1])[::-1][1:], 0.0)  # discounted steps after each
    varies = constants["state_low"] < constants["state_high"]  # a number that never changes is put right, and no more

    dtype = game.config.dtype

    def model(x: jax.Array) -> tuple[jax.Array, jax.Array]:
        """[K, P·M, in] inputs → what each rollout follows [K, P·M, out] and the disagreement [K, P·M]."""
        if not game.disagree:
            return jax.vmap(lambda one, own: game.predict(one, own, dtype))(constants["layers"], x), x[..., 0] * 0
        flat = x.reshape(-1, x.shape[-1])
        every = jax.vmap(lambda one: game.predict(one, flat, dtype))(constants["layers"])
        every = every.reshape(members, members, -1, every.shape[-1])
        own = every[jnp.arange(members), jnp.arange(members)]
        own = (every.sum(0) - own) / (members - 1) if game.averaged else own
        return own, spread(outlook(game.config, constants, every)) / constants["typical_disagreement"]

    def act(policy: Any, observations: jax.Array, key: jax.Array) -> jax.Array:
        flat = observations.reshape(-1, obs_dim)
        acted = acting.act(shape, policy, flat, key if game.sampled else None)
        return acted.reshape(*observations.shape[:-1], -1)

    def one(carry, t):
        state, alive, discount, totals, strange = carry  # state [P, K, M, obs_dim]
        noise_key, act_key = jax.random.split(jax.random.fold_in(key, t))  # every policy meets the same noise
        actions = jax.vmap(act, (0, 0, None))(stacked, state, act_key)
        standard, scaled = in_network_units(constants, state, actions, shape.head == "categorical")
        inputs = jnp.concatenate([standard, scaled], -1).swapaxes(0, 1).reshape(members, policies * count, -1)
        own, doubt = model(inputs)
        own = own.reshape(members, policies, count, -1).swapaxes(0, 1)
        doubt = doubt.reshape(members, policies, count).swapaxes(0, 1)
        missed = constants["residual_std"] * jax.random.normal(noise_key, (members, count, obs_dim))
        change = own[..., :obs_dim] + noise * missed
        pattern = drawn_pattern(game.config, own, jax.random.fold_in(noise_key, 1), lead=1)
        following, within = next_state(constants, state, change, pattern)
        if game.end is not None:
            survives = ~game.end(state, actions, within)
        else:
            survives = jax.nn.sigmoid(-own[..., -1]) if game.learned_end else 1.0
        reward = in_units(own[..., obs_dim], constants["reward"]) if game.config.rewards else jnp.full(batch, jnp.nan)
        if game.config.end_rewards:
            reward += (1 - survives) * (in_units(own[..., obs_dim + 1], constants["end_reward"]) - reward)
        worth, unit = (reward, reward_std) if game.score is None else (game.score(standard, scaled), SCORE_UNIT)
        clipped = ((within != following) & varies).any(-1)
        charge = penalty * unit * jnp.maximum(doubt - allowed, 0.0)
        gained = jnp.stack([worth - charge, worth, reward, jnp.ones(batch), doubt, clipped * 1.0])
        weights = jnp.stack([discount, discount, discount, 1.0, 1.0, 1.0])[:, None, None, None]
        totals = totals + alive * weights * gained
        if game.arrival is not None:
            totals = totals.at[:2].add(alive * (1 - survives) * game.arrival(standard) * left[t])
        alive = alive * survives
        mean_doubt = (totals[4] / totals[3]).mean(-1, keepdims=True)
        stopped = 1.0 * (mean_doubt > too_strange) * (t == FIRST_STEPS - 1)
        totals = totals.at[:3].add(alive * stopped * least * remaining)
        return (within, alive * (1 - stopped), discount * gamma, totals, strange + stopped), None

    state = jnp.broadcast_to(starts, (*batch, obs_dim))
    carry = (state, jnp.ones(batch), jnp.ones(()), jnp.zeros((6, *batch)), jnp.zeros(batch))
    (_, _, _, totals, strange), _ = jax.lax.scan(one, carry, jnp.arange(game.horizon))
    lengths = totals[3]
    return jnp.stack([totals[0], totals[1], lengths, totals[4] / lengths, totals[5] / lengths, strange, totals[2]])
