"""MDPs are refused unless they are MDPs, and dense and sparse ones mean the same."""

import numpy as np
import pytest
from scipy import sparse

from ilbrl.base.errors import IlbrlError
from ilbrl.tabular.mdp import FiniteMDP, action_probabilities, policy_chain, policy_rewards, uniform_policy
from ilbrl.tabular.worlds import garnet

TWO = np.array([[[0.5, 0.5], [1.0, 0.0]], [[0.0, 1.0], [0.25, 0.75]]])  # [S, A, S]
REWARDS = np.array([[0.0, 1.0], [0.5, 0.25]])


def test_a_tensor_and_a_matrix_are_the_same_mdp():
    tensor, matrix = FiniteMDP(TWO, REWARDS), FiniteMDP(sparse.csr_array(TWO.reshape(4, 2)), REWARDS)
    values = np.array([1.0, 3.0])
    expected = [[2.0, 1.0], [3.0, 2.5]]
    np.testing.assert_allclose(tensor.expected_next(values), expected)
    np.testing.assert_allclose(matrix.expected_next(values), expected)


@pytest.mark.parametrize("form", [np.asarray, lambda t: sparse.csr_array(t.reshape(4, 2))])
def test_chain_and_rewards_of_a_policy_by_hand(form):
    mdp = FiniteMDP(form(TWO), REWARDS)
    for policy, chain, rewards in (
        (np.array([1, 0]), [[1, 0], [0, 1]], [1, 0.5]),
        (np.array([[0.5, 0.5], [0.2, 0.8]]), [[0.75, 0.25], [0.2, 0.8]], [0.5, 0.3]),
    ):
        got = policy_chain(mdp, policy)
        np.testing.assert_allclose(got.toarray() if sparse.issparse(got) else got, chain)
        np.testing.assert_allclose(policy_rewards(mdp, policy), rewards)


@pytest.mark.parametrize(
    ("transitions", "says"),
    [
        (TWO * 0.9, r"not a stochastic matrix.*\(s, a\) = \(0, 0\) sum to 0\.9"),
        (TWO - np.array([0.6, -0.6]), "negative"),
        (np.where(TWO == 1, np.nan, TWO), "not finite"),
        (TWO[:, :1], r"\[S, A, S\]"),
        (sparse.csr_array(TWO.reshape(4, 2) * 0.5), "not a stochastic matrix"),
    ],
)
def test_what_is_not_stochastic_is_refused(transitions, says):
    with pytest.raises(IlbrlError, match=says):
        FiniteMDP(transitions, REWARDS)


def test_rewards_initial_distribution_and_policies_are_checked():
    with pytest.raises(IlbrlError, match=r"\[0, 1\]"):
        FiniteMDP(TWO, REWARDS * 3)
    with pytest.raises(IlbrlError, match="initial distribution"):
        FiniteMDP(TWO, REWARDS, np.array([0.5, 0.4]))
    mdp = FiniteMDP(TWO, REWARDS)
    for bad in (np.array([0, 2]), np.array([0]), np.array([[0.5, 0.6], [1, 0]]), np.array([0.0, 1.0])):
        with pytest.raises(IlbrlError):
            action_probabilities(mdp, bad)


def test_sparse_and_dense_garnets_agree():
    dense, thin = (garnet(30, 3, np.random.default_rng(5), sparsely=s) for s in (False, True))
    np.testing.assert_allclose(thin.transitions.toarray(), dense.transitions)  # pyright: ignore[reportAttributeAccessIssue]
    policy = uniform_policy(dense)
    np.testing.assert_allclose(policy_chain(thin, policy).toarray(), policy_chain(dense, policy))  # pyright: ignore[reportAttributeAccessIssue]
