"""Rollouts follow the MDP; logs go to and from Dataset unharmed."""

import numpy as np
import pytest

from ilbrl.base.errors import IlbrlError
from ilbrl.data.dataset import Dataset
from ilbrl.tabular.exact import occupancy, total_variation
from ilbrl.tabular.logs import Log, concatenate_logs, rollout, rollouts
from ilbrl.tabular.mdp import uniform_policy
from ilbrl.tabular.worlds import garnet


@pytest.mark.parametrize("sparsely", [False, True])
def test_one_trajectory_and_many_follow_transitions_and_policy(sparsely):
    mdp = garnet(4, 2, np.random.default_rng(0), branching=2, sparsely=sparsely)
    explorer = np.array([[0.3, 0.7]] * 4)
    single = rollout(mdp, explorer, 40_000, np.random.default_rng(1))
    many = rollouts(mdp, explorer, 200, 200, np.random.default_rng(2), start=np.zeros(200, int))
    assert many.states.shape == (200, 200)
    for log in (single, Log(many.states[50:].ravel(), many.actions[50:].ravel(), many.next_states[50:].ravel())):
        assert total_variation(log.counts(4, 2) / len(log), occupancy(mdp, explorer)) < 0.02
        counts = np.zeros((8, 4))
        np.add.at(counts, (log.states * 2 + log.actions, log.next_states), 1)
        truth = mdp.transitions if isinstance(mdp.transitions, np.ndarray) else mdp.transitions.toarray()
        np.testing.assert_allclose(counts / counts.sum(axis=1, keepdims=True), truth, atol=0.03)
    np.testing.assert_array_equal(single.next_states[:-1], single.states[1:])
    np.testing.assert_array_equal(many.next_states[:-1], many.states[1:])


def test_the_same_seed_gives_the_same_log():
    mdp = garnet(6, 3, np.random.default_rng(0))
    first, second = (rollout(mdp, uniform_policy(mdp), 100, np.random.default_rng(7), start=3) for _ in range(2))
    np.testing.assert_array_equal(first.next_states, second.next_states)
    assert first.states[0] == 3


def test_a_log_survives_the_round_trip_through_a_dataset():
    mdp = garnet(6, 3, np.random.default_rng(0))
    log = rollout(mdp, uniform_policy(mdp), 50, np.random.default_rng(1))
    dataset = log.to_dataset()
    assert dataset.discrete
    assert dataset.observations.shape == (50, 1)
    back = Log.from_dataset(dataset)
    for column in ("states", "actions", "next_states"):
        np.testing.assert_array_equal(getattr(back, column), getattr(log, column))


def test_a_terminal_restarts_at_the_next_episodes_first_state():
    observations = np.array([[2.0], [5.0], [2.0], [4.0]])
    following = np.array([[5.0], [9.0], [4.0], [9.0]])
    ends = np.array([False, True, False, True])
    episodes = Dataset(observations, np.array([0, 1, 0, 1]), following, ends, np.zeros(4, bool))
    log = Log.from_dataset(episodes, origin=np.array([2, 4, 5]))
    assert log.states.tolist() == [0, 2, 0]
    assert log.next_states.tolist() == [2, 0, 1]
    with pytest.raises(IlbrlError, match="not a state"):
        Log.from_dataset(episodes, origin=np.array([2, 4]))


def test_what_is_not_tabular_is_refused():
    never = np.zeros(2, bool)
    with pytest.raises(IlbrlError, match="whole state numbers"):
        Log.from_dataset(Dataset(np.full((2, 1), 0.5), np.array([0, 1]), np.ones((2, 1)), never, never))
    with pytest.raises(IlbrlError, match="integer actions"):
        Log.from_dataset(Dataset(np.ones((2, 1)), np.ones((2, 1)), np.ones((2, 1)), never, never))
    with pytest.raises(IlbrlError, match="row 1: states must lie in 0 … 3"):
        Log(np.array([0, 4]), np.array([0, 0]), np.array([0, 0])).counts(4, 1)


def test_joined_logs_keep_their_order():
    one, two = Log(*np.zeros((3, 2), np.int64)), Log(*np.ones((3, 1), np.int64))
    assert concatenate_logs([one, two]).states.tolist() == [0, 0, 1]
