"""Policies × settings × seeds as one population: who reads what, verdicts, and what is refused."""

from dataclasses import replace

import numpy as np
import pytest

from ilbrl import ope
from ilbrl.base.errors import IlbrlError
from ilbrl.data.splits import CompositionSizes, compose
from ilbrl.learning.batches import Spec
from ilbrl.ope.evaluables import act
from ilbrl.ope.evaluation import Estimate
from ilbrl.policy import Policy

SIZES = CompositionSizes(training=1000, expert_episodes=2, evaluation=1000, validation=400)


@pytest.fixture(scope="module")
def tiny(config):
    return replace(config, hidden=(8, 8), batch_size=16)


@pytest.fixture(scope="module")
def data(linear):
    composition = compose(linear.log(0.8, 0.1, 80), linear.log(0.1, 0.3, 120, seed=1), SIZES)
    return ope.EvaluationData.of_composition(composition, [0.0, 0.5])


def keep(x):
    return -0.5 * x


def evaluate(data, settings, updates=40, policies=None, seeds=(0,), **options):
    return ope.evaluate(policies or {"keep": keep}, data, settings, list(seeds), updates, quiet=True, **options)


def test_every_policy_setting_and_seed_gets_an_estimate(data, tiny):
    settings = [ope.Setting(0.0, tiny), ope.Setting(0.5, replace(tiny, lr=1e-2))]
    evaluation = evaluate(data, settings, policies={"keep": keep, "rest": lambda x: 0 * x}, seeds=(3, 4))
    assert [(e.policy, e.setting, e.seed) for e in evaluation.estimates] == [
        (policy, s, seed) for policy in ("keep", "rest") for s in (0, 1) for seed in (3, 4)
    ]
    for estimate in evaluation.estimates:
        assert estimate.initial_values.shape == (len(data.initial_observations),)
        assert estimate.value == pytest.approx(estimate.initial_values.mean())
        assert estimate.values[-1] == pytest.approx(estimate.value, rel=1e-4, abs=1e-6)  # what the loop read
        assert estimate.updates.tolist() == list(range(1, 41))
    assert len({round(e.value, 6) for e in evaluation.estimates}) == 8
    both = [e.value for e in evaluation.of("rest", 1)]
    assert evaluation.combined("rest", 1).value == pytest.approx(np.mean(both))


def test_a_member_sees_the_rows_of_its_own_mixture(data, tiny):
    """Rewards of 7 on the expert's rows alone: without those rows no value of a myopic critic comes near 7."""
    rewards = np.where(data.dataset.is_expert, 7.0, 0.0)
    marked = replace(data, dataset=replace(data.dataset, rewards=rewards))
    myopic = replace(tiny, gamma=0.0, lr=0.05)
    evaluation = evaluate(marked, [ope.Setting(0.0, myopic), ope.Setting(0.5, myopic)], updates=150)
    without, half = (evaluation.combined("keep", s).value for s in (0, 1))
    assert abs(without) < 0.2
    assert 1.5 < half < 6


def estimate(value, states):
    return Estimate("p", 0, 0, value, "converged", 1, np.ones(1), np.ones(1), np.array(states))


def test_the_standard_error_by_hand():
    combined = ope.combine([estimate(2.0, [1.0, 3.0]), estimate(4.0, [3.0, 5.0])])
    assert combined.value == 3.0
    assert combined.std_error == pytest.approx(np.sqrt(2.0 / 2 + 2.0 / 2))  # seeds 2, 4; states 2, 4
    assert combined.interval == pytest.approx((3 - 1.96 * 2**0.5, 3 + 1.96 * 2**0.5))


def test_disagreeing_seeds_lower_the_value():
    estimates = [estimate(2.0, [2.0, 2.0]), estimate(4.0, [4.0, 4.0])]
    assert ope.combine(estimates, penalty=2.0).value == pytest.approx(3 - 2 * 2**0.5)
    assert ope.combine(estimates[:1], penalty=2.0).value == 2.0


