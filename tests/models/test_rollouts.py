"""Rollouts against closed forms: the models are exactly the linear system, so every return is known."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests.models.conftest import A, B, exact_models, linear_return, steady, with_bounds

from ilbrl import models
from ilbrl.base.errors import IlbrlError
from ilbrl.models import acting
from ilbrl.policy import Policy

STARTS = np.array([[1.0, 0.0], [0.5, -1.0]], np.float32)


def play(policies, exact, horizon=20, **options):
    return models.rollout(policies, exact, STARTS, horizon, quiet=True, **{"noise": 0.0} | options)


@pytest.mark.parametrize("gamma", [1.0, 0.9])
def test_an_exact_model_reproduces_the_true_return(gamma):
    played = play([steady(0.3), steady(-0.8)], exact_models(), gamma=gamma)
    for p, action in enumerate((0.3, -0.8)):
        truth = [linear_return(action, start, 20, gamma) for start in STARTS]
        np.testing.assert_allclose(played.returns[p, 0], truth, rtol=1e-5)
    assert (played.lengths == 20).all()
    assert (played.disagreement == 0).all()


def test_any_function_can_stand_in_for_the_network():
    def pendulum(layers, inputs, dtype):
        del layers, dtype
        angle, speed, torque = jnp.split(inputs, 3, -1)
        return jnp.concatenate([0.1 * speed, -0.1 * jnp.sin(angle) + 0.1 * torque, -jnp.square(angle)], -1)

    exact = models.Models(**{**vars(exact_models()), "predict": pendulum})
    played = play([steady(0.5)], exact, horizon=7)
    for start, found in zip(STARTS, played.returns[0, 0]):
        (angle, speed), total = np.asarray(start, float), 0.0
        for _ in range(7):
            total -= angle**2
            angle, speed = angle + 0.1 * speed, speed - 0.1 * np.sin(angle) + 0.05
        assert found == pytest.approx(total, rel=1e-5)


@pytest.mark.parametrize("gamma", [1.0, 0.9])
def test_an_absorbing_state_earns_on_after_the_end(gamma):
    """Every step earns 1, and s₁ after the end, which comes with chance σ(s₁ + 1): step by step in float64."""
    options = {"gamma": gamma, "score": lambda observations, actions: 1.0 + 0 * observations[..., 0]}
    played = play([steady(0.3)], exact_models(end_bias=1.0), 9, arrival=lambda s: s[..., 0], penalty=0.0, **options)
    for start, found in zip(STARTS, played.returns[0, 0]):
        state, alive, total = np.asarray(start, np.float64), 1.0, 0.0
        for t in range(9):
            end = 1 / (1 + np.exp(-state[0] - 1.0))
            total += alive * (gamma**t + end * state[0] * sum(gamma**k for k in range(t + 1, 9)))
            state, alive = A @ state + B[:, 0] * 0.3, alive * (1 - end)
        assert found == pytest.approx(total, rel=1e-5)


def test_a_horizon_of_one_is_the_first_reward():
    played = play([steady(0.3)], exact_models(), horizon=1)
    np.testing.assert_allclose(played.returns[0, 0], [linear_return(0.3, s, 1) for s in STARTS], rtol=1e-5)


def test_averaged_rollouts_follow_the_mean_of_the_other_members():
    two, three = exact_models(members=2, shift=0.1), exact_models(members=3, shift=0.1)
    alone, averaged = (play([steady(0.3)], two, averaged=averaged).returns for averaged in (False, True))
    assert (alone[0, 0] != alone[0, 1]).all()
    np.testing.assert_allclose(averaged[:, ::-1], alone, rtol=1e-5)  # the mean of all but one of two is the other
    alone, averaged = (play([steady(0.3)], three, averaged=averaged).returns for averaged in (False, True))
    np.testing.assert_allclose(averaged[0, 1], alone[0, 1], rtol=1e-5)  # the middle one is the mean of its neighbours
    one = exact_models()
    np.testing.assert_array_equal(play([steady(0.3)], one, averaged=True).returns, play([steady(0.3)], one).returns)


def test_disagreement_costs_what_the_penalty_says():
    exact = exact_models(members=3, shift=0.1)
    free, charged = (play([steady(0.3)], exact, horizon=5, penalty=penalty) for penalty in (0.0, 2.0))
    # predictions of s₁ are 0, 0.1 and 0.2 apart: a variance of 0.02/3, halved by the dimension they agree in
    doubt = np.sqrt(0.02 / 3 / 2)
    np.testing.assert_allclose(free.disagreement, doubt, rtol=1e-4)
    np.testing.assert_allclose(charged.unpenalised, free.returns, rtol=1e-5)
    np.testing.assert_allclose(free.returns - charged.returns, 5 * 2.0 * doubt, rtol=1e-4)
    for allowed in (doubt / 4, 2 * doubt):  # a part of it is allowed, or more than there is
        found = play([steady(0.3)], exact, horizon=5, penalty=2.0, allowed=allowed)
        left = 5 * 2.0 * max(doubt - allowed, 0.0)
        np.testing.assert_allclose(free.returns - found.returns, left, rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(found.disagreement, doubt, rtol=1e-4)  # told whole


def test_each_member_plays_alone():
    played = play([steady(0.0)], exact_models(members=2, shift=0.5), horizon=3, penalty=0.0)
    for k in range(2):
        state, total = STARTS[0].astype(float), 0.0
        for _ in range(3):
            total += state[0] - 0.5 * state[1]
            state = A @ state + [0.5 * k, 0.0]
        assert played.returns[0, k, 0] == pytest.approx(total, rel=1e-5)


def test_an_episode_lives_on_with_the_chance_that_the_models_give_it():
    dying = exact_models(end_bias=-0.7)  # the logit of the end is s₁ − 0.7
    played = play([steady(0.0)], dying, horizon=10)
    for start, length, total in zip(STARTS, played.lengths[0, 0], played.returns[0, 0]):
        state, alive, steps, value = start.astype(float), 1.0, 0.0, 0.0
        for _ in range(10):
            steps, value = steps + alive, value + alive * (state @ [1.0, -0.5])
            alive /= 1 + np.exp(state[0] - 0.7)
            state = A @ state
        assert length == pytest.approx(steps, rel=1e-5)
        assert total == pytest.approx(value, rel=1e-5)
    assert (play([steady(0.0)], dying, horizon=10, end=False).lengths == 10).all()
    own = play([steady(0.0)], dying, horizon=10, end=lambda s, a, following: following[..., 1] > -0.9)
    assert own.lengths[0, 0, 0] == 1
    assert own.lengths[0, 0, 1] > 1


def loosened(exact):
    return replace(exact, scales=replace(exact.scales, high_disagreement=np.float32(1.0)))


def test_a_score_leaves_the_reward_beside_it():
    """The same episodes by both: the score is what is valued and penalised, the learned reward is told too."""
    dying = exact_models(members=3, shift=0.1, end_bias=-0.7)
    options = {"horizon": 8, "gamma": 0.9, "penalty": 0.0}
    by_reward = play([steady(0.3)], dying, **options)
    by_score = play([steady(0.3)], dying, **options, score=lambda s, a: 0 * s[..., 0] + 1)
    np.testing.assert_array_equal(by_reward.rewarded, by_reward.unpenalised)
    np.testing.assert_allclose(by_score.rewarded, by_reward.rewarded, rtol=1e-5)
    assert (by_score.returns <= by_score.lengths).all()
    assert (np.abs(by_score.returns - by_score.rewarded) > 0.01).all()
    bare = replace(dying, config=replace(dying.config, rewards=False))
    *hidden, last = dying.layers
    last = {name: np.delete(array, 2, -1) for name, array in last.items()}  # without the reward among the outputs
    alone = play([steady(0.3)], replace(bare, layers=(*hidden, last)), **options, score=lambda s, a: 0 * s[..., 0] + 1)
    assert np.isnan(alone.rewarded).all()
    np.testing.assert_allclose(alone.returns, by_score.returns, rtol=1e-5)


@pytest.mark.parametrize("lowest", [-2.0, 0.5])
def test_a_policy_whose_first_steps_are_strange_is_played_no_further(lowest):
    exact = exact_models(members=2, shift=2.0)  # a disagreement of 1 / √2 in every step, the limit is 0.75 · 0.9
    reward = np.array([0.0, 1.0, lowest, 1e6], np.float32)
    strict = replace(exact, scales=replace(exact.scales, high_disagreement=np.float32(0.9), reward=reward))
    stopped = play([steady(0.9)], strict, horizon=30)
    assert (stopped.strange == 1).all()
    assert (stopped.lengths == 10).all()
    ten = play([steady(0.9)], loosened(strict), horizon=10)
    np.testing.assert_allclose(stopped.returns, ten.returns + 20 * min(lowest, 0.0), rtol=1e-4)
    scored = play([steady(0.9)], strict, horizon=30, score=lambda s, a: 0.0 * s[..., 0] + 1.0)
    np.testing.assert_allclose(scored.unpenalised, 10, rtol=1e-6)  # closeness is never negative: the rest is worth 0
    np.testing.assert_allclose(scored.rewarded, stopped.unpenalised, rtol=1e-4)
    assert (play([steady(0.9)], loosened(strict), horizon=30).lengths == 30).all()


def test_states_stay_within_the_logs_and_leaving_is_counted():
    bounded = with_bounds(exact_models(), -0.5, 0.5)
    played = models.rollout([steady(0.9)], bounded, np.array([[0.4, 0.4]], np.float32), 30, noise=0.0, quiet=True)
    state, total, outside = np.array([0.4, 0.4]), 0.0, 0
    for _ in range(30):
        total += state @ [1.0, -0.5] + 0.3 * 0.9
        following = A @ state + B[:, 0] * 0.9
        state = np.clip(following, -0.5, 0.5)
        outside += (state != following).any()
    assert played.returns[0, 0, 0] == pytest.approx(total, rel=1e-5)
    assert played.outside[0, 0, 0] == pytest.approx(outside / 30)


def test_noise_has_the_size_of_the_models_own_error_and_meets_everyone_alike():
    starts = np.zeros((4000, 2), np.float32)
    noisy = models.rollout([steady(0.0), steady(0.0)], exact_models(), starts, 2, noise=0.5, quiet=True)
    np.testing.assert_array_equal(noisy.returns[0], noisy.returns[1])
    # after one step s = 0.5 · 0.1 · ε, and the second reward is s₁ − 0.5 s₂
    assert noisy.returns.std() == pytest.approx(0.05 * np.sqrt(1.25), rel=0.05)
    assert abs(noisy.returns.mean()) < 0.005


def test_a_score_replaces_the_learned_reward():
    played = play([steady(0.3)], exact_models(), horizon=4, score=lambda s, a: a[..., 0] + 0 * s[..., 0])
    np.testing.assert_allclose(played.returns, 4 * 0.3, rtol=1e-5)


def test_a_policy_does_not_depend_on_its_company():
    everyone = [steady(a) for a in (0.1, 0.5, -0.3)]
    together, alone = play(everyone, exact_models()), play(everyone[1:2], exact_models())
    np.testing.assert_allclose(together.returns[1], alone.returns[0], rtol=1e-5)


def test_policies_of_different_shapes_keep_their_order():
    rng = np.random.default_rng(0)
    deep = Policy(
        (
            (rng.normal(size=(2, 8)), rng.normal(size=8)),
            (rng.normal(size=(8, 1)), rng.normal(size=1)),
        ),
        -np.ones(1),
        np.ones(1),
    )
    mixed = play({"a": steady(0.3), "deep": deep, "b": steady(-0.2)}, exact_models())
    np.testing.assert_allclose(mixed.returns[2], play([steady(-0.2)], exact_models()).returns[0], rtol=1e-5)
    np.testing.assert_allclose(mixed.returns[1], play([deep], exact_models()).returns[0], rtol=1e-5)


@pytest.mark.parametrize("head", ["deterministic", "tanh_gaussian"])
@pytest.mark.parametrize("normalised", [True, False])
def test_policies_act_as_they_do_in_numpy(head, normalised):
    rng = np.random.default_rng(1)
    outputs = 3 if head == "deterministic" else 6
    policy = Policy(
        (
            (rng.normal(size=(5, 16)), rng.normal(size=16)),
            (rng.normal(size=(16, 16)), rng.normal(size=16)),
            (rng.normal(size=(16, outputs)), rng.normal(size=outputs)),
        ),
        np.array([-1.0, -2.0, 0.0]),
        np.array([1.0, 2.0, 5.0]),
        head=head,
        obs_mean=rng.normal(size=5) if normalised else None,
        obs_std=rng.uniform(0.5, 2, size=5) if normalised else None,
        mean_bound=2.0 if head == "tanh_gaussian" else None,
    )
    observations = rng.normal(size=(40, 5)).astype(np.float32)
    acted = acting.act(
        acting.shape_of(policy), jax.tree.map(lambda leaf: leaf[0], acting.stack([policy])), jnp.asarray(observations)
    )
    np.testing.assert_allclose(acted, policy.act(observations), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"horizon": 0}, "a horizon of at least one step"),
        ({"policies": []}, "at least one policy"),
        ({"policies": [steady(0.1, obs_dim=3)]}, "has observations of 3 numbers"),
    ],
)
def test_what_cannot_be_played_is_refused(change, words):
    asked = {"policies": [steady(0.1)], "horizon": 5} | change
    with pytest.raises(IlbrlError, match=words):
        play(asked.pop("policies"), exact_models(), **asked)
