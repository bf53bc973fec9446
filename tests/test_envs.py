import itertools
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from ilbrl import envs
from ilbrl.base.errors import IlbrlError
from ilbrl.data.benchmark import source_policy
from ilbrl.envs import rollouts
from ilbrl.envs.playing import Play, unit_randomness
from ilbrl.policy import Policy


@pytest.fixture(scope="module")
def faller() -> Policy:
    """Falls after about 200 steps: short episodes keep the tests quick."""
    return source_policy("hopper", "rung1")


@pytest.fixture
def small_units(monkeypatch):
    """Units of 16 lanes of one or a few episodes, instead of 1,000 steps each."""
    monkeypatch.setattr(rollouts, "COLLECTION_STEPS", 50)


# an object of no importable class: it cannot travel to a worker, and plays here
STILL = SimpleNamespace(act=lambda observations: np.zeros((len(observations), 1)))


# --- scores ---


@pytest.mark.parametrize(
    ("task", "random", "expert"),
    [
        ("hopper", -20.272305, 3234.3),
        ("halfcheetah", -280.178953, 12135.0),
        ("walker2d", 1.629008, 4592.3),
        ("ant", -325.6, 3879.7),
    ],
)
def test_scores_use_the_constants_of_d4rl(task, random, expert):
    middle = (random + expert) / 2
    assert envs.normalised_score(task, np.array([random, expert, middle])) == pytest.approx([0, 100, 50])


def test_a_full_gymnasium_id_scores_like_its_task_and_others_do_not_score():
    assert envs.normalised_score("Hopper-v5", 3234.3) == pytest.approx(100)
    assert envs.normalised_score("Pendulum-v1", 0.0) is None


def test_ant_has_27_inputs_unless_asked_for_by_its_gymnasium_id():
    assert envs.make("ant").observation_space.shape == (27,)
    assert envs.make("Ant-v5").observation_space.shape == (105,)


# --- rollouts ---


def test_rollouts_do_not_depend_on_workers_and_fewer_are_the_first_of_more(faller):
    many = envs.rollout(faller, "hopper", episodes=6, seed=3, stochastic=True, workers=1)
    for other in (
        envs.rollout(faller, "hopper", episodes=6, seed=3, stochastic=True, workers=2),
        envs.rollout(faller, "hopper", episodes=5, seed=3, stochastic=True, workers=1),
    ):
        kept = len(other.returns)
        np.testing.assert_array_equal(other.returns, many.returns[:kept])
        np.testing.assert_array_equal(other.discounted_returns, many.discounted_returns[:kept])
        np.testing.assert_array_equal(other.lengths, many.lengths[:kept])
    another = envs.rollout(faller, "hopper", episodes=4, seed=4, stochastic=True, workers=1)
    assert not np.intersect1d(another.returns, many.returns).size


def test_several_policies_play_as_each_does_alone(faller):
    other = source_policy("hopper", "rung2")
    together = list(envs.rollout_all([faller, other], "hopper", 5, seed=3, workers=2, quiet=True))
    for policy, played in zip([faller, other], together, strict=True):
        assert np.array_equal(played.returns, envs.rollout(policy, "hopper", 5, seed=3, workers=1, quiet=True).returns)


def test_a_deterministic_rollout_equals_stepping_the_wrapped_environment(faller):
    played = envs.rollout(faller, "hopper", episodes=2, seed=5)
    seeds, _ = unit_randomness(Play(faller, "hopper", 5, 0, False, 4, 1), 0)
    env = envs.make("hopper")
    for i in range(2):
        rewards, ended = [], False
        observation, _ = env.reset(seed=seeds[i])
        while not ended:
            observation, reward, terminated, truncated, _ = env.step(faller.act(observation))
            rewards.append(reward)
            ended = terminated or truncated
        # one row and a batch of four round differently, which chaos amplifies: close, not equal
        assert played.returns[i] == pytest.approx(sum(rewards), rel=0.02)
        discounted = np.sum(0.99 ** np.arange(len(rewards)) * rewards)
        assert played.discounted_returns[i] == pytest.approx(discounted, rel=0.02)


def test_any_environment_and_any_object_that_acts():
    by_object = envs.rollout(STILL, "Pendulum-v1", episodes=3)
    by_function = envs.rollout(lambda observations: np.zeros((len(observations), 1)), "Pendulum-v1", episodes=3)
    np.testing.assert_array_equal(by_object.returns, by_function.returns)
    assert by_object.lengths.tolist() == [200, 200, 200]
    assert by_object.score is None
    assert by_object.standard_error == pytest.approx(by_object.returns.std(ddof=1) / np.sqrt(3))


@pytest.mark.parametrize(
    ("task", "message"),
    [
        ("Nope-v1", "no environment 'Nope-v1'"),
        ("no_such_module:Nope-v1", "would run the module 'no_such_module', and a name alone must not do that"),
        ("json:Nope-v1", "no environment 'json:Nope-v1'"),  # imported, and no environment of it
        ("json:json:Nope-v1", "no environment"),
        ("FrozenLake-v1", "its observations are Discrete"),
        ("CartPole-v1", r"with actions \(4, 1\), expected \(4,\)"),
        ("Hopper-v5", r"with actions \(4, 1\), expected \(4, 3\)"),
    ],
)
def test_what_cannot_be_played_is_said_in_one_sentence(task, message):
    with pytest.raises(IlbrlError, match=message):
        envs.rollout(STILL, task, episodes=1)


