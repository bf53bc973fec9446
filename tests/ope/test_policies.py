"""What can be valued, known policies and the truth about them, clones."""

from dataclasses import replace

import numpy as np
import pytest

from ilbrl import ope
from ilbrl.base.errors import IlbrlError
from ilbrl.data import from_arrays
from ilbrl.data.benchmark import source_policy
from ilbrl.data.splits import compose
from ilbrl.learning.spec import Spec
from ilbrl.ope.policies import act, compiled
from ilbrl.policy import Policy

SPEC = Spec(np.zeros(1), np.ones(1), -np.ones(1), np.ones(1))


def gaussian():
    return Policy(((np.zeros((1, 2)), np.array([0.0, np.log(0.5)])),), -np.ones(1), np.ones(1), head="tanh_gaussian")


def test_sampled_actions_are_drawn_once_from_the_policy():
    policy, seen = gaussian(), np.zeros((20_000, 1), np.float32)
    drawn = act("p", ope.Sampled(policy), seen, SPEC)
    np.testing.assert_array_equal(drawn, act("p", ope.Sampled(policy), seen, SPEC))
    assert np.arctanh(drawn).std() == pytest.approx(0.5, rel=0.03)
    assert (act("p", policy, seen, SPEC) == 0).all()  # the policy itself: its mean action


@pytest.mark.parametrize(
    ("policy", "said"),
    [
        (gaussian(), "policy p: takes observations of 1 numbers"),
        (ope.Sampled(gaussian()), "policy p: takes observations of 1 numbers"),
        (lambda x: np.zeros((len(x), 2)), "policy p: answered observations"),
        (lambda x: x[:, :1] * np.inf, "policy p: some of its actions are not finite"),
    ],
)
def test_policies_of_another_task_are_refused(policy, said):
    with pytest.raises(IlbrlError, match=said):
        act("p", policy, np.ones((3, 2), np.float32), SPEC)


def test_truth_is_the_mean_return_of_complete_episodes(linear):
    log = linear.log(0.8, 0.0, 30)
    cut = log.transitions(0, 29 * 25 + 10)
    truth = ope.truth(ope.Known("k", lambda x: -0.8 * x, cut, "mean"), ope.Quantity(0.9))
    returns = log.returns(0.9)[:29]
    assert truth.value == pytest.approx(returns.mean())
    assert truth.std_error == pytest.approx(returns.std(ddof=1) / np.sqrt(29))
    assert truth.episodes == 29
    assert truth.cut_off == pytest.approx(0.9**25)
    undiscounted = ope.truth(ope.Known("k", lambda x: -0.8 * x, cut, "mean"), ope.Quantity(1.0, 25))
    assert undiscounted.value == pytest.approx(log.returns()[:29].mean())
    assert undiscounted.cut_off == 0.0  # the time limit is part of the quantity
    assert ope.truth(ope.Known("k", lambda x: x, cut, "mean"), ope.Quantity(1.0, 50)).cut_off == pytest.approx(0.5)


def test_truths_that_nobody_can_know_are_refused(linear):
    log = linear.log(0.8, 0.0, 3)
    holed = replace(log, rewards=np.where(np.arange(len(log)) == 30, np.nan, log.rewards))
    for episodes, said in (
        (log.transitions(0, 10), "no complete episode"),
        (holed, r"known policy k: linear 0\.8: rewards of episode 1 are not finite"),
        (replace(log, rewards=None), "carries no rewards"),
    ):
        with pytest.raises(IlbrlError, match=said):
            ope.truth(ope.Known("k", lambda x: x, episodes, "mean"), ope.Quantity(0.9))


def test_variants_of_a_known_policy(linear):
    log, stochastic = linear.log(0.8, 0.0, 2), gaussian()
    assert ope.Known("s", stochastic, log, "sampled").evaluable == ope.Sampled(stochastic)
    assert ope.Known("s", stochastic, log, "mean").evaluable is stochastic
    deterministic = Policy(((np.zeros((1, 1)), np.zeros(1)),), -np.ones(1), np.ones(1))
    with pytest.raises(IlbrlError, match="has no sampled variant"):
        _ = ope.Known("d", deterministic, log, "sampled").evaluable


def test_the_policy_behind_a_log_brings_its_held_out_episodes(linear):
    logs = {"expert": linear.log(0.8, 0.0, 20), "logs": linear.log(0.1, 0.0, 3, seed=1)}
    evidence = ope.Evidence.holding_out(logs)
    assert "the log logs has 3 complete episodes, too few to hold any out" in evidence.notes
    expert = ope.known_policy("e", gaussian(), evidence, "expert")
    assert expert.episodes is evidence.held_out["expert"]
    assert (expert.variant, expert.log) == ("sampled", "expert")
    other = ope.known_policy("o", lambda x: x, evidence, "logs")
    assert other.episodes.num_episodes == 3
    assert other.variant == "mean"
    with pytest.raises(IlbrlError, match="there is no log 'elsewhere' among the evidence: expert, logs"):
        ope.known_policy("x", gaussian(), evidence, "elsewhere")


def test_every_episode_of_a_log_counts_once_for_its_clone(linear):
    """Two expert episodes are learnt from and held out at once; of the others three fifths are for training."""
    evidence = ope.Evidence.of_composition(compose(linear.log(0.8, 0.0, 2), linear.log(0.1, 0.0, 20, seed=1)))
    found = {log: ope.clone_of(log, gaussian(), evidence).episodes.num_episodes for log in evidence.logs}
    assert found == {"expert": 2, "logs": 8}


def test_a_clone_of_noisy_choices_is_as_noisy():
    """A log in which 1 is taken three times of four, whatever is seen: always to take it would be another policy."""
    taken = np.arange(400) % 4 > 0
    log = from_arrays(np.zeros((400, 1)), taken.astype(int), np.zeros((400, 1)), timeouts=np.arange(400) % 20 == 19)
    (clone,) = ope.clones(ope.Evidence.of({"logs": replace(log, rewards=np.ones(400))}), updates=300, quiet=True)
    assert clone.variant == "sampled"
    assert clone.evaluable == ope.Sampled(clone.policy)
    assert isinstance(clone.policy, Policy)
    np.testing.assert_allclose(clone.policy.probabilities([0.0]), [0.25, 0.75], atol=0.05)


def test_clones_act_as_their_logs_and_are_called_clones(linear):
    evidence = ope.Evidence.of({"expert": linear.log(0.8, 0.0, 20), "logs": linear.log(0.1, 0.0, 20, seed=1)})
    first, second = ope.clones(evidence, updates=400, quiet=True)
    assert [k.name for k in (first, second)] == ["clone of expert", "clone of logs"]
    assert first.clone
    assert first.log == "expert"
    assert first.episodes.num_episodes == 20
    x = np.linspace(-0.8, 0.8, 9, dtype=np.float32)[:, None]
    assert isinstance(first.policy, Policy)
    np.testing.assert_allclose(first.policy.act(x), -0.8 * x, atol=0.1)


def test_an_accelerator_answers_as_the_policy_does():
    """It is asked so on a GPU; the program is the same here."""
    policy, rows = source_policy("hopper", "expert"), np.random.default_rng(0).normal(size=(20, 11)).astype(np.float32)
    np.testing.assert_allclose(compiled(policy)(rows), policy.act(rows), atol=1e-5)
