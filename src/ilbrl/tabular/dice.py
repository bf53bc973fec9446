"""SMODICE (Ma et al. 2022) on a finite MDP, solved as the convex program it is.

    max_d  Σ d(s,a) R(s,a) − D_f(d ‖ d_O)    over occupancies d ≥ 0 of the empirical model:
           Σ_a d(s,a) = (1 − γ) p₀(s) + γ Σ_{s′,a′} P̂(s | s′,a′) d(s′,a′)        for every state s,

with d_O the frequencies in D_U = D_E ∪ D_X and R = log(d_E / d_O). Its dual is unconstrained in V ∈ ℝ^S; with
e(s,a) = R(s,a) + γ Σ_s′ P̂(s′|s,a) V(s′) − V(s):

    KL:   min_V (1 − γ) E_{p₀} V + log E_{d_O} exp(e),               d = d_O · softmax weights exp(e) / E exp(e)
    χ²:   min_V (1 − γ) E_{p₀} V + E_{d_O} [max(0, e + 1)²/2 − 1/2], d = d_O · max(0, e + 1)

Choices: state–action ratios (expert actions are known here); d_E is mixed with a little of d_O so that R is finite;
p₀ is the expert's own state frequencies, the start from which a stationary expert's d is d_E for every γ.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from scipy import sparse
from scipy.optimize import minimize
from scipy.special import logsumexp

from ilbrl.errors import IlbrlError
from ilbrl.tabular.logs import Log, concatenate_logs
from ilbrl.tabular.planning import check_discount


@dataclass(frozen=True)
class Config:
    gamma: float = 0.99
    divergence: Literal["kl", "chi2"] = "kl"  # the authors' default
    smoothing: float = 1e-2  # share of d_O mixed into d_E


class Solution(NamedTuple):
    policy: np.ndarray  # [S, A] π(a | s) ∝ d(s, a); uniform where the logs never were
    occupancy: np.ndarray  # [S, A] d
    values: np.ndarray  # [S] V
    dual: float  # the minimum of the dual
    primal: float  # the program's objective at d: equal to the dual at the optimum


class Program(NamedTuple):
    """The data of the convex program, one row per pair that occurs in the logs."""

    pairs: np.ndarray  # [K] s·A + a
    rewards: np.ndarray  # [K] R
    offline: np.ndarray  # [K] d_O
    flow: sparse.csr_array  # [K, S] γ P̂ − 1[s]: e = R + flow @ V
    start: np.ndarray  # [S] p₀


def smodice(
    expert: Log, exploratory: Log, num_states: int, num_actions: int, config: Config | None = None
) -> Solution:
    """Solve the dual by L-BFGS and read the policy off the primal solution."""
    config = config or Config()
    check_discount(config.gamma)
    program = build_program(expert, exploratory, num_states, num_actions, config)
    dual = {"kl": _kl_dual, "chi2": _chi2_dual}[config.divergence]
    found = minimize(
        dual, np.zeros(num_states), (program, config.gamma), method="L-BFGS-B", jac=True,
        options={"maxiter": 20_000, "maxfun": 40_000, "ftol": 1e-15, "gtol": 1e-9, "maxcor": 50},
    )  # fmt: skip
    weights = _weights(found.x, program, config.divergence)
    d = np.zeros(num_states * num_actions)
    d[program.pairs] = program.offline * weights
    d = d.reshape(num_states, num_actions)
    mass = d.sum(axis=1, keepdims=True)
    policy = np.where(mass > 1e-12, d / np.maximum(mass, 1e-300), 1 / num_actions)
    return Solution(policy, d, found.x, float(found.fun), _primal(weights, program, config.divergence))


def build_program(expert: Log, exploratory: Log, num_states: int, num_actions: int, config: Config) -> Program:
    if len(expert) == 0:
        raise IlbrlError("the expert log is empty: there is nothing to imitate")
    unified = concatenate_logs([expert, exploratory])
    counts = unified.counts(num_states, num_actions).ravel()
    pairs = np.flatnonzero(counts)
    offline = counts[pairs] / len(unified)
    expert_share = expert.counts(num_states, num_actions).ravel()[pairs] / len(expert)
    ratio = (1 - config.smoothing) * expert_share / offline + config.smoothing
    rows = np.searchsorted(pairs, unified.states * num_actions + unified.actions)
    shape = (len(pairs), num_states)
    model = sparse.csr_array((1 / counts[pairs][rows], (rows, unified.next_states)), shape=shape)
    here = sparse.csr_array((np.ones(len(pairs)), (np.arange(len(pairs)), pairs // num_actions)), shape=shape)
    start = np.bincount(expert.states, minlength=num_states) / len(expert)
    return Program(pairs, np.log(ratio), offline, sparse.csr_array(config.gamma * model - here), start)


def _kl_dual(values: np.ndarray, program: Program, gamma: float) -> tuple[float, np.ndarray]:
    error = program.rewards + program.flow @ values
    log_mean = logsumexp(error, b=program.offline)
    gradient = (1 - gamma) * program.start + (program.offline * np.exp(error - log_mean)) @ program.flow
    return (1 - gamma) * program.start @ values + log_mean, gradient


def _chi2_dual(values: np.ndarray, program: Program, gamma: float) -> tuple[float, np.ndarray]:
    weights = np.maximum(0, program.rewards + program.flow @ values + 1)
    gradient = (1 - gamma) * program.start + (program.offline * weights) @ program.flow
    return (1 - gamma) * program.start @ values + program.offline @ (weights**2 - 1) / 2, gradient


def _weights(values: np.ndarray, program: Program, divergence: str) -> np.ndarray:
    """[K] d / d_O."""
    error = program.rewards + program.flow @ values
    if divergence == "kl":
        return np.exp(error - logsumexp(error, b=program.offline))
    return np.maximum(0, error + 1)


def _primal(weights: np.ndarray, program: Program, divergence: str) -> float:
    d = program.offline * weights
    if divergence == "kl":
        spread = np.sum(d * np.log(np.where(weights > 0, weights, 1)))
    else:
        spread = program.offline @ (weights - 1) ** 2 / 2
    return float(d @ program.rewards - spread)
