"""Theorem 1 as a calculator: how much data guarantees ε, and which ε some data guarantee.

The formulas are evaluated in decimal arithmetic; its precision grows with the problem. So they read as printed,
nothing overflows when the discount is very near to 1, and every count below 10³⁰⁰ is an exact integer.
Departures from the printed text (128 for 32, 16 for 4, δ″ over all sweeps) are derived in docs/theory.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal, localcontext

import numpy as np

from ilbrl.base.errors import IlbrlError
from ilbrl.tabular.exact import mixing_time, p_min, spectrum
from ilbrl.tabular.mdp import FiniteMDP, policy_chain, uniform_policy
from ilbrl.tabular.phased import sampling_interval
from ilbrl.tabular.planning import average_optimum

SMALLEST_SHARE = 1e-300  # of the explorer's time


@dataclass(frozen=True)
class Problem:
    """What Theorem 1 must know of the MDP, the expert and the explorer."""

    states: int  # S
    actions: int  # A
    expert_mixing_time: int  # t_E
    explorer_mixing_time: int  # t_X
    p_min: float  # smallest ρ_X(s, a)
    beta: float  # κ(Σ)‖r‖₂ of the policy that is optimal for the average intrinsic reward
    lambda2: float  # second largest |eigenvalue| of that policy's chain

    def __post_init__(self) -> None:
        for name in ("states", "actions", "expert_mixing_time", "explorer_mixing_time"):
            if getattr(self, name) < 1:
                raise IlbrlError(f"{name.replace('_', ' ')} must be at least 1, got {getattr(self, name)}")
        if not self.p_min >= SMALLEST_SHARE:
            raise IlbrlError(
                "p_min must be positive (Assumption 3: the explorer visits every pair), and at least"
                f" {SMALLEST_SHARE:g} to be computed with; got {self.p_min}"
            )
        if self.p_min * self.states * self.actions > 1 + 1e-9:
            raise IlbrlError(
                f"p_min = {self.p_min:g} is impossible (Assumption 3): {self.states} × {self.actions} pairs cannot each"
                f" have more than 1/(S·A) = {1 / (self.states * self.actions):.4g} of the time"
            )
        if not 0 < self.beta < float("inf"):
            raise IlbrlError(f"β = κ(Σ)·‖r‖ must be positive and finite, got {self.beta}")
        if not abs(self.lambda2) < 1:
            raise IlbrlError(
                f"|λ₂| must be below 1 (Assumption 2: an ergodic chain has one such eigenvalue), got {self.lambda2}"
            )


@dataclass(frozen=True)
class Bounds:
    """Everything Theorem 1 fixes on the way from (ε, δ) to the two sample sizes."""

    alpha: float  # 4 (1 + 4 t_E) / ε: each of the four error terms may be 1/α
    gamma: float  # (αβ − 1) / (αβ − |λ₂|)
    one_minus_gamma: float
    eta: float  # allowed discounted regret, 1 / (α (1 − γ))
    eta_prime: float  # allowed deviation of a bootstrap, ((1 − γ)/(2α) − γ^ℓ) / γ
    nu: float  # 1/α
    ell: int  # ⌈log_γ((1 − γ)/(4α))⌉ phases
    ell_min: int  # ⌈log_γ((1 − γ)/(2α))⌉, the smallest legal ℓ, at which m is unbounded
    m: int  # samples per pair and phase, Lemma 3 with δ′ = δ/4
    T: int  # t_X ⌈log₂(2/p_min)⌉: the simulated sampler keeps one transition in T
    N: int  # transitions per sweep as printed, Lemma 4 with δ″ = δ/4
    N_corrected: int  # with δ″ = δ/(4mℓ), so that all m·ℓ sweeps succeed together, and with T, which is rounded up
    expert_samples: int  # |D_E|, the larger of the next two
    expert_samples_support: int  # ⌈128 S t_E (1 + 4t_E)² / ε²⌉, from T4
    expert_samples_confidence: int  # ⌈72 t_E (1 + 4t_E)² log(4/δ) / ε²⌉, from δ‴ ≤ δ/2
    expert_samples_printed: int  # Theorem 1 with its misprint 32 for 128
    logs_samples: int  # |D_X| = N m ℓ
    logs_samples_corrected: int  # N_corrected m ℓ
    simplified_gamma: float  # (2αβ − 1) / (2αβ − |λ₂|)
    simplified_ell: int  # ⌈log(ε²(1−|λ₂|) / [16(1+4t)(8(1+4t)β − |λ₂|ε)]) / log γ⌉
    simplified_m: int  # ⌈log(8SAℓ/δ) · 8γ²α²/(1 − γ)⁴⌉
    expert_order: Decimal  # t_E³ max(S, log(1/δ)) / ε², the O-form without its constant
    logs_order: Decimal  # t_X/p · log(1/p) · log²(SA/δ) · log(t_Eβ/(ε(1−λ))) · t_E⁸β⁶/(ε⁸(1−λ)⁶)


def theorem1(problem: Problem, epsilon: float, delta: float) -> Bounds:
    """Samples that keep regret and total variation below ε with probability at least 1 − δ."""
    check_targets(epsilon, delta)
    p, number = problem, _exact
    with localcontext() as context:
        context.prec = _digits(problem, epsilon)
        eps, d, beta, lam = number(epsilon), number(delta), number(p.beta), abs(number(p.lambda2))
        t, t_x, rho, pairs = (
            number(p.expert_mixing_time),
            number(p.explorer_mixing_time),
            number(p.p_min),
            p.states * p.actions,
        )
        alpha = 4 * (1 + 4 * t) / eps
        if alpha * beta <= 1:
            raise IlbrlError(
                f"αβ = {float(alpha * beta):.3g} must exceed 1 for a discount to exist; β is too small for ε"
            )
        gap = (1 - lam) / (alpha * beta - lam)  # 1 − γ
        log_gamma = (1 - gap).ln()
        ell = _ceil((gap / (4 * alpha)).ln() / log_gamma)
        leftover = (ell * log_gamma).exp()  # γ^ℓ
        log_pairs = (2 * ell * pairs / (d / 4)).ln()
        m = _ceil(log_pairs * 2 * (1 - gap) ** 2 / (gap**2 * (gap / alpha - 2 * leftover) ** 2))
        interval = sampling_interval(p.explorer_mixing_time, p.p_min)
        sweep = _ceil(2 * t_x / (number(2).ln() * rho) * (2 / rho).ln() * (4 * pairs / d).ln())
        sweep_corrected = _ceil(2 * interval / rho * (4 * m * ell * pairs / d).ln())
        per_state = p.states * t * (1 + 4 * t) ** 2 / eps**2
        support, confidence = _ceil(128 * per_state), _ceil(72 * per_state / p.states * (4 / d).ln())
        gap2 = (1 - lam) / (2 * alpha * beta - lam)
        reach = 1 + 4 * t
        argument = eps**2 * (1 - lam) / (16 * reach * (8 * reach * beta - lam * eps))
        ell2 = _ceil(argument.ln() / (1 - gap2).ln())
        m2 = _ceil((2 * ell2 * pairs / (d / 4)).ln() * 8 * (1 - gap2) ** 2 * alpha**2 / gap2**4)
        horizon = t * beta / (eps * (1 - lam))
        order = t_x / rho * (1 / rho).ln() * (pairs / d).ln() ** 2 * horizon.ln() * horizon**6 * t**2 / eps**2
        return Bounds(
            alpha=float(alpha),
            gamma=float(1 - gap),
            one_minus_gamma=float(gap),
            eta=float(1 / (alpha * gap)),
            eta_prime=float((gap / (2 * alpha) - leftover) / (1 - gap)),
            nu=float(1 / alpha),
            ell=ell,
            ell_min=_ceil((gap / (2 * alpha)).ln() / log_gamma),
            m=m,
            T=interval,
            N=sweep,
            N_corrected=sweep_corrected,
            expert_samples=max(support, confidence),
            expert_samples_support=support,
            expert_samples_confidence=confidence,
            expert_samples_printed=max(_ceil(32 * per_state), confidence),
            logs_samples=sweep * m * ell,
            logs_samples_corrected=sweep_corrected * m * ell,
            simplified_gamma=float(1 - gap2),
            simplified_ell=ell2,
            simplified_m=m2,
            expert_order=t**3 * max(number(p.states), (1 / d).ln()) / eps**2,
            logs_order=order,
        )


def guaranteed_epsilon(problem: Problem, delta: float, expert_samples: int, logs_samples: int) -> float | None:
    """Theorem 1 the other way round: the smallest ε these data guarantee with probability 1 − δ (N_corrected m ℓ).

    None when even ε = 1 needs more data. The theorem then says nothing, because no regret exceeds 1.
    """

    def enough(epsilon: float) -> bool:
        needed = theorem1(problem, epsilon, delta)
        return needed.expert_samples <= expert_samples and needed.logs_samples_corrected <= logs_samples

    check_targets(1.0, delta)
    if not enough(1.0):
        return None
    at_one = theorem1(problem, 1.0, delta).expert_samples
    low, high = math.log10(at_one / expert_samples) / 2 - 1e-6, 0.0  # log₁₀ ε; |D_E| ∝ 1/ε² sets the lower end
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (low, middle) if enough(10**middle) else (middle, high)
    return 10**high


def problem_of(
    mdp: FiniteMDP,
    expert: np.ndarray | None = None,
    explorer: np.ndarray | None = None,
    given: Mapping[str, float] | None = None,
) -> Problem:
    """The quantities of a known MDP; those in `given` are taken from there instead of computed.

    Default expert: the average-optimal policy; default explorer: uniform. β and λ₂ belong to the policy that is
    optimal for the *intrinsic* reward, which depends on the data. Here they are computed for full coverage: then that
    policy is the expert, its intrinsic reward is 1 in every state, and ‖r‖₂ = √S.
    """
    expert = average_optimum(mdp).policy if expert is None else np.asarray(expert)
    if expert.ndim != 1:
        raise IlbrlError("the expert must be deterministic (Assumption 1): one action per state")
    explorer = uniform_policy(mdp) if explorer is None else explorer
    chain = policy_chain(mdp, expert)
    computed: dict[str, Callable[[], float]] = {
        "states": lambda: mdp.num_states,
        "actions": lambda: mdp.num_actions,
        "expert_mixing_time": lambda: mixing_time(chain),
        "explorer_mixing_time": lambda: mixing_time(policy_chain(mdp, explorer)),
        "p_min": lambda: p_min(mdp, explorer),
        "beta": lambda: spectrum(chain).condition * math.sqrt(mdp.num_states),
        "lambda2": lambda: spectrum(chain).lambda2,
    }
    given = given or {}
    return Problem(**{name: given[name] if name in given else compute() for name, compute in computed.items()})  # pyright: ignore[reportArgumentType]


def check_targets(epsilon: float, delta: float) -> None:
    if not 0 < epsilon <= 1:
        raise IlbrlError(f"ε must lie in (0, 1], since rewards in [0, 1] allow no larger regret; got {epsilon}")
    if not 0 < delta < 1:
        raise IlbrlError(f"δ is a failure probability and must lie strictly between 0 and 1; got {delta}")


def _exact(value: float) -> Decimal:
    """The decimal a person typed: 0.1 is one tenth, not its nearest binary fraction."""
    return Decimal(repr(float(value))) if not isinstance(value, int) else Decimal(value)


def _ceil(value: Decimal) -> int:
    return int(value.to_integral_value(rounding=ROUND_CEILING))


def _digits(problem: Problem, epsilon: float) -> int:
    """Decimal digits: twice those of αβ/(1 − |λ₂|) for γ and ℓ, six times for an exact m, exact up to 10³²⁰ only."""
    gap = _exact(1) - abs(_exact(problem.lambda2))
    size = 4 * (1 + 4 * problem.expert_mixing_time) / _exact(epsilon) * max(_exact(problem.beta), Decimal(1)) / gap
    digits = max(1, size.adjusted())
    return 60 + 2 * digits + min(6 * digits, 320)
