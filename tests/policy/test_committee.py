import numpy as np
import pytest

from ilbrl.base.errors import IlbrlError
from ilbrl.policy import Policy, committee_of
from ilbrl.policy.network import forward

X = np.random.default_rng(1).normal(size=(50, 5))


@pytest.fixture
def members(make_policy):
    """members(head, widths…): policies with weights of their own and one normaliser."""

    def make(*hidden, head="deterministic"):
        normaliser = {"obs_mean": np.arange(5.0), "obs_std": np.full(5, 2.0)}
        return [make_policy(head, h, normalised=False, seed=i, **normaliser) for i, h in enumerate(hidden)]

    return make


@pytest.mark.parametrize("hidden", [(), (6,), (16, 12, 5)])
def test_the_mean_of_its_members_answers(members, hidden):
    policies = members(hidden, hidden, hidden)
    centre, half_range = policies[0].action_affine
    answers = [forward(policy.layers, "relu", (X - np.arange(5)) / 2) for policy in policies]
    expected = centre + half_range * np.tanh(np.mean(answers, 0))
    np.testing.assert_allclose(committee_of(policies).act(X), expected, atol=1e-5)


def test_choosers_of_different_widths_answer_with_the_mean_of_their_logits(members):
    policies = members((16, 12), (8, 3), head="categorical")
    choices = [np.full(len(X), a) for a in range(4)]
    joint = np.stack([np.mean([policy.log_prob(X, a) for policy in policies], 0) for a in choices], 1)
    joint -= np.log(np.exp(joint).sum(1, keepdims=True))
    found = np.stack([committee_of(policies).log_prob(X, a) for a in choices], 1)
    np.testing.assert_allclose(found, joint, atol=1e-5)


def test_one_member_is_the_policy_itself_and_a_file_carries_a_committee(members, tmp_path):
    for head in ("deterministic", "tanh_gaussian"):
        first, *others = members((16, 12), (16, 12), head=head)
        np.testing.assert_array_equal(committee_of([first]).act(X), first.act(X))
        together = committee_of([first, *others])
        again = Policy.load(together.save(tmp_path / f"{head}.safetensors"))
        np.testing.assert_array_equal(again.act(X), together.act(X))


def test_policies_of_other_kinds_are_refused(make_policy, members):
    (one,) = members((16, 12))
    for other, said in (
        (make_policy(seed=1), "differ in obs_mean, obs_std"),
        (make_policy(normalised=False), "differ in obs_mean, obs_std"),
        (make_policy("categorical"), "differ in head"),
        (members((16,))[0], "differ in layers"),
    ):
        with pytest.raises(IlbrlError, match=said):
            committee_of([one, other])
    with pytest.raises(IlbrlError, match="no LayerNorm"):
        committee_of([make_policy(layer_norm=True)] * 2)
    with pytest.raises(IlbrlError, match="at least one"):
        committee_of([])
