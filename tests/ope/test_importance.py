"""Per-decision weighted importance sampling, through the seam: exact on policy, right off policy, by hand."""

from dataclasses import replace

import numpy as np
import pytest

from ilbrl import ope
from ilbrl.base.errors import IlbrlError
from ilbrl.policy import Policy

GAMMA = 0.9


class Tabular:
    """A policy over one-hot states with two actions, known by its probabilities."""

    def __init__(self, probabilities):
        self.probabilities = np.asarray(probabilities)

    def log_prob(self, observations, actions):
        return np.log(self.probabilities[observations.argmax(1), (actions[:, 0] > 0).astype(int)])


def value(log, policy, gamma=GAMMA, **settings):
    evidence, config = ope.Evidence.of({"logs": log}), ope.ESTIMATORS["importance"].Config(gamma=gamma, **settings)
    found = ope.estimate({"p": policy}, evidence, "importance", config)
    return found["p"], found


def test_on_policy_it_is_the_mean_return(finite):
    estimate, found = value(finite.log, Tabular(np.full((5, 2), 0.5)), gamma=1.0)
    returns = finite.log.returns()
    assert estimate.value == pytest.approx(returns.mean(), rel=1e-6)
    assert estimate.std_error == pytest.approx(returns.std(ddof=1) / len(returns) ** 0.5, rel=0.2)
    assert estimate.distance == pytest.approx(1.0)  # every episode counts fully
    assert found.quantity == ope.Quantity(1.0, 40)
    assert str(found.quantity) == "mean return of an episode of at most 40 steps"


def test_off_policy_it_finds_the_exact_value(finite):
    policy = np.array([[0.6, 0.4], [0.35, 0.65], [0.5, 0.5], [0.6, 0.4], [0.4, 0.6]])
    estimate, found = value(finite.log, Tabular(policy))
    assert estimate.value == pytest.approx(finite.value(policy), rel=0.02)
    low, high = estimate.interval
    assert low < finite.value(policy) < high
    assert estimate.distance > 1
    assert found.quantity == ope.Quantity(GAMMA)


def test_a_far_policy_leaves_few_episodes(finite):
    sure = np.array([[0.999, 0.001]] * 5)
    assert value(finite.log, Tabular(sure), gamma=1.0)[0].verdict == "thin"


def test_by_hand_with_episodes_of_different_length(finite):
    """Episodes of 2 and 1 steps; the ended one keeps its weight and earns nothing."""
    ended = np.array([False, True, True])
    three = replace(
        finite.log.transitions(0, 3), terminals=ended, timeouts=np.zeros(3, bool),
        rewards=np.array([1.0, 10.0, 4.0]), log_probs=np.log([0.5, 0.5, 0.25]),
    )  # fmt: skip

    class Given:
        def log_prob(self, observations, actions):
            return np.log([0.25, 1.0, 0.5])

    first, second = np.array([0.5, 1.0]), np.array([2.0, 2.0])
    expected = (0.5 * 1 + 2 * 4) / 2.5 + 0.5 * (first[1] * 10) / (first[1] + second[1])
    assert value(three, Given(), gamma=0.5)[0].value == pytest.approx(expected)


def test_weights_that_no_number_holds_make_no_value(finite):
    class Sure:
        def log_prob(self, observations, actions):
            return np.full(len(actions), 800.0)

    assert value(finite.log, Sure(), weighted=False)[0].verdict == "impossible"


def test_what_is_missing_is_said(finite):
    with pytest.raises(IlbrlError, match="needs the probabilities of the logged actions"):
        value(replace(finite.log, log_probs=None), Tabular(np.full((5, 2), 0.5)))
    deterministic = Policy(((np.zeros((5, 1)), np.zeros(1)),), -np.ones(1), np.ones(1))
    with pytest.raises(IlbrlError, match="policy p: has no action probabilities"):
        value(finite.log, deterministic)
