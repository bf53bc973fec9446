"""The lemmas as statements about random MDPs: each inequality holds, with at least its stated probability."""

import math

import numpy as np
import pytest
from benchmarks import lemmas as checks

from ilbrl.base.errors import IlbrlError
from ilbrl.tabular import lemmas
from ilbrl.tabular.exact import mixing_time, occupancy, total_variation
from ilbrl.tabular.mdp import policy_chain

FEW = 25


@pytest.mark.parametrize("check", checks.CHECKS, ids=lambda check: check.__name__)
def test_every_lemma_holds_on_random_mdps(check):
    result = check(FEW, np.random.default_rng(0))
    assert result.ratios.size >= FEW
    assert result.failures <= math.ceil(result.allowed * result.ratios.size)
    assert np.isfinite(result.ratios).all()


def test_one_sweeps_confidence_does_not_cover_all_sweeps():
    """The erratum on δ″: with the printed N some of the m·ℓ sweeps fail together; divided by m·ℓ none does."""
    printed, corrected = checks.sweeps_that_fail(1_000, 200, 0.2, np.random.default_rng(0))
    assert printed > 0.2 >= corrected


def test_regret_and_total_variation_are_within_one_plus_two_t_epsilon_prime():
    """The remark of docs/theory.md that sharpens Lemma 7: TV ≤ (1 + 2 t_E) ε′, whatever the reward."""
    for seed in range(40):
        rng = np.random.default_rng(seed)
        mdp = checks.random_garnet(rng)
        expert, other = rng.integers(mdp.num_actions, size=(2, mdp.num_states))
        policy = np.where(rng.random(mdp.num_states) < 0.7, expert, other)
        rho = occupancy(mdp, policy)
        shortfall = 1 - rho[np.arange(mdp.num_states), expert].sum()
        t = mixing_time(policy_chain(mdp, expert))
        assert total_variation(rho, occupancy(mdp, expert)) <= (1 + 2 * t) * shortfall + 1e-12


def test_lemma_3_is_hoeffdings_inequality_solved_for_m():
    eta, gamma, ell, delta = 2.0, 0.7, 20, 0.1
    m = lemmas.lemma3_samples(eta, gamma, ell, 5, 3, delta)
    eta_prime = lemmas.lemma3_eta_prime(eta, gamma, ell)
    assert 2 * 5 * 3 * ell * math.exp(-2 * m * eta_prime**2 * (1 - gamma) ** 2) == pytest.approx(delta)
    assert lemmas.lemma2_regret(eta_prime, gamma, ell) == pytest.approx(eta)
    assert lemmas.lemma3_regret(m, gamma, ell, 5, 3, delta) == pytest.approx(eta)  # pyright: ignore[reportArgumentType]


def test_too_few_phases_are_refused_although_the_printed_square_hides_it():
    with pytest.raises(IlbrlError, match="too few"):
        lemmas.lemma3_samples(1.0, 0.9, 5, 5, 3, 0.1)


def test_values_by_hand():
    assert lemmas.lemma1_value_gap(0.1, 0.5, 2) == pytest.approx((0.05 + 0.25) / 0.5)
    assert lemmas.lemma2_regret(0.1, 0.5, 2) == pytest.approx(4 * 0.6)
    assert lemmas.lemma4_transitions(8, 0.005, 20, 4, 0.0125) == pytest.approx(242416.69, abs=0.01)
    assert lemmas.lemma5_gap(3, 0.9, -0.5, 2) == pytest.approx(0.3 / 0.55 + 0.2)
    reward, confidence = lemmas.lemma6_intrinsic_reward(10, 4, 32_000, 0.05)
    assert reward == pytest.approx(1 - 0.05 - 0.1)
    assert confidence == pytest.approx(1 - 2 * math.exp(-80 / 18))
    assert lemmas.lemma7_reward(0.01, 0.5, 3) == pytest.approx(0.495 - 0.12)
