"""Values of policies that choose among actions: against a finite MDP solved exactly, and against the clinic's truth."""

from dataclasses import replace

import jax
import numpy as np
import pytest

from ilbrl import models, ope
from ilbrl.base.errors import IlbrlError
from ilbrl.data import Dataset
from ilbrl.data.benchmark import load_benchmark, source_policy
from ilbrl.envs import clinic
from ilbrl.learning.spec import Spec
from ilbrl.models import acting
from ilbrl.ope.policies import act, chances
from ilbrl.policy import Policy

from .conftest import CRITICS, GAMMA

SPEC = Spec(np.zeros(5), np.ones(5), np.zeros(1), np.ones(1), 2)
MIXED = np.array([[0.6, 0.4], [0.35, 0.65], [0.5, 0.5], [0.6, 0.4], [0.4, 0.6]])


def policy(probabilities) -> Policy:
    """A categorical policy over one-hot states with these [S, A] probabilities."""
    logits = np.log(np.maximum(probabilities, 1e-9))
    return Policy(((logits, np.zeros(2)),), np.zeros(1), np.ones(1), "categorical")


@pytest.fixture(scope="module")
def evidence(finite) -> ope.Evidence:
    """The finite MDP's log with its actions as choices; a third of the episodes is held out."""
    log = finite.log
    whole = Dataset(
        log.observations, (log.actions[:, 0] > 0).astype(int), log.next_observations, log.terminals, log.timeouts,
        rewards=log.rewards, log_probs=log.log_probs, action_names=("no", "yes"), source="finite",
    )  # fmt: skip
    parts = whole.episodes(slice(0, 200)), whole.episodes(slice(200, 300))
    start = np.eye(5, dtype=np.float32)
    return ope.Evidence.of({"logs": parts[0]}, held_out={"logs": parts[1]}, initial_observations=start, spec=SPEC)


# --- what a policy is asked ---


def test_a_sampled_policy_answers_with_its_own_probabilities_and_any_other_with_its_choice():
    seen = np.eye(5, dtype=np.float32)
    mixed = policy(MIXED)
    np.testing.assert_allclose(chances("p", ope.Sampled(mixed), seen, SPEC), MIXED, atol=1e-6)
    greedy = np.eye(2)[MIXED.argmax(1)]
    np.testing.assert_array_equal(chances("p", mixed, seen, SPEC), greedy)
    np.testing.assert_array_equal(chances("p", lambda x: MIXED[x.argmax(1)].argmax(1), seen, SPEC), greedy)
    np.testing.assert_allclose(chances("p", lambda x: MIXED[x.argmax(1)], seen, SPEC), MIXED, atol=1e-6)
    np.testing.assert_array_equal(act("p", mixed, seen, SPEC), MIXED.argmax(1))


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (lambda x: np.full(len(x), 2), "not all whole numbers from 0 to 1"),
        (lambda x: np.full(len(x), 0.5), "not all whole numbers from 0 to 1"),
        (lambda x: np.full((len(x), 2), 0.7), "do not sum to 1"),
        (lambda x: np.full((len(x), 3), 1 / 3), r"with actions \(5, 3\), expected \(5, 2\)"),
        (Policy(((np.zeros((5, 1)), np.zeros(1)),), -np.ones(1), np.ones(1)), "has real-valued actions, .* 2 choices"),
        (Policy(((np.zeros((5, 3)), np.zeros(3)),), np.zeros(1), np.full(1, 2.0), "categorical"), "has 3 choices"),
    ],
)
def test_what_is_no_policy_of_these_choices_is_refused(asked, said):
    with pytest.raises(IlbrlError, match=f"policy p: .*{said}"):
        chances("p", asked, np.eye(5, dtype=np.float32), SPEC)


def test_a_policy_that_numbers_its_actions_differently_is_refused(evidence):
    swapped = replace(policy(MIXED), metadata={"action_names": ["yes", "no"]})
    with pytest.raises(IlbrlError, match="policy mine: its actions are yes, no, those of the logs no, yes"):
        ope.estimate({"mine": swapped}, evidence, "importance")
    known = ope.Known("mine", swapped, evidence.held_out["logs"])
    with pytest.raises(IlbrlError, match="policy mine: its actions are yes, no"):
        ope.calibrate([known], evidence, "importance")


def test_a_log_may_lack_an_action(evidence):
    logs = evidence.logs["logs"]
    always = replace(logs.episodes(slice(0, 3)), actions=np.zeros(logs.episode_lengths[:3].sum(), int))
    joined = ope.Evidence.of({"expert": replace(always, action_names=("no",)), "logs": logs})
    assert joined.union.action_names == ("no", "yes")
    assert joined.spec.num_actions == 2


# --- a finite MDP, solved exactly ---


def test_expected_sarsa_takes_the_exact_expectation_over_actions(finite, evidence):
    """Of a policy that samples, of its greedy self, and of a function that answers with probabilities."""
    greedy, start = np.eye(2)[MIXED.argmax(1)], np.full(5, 0.2)
    from_anywhere = replace(finite, mdp=replace(finite.mdp, initial=start))
    asked = {"sampled": ope.Sampled(policy(MIXED)), "greedy": policy(MIXED), "table": lambda x: MIXED[x.argmax(1)]}
    found = ope.estimate(asked, evidence, "expected_sarsa", replace(CRITICS, updates=4_000), seeds=[0], quiet=True)
    for name, truth in (("sampled", MIXED), ("greedy", greedy), ("table", MIXED)):
        assert found[name].value == pytest.approx(from_anywhere.value(truth), rel=0.03), name
    assert found["sampled"].value == pytest.approx(found["table"].value, rel=1e-3)


