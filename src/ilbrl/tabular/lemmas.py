"""Lemmas 1–7 of the paper, each as a function of its own variables.

Every function evaluates one printed inequality in double precision. `bounds.py` puts them together (Theorem 1) in
arbitrary precision.
"""

from __future__ import annotations

import math

from ilbrl.base.errors import IlbrlError


def lemma1_value_gap(eta_prime: float, gamma: float, ell: int) -> float:
    """|Q̂_ℓ(s, a) − Q*(s, a)| ≤ (η′γ + γ^ℓ) / (1 − γ) for every pair, if the bootstraps are η′-concentrated."""
    return (eta_prime * gamma + gamma**ell) / (1 - gamma)


def lemma2_regret(eta_prime: float, gamma: float, ell: int) -> float:
    """V*(s) − V̄_ℓ(s) ≤ 2/(1 − γ) · (η′γ + γ^ℓ)/(1 − γ) in every state (the proof shows it statewise)."""
    return 2 / (1 - gamma) * lemma1_value_gap(eta_prime, gamma, ell)


def lemma3_eta_prime(eta: float, gamma: float, ell: int) -> float:
    """η′ = [η(1 − γ)²/2 − γ^ℓ] / γ, the deviation that discounted regret η allows.

    It is not positive when ℓ is below log_γ(η(1 − γ)²/2). That is an error here: Lemma 3 squares it and hides the sign.
    """
    room = eta * (1 - gamma) ** 2 / 2 - gamma**ell
    if room <= 0:
        least = math.ceil(math.log(eta * (1 - gamma) ** 2 / 2) / math.log(gamma))
        raise IlbrlError(
            f"Lemma 3: ℓ = {ell} phases are too few for η = {eta:g} at γ = {gamma:g}; take more than {least}"
        )
    return room / gamma


def lemma3_samples(eta: float, gamma: float, ell: int, num_states: int, num_actions: int, delta: float) -> float:
    """m ≥ log(2ℓSA/δ′) · 2γ² / [(1 − γ)² (η(1 − γ)² − 2γ^ℓ)²]: samples per pair and phase (times ℓ: the lemma's mℓ).

    With that many, discounted regret stays below η with probability at least 1 − δ′. Equal to Hoeffding's
    log(2ℓSA/δ′) / (2 η′² (1 − γ)²).
    """
    lemma3_eta_prime(eta, gamma, ell)
    logarithm = math.log(2 * ell * num_states * num_actions / delta)
    return logarithm * 2 * gamma**2 / ((1 - gamma) ** 2 * (eta * (1 - gamma) ** 2 - 2 * gamma**ell) ** 2)


def lemma3_regret(samples: int, gamma: float, ell: int, num_states: int, num_actions: int, delta: float) -> float:
    """Lemma 3 the other way round: the η that m samples guarantee."""
    eta_prime = math.sqrt(math.log(2 * ell * num_states * num_actions / delta) / (2 * samples)) / (1 - gamma)
    return lemma2_regret(eta_prime, gamma, ell)


def lemma4_transitions(
    explorer_mixing_time: float, p_min: float, num_states: int, num_actions: int, delta: float
) -> float:
    """2 t_X / (log 2 · p_min) · log(2/p_min) · log(SA/δ″): transitions for **one** sweep of parallel samples.

    The algorithm uses m·ℓ sweeps, so δ″ must be their common budget divided by m·ℓ (the paper's Theorem 1 does not
    divide).
    """
    return (
        2 * explorer_mixing_time / (math.log(2) * p_min) * math.log(2 / p_min)
        * math.log(num_states * num_actions / delta)
    )  # fmt: skip


def lemma5_gap(beta: float, gamma: float, lambda2: float, eta: float) -> float:
    """μ* − μ_π ≤ β (1 − γ)/(1 − γ|λ₂|) + (1 − γ) η for a policy η-suboptimal (discounted) in every state.

    β = κ(Σ)‖r‖₂, with Σ and |λ₂| of the average-optimal policy's chain and r its reward in each state.
    """
    return beta * (1 - gamma) / (1 - gamma * abs(lambda2)) + (1 - gamma) * eta


def lemma6_intrinsic_reward(
    num_states: int, expert_mixing_time: float, expert_samples: int, nu: float
) -> tuple[float, float]:
    """(1 − ν − √(8 S t_E/|D_E|), 1 − 2 exp(−ν²|D_E|/(4.5 t_E))): a lower bound on the best average intrinsic reward,
    and the probability with which it holds. If one of them is negative, the lemma says nothing."""
    reward = 1 - nu - math.sqrt(8 * num_states * expert_mixing_time / expert_samples)
    return reward, 1 - 2 * math.exp(-(nu**2) * expert_samples / (4.5 * expert_mixing_time))


def lemma7_reward(epsilon_prime: float, expert_reward: float, expert_mixing_time: float) -> float:
    """μ_π ≥ (1 − ε′) μ_E − 4 t_E ε′ when π earns 1 − ε′ of average intrinsic reward (printed `4 t ε` once: ε′)."""
    return (1 - epsilon_prime) * expert_reward - 4 * expert_mixing_time * epsilon_prime
