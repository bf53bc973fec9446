"""Exact quantities against MDPs with known answers, brute force and identities."""

import numpy as np
import pytest
from scipy import sparse

from ilbrl.base.errors import IlbrlError
from ilbrl.tabular.exact import (
    action_values,
    average_reward,
    check_ergodic,
    discounted_values,
    imitation_regret,
    mixing_time,
    occupancy,
    p_min,
    spectrum,
    stationary_distribution,
    total_variation,
)
from ilbrl.tabular.mdp import FiniteMDP, policy_chain, uniform_policy
from ilbrl.tabular.worlds import garnet, river_swim

P, Q = 0.3, 0.1
TWO_STATES = np.array([[1 - P, P], [Q, 1 - Q]])  # ρ = (q, p)/(p + q), λ₂ = 1 − p − q, d(t) = p/(p + q) |λ₂|^t


def garnets(count=10):
    for seed in range(count):
        yield garnet(4 + 3 * seed, 3, np.random.default_rng(seed))


def random_policy(mdp, seed=0):
    return np.random.default_rng(seed).integers(mdp.num_actions, size=mdp.num_states)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_two_state_chain_in_closed_form(form):
    chain = form(TWO_STATES)
    np.testing.assert_allclose(stationary_distribution(chain), [0.25, 0.75], rtol=1e-10)
    assert mixing_time(chain) == int(np.ceil(np.log(0.25 / 0.75) / np.log(0.6)))  # worst start: state 0, distance 3/4
    eigen = spectrum(chain)
    assert eigen.lambda2 == pytest.approx(0.6)
    right = np.array([[1, P], [1, -Q]]) / np.linalg.norm([[1, P], [1, -Q]], axis=0)
    assert eigen.condition == pytest.approx(np.linalg.cond(right))


def test_river_swim_satisfies_detailed_balance():
    mdp = river_swim(6)
    rho = stationary_distribution(policy_chain(mdp, np.ones(6, int)))
    chain = policy_chain(mdp, np.ones(6, int))
    flow = rho[:, None] * chain  # a birth–death chain is reversible
    np.testing.assert_allclose(flow, flow.T, atol=1e-15)
    assert average_reward(mdp, np.ones(6, int)) == pytest.approx(rho[-1])


def test_a_complete_walk_mixes_in_one_step_and_a_lazy_ring_as_by_brute_force():
    assert mixing_time(np.full((5, 5), 0.2)) == 1
    ring = 0.5 * np.eye(9) + 0.25 * (np.roll(np.eye(9), 1, 0) + np.roll(np.eye(9), -1, 0))
    assert mixing_time(ring) == brute_force_mixing_time(ring)


def brute_force_mixing_time(chain):
    power, t = chain, 1
    while np.abs(power - stationary_distribution(chain)).sum(axis=1).max() / 2 > 0.25:
        power, t = power @ chain, t + 1
    return t


def test_identities_on_random_mdps():
    for mdp in garnets():
        for policy in (random_policy(mdp), uniform_policy(mdp)):
            chain = policy_chain(mdp, policy)
            rho = stationary_distribution(chain)
            np.testing.assert_allclose(rho @ chain, rho, atol=1e-14)
            assert mixing_time(chain) == brute_force_mixing_time(chain)
            for gamma in (0.5, 0.99):
                values = discounted_values(mdp, policy, gamma)
                assert (1 - gamma) * rho @ values == pytest.approx(average_reward(mdp, policy), rel=1e-9)
                q = action_values(mdp, values, gamma)
                probabilities = np.eye(3)[policy] if policy.ndim == 1 else policy
                np.testing.assert_allclose((q * probabilities).sum(axis=1), values, rtol=1e-10)
            joint = occupancy(mdp, policy)
            assert joint.sum() == pytest.approx(1)
            assert p_min(mdp, uniform_policy(mdp)) == pytest.approx(occupancy(mdp, uniform_policy(mdp)).min())


def test_levins_powers_bound_the_distance_after_t_log2_steps():
    """‖P^T(s, ·) − ρ‖_TV ≤ 2^{−k} for T = k t_mix: what Lemma 4 takes from Levin & Peres, section 4.5."""
    for mdp in garnets(5):
        chain = policy_chain(mdp, uniform_policy(mdp))
        rho, t = stationary_distribution(chain), mixing_time(chain)
        for k in (1, 2, 5, 8):
            distance = np.abs(np.linalg.matrix_power(chain, k * t) - rho).sum(axis=1).max() / 2
            assert distance <= 2.0**-k + 1e-12


def test_total_variation_is_the_largest_difference_over_events_and_rewards():
    rng = np.random.default_rng(0)
    first, second = rng.dirichlet(np.ones(4), 2)
    events = [[bool(i >> k & 1) for k in range(4)] for i in range(16)]
    assert total_variation(first, second) == pytest.approx(max(abs(first[e].sum() - second[e].sum()) for e in events))


