"""TD3-BC against an independent computation in float64 NumPy: same batches, same noise, several steps."""

import itertools
from dataclasses import replace
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ilbrl.agents import td3bc
from ilbrl.learning import batches as feeding
from ilbrl.learning.batches import Batch

OBS, ACT, HIDDEN, B = 3, 2, (8, 8), 16
CFG = td3bc.Config(lam=0.7, actor_lr=1e-3, critic_lr=2e-3, gamma=0.9, tau=0.1, hidden=HIDDEN, batch_size=B)


def spec():
    return feeding.Spec(np.zeros(OBS), np.ones(OBS), -np.ones(ACT), np.ones(ACT))


def batches(n):
    rng = np.random.default_rng(1)
    for _ in range(n):
        yield SimpleNamespace(
            observations=rng.standard_normal((B, OBS)),
            actions=rng.uniform(-1, 1, (B, ACT)),
            next_observations=rng.standard_normal((B, OBS)),
            continues=(rng.random(B) < 0.8).astype(float),
            rewards=rng.random(B),
            weights=rng.random(B),
            next_actions=rng.uniform(-1, 1, (B, ACT)),
            next_known=(rng.random(B) < 0.7).astype(float),
        )


# --- the independent version: flat parameter vectors, finite differences, Adam and Polyak written out ---------------


def sizes(fan_in, fan_out):
    dims = [fan_in, *HIDDEN, fan_out]
    return list(itertools.pairwise(dims))


def mlp(vector, x, shapes):
    start = 0
    for i, (fan_in, fan_out) in enumerate(shapes):
        w = vector[start : start + fan_in * fan_out].reshape(fan_in, fan_out)
        start += fan_in * fan_out
        x = x @ w + vector[start : start + fan_out]
        start += fan_out
        x = np.maximum(x, 0) if i < len(shapes) - 1 else x
    return x


def flat(layers):
    parts = [np.concatenate([np.ravel(layer["w"]), np.ravel(layer["b"])]) for layer in layers]
    return np.concatenate(parts).astype(np.float64)


def gradient(loss, vector, h=1e-6):
    steps = np.eye(len(vector)) * h
    return np.array([(loss(vector + step) - loss(vector - step)) / (2 * h) for step in steps])


class Adam:
    def __init__(self, vector):
        self.x, self.m, self.v, self.t = vector, 0.0, 0.0, 0

    def descend(self, g, lr):
        self.t += 1
        self.m = 0.9 * self.m + 0.1 * g
        self.v = 0.999 * self.v + 0.001 * g**2
        self.x = self.x - lr * (self.m / (1 - 0.9**self.t)) / (np.sqrt(self.v / (1 - 0.999**self.t)) + 1e-8)


