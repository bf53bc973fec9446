"""The worlds: their shapes, their ergodicity, and Gymnasium's tables read faithfully."""

import sys

import numpy as np
import pytest

from ilbrl.base.errors import IlbrlError
from ilbrl.tabular.exact import average_reward, check_ergodic
from ilbrl.tabular.logs import rollout
from ilbrl.tabular.mdp import policy_chain, uniform_policy
from ilbrl.tabular.worlds import garnet, grid_world, river_swim, toy_text, world


@pytest.mark.parametrize("name", ["garnet:12x3", "grid:4x5", "FrozenLake-v1", "CliffWalking-v1"])
def test_every_policy_makes_an_ergodic_chain(name):
    mdp = world(name)
    for seed in range(10):
        policy = np.random.default_rng(seed).integers(mdp.num_actions, size=mdp.num_states)
        check_ergodic(policy_chain(mdp, policy))


def test_grid_moves_by_hand():
    room = grid_world(2, 3, slip=0.4)  # cells 0 1 2 / 3 4 5, goal 5
    up_from_0 = room.transitions[0]
    np.testing.assert_allclose(up_from_0, [0.6 + 0.1 + 0.1, 0.1, 0, 0.1, 0, 0])  # up and left bump
    np.testing.assert_allclose(room.transitions[4 * 5 + 2], np.eye(6)[0])  # the goal starts over
    assert room.rewards[5].tolist() == [1, 1, 1, 1]
    assert room.rewards[:5].sum() == 0


def test_river_swim_rows_by_hand():
    river = river_swim(4)
    np.testing.assert_allclose(river.transitions[1], [0.4, 0.6, 0, 0])
    np.testing.assert_allclose(river.transitions[3], [0.05, 0.6, 0.35, 0])
    np.testing.assert_allclose(river.transitions[7], [0, 0, 0.4, 0.6])
    np.testing.assert_allclose(river.transitions[4], [0, 1, 0, 0])


def test_garnet_branches_and_seeds():
    mdp = garnet(50, 2, np.random.default_rng(0), branching=3)
    assert ((mdp.transitions > 0).sum(axis=1) <= 5).all()
    same = garnet(50, 2, np.random.default_rng(0), branching=3)
    np.testing.assert_array_equal(mdp.transitions, same.transitions)


def test_frozen_lake_restarts_where_an_episode_would_end():
    lake = toy_text("FrozenLake-v1", restart=0.0)
    assert lake.num_states == 11  # 16 cells less 4 holes and the goal
    assert lake.origin is not None
    assert lake.origin.tolist() == [0, 1, 2, 3, 4, 6, 8, 9, 10, 13, 14]
    start, last = 0, 10  # cell 14, beside the goal
    row = lake.transitions[last * 4 + 1]  # down: left to 13, stay at 14, or right into the goal: back to the start
    np.testing.assert_allclose(row[[9, 10, start]], 1 / 3)
    assert lake.rewards[last, 1] == 1  # 1/3 expected, mapped to the largest of [0, 1]


def test_the_average_reward_is_gymnasiums_own_success_rate_per_step():
    """Two thousand real episodes of the uniform policy; the largest expected reward, 1/3, was mapped to 1."""
    import gymnasium

    lake = toy_text("FrozenLake-v1", restart=0.0)
    env, rng = gymnasium.make("FrozenLake-v1").unwrapped, np.random.default_rng(0)
    env.reset(seed=0)
    steps = successes = 0
    for _ in range(2_000):
        env.reset()
        over = False
        while not over:
            _, reward, over, _, _ = env.step(int(rng.integers(4)))
            steps, successes = steps + 1, successes + float(reward)
    assert 3 * successes / steps == pytest.approx(average_reward(lake, uniform_policy(lake)), rel=0.25)


def test_taxi_keeps_only_what_can_happen():
    taxi = toy_text("Taxi-v4")
    assert taxi.num_states == 400
    assert np.count_nonzero(np.asarray(taxi.initial)) == 300


def test_a_custom_map_is_an_option():
    assert toy_text("FrozenLake-v1", desc=["SF", "FG"], is_slippery=False).num_states == 3


@pytest.mark.parametrize("name", ["garnet:20", "maze:3x3", "NoSuchEnv-v7", "Blackjack-v1", "riverswim:1", "garnet:1x2"])
def test_unknown_worlds_are_refused(name):
    with pytest.raises(IlbrlError):
        world(name)


def test_without_gymnasium_the_message_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "gymnasium", None)
    with pytest.raises(IlbrlError, match="pip install"):
        toy_text("FrozenLake-v1")


def test_rolling_out_a_world_visits_what_its_stationary_distribution_says():
    river = river_swim(5)
    log = rollout(river, np.ones(5, int), 20_000, np.random.default_rng(0))
    assert river.rewards[log.states, log.actions].mean() == pytest.approx(
        average_reward(river, np.ones(5, int)), abs=0.02
    )
