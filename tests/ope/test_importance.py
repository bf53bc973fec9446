"""Per-decision weighted importance sampling: exact on policy, right off policy, brute force for a few episodes."""

from dataclasses import replace

import numpy as np
import pytest

from ilbrl.base.errors import IlbrlError
from ilbrl.ope.importance import importance_value

GAMMA = 0.9


def log_probs(log, policy):
    states, actions = log.observations.argmax(1), (log.actions[:, 0] > 0).astype(int)
    return np.log(policy[states, actions])


def test_on_policy_it_is_the_mean_return(finite):
    estimate = importance_value(finite.log, finite.log.log_probs, GAMMA)
    assert estimate.value == pytest.approx(finite.log.returns(GAMMA).mean(), rel=1e-6)
    assert estimate.effective_episodes == pytest.approx(estimate.episodes)


def test_off_policy_it_finds_the_exact_value(finite):
    policy = np.array([[0.6, 0.4], [0.35, 0.65], [0.5, 0.5], [0.6, 0.4], [0.4, 0.6]])
    estimate = importance_value(finite.log, log_probs(finite.log, policy), GAMMA)
    assert estimate.value == pytest.approx(finite.value(policy), rel=0.02)
    assert 1 < estimate.effective_episodes < estimate.episodes


def test_by_hand_with_episodes_of_different_length(finite):
    """Episodes of 2 and 1 steps; the ended one keeps its weight and earns nothing."""
    log = finite.log
    ended = np.array([False, True, True])
    three = replace(
        log.transitions(0, 3), terminals=ended, timeouts=np.zeros(3, bool),
        rewards=np.array([1.0, 10.0, 4.0]), log_probs=np.log([0.5, 0.5, 0.25]),
    )  # fmt: skip
    estimate = importance_value(three, np.log([0.25, 1.0, 0.5]), 0.5)
    first, second = np.array([0.5, 1.0]), np.array([2.0, 2.0])
    expected = (0.5 * 1 + 2 * 4) / 2.5 + 0.5 * (first[1] * 10) / (first[1] + second[1])
    assert estimate.value == pytest.approx(expected)


def test_without_probabilities_it_says_what_to_do(finite):
    with pytest.raises(IlbrlError, match="needs the probabilities of the logged actions"):
        importance_value(replace(finite.log, log_probs=None), np.zeros(len(finite.log)), GAMMA)
    with pytest.raises(IlbrlError, match=r"log_probs has shape \(3,\)"):
        importance_value(finite.log, np.zeros(3), GAMMA)
