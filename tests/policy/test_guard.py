import warnings

import numpy as np
import pytest

from ilbrl.base.errors import IlbrlError

LOW, HIGH = np.full(5, -1.0), np.full(5, 2.0)
INSIDE = np.array([0.0, 0.5, -1.0, 2.0, 1.0])
BEYOND = np.array([[0.0, 0.5, -1.0, 2.0, 1.0], [0.0, -3.0, 0.0, 7.0, 0.0]])


@pytest.fixture
def policy(make_policy):
    return make_policy("tanh_gaussian", obs_low=LOW, obs_high=HIGH)


@pytest.mark.parametrize("outside", ["clip", "warn", "refuse"])
def test_inside_its_range_a_guard_changes_nothing(policy, outside):
    guard = policy.guarded(outside=outside)
    np.testing.assert_array_equal(guard.act(INSIDE), policy.act(INSIDE))
    np.testing.assert_array_equal(guard(INSIDE), policy.act(INSIDE))
    samples = [p.act(INSIDE, np.random.default_rng(0)) for p in (guard, policy)]
    np.testing.assert_array_equal(*samples)
    assert (guard.observations, guard.outside_range.sum(), guard.refused) == (3, 0, 0)


def test_clipping_answers_at_the_border(policy):
    guard = policy.guarded()
    np.testing.assert_array_equal(guard.act(BEYOND), policy.act(np.clip(BEYOND, LOW, HIGH)))
    assert guard.outside_range.tolist() == [0, 1, 0, 1, 0]
    assert str(guard) == f"Guard({policy}, clip: 2 observations, 2 numbers outside the range, 0 refused)"


def test_warning_says_it_once_and_answers_as_it_is(policy):
    guard = policy.guarded(outside="warn")
    with pytest.warns(UserWarning, match="number 1 of an observation is -3, outside -1 to 2"):
        np.testing.assert_array_equal(guard.act(BEYOND), policy.act(BEYOND))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        guard.act(BEYOND)
    assert guard.outside_range.tolist() == [0, 2, 0, 2, 0]


def test_refusals_are_counted(policy):
    guard = policy.with_metadata(observation_columns=list("xyzuv")).guarded(outside="refuse")
    with pytest.raises(IlbrlError, match=r"number 1 \(y\) of an observation is -3, .* not trained for that"):
        guard.act(BEYOND)
    for outside in ("clip", "refuse"):
        with pytest.raises(IlbrlError, match="number 4 of the observation is nan"):
            policy.guarded(outside=outside).act([0, 0, 0, 0, np.nan])
        with pytest.raises(IlbrlError, match="number 0 of the observation is inf"):
            policy.guarded(outside=outside).act([1e39, 0, 0, 0, 0])  # more than float32 holds
    with pytest.raises(IlbrlError, match="observations of 5 numbers"):
        guard.act(np.zeros(4))
    assert (guard.observations, guard.refused) == (3, 3)


def test_a_guard_needs_a_range_that_fits(make_policy):
    policy = make_policy()
    with pytest.raises(IlbrlError, match=r"policy\.guarded\(logs\.observations\.min\(0\)"):
        policy.guarded()
    with pytest.raises(IlbrlError, match="does not fit 5 numbers"):
        policy.guarded(np.zeros(4), np.ones(4))
    with pytest.raises(IlbrlError, match=r"number 2 of the range goes from 1\.0 to 0\.0"):
        policy.guarded([0, 0, 1, 0, 0], np.zeros(5))
    with pytest.raises(IlbrlError, match="clip, warn, refuse"):
        policy.guarded(-1, 1, outside="ignore")