def test_divergence_is_named_and_dated(data, tiny):
    """A learning rate of 1,000 blows one member up, and the other goes on."""
    evaluation = evaluate(data, [ope.Setting(0.5, tiny), ope.Setting(0.5, replace(tiny, lr=1e3))], updates=60)
    sound, frozen = evaluation.estimates
    assert sound.verdict != "diverged"
    assert frozen.verdict == "diverged"
    assert 0 <= frozen.decided_at < 60


def test_killed_and_resumed_it_is_the_same(data, tiny, tmp_path):
    settings, path = [ope.Setting(0.5, tiny)], tmp_path / "evaluation.safetensors"
    whole = evaluate(data, settings, updates=40, chunk=10)
    evaluate(data, settings, updates=20, chunk=10, resume_from=path)
    resumed = evaluate(data, settings, updates=40, chunk=10, resume_from=path)
    np.testing.assert_array_equal(resumed.estimates[0].values, whole.estimates[0].values)
    np.testing.assert_array_equal(resumed.estimates[0].initial_values, whole.estimates[0].initial_values)
    with pytest.raises(IlbrlError, match="other settings or data"):
        evaluate(data, settings, policies={"keep": lambda x: 0.1 * x}, resume_from=path, updates=60)


def test_a_logged_column_gives_what_the_logging_policy_gives(linear, tiny):
    """A deterministic log: its next actions are those of its policy, but for the last rows, which are left out."""
    log = linear.log(0.5, 0.0, 60)
    data = ope.EvaluationData.of(log, log.initial_observations, Spec.of(log))
    column = ope.logged_next_actions(log)
    assert column.known.sum() == len(log) - 60
    np.testing.assert_array_equal(column.actions[0], log.actions[1])
    inner = ope.EvaluationData(log, {None: np.flatnonzero(column.known)}, log.initial_observations, data.spec)
    settings = [ope.Setting(0.5, tiny)]
    by_column = evaluate(data, settings, policies={"log": column}).estimates[0]
    by_policy = evaluate(inner, settings, policies={"log": keep}).estimates[0]
    np.testing.assert_allclose(by_column.initial_values, by_policy.initial_values, rtol=1e-3, atol=1e-5)


def test_a_logged_column_is_refused_elsewhere(linear, data, tiny):
    log = linear.log(0.5, 0.0, 10)
    column = ope.logged_next_actions(log)
    elsewhere = ope.EvaluationData.of(log, data.initial_observations, data.spec)
    for wrong in (data, elsewhere):
        with pytest.raises(IlbrlError, match=r"policy log: is known only through linear 0\.5"):
            evaluate(wrong, [ope.Setting(0.5, tiny)], policies={"log": column})


def test_sampled_actions_are_drawn_once_from_the_policy():
    layers = ((np.zeros((1, 2)), np.array([0.0, np.log(0.5)])),)
    policy = Policy(layers, -np.ones(1), np.ones(1), head="tanh_gaussian")
    seen = np.zeros((20_000, 1), np.float32)
    drawn = act("p", ope.Sampled(policy), seen, 1)
    np.testing.assert_array_equal(drawn, act("p", ope.Sampled(policy), seen, 1))
    assert np.arctanh(drawn).std() == pytest.approx(0.5, rel=0.03)
    assert (act("p", policy, seen, 1) == 0).all()  # the policy itself: its mean action
    for asked in (policy, ope.Sampled(policy)):
        with pytest.raises(IlbrlError, match=f"policy p: takes observations of {policy.obs_dim} numbers"):
            act("p", asked, np.zeros((3, policy.obs_dim + 1)), 1)


def test_policies_of_another_task_are_refused(data, tiny):
    with pytest.raises(IlbrlError, match="policy odd: answered observations"):
        evaluate(data, [ope.Setting(0.5, tiny)], policies={"odd": lambda x: np.zeros((len(x), 2))})
    with pytest.raises(IlbrlError, match="policy broken: some of its actions are not finite"):
        evaluate(data, [ope.Setting(0.5, tiny)], policies={"broken": lambda x: x * np.inf})
    with pytest.raises(IlbrlError, match="at least one policy"):
        ope.evaluate({}, data, [ope.Setting(0.5, tiny)], [0], 10)
