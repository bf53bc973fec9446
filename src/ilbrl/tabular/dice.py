"""SMODICE (Ma et al. 2022) on a finite MDP, solved as the convex program it is.

    max_d  Σ d(s,a) R(s,a) − D_f(d ‖ d_O)    over occupancies d ≥ 0 of the empirical model:
           Σ_a d(s,a) = (1 − γ) p₀(s) + γ Σ_{s′,a′} P̂(s | s′,a′) d(s′,a′)        for every state s,

with d_O the frequencies in D_U = D_E ∪ D_X and R = log(d_E / d_O). Its dual is unconstrained in V ∈ ℝ^S; with
e(s,a) = R(s,a) + γ Σ_s′ P̂(s′|s,a) V(s′) − V(s):

    KL:   min_V (1 − γ) E_{p₀} V + log E_{d_O} exp(e),               d = d_O · softmax weights exp(e) / E exp(e)
    χ²:   min_V (1 − γ) E_{p₀} V + E_{d_O} [max(0, e + 1)²/2 − 1/2], d = d_O · max(0, e + 1)

Choices: state–action ratios (expert actions are known here); d_E is mixed with a little of d_O so that R is finite;
p₀ is the expert's state frequencies: from this start a stationary expert has d = d_E for every γ; a state that the
logs enter but never leave gets one invented step back to the expert's first state.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from scipy import sparse
from scipy.optimize import minimize
from scipy.special import logsumexp

from ilbrl.base.errors import IlbrlError
from ilbrl.tabular.logs import Log, concatenate_logs
from ilbrl.tabular.mdp import Matrix
from ilbrl.tabular.planning import check_discount


@dataclass(frozen=True)
class Config:
    gamma: float = 0.99
    divergence: Literal["kl", "chi2"] = "kl"  # the authors' default
    smoothing: float = 1e-4  # share of d_O mixed into d_E; the best of three by true regret (docs/theory.md)


class Solution(NamedTuple):
    policy: np.ndarray  # [S, A] π(a | s) ∝ d(s, a); uniform in states that are not in the logs
    occupancy: np.ndarray  # [S, A] d
    values: np.ndarray  # [S] V
    dual: float  # the minimum of the dual
    primal: float  # the program's objective at d: equal to the dual at the optimum


class Program(NamedTuple):
    """The data of the convex program, one row per pair that occurs in the logs."""

    pairs: np.ndarray  # [K] s·A + a
    rewards: np.ndarray  # [K] R
    offline: np.ndarray  # [K] d_O
    flow: Matrix  # [K, S] γ P̂ − 1[s]: e = R + flow @ V
    start: np.ndarray  # [S] p₀


def smodice(expert: Log, logs: Log, num_states: int, num_actions: int, config: Config | None = None) -> Solution:
    """Solve the dual by a trust-region Newton method and read the policy off the primal solution."""
    config = config or Config()
    check_discount(config.gamma)
    program = build_program(expert, logs, num_states, num_actions, config)
    found = minimize(
        _dual, np.zeros(num_states), (program, config), "trust-exact", jac=True, hess=_curvature,
        options={"gtol": 1e-9, "maxiter": 2_000},
    )  # fmt: skip
    weights = _weights(found.x, program, config)
    d = np.zeros(num_states * num_actions)
    d[program.pairs] = program.offline * weights
    d = d.reshape(num_states, num_actions)
    mass = d.sum(axis=1, keepdims=True)
    policy = np.where(mass > 1e-12, d / np.maximum(mass, 1e-300), 1 / num_actions)
    return Solution(policy, d, found.x, float(found.fun), _primal(weights, program, config))


def build_program(expert: Log, logs: Log, num_states: int, num_actions: int, config: Config) -> Program:
    if len(expert) == 0:
        raise IlbrlError("the expert log is empty: there is nothing to imitate")
    unified = concatenate_logs([expert, logs, _way_out(expert, logs, num_states)])
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


def _way_out(expert: Log, logs: Log, num_states: int) -> Log:
    """One step back to the expert's first state from every state the logs enter and never leave.

    Without it there may be no occupancy that satisfies the flow constraints, and then the dual has no minimum.
    """
    entered = np.zeros(num_states, bool)
    for log in (expert, logs):
        entered[log.next_states] = True
    for log in (expert, logs):
        entered[log.states] = False
    stuck = np.flatnonzero(entered)
    return Log(stuck, np.zeros_like(stuck), np.full_like(stuck, expert.states[0]))


def _dual(values: np.ndarray, program: Program, config: Config) -> tuple[float, np.ndarray]:
    """The dual objective and its gradient (1 − γ) p₀ + flowᵀ d, the violation of the flow constraints."""
    error, start = program.rewards + program.flow @ values, (1 - config.gamma) * program.start
    if config.divergence == "kl":
        conjugate = float(np.asarray(logsumexp(error, b=program.offline)))
    else:
        conjugate = program.offline @ (np.maximum(0, error + 1) ** 2 - 1) / 2
    d = program.offline * _weights(values, program, config)
    return float(start @ values + conjugate), start + d @ program.flow


def _curvature(values: np.ndarray, program: Program, config: Config) -> np.ndarray:
    """[S, S] Hessian: flowᵀ (diag d − d dᵀ) flow for KL, flowᵀ diag(d_O where d > 0) flow for χ²."""
    weights = _weights(values, program, config)
    spread = program.offline * (weights if config.divergence == "kl" else weights > 0)
    hessian = (program.flow.T @ (sparse.diags_array(spread) @ program.flow)).toarray()
    if config.divergence == "kl":
        mean = spread @ program.flow
        hessian -= np.outer(mean, mean)
    return hessian


def _weights(values: np.ndarray, program: Program, config: Config) -> np.ndarray:
    """[K] d / d_O."""
    error = program.rewards + program.flow @ values
    if config.divergence == "kl":
        return np.exp(error - logsumexp(error, b=program.offline))
    return np.maximum(0, error + 1)


def _primal(weights: np.ndarray, program: Program, config: Config) -> float:
    d = program.offline * weights
    if config.divergence == "kl":
        spread = np.sum(d * np.log(np.where(weights > 0, weights, 1)))
    else:
        spread = program.offline @ (weights - 1) ** 2 / 2
    return float(d @ program.rewards - spread)
