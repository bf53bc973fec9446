"""Optimal policies against exhaustive enumeration."""

import itertools

import numpy as np
import pytest

from ilbrl.base.errors import IlbrlError
from ilbrl.tabular.exact import average_reward, discounted_values
from ilbrl.tabular.planning import average_optimum, discounted_optimum
from ilbrl.tabular.worlds import garnet, grid_world, river_swim


def every_policy(mdp):
    return (np.array(p) for p in itertools.product(range(mdp.num_actions), repeat=mdp.num_states))


@pytest.mark.parametrize("sparsely", [False, True])
def test_both_optima_are_the_best_of_all_policies(sparsely):
    for seed in range(3):
        mdp = garnet(5, 3, np.random.default_rng(seed), sparsely=sparsely)
        best = average_optimum(mdp)
        assert best.gain == pytest.approx(max(average_reward(mdp, p) for p in every_policy(mdp)))
        assert best.gain == pytest.approx(average_reward(mdp, best.policy))
        found = discounted_optimum(mdp, 0.8)
        top = np.max([discounted_values(mdp, p, 0.8) for p in every_policy(mdp)], axis=0)
        np.testing.assert_allclose(found.values, top)
        np.testing.assert_allclose(found.action_values.max(axis=1), top)


def test_average_optimality_equation_holds():
    mdp = garnet(40, 4, np.random.default_rng(1))
    best = average_optimum(mdp)
    np.testing.assert_allclose(best.gain + best.bias, (mdp.rewards + mdp.expected_next(best.bias)).max(axis=1))


def test_known_optimal_policies():
    assert (average_optimum(river_swim(6)).policy == 1).all()  # swim, although drifting pays at once
    room = grid_world(4, 4)
    policy = average_optimum(room).policy.reshape(4, 4)
    assert policy[0, 3] == 2  # down along the right wall: a slip into it costs nothing
    assert policy[3, 0] == 1


def test_discounts_out_of_range_are_refused():
    for gamma in (0.0, 1.0, -0.5, 1.5):
        with pytest.raises(IlbrlError, match="γ"):
            discounted_optimum(river_swim(3), gamma)
