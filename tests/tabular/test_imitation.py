"""Algorithm 1 and its baselines: known answers, the convex program, and the regime where cloning fails."""

import numpy as np
import pytest
from scipy.optimize import linprog, minimize

from ilbrl.base.errors import IlbrlError
from ilbrl.tabular.dice import Config as SmodiceConfig
from ilbrl.tabular.dice import build_program, smodice
from ilbrl.tabular.exact import imitation_regret, occupancy, total_variation
from ilbrl.tabular.imitation import Config, behavioural_cloning, ilbrl, intrinsic_reward
from ilbrl.tabular.logs import Log, concatenate_logs, rollout
from ilbrl.tabular.mdp import uniform_policy
from ilbrl.tabular.phased import batch, phased_q_learning
from ilbrl.tabular.planning import average_optimum
from ilbrl.tabular.worlds import garnet, grid_world


def expert_and_logs(mdp, expert_steps, logs_steps, seed):
    rng = np.random.default_rng(seed)
    expert = average_optimum(mdp).policy
    return rollout(mdp, expert, expert_steps, rng), rollout(mdp, uniform_policy(mdp), logs_steps, rng), expert


def test_intrinsic_reward_is_the_indicator_of_the_expert_log():
    log = Log(np.array([0, 2, 0]), np.array([1, 0, 1]), np.array([2, 0, 2]))
    assert intrinsic_reward(log, 3, 2).tolist() == [[0, 1], [0, 0], [1, 0]]
    with pytest.raises(IlbrlError, match="empty"):
        intrinsic_reward(Log(*np.empty((3, 0), np.int64)), 3, 2)


def test_ilbrl_is_phased_q_learning_on_the_union_under_the_intrinsic_reward():
    mdp = garnet(8, 3, np.random.default_rng(0))
    expert_log, logs, _ = expert_and_logs(mdp, 20, 200, 0)
    found = ilbrl(expert_log, logs, 8, 3, Config(gamma=0.9, phases=50))
    source = batch(concatenate_logs([expert_log, logs]), 8, 3, 0.9)
    by_hand = phased_q_learning(intrinsic_reward(expert_log, 8, 3), source, 0.9, 50)
    np.testing.assert_array_equal(found.action_values, by_hand.action_values)


def test_with_plenty_of_data_the_expert_is_recovered():
    for seed in range(3):
        mdp = garnet(15, 3, np.random.default_rng(seed))
        expert_log, logs, expert = expert_and_logs(mdp, 5_000, 20_000, seed)
        policy = ilbrl(expert_log, logs, 15, 3).policy
        assert total_variation(occupancy(mdp, policy), occupancy(mdp, expert)) < 1e-9
        cloned = behavioural_cloning(expert_log, 15, 3)
        assert total_variation(occupancy(mdp, cloned), occupancy(mdp, expert)) < 1e-9


def test_where_cloning_fails_ilbrl_does_not():
    """Thirty demonstrated steps in a slippery room: off the path BC wanders, ILBRL has learned the way back."""
    room = grid_world(10, 10)
    regrets = []
    for seed in range(6):
        expert_log, logs, expert = expert_and_logs(room, 30, 10_000, seed)
        policies = ilbrl(expert_log, logs, 100, 4).policy, behavioural_cloning(expert_log, 100, 4)
        regrets.append([imitation_regret(room, expert, policy) for policy in policies])
    ours, cloned = np.mean(regrets, axis=0)
    assert cloned > 4 * ours


def test_unseen_actions_are_tried_by_the_optimist_and_avoided_by_the_pessimist():
    expert_log = Log(np.array([1]), np.array([0]), np.array([1]))  # the expert stays in state 1
    logs = Log(np.array([0, 1]), np.array([1, 1]), np.array([1, 0]))  # the way there is known; (0, 0) is not
    policies = {u: ilbrl(expert_log, logs, 2, 2, Config(unseen=u)) for u in ("pessimistic", "optimistic")}
    assert policies["pessimistic"].policy.tolist() == [1, 0]
    assert policies["optimistic"].policy[0] == 0
    assert policies["pessimistic"].action_values[0, 0] == 0
    assert policies["optimistic"].action_values[0, 0] == pytest.approx(99)  # γ/(1 − γ)


def test_behavioural_cloning_by_hand():
    log = Log(np.array([0, 0, 0, 2]), np.array([1, 1, 0, 0]), np.array([0, 0, 2, 0]))
    np.testing.assert_allclose(behavioural_cloning(log, 3, 2), [[0, 1], [0.5, 0.5], [1, 0]])


# --- SMODICE against independent solvers of the primal program ----------------------------------------------------


def small_problem():
    mdp = garnet(5, 2, np.random.default_rng(3))
    expert_log, logs, _ = expert_and_logs(mdp, 60, 400, 3)
    return expert_log, logs


@pytest.mark.parametrize("divergence", ["kl", "chi2"])
def test_the_dual_solves_the_primal(divergence):
    expert_log, logs = small_problem()
    config = SmodiceConfig(gamma=0.9, divergence=divergence)
    solved = smodice(expert_log, logs, 5, 2, config)
    program = build_program(expert_log, logs, 5, 2, config)
    d = solved.occupancy.ravel()[program.pairs]
    np.testing.assert_allclose(0.1 * program.start + d @ program.flow, 0, atol=1e-6)  # Bellman flow
    assert d.sum() == pytest.approx(1, abs=1e-6)
    assert solved.primal == pytest.approx(solved.dual, abs=1e-6)

    def loss(d):  # the primal, by an independent constrained solver
        w = d / program.offline
        spread = d @ np.log(w) if divergence == "kl" else program.offline @ (w - 1) ** 2 / 2
        return spread - d @ program.rewards

    flow = {"type": "eq", "fun": lambda d: 0.1 * program.start + d @ program.flow}
    start = linprog(np.zeros(len(d)), A_eq=program.flow.T.toarray(), b_eq=-0.1 * program.start, bounds=(1e-6, 1)).x
    options = {"maxiter": 500, "ftol": 1e-12}
    primal = minimize(loss, start, constraints=flow, bounds=[(1e-9, 1)] * len(d), method="SLSQP", options=options)
    assert -primal.fun == pytest.approx(solved.dual, abs=1e-5)


def test_smodice_imitates_given_enough_data():
    mdp = garnet(12, 3, np.random.default_rng(1))
    expert_log, logs, expert = expert_and_logs(mdp, 3_000, 6_000, 1)
    solved = smodice(expert_log, logs, 12, 3)
    assert imitation_regret(mdp, expert, solved.policy) < 0.02
    np.testing.assert_allclose(solved.policy.sum(axis=1), 1)


def test_a_state_that_was_never_left_does_not_make_smodice_impossible():
    expert_log = Log(np.array([0, 1]), np.array([0, 0]), np.array([1, 2]))  # the log ends on entering state 2
    solved = smodice(expert_log, Log(np.array([0]), np.array([1]), np.array([2])), 3, 2)
    assert solved.primal == pytest.approx(solved.dual, abs=1e-6)
    assert solved.policy[0, 0] > 0.9
