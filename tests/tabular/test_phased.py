"""Phased Q-learning: each source draws what it says, and Lemmas 1 and 2 hold in every trial."""

import numpy as np
import pytest

from ilbrl.base.errors import IlbrlError
from ilbrl.tabular import lemmas, phased
from ilbrl.tabular.exact import discounted_values, mixing_time, p_min
from ilbrl.tabular.logs import Log, rollout
from ilbrl.tabular.mdp import FiniteMDP, policy_chain, uniform_policy
from ilbrl.tabular.phased import (
    batch,
    from_samples,
    generative_model,
    parallel_samples,
    phased_q_learning,
    sampling_interval,
    simulated_sampling,
)
from ilbrl.tabular.planning import discounted_optimum
from ilbrl.tabular.worlds import garnet, river_swim


def test_with_the_true_model_it_is_value_iteration():
    mdp = garnet(10, 3, np.random.default_rng(0))
    found = phased_q_learning(mdp.rewards, lambda _, v: mdp.expected_next(v), 0.9, 400, truth=mdp)
    np.testing.assert_allclose(found.action_values, discounted_optimum(mdp, 0.9).action_values, rtol=1e-12)
    assert found.deviation == 0


def test_two_phases_by_hand():
    samples = np.array([[[[0, 1], [1, 1]]], [[[0, 0], [0, 1]]]])  # [S = 2, A = 1, ℓ = 2, m = 2]
    found = phased_q_learning(np.array([[0.0], [1.0]]), from_samples(samples), 0.5, 2)
    # phase 0: V = 0, so Q = r = (0, 1); phase 1: means of V over (1, 1) and (0, 1)
    np.testing.assert_allclose(found.action_values, [[0.5 * 1.0], [1 + 0.5 * 0.5]])


@pytest.mark.parametrize("many_successors", [1, 100], ids=["draws", "counts"])
@pytest.mark.parametrize(
    "mdp", [garnet(8, 2, np.random.default_rng(0), b, s) for b, s in ((2, False), (8, False), (3, True))]
)
def test_generative_means_have_the_mean_and_variance_of_m_draws(mdp, many_successors, monkeypatch):
    monkeypatch.setattr(phased, "MANY_SUCCESSORS", many_successors)
    monkeypatch.setattr(phased, "DRAWS_PER_COUNT", 100)
    values, m = np.random.default_rng(1).random(8), 7
    bootstrap = generative_model(mdp, m, np.random.default_rng(2))
    draws = np.stack([bootstrap(0, values) for _ in range(4_000)])
    mean = mdp.expected_next(values)
    variance = (mdp.expected_next(values**2) - mean**2) / m
    np.testing.assert_allclose(draws.mean(axis=0), mean, atol=0.012)
    np.testing.assert_allclose(draws.var(axis=0), variance, rtol=0.15)


@pytest.mark.parametrize("stored_sparse", [False, True])
def test_with_many_successors_single_draws_replace_the_counts(stored_sparse, monkeypatch):
    monkeypatch.setattr(phased, "_multinomial", lambda *_: pytest.fail("drew counts"))
    mdp, values = garnet(300, 2, np.random.default_rng(0), 280, stored_sparse), np.random.default_rng(1).random(300)
    first, second = (generative_model(mdp, 800, np.random.default_rng(3))(0, values) for _ in range(2))
    np.testing.assert_array_equal(first, second)
    mean = mdp.expected_next(values)
    error = (first - mean) / np.sqrt((mdp.expected_next(values**2) - mean**2) / 800)
    assert np.abs(error).max() < 4.5  # standard errors, the largest of 600
    assert error.std() == pytest.approx(1, abs=0.1)


def test_many_samples_of_many_successors_are_counted(monkeypatch):
    monkeypatch.setattr(phased, "draw", lambda *_: pytest.fail("drew single samples"))
    mdp, values = garnet(300, 1, np.random.default_rng(0), 300), np.random.default_rng(1).random(300)
    found = generative_model(mdp, 100_000, np.random.default_rng(3))(0, values)
    np.testing.assert_allclose(found, mdp.expected_next(values), atol=0.005)


def test_large_tables_of_counts_are_drawn_in_blocks_and_reproducibly(monkeypatch):
    monkeypatch.setattr("ilbrl.tabular.phased.BLOCK", 50)
    mdp, values = garnet(20, 4, np.random.default_rng(0), 20), np.arange(20.0)
    first, second = (generative_model(mdp, 10, np.random.default_rng(3))(0, values) for _ in range(2))
    np.testing.assert_array_equal(first, second)
    many = np.mean([generative_model(mdp, 1000, np.random.default_rng(s))(0, values) for s in range(20)], axis=0)
    np.testing.assert_allclose(many, mdp.expected_next(values), atol=0.3)


