"""Theorem 1: independent recomputation, the proof's inequalities, the errata, and the way back."""

import math
from dataclasses import replace

import numpy as np
import pytest

from ilbrl.base.errors import IlbrlError
from ilbrl.tabular import lemmas
from ilbrl.tabular.bounds import Problem, guaranteed_epsilon, problem_of, theorem1
from ilbrl.tabular.worlds import garnet, river_swim

PROBLEM = Problem(states=20, actions=4, expert_mixing_time=5, explorer_mixing_time=8, p_min=0.005, beta=3, lambda2=0.8)
EPSILON, DELTA = 0.1, 0.05


def random_problems(count):
    rng = np.random.default_rng(0)
    for _ in range(count):
        states, actions = (int(n) for n in rng.integers(2, 50, size=2))
        yield (
            Problem(
                states,
                actions,
                expert_mixing_time=int(rng.integers(1, 30)),
                explorer_mixing_time=int(rng.integers(1, 30)),
                p_min=float(rng.uniform(0.01, 1) / (states * actions)),
                beta=float(rng.uniform(0.5, 100)),
                lambda2=float(rng.uniform(0, 0.99)),
            ),
            float(rng.uniform(0.01, 1)),
            float(rng.uniform(0.001, 0.5)),
        )


def test_the_documented_example_recomputed_from_the_printed_formulas():
    b = theorem1(PROBLEM, EPSILON, DELTA)
    alpha = 4 * 21 / 0.1
    gamma = (3 * alpha - 1) / (3 * alpha - 0.8)
    ell = math.ceil(math.log((1 - gamma) / (4 * alpha)) / math.log(gamma))
    m = math.log(8 * ell * 80 / 0.05) * 2 * gamma**2 / ((1 - gamma) ** 2 * ((1 - gamma) / alpha - 2 * gamma**ell) ** 2)
    sweep = 16 / (math.log(2) * 0.005) * math.log(400)
    assert b.alpha == pytest.approx(alpha)
    assert b.gamma == pytest.approx(gamma, rel=1e-14)
    assert b.eta == pytest.approx(1 / (alpha * (1 - gamma)), rel=1e-9)
    assert b.nu == pytest.approx(1 / alpha)
    assert b.ell == ell == 221188
    assert b.m == pytest.approx(m, rel=1e-9)
    assert b.N == math.ceil(sweep * math.log(80 / 0.0125)) == 242417
    assert b.N_corrected == math.ceil(2 * b.T / 0.005 * math.log(80 * 4 * b.m * ell / 0.05))
    assert b.expert_samples == b.expert_samples_support == 128 * 20 * 5 * 21**2 * 100
    assert b.expert_samples_confidence == math.ceil(7200 * 5 * 21**2 * math.log(80))
    assert b.logs_samples == b.N * b.m * b.ell
    assert b.logs_samples_corrected == b.N_corrected * b.m * b.ell
    assert b.T == 72


def test_every_term_of_the_proof_stays_within_its_quarter():
    for problem, epsilon, delta in random_problems(50):
        b = theorem1(problem, epsilon, delta)
        quarter = epsilon / (4 * (1 + 4 * problem.expert_mixing_time))
        gap = b.one_minus_gamma
        assert problem.beta * gap / (1 - b.gamma * problem.lambda2) <= quarter * (1 + 1e-6)  # T1
        assert gap * b.eta <= quarter * (1 + 1e-6)  # T2
        assert b.nu <= quarter * (1 + 1e-9)  # T3
        reward, confidence = lemmas.lemma6_intrinsic_reward(
            problem.states, problem.expert_mixing_time, b.expert_samples, b.nu
        )
        assert 1 - b.nu - reward <= quarter * (1 + 1e-9)  # T4
        assert 1 - confidence <= delta / 2 * (1 + 1e-9)  # δ‴
        failing = math.log(2 * problem.states * problem.actions * b.ell) - 2 * b.m * (b.eta_prime * gap) ** 2
        assert failing <= math.log(delta / 4) + 1e-4  # δ′, Hoeffding over pairs and phases
        assert b.eta_prime > 0
        assert b.ell >= b.ell_min


def test_erratum_128_not_32():
    """With 32 the fourth term is twice its share."""
    for problem, epsilon, delta in random_problems(20):
        t, b = problem.expert_mixing_time, theorem1(problem, epsilon, delta)
        quarter = epsilon / (4 * (1 + 4 * t))
        printed = 32 * problem.states * t * (1 + 4 * t) ** 2 / epsilon**2
        assert math.sqrt(8 * problem.states * t / printed) == pytest.approx(2 * quarter)
        assert math.sqrt(8 * problem.states * t / b.expert_samples_support) <= quarter * (1 + 1e-12)


