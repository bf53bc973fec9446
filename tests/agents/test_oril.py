from dataclasses import fields
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from ilbrl.agents import oril, td3bc
from ilbrl.learning.batches import Batch, Spec

SPEC = Spec(np.zeros(3), np.ones(3), -np.ones(2), np.ones(2))
CFG = oril.Config(hidden=(8,), reward_scale=0.25)


def batch(rewards: float) -> Batch:
    rng = np.random.default_rng(0)
    return Batch(
        observations=jnp.asarray(rng.standard_normal((16, 3)), jnp.float32),
        actions=jnp.asarray(rng.uniform(-1, 1, (16, 2)), jnp.float32),
        next_observations=jnp.asarray(rng.standard_normal((16, 3)), jnp.float32),
        continues=jnp.asarray(rng.random(16) < 0.8, jnp.float32),
        rewards=jnp.full(16, rewards),
        weights=jnp.ones(16),
    )


@partial(jax.jit, static_argnums=0)
def five_periods(module, cfg, rows: Batch):
    """Ten updates on the same rows: critics, then critics, actor and targets."""

    def updates(state, key):
        for phase in range(2):
            state, _ = module.step(cfg, state, rows, jax.random.fold_in(key, phase), phase)
        return state, None

    start = module.init(cfg, SPEC, jax.random.key(7))
    return jax.lax.scan(updates, start, jax.random.split(jax.random.key(0), 5))[0]


def test_with_a_constant_discriminator_it_is_td3bc_on_a_constant_reward():
    plain = td3bc.Config(**{f.name: getattr(CFG, f.name) for f in fields(td3bc.Config)})
    ours = five_periods(oril, CFG, batch(rewards=3.0))
    theirs = five_periods(td3bc, plain, batch(rewards=0.75))
    for left, right in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        np.testing.assert_array_equal(left, right)
    unscaled = five_periods(td3bc, plain, batch(rewards=3.0))
    assert not np.allclose(ours.critic.params[0]["w"], unscaled.critic.params[0]["w"], atol=1e-6)


def test_rewards_by_hand():
    logits = jnp.array([-2.0, 0.0, 2.0])
    np.testing.assert_allclose(oril.reward(CFG, logits), [-0.5, 0, 0.5])
    probability = oril.Config(reward="probability", reward_scale=2.0)
    np.testing.assert_allclose(oril.reward(probability, logits), 2 / (1 + np.exp([2.0, 0.0, -2.0])), rtol=1e-6)