def test_lemmas_1_and_2_hold_in_every_trial_with_the_realised_deviation():
    for seed in range(60):
        rng = np.random.default_rng(seed)
        mdp = garnet(int(rng.integers(3, 12)), int(rng.integers(2, 5)), rng)
        gamma, ell, m = float(rng.uniform(0.3, 0.95)), int(rng.integers(2, 40)), int(rng.integers(1, 30))
        log = rollout(mdp, uniform_policy(mdp), int(rng.integers(20, 500)), rng)
        for source in (
            generative_model(mdp, m, rng),
            batch(log, mdp.num_states, mdp.num_actions, gamma),
            batch(log, mdp.num_states, mdp.num_actions, gamma, "optimistic"),
        ):
            found = phased_q_learning(mdp.rewards, source, gamma, ell, truth=mdp)
            best = discounted_optimum(mdp, gamma)
            gap = np.abs(found.action_values - best.action_values).max()
            assert gap <= lemmas.lemma1_value_gap(found.deviation, gamma, ell) + 1e-12
            loss = (best.values - discounted_values(mdp, found.policy, gamma)).max()
            assert loss <= lemmas.lemma2_regret(found.deviation, gamma, ell) + 1e-12


def test_simulated_sampling_uses_its_own_samples_once_and_matches_the_transitions():
    mdp = garnet(3, 2, np.random.default_rng(0), branching=3)
    explorer = uniform_policy(mdp)
    bootstrap, steps = simulated_sampling(mdp, explorer, 200, 3, np.random.default_rng(1))
    for state in range(3):
        share = np.mean([bootstrap(phase, np.eye(3)[state]) for phase in range(3)], axis=0)
        np.testing.assert_allclose(share, mdp.expected_next(np.eye(3)[state]), atol=0.08)
    t, smallest = mixing_time(policy_chain(mdp, explorer)), p_min(mdp, explorer)
    assert steps % sampling_interval(t, smallest) == 0
    assert steps <= 600 * lemmas.lemma4_transitions(t, smallest, 3, 2, 0.05 / 600)
    with pytest.raises(IlbrlError, match="more than 100 steps"):
        simulated_sampling(mdp, explorer, 200, 3, np.random.default_rng(1), max_steps=100)


def test_parallel_samples_keep_every_interval_th_transition_in_order():
    log = Log(np.array([0, 9, 1, 9, 0, 9, 1]), np.zeros(7, int), np.array([1, 9, 0, 9, 1, 9, 1]))
    assert parallel_samples(log, 2, 2, 2, 1).tolist() == [[1, 1], [0, 1]]
    with pytest.raises(IlbrlError, match=r"\(s, a\) = \(0, 0\) has 2 of the 3"):
        parallel_samples(log, 2, 3, 2, 1)


def test_sampling_interval_rounds_the_logarithm_up():
    assert sampling_interval(8, 0.005) == 8 * 9  # log₂ 400 = 8.64
    assert sampling_interval(3, 0.25) == 3 * 3


def test_unseen_pairs_are_worth_the_least_or_the_most():
    log = Log(np.array([0]), np.array([0]), np.array([1]))
    values = np.array([1.0, 2.0])
    assert batch(log, 2, 2, 0.5)(0, values).tolist() == [[2, 0], [0, 0]]
    assert batch(log, 2, 2, 0.5, "optimistic")(0, values).tolist() == [[2, 2], [2, 2]]


def test_a_chain_of_a_hundred_thousand_states_is_feasible():
    mdp = river_swim(100_000)
    found = phased_q_learning(mdp.rewards, generative_model(mdp, 1_000, np.random.default_rng(0)), 0.9, 3)
    two_phases = 1 + 0.9 * 0.6, 0.9 * 0.35  # V₂ of the last state and of its neighbour
    assert found.action_values[-1, 1] == pytest.approx(1 + 0.9 * (0.6 * two_phases[0] + 0.4 * two_phases[1]), abs=0.05)
    assert found.policy[-1] == 1


def test_bad_requests_are_refused():
    mdp = FiniteMDP(np.ones((1, 1, 1)), np.ones((1, 1)))
    with pytest.raises(IlbrlError, match="at least one phase"):
        phased_q_learning(mdp.rewards, lambda _, v: v[:, None], 0.9, 0)
    with pytest.raises(IlbrlError, match="at least one sample"):
        generative_model(mdp, 0, np.random.default_rng(0))
