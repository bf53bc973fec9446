"""Imagined steps follow the models exactly, begin where logs were, end where they should, and survive a crash."""

from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pytest
from tests.models.conftest import A, B, exact_models, linear_logs, steady

import ilbrl
from ilbrl.agents import AGENTS
from ilbrl.base.errors import IlbrlError
from ilbrl.data import from_arrays
from ilbrl.models.imagination import Imagination, imagine, imagined_steps
from ilbrl.policy import Policy

TEACHERS = (steady(0.3), steady(-0.5))
STILL = Imagination(steps=7, rows=280, noise=0.0, size="small")


def steps_of(models, teachers=TEACHERS, logs=None, settings=STILL):
    return imagined_steps(teachers, models, logs or [linear_logs()], settings, np.random.default_rng(0))


def test_steps_are_those_of_the_teachers_in_the_models():
    logs = linear_logs()
    found = steps_of(exact_models(), logs=[logs])
    assert len(found) == 280
    assert set(found.episode_lengths) == {7}
    assert found.timeouts.sum() == found.num_episodes == 40
    assert not found.terminals.any()
    assert found.rewards is None
    np.testing.assert_allclose(np.unique(found.actions.round(5)), [-0.5, 0.3], atol=1e-5)
    expected = found.observations @ A.T + found.actions @ B.T
    np.testing.assert_allclose(found.next_observations, expected, atol=1e-5)
    same = found.episode_of[1:] == found.episode_of[:-1]
    np.testing.assert_array_equal(found.observations[1:][same], found.next_observations[:-1][same])
    logged = {tuple(row) for row in logs.observations}
    assert all(tuple(row) in logged for row in found.initial_observations)


def test_noise_is_in_units_of_the_bounds_and_stays_within_them():
    found = steps_of(exact_models(), settings=replace(STILL, rows=7000, noise=0.2), teachers=[steady(0.0)])
    assert np.abs(found.actions).max() <= 1
    assert found.actions.std() == pytest.approx(0.2, rel=0.05)


def test_an_episode_ends_where_its_model_says_so():
    found = steps_of(exact_models(end_bias=-1.0), settings=replace(STILL, rows=2800))  # ends where s₁ > 1
    np.testing.assert_array_equal(found.terminals, found.observations[:, 0] > 1)
    assert 0 < found.terminals.sum() < found.num_episodes
    assert not (found.terminals & found.timeouts).any()
    lasts = found.episode_starts + found.episode_lengths - 1
    assert (found.terminals | found.timeouts)[lasts].all()


def test_with_discrete_actions_ends_and_flags_are_drawn_by_their_chances():
    """An end that is never more likely than not still happens; the second number is a flag, raised with chance 0.7."""

    def predict(layers, inputs, dtype):
        del layers, dtype
        outputs = jnp.array([0.0, 0.0, jnp.log(0.3), jnp.log(0.7), jnp.log(0.25 / 0.75)])
        return jnp.broadcast_to(outputs, (*inputs.shape[:-1], 5))

    patterns = np.array([[np.nan, 0], [np.nan, 1]], np.float32)
    exact = exact_models(end_bias=0.0)
    models = replace(
        exact,
        predict=predict,
        config=replace(exact.config, rewards=False, patterns=2),
        scales=replace(exact.scales, patterns=patterns, num_actions=np.asarray(2)),
    )
    chooses = Policy(((np.zeros((2, 2)), np.zeros(2)),), np.zeros(1), np.ones(1), "categorical")
    logs = replace(linear_logs(), actions=np.arange(2000) % 2, action_low=None, action_high=None)
    found = steps_of(models, [chooses], [logs], replace(STILL, rows=7000))
    assert found.terminals.mean() == pytest.approx(0.25, abs=0.03)
    assert set(found.next_observations[:, 1]) == {0, 1}
    assert found.next_observations[:, 1].mean() == pytest.approx(0.7, abs=0.03)
    np.testing.assert_array_equal(found.next_observations[:, 0], found.observations[:, 0])


def test_an_episode_happens_in_one_model():
    found = steps_of(exact_models(members=3, shift=0.01))
    surplus = (found.next_observations - found.observations @ A.T - found.actions @ B.T)[:, 0]
    member = (surplus / 0.01).round().astype(int)
    assert set(member) == {0, 1, 2}
    np.testing.assert_allclose(surplus, 0.01 * member, atol=1e-5)
    for number in range(found.num_episodes):
        assert len(set(member[found.episode_of == number])) == 1


@pytest.mark.parametrize(("shift", "believed"), [(3.0, True), (5.0, False)])
def test_what_models_disagree_about_does_not_take_place(shift, believed):
    # √2 · shift apart in one of two numbers, two members deviate by shift / 2 from their mean; above 2 is too much.
    models = exact_models(members=2, shift=shift * np.sqrt(2))
    if believed:
        assert len(steps_of(models)) == 280
    else:
        with pytest.raises(IlbrlError, match="disagree about every first step"):
            steps_of(models)


