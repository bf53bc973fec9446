"""The exact quantities of a finite MDP and a policy: what the paper's bounds are made of.

Chains are [S, S] row-stochastic matrices, dense or sparse (`mdp.policy_chain`). "Assumption n" is the paper's
numbering: 1 deterministic expert, 2 ergodic chains, 3 coverage by the explorer, 4 distinct eigenvalues.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy import sparse
from scipy.sparse import csgraph
from scipy.sparse.linalg import splu, spsolve

from ilbrl.base.errors import IlbrlError
from ilbrl.tabular.mdp import FiniteMDP, Matrix, action_probabilities, check_stochastic, policy_chain, policy_rewards

Policy = np.ndarray | Sequence[int]
DENSE_LIMIT = 4_000  # with more states, matrix powers and eigenvectors do not fit into a workstation's memory


# --- ergodicity ---------------------------------------------------------------------------------------------------


def recurrent_class(chain: Matrix) -> np.ndarray:
    """Sorted states of the only closed communicating class; an error (Assumption 2) if there are several."""
    check_stochastic(chain, "Markov chain")
    graph = sparse.csr_array(chain)
    graph.eliminate_zeros()
    count, label = csgraph.connected_components(graph, connection="strong")
    edges = graph.tocoo()
    closed = np.ones(count, bool)
    closed[label[edges.row[label[edges.row] != label[edges.col]]]] = False
    if closed.sum() > 1:
        first, second = (int(np.flatnonzero(label == c)[0]) for c in np.flatnonzero(closed)[:2])
        raise IlbrlError(
            f"the Markov chain is not ergodic (Assumption 2): states {first} and {second} lie in separate closed"
            " classes, so the long run depends on the start and no mixing time exists"
        )
    return np.flatnonzero(label == np.flatnonzero(closed)[0])


def check_ergodic(chain: Matrix) -> None:
    """Raise unless the chain is irreducible and aperiodic (Assumption 2), saying which of the two fails and where."""
    _check_irreducible(chain, states := recurrent_class(chain))
    if (period := _period(chain, states)) > 1:
        raise IlbrlError(
            f"the Markov chain is not ergodic (Assumption 2): it is periodic with period {period}, so its"
            " distribution never settles and no mixing time exists"
        )


def _check_irreducible(chain: Matrix, states: np.ndarray) -> None:
    if len(states) < chain.shape[0]:
        lost = int(np.setdiff1d(np.arange(chain.shape[0]), states)[0])
        raise IlbrlError(
            f"the Markov chain is not ergodic (Assumption 2): it is not irreducible, state {lost} never comes back"
        )


def _period(chain: Matrix, states: np.ndarray) -> int:
    """gcd of all cycle lengths: over edges u → v of a breadth-first tree, gcd of depth(u) + 1 − depth(v)."""
    graph = sparse.csr_array(chain)[states][:, states]
    graph.eliminate_zeros()
    order, parent = csgraph.breadth_first_order(graph, 0)
    depth = np.zeros(len(states), np.int64)
    for node in order[1:]:
        depth[node] = depth[parent[node]] + 1
    edges = graph.tocoo()
    return int(np.gcd.reduce(np.abs(depth[edges.row] + 1 - depth[edges.col])))


# --- the long run -------------------------------------------------------------------------------------------------


def stationary_distribution(chain: Matrix, *, transient_ok: bool = False) -> np.ndarray:
    """[S] ρ with ρ = ρP and Σ_s ρ(s) = 1.

    Dense chains: the Grassmann–Taksar–Heyman elimination. It never subtracts, so even the smallest entries are accurate
    (p_min is one of them). Sparse chains: inverse iteration. With `transient_ok` the chain may leave some states for
    ever (ρ = 0 there): a learned policy may do that, and its long run is still unique.
    """
    states = recurrent_class(chain)
    if not transient_ok:
        _check_irreducible(chain, states)
    within = chain[states][:, states]
    weights = _lu_stationary(within) if sparse.issparse(within) else _gth_stationary(within)
    rho = np.zeros(chain.shape[0])
    rho[states] = weights / weights.sum()
    return rho


def _gth_stationary(chain: np.ndarray) -> np.ndarray:
    work, n = chain.copy(), len(chain)
    for k in range(n - 1, 0, -1):  # censor the chain on 0 … k − 1
        work[:k, k] /= work[k, :k].sum()
        work[:k, :k] += np.outer(work[:k, k], work[k, :k])
    weights = np.ones(n)
    for k in range(1, n):
        weights[k] = weights[:k] @ work[:k, k]
    return weights


def _lu_stationary(chain: Matrix) -> np.ndarray:
    """Inverse iteration on (1 + δ) I − Pᵀ, strictly diagonally dominant: no pivoting, no negative entries."""
    balance = sparse.csc_matrix((1 + 1e-12) * sparse.eye_array(chain.shape[0]) - chain.T)
    solver = splu(balance, diag_pivot_thresh=0.0)
    weights = np.full(chain.shape[0], 1 / chain.shape[0])
    for _ in range(20):
        weights = solver.solve(weights)
        weights /= weights.sum()
        if np.abs(weights @ chain - weights).sum() < 1e-11:
            return weights
    raise IlbrlError(
        "the Markov chain mixes too slowly for its stationary distribution to be found in double precision"
    )


def occupancy(mdp: FiniteMDP, policy: Policy) -> np.ndarray:
    """[S, A] ρ_π(s, a) = ρ_π(s) π(a | s), the long-run frequency of every state–action pair."""
    rho = stationary_distribution(policy_chain(mdp, policy), transient_ok=True)
    return rho[:, None] * action_probabilities(mdp, policy)


def average_reward(mdp: FiniteMDP, policy: Policy) -> float:
    """μ_π = lim_N E[Σ_i r(s_i, a_i)] / N = Σ_{s,a} ρ_π(s, a) r(s, a)."""
    return float((occupancy(mdp, policy) * mdp.rewards).sum())


def total_variation(first: np.ndarray, second: np.ndarray) -> float:
    """‖ρ₁ − ρ₂‖_TV = sup_M |ρ₁(M) − ρ₂(M)| = ½ Σ |ρ₁ − ρ₂|, for distributions of any equal shape."""
    return float(np.abs(first - second).sum() / 2)


def imitation_regret(mdp: FiniteMDP, expert: Policy, policy: Policy) -> float:
    """R(π) = μ_{π_E} − μ_π, per step; negative where the imitator happens to earn more than the expert."""
    return average_reward(mdp, expert) - average_reward(mdp, policy)


def p_min(mdp: FiniteMDP, explorer: Policy) -> float:
    """min_{s,a} ρ_X(s, a) (Assumption 3: the proofs need ρ_X ≥ p_min > 0, which the minimum satisfies)."""
    rho = stationary_distribution(policy_chain(mdp, explorer))
    smallest = float((rho[:, None] * action_probabilities(mdp, explorer)).min())
    if smallest <= 0:
        raise IlbrlError("the explorer never takes some action (Assumption 3: p_min must be positive)")
    return smallest


# --- values -------------------------------------------------------------------------------------------------------


def discounted_values(mdp: FiniteMDP, policy: Policy, gamma: float) -> np.ndarray:
    """[S] V_π = (I − γ P_π)⁻¹ r_π, that is V_π(s) = E[Σ_i γ^i r(s_i, a_i) | s₀ = s]."""
    chain, rewards = policy_chain(mdp, policy), policy_rewards(mdp, policy)
    if isinstance(chain, np.ndarray):
        return np.linalg.solve(np.eye(len(chain)) - gamma * chain, rewards)
    system = sparse.csc_matrix(sparse.eye_array(chain.shape[0]) - gamma * chain)
    return np.asarray(spsolve(system, rewards))


def action_values(mdp: FiniteMDP, values: np.ndarray, gamma: float) -> np.ndarray:
    """[S, A] Q(s, a) = r(s, a) + γ Σ_s′ P(s′ | s, a) V(s′)."""
    return mdp.rewards + gamma * mdp.expected_next(values)


# --- mixing and spectrum ------------------------------------------------------------------------------------------


def mixing_time(chain: Matrix) -> int:
    """The smallest t ≥ 1 with max_s ‖P^t(s, ·) − ρ‖_TV ≤ 1/4.

    The distance never grows with t. So P is squared until the distance is below 1/4, and t is then found by binary
    search over the stored powers: O(log t) matrix products.
    """
    check_ergodic(chain)
    power = _dense(chain, "the mixing time")
    rho = stationary_distribution(power)

    def mixed(matrix: np.ndarray) -> bool:
        return float(np.abs(matrix - rho).sum(axis=1).max()) / 2 <= 0.25

    powers = [power]
    while not mixed(powers[-1]):
        square = powers[-1] @ powers[-1]
        powers.append(square / square.sum(axis=1, keepdims=True))
        if len(powers) > 60:
            raise IlbrlError(
                "the Markov chain takes more than 2^60 steps to mix: numerically not ergodic (Assumption 2)"
            )
    steps, reached = 0, np.eye(len(power))
    for k in range(len(powers) - 2, -1, -1):
        if not mixed(further := reached @ powers[k]):
            steps, reached = steps + 2**k, further
    return steps + 1


class Spectrum(NamedTuple):
    eigenvalues: np.ndarray  # [S] complex, by falling modulus; the first is 1
    lambda2: float  # |λ₂|, the second largest modulus
    condition: float  # κ(Σ) = ‖Σ‖₂ ‖Σ⁻¹‖₂ of the right eigenvectors Σ, scaled to unit 2-norm columns


def spectrum(chain: Matrix) -> Spectrum:
    """Eigenvalues, |λ₂| and κ(Σ) of an ergodic chain; an error (Assumption 4) unless the eigenvalues are distinct.

    Distinct means further apart than rounding can move them. Rounding moves an eigenvalue by about its own condition
    number ‖row of Σ⁻¹‖ times machine precision. So a defective matrix is found even when rounding splits eigenvalues.
    """
    check_ergodic(chain)
    eigenvalues, vectors = np.linalg.eig(_dense(chain, "the spectrum"))
    order = np.argsort(-np.abs(eigenvalues), kind="stable")
    eigenvalues, vectors = eigenvalues[order], vectors[:, order]
    singular = np.linalg.svd(vectors, compute_uv=False)
    inverse = np.linalg.pinv(vectors)
    sway = 100 * np.finfo(float).eps * np.linalg.norm(inverse, axis=1)
    gaps = np.abs(eigenvalues[:, None] - eigenvalues[None])
    np.fill_diagonal(gaps, np.inf)
    if singular[-1] == 0 or (gaps <= sway[:, None] + sway[None]).any():
        i, j = np.unravel_index(np.argmin(gaps - sway[:, None] - sway[None]), gaps.shape)
        raise IlbrlError(
            f"the transition matrix has repeated eigenvalues (Assumption 4): {eigenvalues[i]:.4g} and"
            f" {eigenvalues[j]:.4g} cannot be told apart, so κ(Σ) is undefined; give β and λ₂ yourself, or perturb P"
        )
    second = float(np.abs(eigenvalues[1])) if len(eigenvalues) > 1 else 0.0
    return Spectrum(eigenvalues, second, float(singular[0] / singular[-1]))


def _dense(chain: Matrix, what: str) -> np.ndarray:
    if chain.shape[0] > DENSE_LIMIT:
        raise IlbrlError(
            f"{what} of {chain.shape[0]:,} states needs dense matrices; the limit is {DENSE_LIMIT:,} states"
        )
    return chain if isinstance(chain, np.ndarray) else chain.toarray()