def test_regret_is_bounded_by_total_variation_for_every_reward():
    for mdp in garnets(5):
        expert, other = random_policy(mdp, 1), random_policy(mdp, 2)
        distance = total_variation(occupancy(mdp, expert), occupancy(mdp, other))
        worst = mdp.with_rewards((occupancy(mdp, expert) > occupancy(mdp, other)).astype(float))
        assert imitation_regret(worst, expert, other) == pytest.approx(distance)  # attained by one reward …
        for seed in range(5):  # … and exceeded by none
            rewards = np.random.default_rng(seed).random(mdp.rewards.shape)
            assert imitation_regret(mdp.with_rewards(rewards), expert, other) <= distance + 1e-12


def test_stationary_entries_far_below_rounding_are_exact():
    n = 60  # birth–death: up 0.1, down 0.9, so ρ(k) ∝ 9^{−k}; 9^{−59} ≈ 5e−57
    chain = 0.1 * np.eye(n, k=1) + 0.9 * np.eye(n, k=-1)
    chain[0, 0], chain[-1, -1] = 0.9, 0.1
    rho = stationary_distribution(chain)
    np.testing.assert_allclose(rho[1:] / rho[:-1], 1 / 9, rtol=1e-12)


@pytest.mark.parametrize(
    ("chain", "says"),
    [
        (np.eye(2), "separate closed classes"),
        ([[0, 1], [1, 0]], "periodic with period 2"),
        ([[0, 1, 0], [0, 0, 1], [1, 0, 0]], "periodic with period 3"),
        ([[1, 0], [0.5, 0.5]], "not irreducible, state 1"),
    ],
)
def test_chains_that_are_not_ergodic_name_the_assumption(chain, says):
    for function in (check_ergodic, mixing_time, spectrum):
        with pytest.raises(IlbrlError, match=rf"Assumption 2.*{says}"):
            function(np.array(chain, float))


def test_a_stationary_distribution_needs_one_class_but_no_aperiodicity():
    np.testing.assert_allclose(stationary_distribution(np.array([[0.0, 1], [1, 0]])), [0.5, 0.5])
    left_for_good = np.array([[1.0, 0], [0.5, 0.5]])
    np.testing.assert_allclose(stationary_distribution(left_for_good, transient_ok=True), [1, 0])
    with pytest.raises(IlbrlError, match="Assumption 2"):
        stationary_distribution(left_for_good)


JORDAN = np.array([[0.5, 0.5, 0, 0], [0, 0.5, 0.5, 0], [0, 0, 0.5, 0.5], [0, 0, 0, 1]])  # ½ thrice, one eigenvector


@pytest.mark.parametrize(
    "chain",
    [
        np.full((3, 3), 1 / 3),  # 0 twice, diagonalisable
        0.5 * np.eye(4) + 0.5 / 4,  # ½ thrice, diagonalisable
        0.9 * JORDAN[1:, 1:] + 0.1 / 3,  # defective: rounding splits 0.45 by about 1e−8 …
        0.9 * JORDAN + 0.1 / 4,  # … and by about 1e−5
    ],
)
def test_repeated_eigenvalues_name_the_assumption(chain):
    with pytest.raises(IlbrlError, match="Assumption 4"):
        spectrum(chain)


def test_an_explorer_that_avoids_an_action_breaks_assumption_3():
    mdp = garnet(5, 2, np.random.default_rng(0))
    with pytest.raises(IlbrlError, match="Assumption 3"):
        p_min(mdp, np.zeros(5, int))


def test_sparse_and_dense_agree_and_a_hundred_thousand_states_are_feasible():
    thin, dense = river_swim(50, sparsely=True), river_swim(50, sparsely=False)
    for policy in (np.ones(50, int), uniform_policy(dense)):
        assert average_reward(thin, policy) == pytest.approx(average_reward(dense, policy), rel=1e-9)
        np.testing.assert_allclose(discounted_values(thin, policy, 0.9), discounted_values(dense, policy, 0.9))
    assert average_reward(river_swim(100_000), np.ones(100_000, int)) == pytest.approx(0.428571, abs=1e-4)


def test_what_needs_dense_matrices_says_so():
    with pytest.raises(IlbrlError, match="dense"):
        mixing_time(policy_chain(river_swim(10_000), np.ones(10_000, int)))


def test_the_average_reward_of_a_policy_with_two_closed_classes_is_refused():
    stuck = FiniteMDP(np.eye(2)[:, None], np.zeros((2, 1)))
    with pytest.raises(IlbrlError, match="Assumption 2"):
        average_reward(stuck, np.zeros(2, int))
