"""What estimators learn from: logs by name, what is left out, and the intrinsic reward where there is no other."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from ilbrl import ope
from ilbrl.base.errors import IlbrlError
from ilbrl.data import Dataset
from ilbrl.data.splits import CompositionSizes, compose
from ilbrl.learning.spec import Spec
from ilbrl.rewards import ends, soft_support

SIZES = CompositionSizes(training=1000, expert_episodes=2, evaluation=1000, validation=400)


@pytest.fixture(scope="module")
def logs(linear):
    return {"expert": linear.log(0.8, 0.1, 30), "logs": linear.log(0.1, 0.3, 40, steps=30, seed=1)}


def bare(log):
    return replace(log, rewards=None)


def test_a_split_becomes_evidence(linear):
    composition = compose(linear.log(0.8, 0.1, 80), linear.log(0.1, 0.3, 120, seed=1), SIZES)
    evidence = ope.Evidence.of_composition(composition)
    assert evidence.logs["expert"].content_hash == composition.evaluation_expert.content_hash
    assert evidence.logs["logs"].content_hash == composition.evaluation_logs.content_hash
    held_out = [evidence.held_out[name].num_episodes for name in ("expert", "logs")]
    assert sum(held_out) == composition.validation.num_episodes
    assert len(evidence.initial_observations) >= 20 or len(evidence.initial_observations) > sum(held_out)
    np.testing.assert_array_equal(evidence.spec.obs_mean, Spec.of(composition.training).obs_mean)
    assert evidence.reward == "logged"
    assert {name: len(rows) for name, rows in evidence.training.items()} == {
        "expert": len(composition.training_expert),
        "logs": len(composition.training_logs),
    }
    rest = evidence.without("logs")
    assert rest is not None
    assert set(rest.training) == {"expert"}


def test_few_held_out_episodes_bring_the_initial_states_of_all(logs):
    assert len(ope.Evidence.of(logs).initial_observations) == 70
    few = {"expert": logs["expert"].episodes(range(3))}
    assert len(ope.Evidence.of(logs, held_out=few).initial_observations) == 73
    many = {"logs": logs["logs"].episodes(range(25))}
    assert len(ope.Evidence.of(logs, held_out=many).initial_observations) == 25


def test_what_the_logs_earned_from_each_initial_state(logs):
    demonstrations, trials = logs["expert"].episodes(range(3)), logs["logs"].episodes(range(5))
    quantity = ope.Quantity(horizon=10)
    split = ope.Evidence.of({"expert": demonstrations, "logs": logs["logs"]}, held_out={"logs": trials})
    earned = split.logged_returns(quantity)
    assert np.isnan(earned).tolist() == [False] * 5 + [True] * 3 + [False] * 40
    np.testing.assert_allclose(earned[:5], quantity.returns(trials))
    np.testing.assert_allclose(earned[8:], quantity.returns(logs["logs"]))
    whole = ope.Evidence.of({"logs": trials}, held_out={"logs": trials}, unsplit=frozenset({"logs"}))
    np.testing.assert_allclose(whole.logged_returns(quantity), quantity.returns(trials))  # each begins once
    elsewhere = ope.Evidence.of({"logs": trials}, initial_observations=trials.initial_observations)
    assert np.isnan(elsewhere.logged_returns(quantity)).all()


def test_two_demonstrations_and_one_log_are_enough(linear, logs):
    evidence = ope.Evidence.of({"expert": logs["expert"].episodes(range(2)), "logs": logs["logs"]})
    assert evidence.horizon == 30
    assert evidence.without("expert") is not None
    assert evidence.without("logs") is None  # 60 rows of 1,260 would be left
    alone = ope.Evidence.of({"expert": logs["expert"].episodes(range(1))})
    assert alone.without("expert") is None


def test_leaving_a_log_out_keeps_all_else(logs):
    whole = ope.Evidence.holding_out(logs)
    assert list(whole.held_out) == ["expert", "logs"]
    rest = whole.without("logs")
    assert rest is not None
    assert list(rest.logs) == list(rest.held_out) == ["expert"]  # no episode of it is left to be weighed or learnt from
    assert rest.horizon == whole.horizon == 30
    np.testing.assert_array_equal(rest.initial_observations, whole.initial_observations)


def test_logs_without_rewards_are_rewarded_by_closeness(logs):
    """As soft support labels them, where the expert's rows are few enough to be all there."""
    evidence = ope.Evidence.of({name: bare(log) for name, log in logs.items()})
    assert evidence.reward == "intrinsic"
    labels = soft_support.label(logs["expert"], logs["logs"], soft_support.standard_features(evidence.spec), quiet=True)
    np.testing.assert_allclose(evidence.logs["logs"].rewards, labels.reward[len(logs["expert"]) :], atol=2e-3)
    np.testing.assert_allclose(evidence.logs["expert"].rewards, 1.0, atol=0.03)  # √ of what float32 leaves of 0
    assert evidence.closeness is not None
    assert evidence.closeness.d_max == pytest.approx(labels.d_max, rel=1e-4)
    assert "intrinsic reward" in evidence.notes[0]


