"""The estimator: its equations by hand, its rhythm, and exact values of a finite MDP and a linear system."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ilbrl import ope
from ilbrl.learning.batches import Batch, Spec
from ilbrl.ope import expected_sarsa
from ilbrl.ope.expected_sarsa import Config

SPEC = Spec(np.zeros(2), np.ones(2), -np.ones(1), np.ones(1))
CFG = Config(hidden=(4, 4), batch_size=3, gamma=0.5)


def constant_critics(first: float, second: float):
    """Twin critics whose weights are zero: Q₁ = first, Q₂ = second everywhere."""
    state = expected_sarsa.init(CFG, SPEC, jax.random.key(0))
    zeros = jax.tree.map(jnp.zeros_like, state.target)
    zeros[-1]["b"] = jnp.array([[first], [second]])
    return zeros


def batch(rewards=(1.0, 2.0, 3.0), continues=(1.0, 0.0, 1.0)):
    return Batch(
        jnp.zeros((3, 2)), jnp.zeros((3, 1)), jnp.ones((3, 2)), jnp.array(continues), jnp.array(rewards),
        next_actions=jnp.zeros((3, 1)),
    )  # fmt: skip


@pytest.mark.parametrize(("pessimism", "bracket"), [(0.0, 6.0), (1.0, 4.0), (3.0, 0.0)])
def test_the_target_by_hand(pessimism, bracket):
    """Critics 4 and 8: mean 6, standard deviation 2; a terminal earns its reward alone."""
    target = expected_sarsa.bootstrap_target(replace(CFG, pessimism=pessimism), constant_critics(4.0, 8.0), batch())
    np.testing.assert_allclose(target, [1 + 0.5 * bracket, 2.0, 3 + 0.5 * bracket])


def test_value_bounds_clip_the_target():
    bounded = replace(CFG, value_low=2.5, value_high=5.0)
    target = expected_sarsa.bootstrap_target(bounded, constant_critics(4.0, 8.0), batch())
    np.testing.assert_allclose(target, [4.0, 2.5, 5.0])


def test_the_loss_by_hand():
    loss, magnitude = expected_sarsa.critic_loss(constant_critics(1.0, -3.0), CFG, batch(), jnp.array([1.0, 2.0, 3.0]))
    assert float(loss) == pytest.approx((0 + 1 + 4) / 3 + (16 + 25 + 36) / 3)
    assert float(magnitude) == pytest.approx(2.0)


def test_targets_move_in_their_own_rhythm():
    """Every third update by τ, in between not at all; the rhythm is traced, so it may differ between members."""
    cfg = replace(CFG, target_update_every=3.0, tau=0.25, lr=0.1)
    state = expected_sarsa.init(cfg, SPEC, jax.random.key(1))
    step = jax.jit(expected_sarsa.step, static_argnums=4)
    for update in range(1, 7):
        before = state
        state, _ = step(cfg, state, batch(), jax.random.key(0), 0)
        share = 0.25 if update % 3 == 0 else 0.0
        expected = jax.tree.map(lambda t, q, share=share: t + share * (q - t), before.target, state.critic.params)
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-7), state.target, expected)


def test_exact_values_of_a_finite_mdp(finite, config):
    """The paper's estimator, the clipped double target and bounded values, all in one population."""
    choices = np.array([0, 1, 0, 1, 1])
    settings = [
        ope.Setting(0.5, config),
        ope.Setting(0.5, replace(config, pessimism=1.0)),
        ope.Setting(0.5, config, value_bounds=True),
    ]
    evaluation = ope.evaluate({"chosen": finite.act(choices)}, finite.data(), settings, [0], 2000, quiet=True)
    for estimate in evaluation.estimates:
        assert estimate.value == pytest.approx(finite.value(np.eye(2)[choices]), rel=0.02), estimate.setting
        assert estimate.verdict == "converged"


def test_exact_values_of_a_linear_system(linear, config):
    log = linear.log(k=0.3, spread=0.3, episodes=400)
    start = log.initial_observations[:64]
    data = ope.EvaluationData.of(log, start, Spec.of(log))
    gains = {"0": 0.0, "0.6": 0.6}
    policies = {name: (lambda x, k=k: -k * x) for name, k in gains.items()}
    evaluation = ope.evaluate(policies, data, [ope.Setting(0.5, config)], [0, 1], 3000, quiet=True)
    for name, k in gains.items():
        assert evaluation.combined(name).value == pytest.approx(linear.value(k, start), rel=0.02)