@pytest.mark.parametrize("weighted", [True, False])
def test_importance_sampling_finds_the_exact_value(finite, evidence, weighted):
    config = ope.ESTIMATORS["importance"].Config(gamma=GAMMA, weighted=weighted)
    found = ope.estimate({"p": ope.Sampled(policy(MIXED))}, evidence, "importance", config)["p"]
    assert found.value == pytest.approx(finite.value(MIXED), rel=0.03 if weighted else 0.15)
    assert abs(found.value - finite.value(MIXED)) < 3 * found.std_error


def test_a_choice_that_the_logs_never_take_has_no_weight(evidence):
    """A policy that disagrees with every logged first action leaves no episode: there is no value."""
    never = replace(evidence.union, actions=np.zeros(len(evidence.union), np.int64))
    alone = ope.Evidence.of({"logs": never}, spec=SPEC)
    assert ope.estimate({"p": policy(np.eye(2)[[1] * 5])}, alone, "importance")["p"].verdict == "impossible"


@pytest.mark.parametrize("critics_right", [True, False])
def test_doubly_robust_values_are_right_if_critics_or_weights_are(finite, evidence, critics_right):
    """Wrong critics: no update at all, so the weights alone must make up for them."""
    config = replace(CRITICS, updates=3_000 if critics_right else 20)
    found = ope.estimate({"p": ope.Sampled(policy(MIXED))}, evidence, "doubly_robust", config, seeds=[0], quiet=True)
    assert found.quantity == ope.Quantity(GAMMA)
    assert found["p"].value == pytest.approx(finite.value(MIXED), rel=0.04 if critics_right else 0.1)
    plain = ope.estimate({"p": ope.Sampled(policy(MIXED))}, evidence, "expected_sarsa", config, seeds=[0], quiet=True)
    if not critics_right:
        assert abs(plain["p"].value - finite.value(MIXED)) > 3 * abs(found["p"].value - finite.value(MIXED))


def test_closeness_counts_equal_actions_alone(evidence):
    log = evidence.union.transitions(0, 40)
    chosen = replace(log, actions=np.zeros(40, np.int64))
    closeness = ope.Closeness.to(chosen, evidence.union, SPEC)
    other = replace(log, actions=np.ones(40, np.int64))
    np.testing.assert_array_equal(closeness.label(other).rewards, np.zeros(40))  # an action that the expert never takes
    np.testing.assert_allclose(closeness.label(chosen).rewards, np.ones(40), atol=1e-3)


# --- learned models ---


def test_policies_choose_in_compiled_programs_as_they_do_alone():
    plays = source_policy("clinic", "medium")
    stacked = jax.tree.map(lambda leaf: leaf[0], acting.stack([plays]))
    seen = clinic.observations()
    chosen = acting.act(acting.shape_of(plays), stacked, seen)
    np.testing.assert_array_equal(chosen, np.eye(4)[plays.act(seen)])
    draw = jax.vmap(lambda key: acting.act(acting.shape_of(plays), stacked, seen, key))
    drawn = np.asarray(draw(jax.random.split(jax.random.key(0), 2000)))
    np.testing.assert_allclose(drawn.mean(0), plays.probabilities(seen), atol=0.06)


@pytest.fixture(scope="module")
def clinic_logs(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ILBRL_CACHE", str(tmp_path_factory.mktemp("cache")))
        return {level: load_benchmark(f"clinic/{level}", 12_000, quiet=True) for level in ("expert", "medium")}


@pytest.mark.slow
def test_models_value_the_doctors_of_the_clinic_near_their_exact_truth(clinic_logs):
    """Without the penalty, which lowers all values alike; sampled and greedy, seen in the logs or not."""
    config = models.Config(updates=2_000.0, batch_size=256, held_out_batch=64, hidden=(64, 64))
    ensemble = models.train(list(clinic_logs.values()), config, members=2, quiet=True)
    starts = np.concatenate([log.initial_observations[:40] for log in clinic_logs.values()])
    doctors = {level: source_policy("clinic", level) for level in ("expert", "rung3", "medium", "rung1")}
    for sampled in (False, True):
        truths = [clinic.value(doctor, stochastic=sampled) for doctor in doctors.values()]
        played = models.rollout(doctors, ensemble, starts, sampled=sampled, quiet=True)
        assert played.unpenalised.mean((1, 2)) == pytest.approx(truths, abs=0.12)
        assert (np.diff(played.values) < 0).all()
        assert played.outside.max() == 0  # one-hot numbers stay what they are


def test_models_of_choices_are_kept_and_refuse_other_policies(clinic_logs, tmp_path):
    config = models.Config(updates=20.0, batch_size=32, held_out_batch=8, hidden=(8,))
    ensemble = models.train([clinic_logs["medium"]], config, members=2, quiet=True)
    again = models.Models.load(ensemble.save(tmp_path / "models.safetensors"))
    assert again.scales.spec.num_actions == 4
    starts = clinic_logs["medium"].initial_observations[:3]
    played = [models.rollout([source_policy("clinic", "expert")], m, starts, 5, quiet=True) for m in (ensemble, again)]
    np.testing.assert_array_equal(played[0].returns, played[1].returns)
    stranger = Policy(((np.zeros((6, 2)), np.zeros(2)),), -np.ones(2), np.ones(2))
    with pytest.raises(IlbrlError, match="its action is 2 numbers, and that of these logs one of 4 choices"):
        models.rollout({"mine": stranger}, ensemble, starts, 5, quiet=True)