def test_closeness_against_brute_force(logs):
    spec = Spec.of(logs["logs"])
    closeness = ope.Closeness.to(logs["expert"], logs["logs"], spec, rows=50)
    x = np.linspace(-2, 2, 40, dtype=np.float32).reshape(2, 20, 1)
    u = np.linspace(1, -1, 40, dtype=np.float32).reshape(2, 20, 1)
    rows, expert = np.linspace(0, 749, 50).astype(int), logs["expert"]
    asked = (x.reshape(-1, 1), u.reshape(-1, 1)), (expert.observations[rows], expert.actions[rows])
    features = [np.hstack([spec.standardise(s), spec.encode_actions(a)]) for s, a in asked]
    distance = cdist(*features).min(1).reshape(2, 20)
    np.testing.assert_allclose(closeness.distance(x, u), distance, rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(closeness(x, u), 1 - np.sqrt(np.minimum(distance / closeness.d_max, 1)), atol=2e-2)


def test_what_cannot_be_valued_is_said(logs):
    with pytest.raises(IlbrlError, match="none has a row"):
        ope.Evidence.of({"expert": logs["expert"].transitions(0, 0)})
    with pytest.raises(IlbrlError, match='no log is called "expert"'):
        ope.Evidence.of({"logs": bare(logs["logs"])})
    with pytest.raises(IlbrlError, match="not all of these logs carry rewards"):
        ope.Evidence.of({"expert": logs["expert"], "logs": bare(logs["logs"])}, intrinsic=False)
    with pytest.raises(IlbrlError, match="all rewards are 0"):
        ope.Evidence.of({"logs": replace(logs["logs"], rewards=np.zeros(len(logs["logs"])))})
    holed = replace(logs["logs"], rewards=np.where(np.arange(1200) == 7, np.nan, logs["logs"].rewards))
    with pytest.raises(IlbrlError, match="row 7 is not finite"):
        ope.Evidence.of({"logs": holed})


def test_quantities_are_named_and_counted(logs):
    log = logs["logs"]
    assert str(ope.Quantity(0.9)) == "discounted return at γ = 0.9"
    assert "closeness" in str(ope.Quantity(1.0, 30, "intrinsic"))
    np.testing.assert_allclose(ope.Quantity(1.0, 30).returns(log), log.returns())
    by_hand = [log.rewards[s : s + 5].sum() for s in log.episode_starts]
    np.testing.assert_allclose(ope.Quantity(1.0, 5).returns(log), by_hand, rtol=1e-5)


# --- where the expert works towards terminals -------------------------------------------------------------------------


def arriving(lengths, arrives=True, seed=0):
    """Episodes with discrete actions that end near 3 (by a terminal), or anywhere (by a time-out)."""
    rng, rows = np.random.default_rng(seed), []
    for length in lengths:
        path = np.linspace(0, 3, length) if arrives else rng.normal(size=length)
        rows += [(x, t == length - 1) for t, x in enumerate(path)]
    observations, last = (np.array(column) for column in zip(*rows))
    return Dataset(
        observations[:, None], np.zeros(len(rows), int), observations[:, None], last & arrives, last & (not arrives),
        action_names=("left", "right"),
    )  # fmt: skip


@pytest.fixture
def goal():
    return ope.Evidence.of({"expert": arriving([4, 5, 6]), "logs": arriving([12] * 20, arrives=False)})


@pytest.mark.parametrize(("gamma", "horizon"), [(1.0, 12), (0.9, 12), (0.9, None)])
def test_after_an_arrival_every_step_that_is_left_earns_on(goal, gamma, horizon):
    quantity = ope.Quantity(gamma, horizon, "intrinsic")
    episodes = arriving([4, 7, 12])
    closeness = goal.closeness.label(episodes).rewards
    likeness = ends.likeness(goal.spec.standardise(np.full((1, 1), 3.0)), goal.closeness.goal.ends)[0]
    for found, start, length in zip(quantity.returns(goal.rewarded(episodes, quantity)), (0, 4, 11), (4, 7, 12)):
        own = sum(gamma**t * closeness[start + t] for t in range(length))
        after = sum(gamma**t for t in range(length, horizon or 1000))
        assert found == pytest.approx(own + likeness * after, rel=1e-5)
    assert goal.rewarded(episodes, quantity).rewards[3] > closeness[3]


def test_who_arrives_sooner_is_worth_more_than_who_never_arrives(goal):
    quantity = ope.Quantity(1.0, 12, "intrinsic")
    sooner, later, never = (
        quantity.returns(goal.rewarded(episodes, quantity))[0]
        for episodes in (arriving([5]), arriving([11]), arriving([12], arrives=False))
    )
    assert sooner >= later > never


def test_what_an_end_is_worth_is_what_training_says(goal):
    points = np.linspace(-5, 8, 60)[:, None]
    expected = ends.likeness(goal.spec.standardise(points).astype(np.float64), goal.closeness.goal.ends)
    np.testing.assert_allclose(goal.closeness.arrival(points), expected, rtol=1e-5)


def test_what_an_end_is_follows_from_the_demonstrations_and_the_other_logs():
    """As in training, which sees no further episodes of the expert: here they arrive sooner than those it has."""
    demonstrations, logs = arriving([10, 10]), arriving([11] * 10)
    evidence = ope.Evidence.of({"expert": arriving([8] * 20), "logs": logs}, demonstrations=demonstrations)
    assert ends.settled(ends.Ends(), demonstrations, logs).ends == "success"
    assert evidence.closeness is not None
    assert evidence.closeness.goal is not None


def test_falls_are_no_arrivals():
    """The logs meet terminals sooner than the expert: nothing follows them."""
    evidence = ope.Evidence.of({"expert": arriving([12] * 3), "logs": arriving([4] * 20)})
    assert evidence.closeness is not None
    assert evidence.closeness.goal is None
    episodes = evidence.closeness.label(arriving([4, 7]))
    assert evidence.arriving(episodes, ope.Quantity(1.0, 12, "intrinsic")) is episodes
