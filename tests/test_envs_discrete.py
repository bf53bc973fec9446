"""Tasks with discrete actions, and the clinic whose truth is exact."""

import sys

import numpy as np
import pytest

import ilbrl
from ilbrl import envs
from ilbrl.base.errors import IlbrlError
from ilbrl.data.benchmark import source_policy
from ilbrl.envs import clinic, rollouts


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("ILBRL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(rollouts, "COLLECTION_STEPS", 50)


def test_logs_hold_whole_numbers_their_names_and_their_probabilities():
    log = ilbrl.load("cartpole/medium:600steps", quiet=True)
    assert log.actions.dtype == np.int64
    assert log.actions.shape == (600,)
    assert log.action_names == ("left", "right")
    assert log.action_low is None
    assert log.policy is not None
    chances = log.policy.probabilities(log.observations)[np.arange(600), log.actions]
    np.testing.assert_allclose(log.propensities, chances, rtol=1e-4)
    np.testing.assert_array_equal(log.rewards, np.ones(600))


def test_uniform_choices():
    log = ilbrl.load("acrobot/random:900steps", quiet=True)
    assert log.policy is None
    np.testing.assert_allclose(log.propensities, 1 / 3, rtol=1e-6)
    assert (np.bincount(log.actions, minlength=3) / 900).min() > 0.25


def test_scores_of_discrete_tasks():
    assert envs.normalised_score("cartpole", np.array([21.6, 500.0])) == pytest.approx([0, 100])
    assert envs.normalised_score("CartPole-v1", 500.0) == pytest.approx(100)
    assert envs.score_notes(["hopper", "cartpole", "clinic", "Pendulum-v1"]) == [envs.NOT_D4RL, envs.OWN_SCORES]


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (lambda rows: np.full(len(rows), 2), "a whole number from 0 to 1"),
        (lambda rows: np.zeros(len(rows)), "a whole number from 0 to 1"),
        (lambda rows: np.zeros((len(rows), 2), int), r"with actions \(4, 2\), expected \(4,\)"),
    ],
)
def test_what_is_no_choice_is_refused(answer, message):
    with pytest.raises(IlbrlError, match=message):
        envs.rollout(answer, "cartpole", episodes=1, quiet=True)


def test_lunarlander_needs_box2d_and_says_so():
    try:
        import Box2D  # noqa: F401  # pyright: ignore[reportMissingImports]
    except ModuleNotFoundError:
        with pytest.raises(IlbrlError, match=r'lunarlander: .*pip install "ilbrl\[box2d\]"'):
            envs.rollout(source_policy("lunarlander", "expert"), "lunarlander", episodes=1, quiet=True)
    else:
        assert envs.rollout(source_policy("lunarlander", "expert"), "lunarlander", 4, quiet=True).returns.mean() > 100


# --- the clinic ---


def test_the_clinic_needs_no_gymnasium(monkeypatch):
    monkeypatch.setitem(sys.modules, "gymnasium", None)
    log = ilbrl.load("clinic/expert:3ep", quiet=True)
    assert log.num_episodes == 3
    assert log.obs_dim == len(clinic.OBSERVED)
    assert log.choice_names == clinic.TREATMENTS


def test_the_table_of_the_clinic_is_what_is_played():
    """One row of the table, against the frequencies of 20,000 days that begin there."""
    chances, rewards = clinic.transitions()
    np.testing.assert_allclose(chances.sum(-1), 1, atol=1e-12)
    env = clinic.Clinic()
    env.reset(seed=0)
    state, treatment = 3 * clinic.BURDENS * clinic.TYPES + 2 * clinic.TYPES + 1, 3
    counts, earned = np.zeros(clinic.LIVING), 0.0
    seen = {row.tobytes(): number for number, row in enumerate(clinic.observations())}
    assert len(seen) == clinic.LIVING, "two states look alike"
    for _ in range(20_000):
        env._state = state
        observation, reward, terminated, _, _ = env.step(treatment)
        earned += reward / 20_000
        if not terminated:
            counts[seen[observation.tobytes()]] += 1
    expected = chances[state, treatment, : clinic.LIVING]
    np.testing.assert_allclose(counts / 20_000, expected, atol=4 * np.sqrt(0.25 / 20_000))
    assert earned == pytest.approx(rewards[state, treatment], abs=0.02)


@pytest.mark.parametrize("stochastic", [False, True])
def test_the_exact_value_of_the_clinic_agrees_with_playing(stochastic):
    policy = source_policy("clinic", "medium")
    played = envs.rollout(policy, "clinic", 1000, stochastic=stochastic, workers=1, quiet=True, gamma=0.9)
    error = played.standard_error
    assert clinic.value(policy, stochastic=stochastic) == pytest.approx(played.returns.mean(), abs=4 * error)
    discounted = clinic.value(policy, 0.9, stochastic)
    assert discounted == pytest.approx(played.discounted_returns.mean(), abs=4 * error)


def test_the_expert_of_the_clinic_is_optimal_and_the_scores_are_exact():
    uniform = np.full((clinic.LIVING, len(clinic.TREATMENTS)), 0.25)
    ends = [clinic.value(uniform), clinic.value(source_policy("clinic", "expert"))]
    assert envs.normalised_score("clinic", np.array(ends)) == pytest.approx([0, 100], abs=1e-3)
    best = clinic.value(np.eye(len(clinic.TREATMENTS))[clinic.optimal_judgement().argmax(1)])
    assert best - ends[1] < 1e-3
