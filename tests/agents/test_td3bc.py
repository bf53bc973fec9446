"""TD3-BC of both kinds against an independent computation in float64 NumPy: same batches, same noise, several steps."""

from dataclasses import replace
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests.agents.conftest import HIDDEN, Discrete, Independent, flat, gradient

from ilbrl.agents import td3bc, td3bc_discrete
from ilbrl.learning.batches import Batch
from ilbrl.learning.spec import Spec

OBS, ACT, B = 3, 2, 16
CFG = td3bc.Config(lam=0.7, actor_lr=1e-3, critic_lr=2e-3, gamma=0.9, tau=0.1, hidden=HIDDEN, batch_size=B)
KINDS = {
    "real-valued": (td3bc.SOLVER.learner, td3bc.LOSSES, Independent, None),
    "discrete": (td3bc_discrete.SOLVER.learner, td3bc_discrete.LOSSES, Discrete, ACT),
}


@pytest.fixture(params=KINDS)
def kind(request):
    """(learner, losses, the independent version, number of discrete actions)."""
    return KINDS[request.param]


def spec(num_actions=None):
    return Spec(np.zeros(OBS), np.ones(OBS), -np.ones(ACT), np.ones(ACT), num_actions)


def batches(n, num_actions=None):
    rng = np.random.default_rng(1)

    def actions():
        if num_actions is None:
            return rng.uniform(-1, 1, (B, ACT))
        return np.eye(num_actions)[rng.integers(0, num_actions, B)]

    for _ in range(n):
        yield SimpleNamespace(
            observations=rng.standard_normal((B, OBS)),
            actions=actions(),
            next_observations=rng.standard_normal((B, OBS)),
            continues=(rng.random(B) < 0.8).astype(float),
            rewards=rng.random(B),
            weights=rng.random(B),
            next_actions=actions(),
            next_known=(rng.random(B) < 0.7).astype(float),
        )


ALL = {"deploy_lam": 2.0, "actor_average": 0.87, "critics": 1, "critic_penalty": 2.0, "normalise_weights": True}
SOME = [
    {"normalise_weights": True, "actor_average": 0.87},
    {"critics": 3, "critic_penalty": 0.3},
    {"deploy_lam": 2.0},
]


@pytest.mark.parametrize(
    ("kind", "options"),
    [("real-valued", options) for options in ({}, *SOME, ALL)] + [("discrete", options) for options in ({}, ALL)],
    ids=lambda value: value if isinstance(value, str) else "+".join(value) or "plain",
    indirect=["kind"],
)
def test_four_updates_equal_the_independent_version(kind, options):
    learner, _, version, num_actions = kind
    cfg = replace(CFG, **options)
    state = learner.init(cfg, spec(num_actions), jax.random.key(0))
    other = version(state, cfg, OBS, ACT)
    step = jax.jit(learner.step, static_argnums=4)
    for i, b in enumerate(batches(4, num_actions)):
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


def test_gradients_equal_finite_differences_in_float64(kind):
    learner, losses, version, num_actions = kind
    b = next(batches(1, num_actions))
    with jax.enable_x64(True):
        state = jax.tree.map(
            lambda x: jnp.asarray(x, jnp.float64), learner.init(CFG, spec(num_actions), jax.random.key(0))
        )
        batch = Batch(**{name: jnp.asarray(value, jnp.float64) for name, value in vars(b).items()})
        ours = jax.grad(lambda a: losses.actor(a, state.critic.params, CFG, batch, CFG.lam)[0])(state.actor.params)
        other = version(state, CFG, OBS, ACT)
        scale = other.scale(other.actor.x, b)
        np.testing.assert_allclose(
            flat(ours), gradient(lambda x: other.actor_loss(x, b, CFG.lam, scale), other.actor.x), rtol=1e-6, atol=1e-9
        )


@pytest.mark.parametrize(("bounds", "low", "high"), [((0.0, 1.0), 0.0, 10.0), ((-2.0, -1.0), -20.0, 0.0)])
def test_bounded_targets_stay_within_what_the_rewards_allow(bounds, low, high, kind):
    learner, losses, _, num_actions = kind
    cfg = replace(CFG, reward_bounds=bounds)
    state = learner.init(cfg, spec(num_actions), jax.random.key(0))
    for offset in (-1e4, 1e4):
        far = jax.tree.map(lambda x: x, state.target_critic)
        far[-1]["b"] = far[-1]["b"] + offset
        b = next(batches(1, num_actions))
        batch = Batch(**{name: jnp.asarray(value, jnp.float32) for name, value in vars(b).items()})
        target = losses.target(cfg, state._replace(target_critic=far), batch, jax.random.key(1))
        assert float(target.min()) >= low - 1e-4
        assert float(target.max()) <= high + 1e-4
        plain = losses.target(CFG, state._replace(target_critic=far), batch, jax.random.key(1))
        assert np.abs(plain).max() > 1e3


def test_an_absorbing_state_earns_its_reward_for_ever(kind):
    learner, losses, _, num_actions = kind
    state = learner.init(CFG, spec(num_actions), jax.random.key(0))
    b = next(batches(1, num_actions))
    batch = Batch(**{name: jnp.asarray(value, jnp.float32) for name, value in vars(b).items()})
    plain = losses.target(CFG, state, batch, jax.random.key(1))
    after = losses.target(CFG, state, batch._replace(absorbing=jnp.full(B, 0.5)), jax.random.key(1))
    np.testing.assert_allclose(after - plain, (1 - b.continues) * 0.9 * 0.5 / (1 - 0.9), atol=1e-5)