def test_every_log_gives_as_many_first_states_whatever_its_size():
    few, many = linear_logs(episodes=1, length=4), linear_logs(seed=1)
    found = steps_of(exact_models(), logs=[few, many])
    logged = {tuple(row) for row in few.observations}
    assert sum(tuple(row) in logged for row in found.initial_observations) == found.num_episodes // 2


# --- the whole of it --------------------------------------------------------------------------------------------------

TINY = Imagination(rounds=2, rows=60, steps=3, teachers=2, size="small", models_updates=4)
QUICK = {"hidden": (4,), "batch_size": 4}


def config(preset="default"):
    return replace(AGENTS["ilbrl"].presets[preset], **QUICK)


@pytest.fixture(scope="module")
def both():
    return linear_logs(episodes=2, length=10), linear_logs(episodes=6, length=10, seed=1)


@pytest.fixture(scope="module")
def whole(both):
    return imagine(*both, TINY, config=config(), updates=6, quiet=True)


def test_rounds_follow_each_other_and_can_be_joined_with_the_logs(both, whole):
    expert, logs = both
    one = imagine(expert, logs, replace(TINY, rounds=1), config=config(), updates=6, quiet=True)
    assert len(one) == 60
    assert len(whole) == 120
    np.testing.assert_array_equal(whole.observations[:60], one.observations)
    assert not np.array_equal(whole.actions[60:], one.actions)
    joined = ilbrl.concatenate([logs, whole])
    learned = ilbrl.fit("ilbrl", expert, joined, config=config(), updates=2, quiet=True)
    assert not learned.diverged.any()


class Killed(Exception):
    pass


@pytest.mark.parametrize("record", [1, 2, 3])
def test_it_continues_after_a_crash_in_models_or_teachers(both, whole, tmp_path, record):
    told = []

    def dying(entry):
        told.append(entry)
        if len(told) == record:
            raise Killed

    with pytest.raises(Killed):
        imagine(*both, TINY, config=config(), updates=6, workplace=tmp_path, log=dying, quiet=True)
    found = imagine(*both, TINY, config=config(), updates=6, workplace=tmp_path, quiet=True)
    assert found.content_hash == whole.content_hash


def test_what_was_imagined_is_kept_and_not_imagined_again_elsewhere(both, whole, tmp_path, monkeypatch):
    """Another machine rounds differently, so its steps would be others than those that teachers have learned from."""
    imagine(*both, replace(TINY, rounds=1), config=config(), updates=6, workplace=tmp_path / "one", quiet=True)
    told = []
    kept = tmp_path / "both"
    imagine(*both, TINY, config=config(), updates=6, workplace=kept, log=told.append, quiet=True)
    monkeypatch.setattr("ilbrl.models.imagination.imagined_steps", None)
    found = imagine(*both, TINY, config=config(), updates=6, workplace=kept, quiet=True)
    assert found.content_hash == whole.content_hash
    with pytest.raises(TypeError):  # other settings: nothing of it is taken
        imagine(*both, replace(TINY, noise=0.2), config=config(), updates=6, workplace=tmp_path / "one", quiet=True)


def test_what_is_wrong_is_said_before_models_are_trained(both, monkeypatch):
    monkeypatch.setattr("ilbrl.models.imagination.train", None)
    expert, logs = both
    sick = replace(logs, observations=np.where(np.arange(len(logs))[:, None] == 7, np.nan, logs.observations))
    with pytest.raises(IlbrlError, match="NaN"):
        imagine(expert, sick, TINY, config=config(), updates=6, quiet=True)
    with pytest.raises(IlbrlError, match="lam"):
        imagine(expert, logs, TINY, config=replace(config(), lam=-1.0), updates=6, quiet=True)
    with pytest.raises(IlbrlError, match="period"):
        imagine(expert, logs, TINY, config=config(), updates=7, quiet=True)


@pytest.mark.slow
def test_discrete_actions_keep_their_names():
    rng = np.random.default_rng(0)
    columns = {
        "observations": rng.normal(size=(40, 2)), "next_observations": rng.normal(size=(40, 2)),
        "actions": np.arange(40) % 3, "terminals": np.arange(40) % 10 == 9, "timeouts": np.zeros(40, bool),
    }  # fmt: skip
    logs = from_arrays(**columns, action_names=("left", "stay", "right"))
    expert = logs.episodes([0])
    found = imagine(expert, logs, TINY, config=config("discrete"), updates=2, quiet=True)
    assert found.discrete
    assert found.action_names == ("left", "stay", "right")
    assert set(found.actions) <= {0, 1, 2}
    assert ilbrl.concatenate([logs, found]).discrete


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"rounds": 0}, "rounds: must be a finite number, between 1 and 10"),
        ({"teachers": 0}, "teachers: must be a finite number, between 2 and 200"),
        ({"teachers": 3}, "teachers: must be even, got 3"),
        ({"noise": 2.0}, "noise: must be a finite number, between 0 and 1"),
        ({"size": "huge"}, "size: must be one of large, medium, small"),
    ],
)
def test_settings_that_cannot_be_meant_are_refused(both, wrong, said):
    with pytest.raises(IlbrlError, match=said):
        imagine(*both, replace(TINY, **wrong), quiet=True)