@pytest.mark.parametrize(
    "options", [{"episodes": 0}, {"episodes": 10**29}, {"seed": -1}, {"seed": 2**64}, {"workers": -1}]
)
def test_impossible_settings_are_refused(options):
    with pytest.raises(IlbrlError):
        envs.rollout(STILL, "Pendulum-v1", **{"episodes": 1, **options})


def test_a_module_that_is_not_there_is_named():
    with pytest.raises(IlbrlError, match="no environment 'no_such_module:Nope-v1': No module named 'no_such_module'"):
        envs.import_module_of("no_such_module:Nope-v1")


@pytest.mark.parametrize("name", [":Nope-v1", "..up:Nope-v1", "a b:Nope-v1"])
def test_what_is_no_name_of_a_module_is_refused(name):
    with pytest.raises(IlbrlError, match="no name of a module"):
        envs.import_module_of(name)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_environments_that_moved_elsewhere_are_a_sentence():
    with pytest.raises(IlbrlError, match="no environment 'Hopper-v2': The mujoco v2 and v3 based"):
        envs.make("Hopper-v2")


def test_without_gymnasium_the_message_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "gymnasium", None)
    with pytest.raises(IlbrlError, match=r'pip install "ilbrl\[benchmark\]"'):
        envs.make("hopper")


# --- collection ---


@pytest.mark.usefixtures("small_units")
@pytest.mark.parametrize("level", ["rung1", "random"])
def test_collected_transitions_equal_stepping_the_wrapped_environment(level, faller):
    policy = faller if level == "rung1" else envs.UniformPolicy(faller.action_low, faller.action_high)
    log = envs.collect(policy, "hopper", 300, seed=1)
    play = Play(policy, "hopper", 1, rollouts.COLLECTION, True, rollouts.COLLECTION_LANES, 50)
    seeds, _ = unit_randomness(play, 0)
    env, row = envs.make("hopper"), 0
    for seed in seeds:
        observation, _ = env.reset(seed=seed)
        for step in itertools.count():
            if row == 300:
                return
            np.testing.assert_array_equal(log["observations"][row], observation.astype(np.float32))
            observation, reward, terminated, truncated, _ = env.step(log["actions"][row])
            np.testing.assert_array_equal(log["next_observations"][row], observation.astype(np.float32))
            assert log["rewards"][row] == np.float32(reward)
            assert (log["terminals"][row], log["timeouts"][row]) == (terminated, truncated)
            row += 1
            if terminated or truncated:
                if step + 1 >= 50:
                    break
                observation, _ = env.reset()
    pytest.fail("16 lanes should have given more than 300 transitions")


@pytest.mark.usefixtures("small_units")
def test_a_time_out_is_not_a_terminal():
    log = envs.collect(STILL, "Pendulum-v1", 1000, stochastic=False)
    assert not log["terminals"].any()
    assert np.flatnonzero(log["timeouts"]).tolist() == [199, 399, 599, 799, 999]
    assert "log_probs" not in log


@pytest.mark.usefixtures("small_units")
def test_log_probs_are_those_of_the_policy(faller):
    log = envs.collect(faller, "hopper", 300, seed=2)
    np.testing.assert_allclose(log["log_probs"], faller.log_prob(log["observations"], log["actions"]), atol=1e-3)


@pytest.mark.usefixtures("small_units")
def test_collection_does_not_depend_on_workers(faller):
    one = envs.collect(faller, "hopper", 5000, seed=2, workers=1)
    two = envs.collect(faller, "hopper", 5000, seed=2, workers=2)
    for name, column in one.items():
        np.testing.assert_array_equal(two[name], column, err_msg=name)


# --- counting ---


def test_every_call_is_counted_by_purpose_even_in_workers(faller):
    before, all_before = envs.environment_calls("a test"), envs.environment_calls()
    assert before == envs.EnvironmentCalls()
    played = envs.rollout(faller, "hopper", episodes=5, workers=2, purpose="a test")
    made = envs.EnvironmentCalls(resets=5, steps=int(played.lengths.sum()), episodes=5)
    assert envs.environment_calls("a test") == made
    assert envs.environment_calls() == all_before + made
    envs.make("hopper", purpose="a test")
    assert envs.environment_calls("a test") == made + envs.EnvironmentCalls(environments=1)


def test_closed_environments_refuse_everything_but_collection(faller):
    before = envs.environment_calls()
    with envs.closed("a train job"):
        for touch in (
            lambda: envs.rollout(faller, "hopper", 1, quiet=True),
            lambda: envs.make("hopper"),
            lambda: envs.collect(faller, "hopper", 10, purpose="by the back door", quiet=True),
        ):
            with pytest.raises(IlbrlError, match="closed during a train job"):
                touch()
        assert envs.environment_calls() == before
        assert len(envs.collect(faller, "hopper", 10, workers=1, quiet=True)["rewards"]) == 10
    assert envs.rollout(faller, "hopper", 1, quiet=True).returns.shape == (1,)
