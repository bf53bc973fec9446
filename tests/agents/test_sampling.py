"""Logs whose rows do not fit: every row is labelled, whole episodes are trained on, and the user is told."""

import numpy as np
import pytest

import ilbrl
from ilbrl.agents import AGENTS
from ilbrl.agents.sampling import prepare_within, sample_episodes
from ilbrl.base.errors import IlbrlError
from ilbrl.data import Dataset, concatenate
from ilbrl.learning.memory import bytes_per_row, room_for_rows
from ilbrl.learning.spec import Spec
from ilbrl.rewards import Labels
from ilbrl.rewards.soft_support import label, standard_features

PER_ROW = bytes_per_row(1, 1) / 1e9


def log(source: str, lengths: list[int], centre: float) -> Dataset:
    """Observations tell the row: centre + row number."""
    rows = sum(lengths)
    x = centre + np.arange(rows, dtype=np.float32)[:, None]
    ends = np.isin(np.arange(rows), np.cumsum(lengths) - 1)
    actions = np.linspace(-3, 3, rows)[:, None]
    return Dataset(x, actions, x + 1, np.zeros(rows, bool), ends, rewards=x[:, 0], source=source)


@pytest.fixture
def expert():
    return log("demos", [5], 0.5)


@pytest.fixture
def logs():
    return log("logs", [4] * 10, 0.0)


def prepared(expert, logs, rows, agent="ilbrl", **options):
    """With room for so many rows."""
    chosen = AGENTS[agent]
    return prepare_within(
        rows * PER_ROW, chosen, expert, logs, [chosen.presets["default"]], [0], updates=10, quiet=True, **options
    )


def test_logs_that_fit_are_all_there(expert, logs):
    said = []
    found = prepared(expert, logs, 45.01, warn=said.append)
    assert found.feed.num_rows == 45
    assert said == []
    assert "sampled_rows" not in found.identity


def test_a_sample_of_whole_episodes_and_labels_of_all_rows(expert, logs):
    said = []
    found = prepared(expert, logs, 30.01, warn=said.append)
    chosen = sample_episodes(logs, 25)
    assert len(chosen) == 6
    assert found.feed.num_rows == 5 + 24
    assert found.identity["sampled_rows"] == 24
    rows = np.concatenate([np.arange(5), 5 + logs.rows_of(chosen)])
    union = concatenate([expert, logs])
    trained = found.spec.obs_mean + found.spec.obs_std * found.feed.shared["observations"]
    assert np.allclose(trained, union.observations[rows], atol=1e-4)
    labels = label(expert, logs, standard_features(Spec.of(union)), quiet=True)
    assert isinstance(found.labels, Labels)
    assert np.allclose(found.labels.reward, labels.reward, atol=1e-6)
    assert np.array_equal(found.feed.shared["rewards"], found.labels.reward[rows])
    assert "40 rows take about" in said[0]
    assert "all are labelled, and 24 of them are trained on (6 of 10 episodes, drawn at random), with all 5" in said[0]


def test_the_same_sample_whoever_asks(logs):
    assert np.array_equal(sample_episodes(logs, 25), sample_episodes(logs, 27))
    assert (np.diff(sample_episodes(logs, 25)) > 0).all()


def test_rewards_and_weights_of_your_own_follow_their_rows(expert, logs):
    own = np.linspace(0, 1, 45)
    found = prepared(expert, logs, 30.01, reward=own, weight=lambda rows: np.arange(len(rows)))
    rows = np.concatenate([np.arange(5), 5 + logs.rows_of(sample_episodes(logs, 25))])
    assert np.allclose(found.feed.shared["rewards"], own[rows])
    assert np.array_equal(found.feed.shared["weights"], np.arange(29))


@pytest.mark.parametrize("agent", ["td3bc", "bc"])
def test_other_agents(agent, expert, logs):
    found = prepared(expert, logs, 30.01, agent)
    assert found.feed.num_rows == (5 if agent == "bc" else 29)


def test_not_even_one_episode(expert, logs):
    with pytest.raises(IlbrlError, match=r"room for 3 rows of it in memory, and its first episode drawn has 4"):
        prepared(expert, logs, 8.01)
    with pytest.raises(IlbrlError, match="gigabytes above 0"):
        ilbrl.fit("bc", expert, logs, memory=0, updates=1)


def test_by_default_half_of_the_memory_is_for_rows():
    assert 10**8 < room_for_rows() < 10**14


def test_the_normaliser_and_bounds_of_parts_are_those_of_all_rows(expert, logs):
    parts, union = Spec.of(expert, logs), Spec.of(concatenate([expert, logs]))
    for name in ("obs_mean", "obs_std", "action_low", "action_high"):
        assert np.allclose(getattr(parts, name), getattr(union, name), rtol=1e-6)