class Independent:
    actor_shapes, critic_shapes = sizes(OBS, ACT), sizes(OBS + ACT, 1)

    def __init__(self, state, cfg=CFG):
        self.cfg = cfg
        self.actor, self.second = Adam(flat(state.actor.params)), Adam(flat(state.actor.params))
        self.critics = [Adam(flat(jax.tree.map(lambda x, i=i: x[i], state.critic.params))) for i in range(cfg.critics)]
        self.target_actor, self.target_critics = self.actor.x, [c.x for c in self.critics]
        self.average = self.actor.x

    def pi(self, vector, obs):
        return np.tanh(mlp(vector, obs, self.actor_shapes))

    def q(self, vector, obs, act):
        return mlp(vector, np.hstack([obs, act]), self.critic_shapes)[:, 0]

    def actor_loss(self, x, b, lam, scale):
        act = self.pi(x, b.observations)
        w = b.weights / b.weights.mean() if self.cfg.normalise_weights else b.weights
        cloning = np.mean(w * np.mean((act - b.actions) ** 2, 1))
        return cloning - lam * self.q(self.critics[0].x, b.observations, act).mean() / scale

    def improve(self, actor, b, lam):
        scale = np.abs(self.q(self.critics[0].x, b.observations, self.pi(actor.x, b.observations))).mean()
        actor.descend(gradient(lambda x: self.actor_loss(x, b, lam, scale), actor.x), self.cfg.actor_lr)

    def step(self, b, noise, move_actor):
        cfg = self.cfg
        next_act = np.clip(self.pi(self.target_actor, b.next_observations) + np.clip(0.2 * noise, -0.5, 0.5), -1, 1)
        next_q = np.min([self.q(t, b.next_observations, next_act) for t in self.target_critics], axis=0)
        if cfg.critic_penalty is not None:
            next_q -= cfg.critic_penalty * b.next_known * np.sum((next_act - b.next_actions) ** 2, 1)
        y = b.rewards + cfg.gamma * b.continues * next_q
        for critic in self.critics:
            loss = lambda x: np.mean((self.q(x, b.observations, b.actions) - y) ** 2)  # noqa: E731
            critic.descend(gradient(loss, critic.x), cfg.critic_lr)
        if not move_actor:
            return
        self.improve(self.actor, b, cfg.lam)
        if cfg.deploy_lam is not None:
            self.improve(self.second, b, cfg.deploy_lam)
        if cfg.actor_average is not None:
            acting = self.actor.x if cfg.deploy_lam is None else self.second.x
            rate = max(cfg.actor_average, 10 / (self.actor.t + 10))
            self.average = (1 - rate) * self.average + rate * acting
        self.target_actor = (1 - cfg.tau) * self.target_actor + cfg.tau * self.actor.x
        self.target_critics = [(1 - cfg.tau) * t + cfg.tau * c.x for t, c in zip(self.target_critics, self.critics)]

    @property
    def deployed(self):
        if self.cfg.actor_average is not None:
            return self.average
        return self.actor.x if self.cfg.deploy_lam is None else self.second.x


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"normalise_weights": True, "actor_average": 0.87},
        {"critics": 3, "critic_penalty": 0.3},
        {"deploy_lam": 2.0},
        {"deploy_lam": 2.0, "actor_average": 0.87, "critics": 1, "critic_penalty": 2.0, "normalise_weights": True},
    ],
    ids=lambda options: "+".join(options) or "plain",
)
def test_four_updates_equal_the_independent_version(options):
    cfg = replace(CFG, **options)
    state = td3bc.init(cfg, spec(), jax.random.key(0))
    other = Independent(state, cfg)
    step = jax.jit(td3bc.step, static_argnums=4)
    for i, b in enumerate(batches(4)):
        key = jax.random.key(100 + i)
        batch = Batch(**{name: jnp.asarray(value, jnp.float32) for name, value in vars(b).items()})
        state, _ = step(cfg, state, batch, key, i % 2)
        other.step(b, np.asarray(jax.random.normal(key, (B, ACT)), np.float64), move_actor=i % 2 == 1)
    close = {"rtol": 2e-4, "atol": 2e-5}  # Adam's first steps are signs: float32 gradients near 0 show
    np.testing.assert_allclose(flat(state.actor.params), other.actor.x, **close)
    np.testing.assert_allclose(flat(state.target_actor), other.target_actor, **close)
    np.testing.assert_allclose(flat(td3bc.actor_layers(state)), other.deployed, **close)
    for i in range(cfg.critics):
        pick = lambda tree, i=i: flat(jax.tree.map(lambda x: x[i], tree))  # noqa: E731
        np.testing.assert_allclose(pick(state.critic.params), other.critics[i].x, **close)
        np.testing.assert_allclose(pick(state.target_critic), other.target_critics[i], **close)


def test_weights_that_are_all_zero_break_nothing():
    batch = Batch(**{name: jnp.asarray(value, jnp.float32) for name, value in vars(next(batches(1))).items()})
    cfg = replace(CFG, normalise_weights=True)
    np.testing.assert_array_equal(td3bc.weights(cfg, batch._replace(weights=jnp.zeros(B))), 0)
    np.testing.assert_allclose(np.mean(td3bc.weights(cfg, batch)), 1, rtol=1e-6)


def test_gradients_equal_finite_differences_in_float64():
    b = next(batches(1))
    with jax.enable_x64(True):
        state = jax.tree.map(lambda x: jnp.asarray(x, jnp.float64), td3bc.init(CFG, spec(), jax.random.key(0)))
        batch = Batch(**{name: jnp.asarray(value, jnp.float64) for name, value in vars(b).items()})
        ours = jax.grad(lambda a: td3bc.actor_loss(a, state.critic.params, CFG, batch, CFG.lam)[0])(state.actor.params)
        other = Independent(state)
        scale = np.abs(other.q(other.critics[0].x, b.observations, other.pi(other.actor.x, b.observations))).mean()

        np.testing.assert_allclose(
            flat(ours), gradient(lambda x: other.actor_loss(x, b, CFG.lam, scale), other.actor.x), rtol=1e-6, atol=1e-9
        )


@pytest.mark.parametrize(("bounds", "low", "high"), [((0.0, 1.0), 0.0, 10.0), ((-2.0, -1.0), -20.0, 0.0)])
def test_bounded_targets_stay_within_what_the_rewards_allow(bounds, low, high):
    cfg = replace(CFG, reward_bounds=bounds)
    state = td3bc.init(cfg, spec(), jax.random.key(0))
    for offset in (-1e4, 1e4):
        far = jax.tree.map(lambda x: x, state.target_critic)
        far[-1]["b"] = far[-1]["b"] + offset
        b = next(batches(1))
        batch = Batch(**{name: jnp.asarray(value, jnp.float32) for name, value in vars(b).items()})
        target = td3bc.bootstrap_target(cfg, state._replace(target_critic=far), batch, jax.random.key(1))
        assert float(target.min()) >= low - 1e-4
        assert float(target.max()) <= high + 1e-4
        plain = td3bc.bootstrap_target(CFG, state._replace(target_critic=far), batch, jax.random.key(1))
        assert np.abs(plain).max() > 1e3