def test_erratum_16_not_4():
    """The appendix's simplified ℓ with its printed 4 falls below the smallest legal ℓ: γ^ℓ eats the budget."""
    for problem, epsilon, delta in random_problems(20):
        b, reach, lam = theorem1(problem, epsilon, delta), 1 + 4 * problem.expert_mixing_time, problem.lambda2
        gamma = b.simplified_gamma

        def ell(constant):
            inner = epsilon**2 * (1 - lam) / (constant * reach * (8 * reach * problem.beta - lam * epsilon))  # noqa: B023
            return math.log(inner) / math.log(gamma)  # noqa: B023

        legal = math.log((1 - gamma) / (2 * b.alpha)) / math.log(gamma)
        assert ell(4) < legal < ell(16)
        assert b.simplified_ell == pytest.approx(ell(16), rel=1e-6, abs=1)
        assert ell(16) == pytest.approx(math.log((1 - gamma) / (4 * b.alpha)) / math.log(gamma), rel=1e-6)
        with pytest.raises(IlbrlError, match="too few"):
            lemmas.lemma3_samples(1 / (b.alpha * (1 - gamma)), gamma, math.floor(ell(4)), 5, 5, delta)


def test_erratum_delta_over_all_sweeps():
    """N_corrected makes all m·ℓ sweeps succeed together: m·ℓ times one sweep's failure stays within δ/4."""
    b = theorem1(PROBLEM, EPSILON, DELTA)
    kept = b.N / (8 * math.log2(400)), b.N_corrected / b.T
    one_sweep = [math.log(80) - n * 0.005 / 2 for n in kept]  # log of SA exp(−N p_min/2)
    together = [failure + math.log(b.m) + math.log(b.ell) for failure in one_sweep]
    assert one_sweep[0] <= math.log(DELTA / 4) < together[0]
    assert together[1] <= math.log(DELTA / 4) + 1e-4


def test_samples_fall_as_the_target_is_relaxed_and_grow_with_difficulty():
    base = theorem1(PROBLEM, EPSILON, DELTA)
    for easier in (theorem1(PROBLEM, 0.2, DELTA), theorem1(PROBLEM, EPSILON, 0.1)):
        assert easier.logs_samples < base.logs_samples
    for change in ({"beta": 4.0}, {"lambda2": 0.9}, {"p_min": 0.004}, {"states": 30}, {"expert_mixing_time": 6}):
        assert theorem1(replace(PROBLEM, **change), EPSILON, DELTA).logs_samples > base.logs_samples
    assert theorem1(replace(PROBLEM, lambda2=-0.8), EPSILON, DELTA) == base  # only |λ₂| counts


def test_the_order_form_scales_as_printed():
    order = [theorem1(replace(PROBLEM, beta=beta), EPSILON, DELTA).logs_order for beta in (1e6, 1e9)]
    assert float(order[1] / order[0]) == pytest.approx(1e18, rel=0.5)  # β⁶ and a logarithm
    for epsilon in (1e-3, 1e-6):  # the exact bound grows no faster than its O-form
        small, smaller = theorem1(PROBLEM, epsilon, DELTA), theorem1(PROBLEM, epsilon / 10, DELTA)
        growth = smaller.logs_samples / small.logs_samples
        assert growth <= smaller.logs_order / small.logs_order


def test_nothing_overflows():
    b = theorem1(replace(PROBLEM, beta=1e200, lambda2=0.999999), 1e-6, 1e-12)
    assert b.m > 10**700
    assert b.one_minus_gamma > 0
    assert b.ell_min < b.ell


def test_the_way_back_finds_the_epsilon_it_came_from():
    for epsilon in (0.5, 0.07):
        b = theorem1(PROBLEM, epsilon, DELTA)
        plenty = 10**60
        assert guaranteed_epsilon(PROBLEM, DELTA, b.expert_samples, plenty) == pytest.approx(epsilon, rel=1e-4)
        back = guaranteed_epsilon(PROBLEM, DELTA, plenty, b.logs_samples_corrected)
        assert back == pytest.approx(epsilon, rel=1e-4)
    assert guaranteed_epsilon(PROBLEM, DELTA, 1_000, 10**60) is None


def test_quantities_come_from_an_mdp():
    problem = problem_of(river_swim(6))
    assert (problem.states, problem.actions, problem.expert_mixing_time) == (6, 2, 13)
    assert problem.beta == pytest.approx(28.504490182 * math.sqrt(6))
    assert problem_of(river_swim(6), given={"beta": 2.0}).beta == 2
    with pytest.raises(IlbrlError, match="Assumption 1"):
        problem_of(garnet(4, 2, np.random.default_rng(0)), expert=np.full((4, 2), 0.5))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"p_min": 0.0}, "Assumption 3"),
        ({"p_min": 0.5}, "Assumption 3"),
        ({"lambda2": 1.0}, "Assumption 2"),
        ({"beta": 0.0}, "β"),
        ({"beta": math.inf}, "β"),
        ({"states": 0}, "states"),
        ({"expert_mixing_time": 0}, "expert mixing time"),
    ],
)
def test_impossible_problems_name_what_is_broken(change, says):
    with pytest.raises(IlbrlError, match=says):
        replace(PROBLEM, **change)


@pytest.mark.parametrize(
    ("epsilon", "delta"), [(0, 0.1), (-1, 0.1), (1.5, 0.1), (math.nan, 0.1), (0.1, 0), (0.1, 1), (0.1, 2)]
)
def test_targets_out_of_range_are_refused(epsilon, delta):
    with pytest.raises(IlbrlError, match="δ" if 0 < epsilon <= 1 else "ε"):
        theorem1(PROBLEM, epsilon, delta)


def test_a_beta_too_small_for_any_discount_is_refused():
    with pytest.raises(IlbrlError, match="αβ"):
        theorem1(replace(PROBLEM, beta=1e-4), EPSILON, DELTA)
