"""Datasets as objects of pandas, Minari and d3rlpy, and back."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from ilbrl.base.errors import IlbrlError
from ilbrl.data import Dataset, from_d3rlpy, from_frame, from_minari, to_d3rlpy, to_frame, to_minari
from ilbrl.data.joining import with_action_names


def walks(ends: str, **fields) -> Dataset:
    """One-dimensional walks 0, 1, 2 … of each episode; ends: a letter per row, t: terminal, o: time-out."""
    rows = len(ends)
    letters = np.array(list(ends))
    fresh = np.append(True, letters[:-1] != ".")
    position = np.arange(rows) - np.maximum.accumulate(np.where(fresh, np.arange(rows), 0))
    fields = {"actions": np.linspace(-1, 1, rows)[:, None], "rewards": np.arange(rows)} | fields
    return Dataset(
        position[:, None], next_observations=position[:, None] + 1, terminals=letters == "t", timeouts=letters == "o",
        **fields,
    )  # fmt: skip


def test_a_frame_comes_back_bit_for_bit(full):
    bounds = {"action_low": full.action_low, "action_high": full.action_high}
    full = full.episodes(np.flatnonzero(full.complete))  # a label says that the last episode ends with the table
    frame = to_frame(full)
    assert list(frame.columns[:2]) == ["episode", "step"]
    assert from_frame(frame, **bounds).content_hash == full.content_hash
    shuffled = frame.sample(frac=1, random_state=0)
    groups = from_frame(shuffled, **bounds)
    assert sorted(groups.episode_lengths) == sorted(full.episode_lengths)


def test_a_frame_shows_the_names_of_choices():
    logs = walks("..t", actions=np.array([1, 0, 1]), action_names=("stay", "go"))
    frame = to_frame(logs)
    assert frame["action"].tolist() == ["go", "stay", "go"]
    assert with_action_names(from_frame(frame), logs.action_names).content_hash == logs.content_hash


def test_minari_opens_what_is_written_and_a_filtered_dataset_is_read(tmp_path):
    minari = pytest.importorskip("minari")
    logs = walks("..o.t...o")
    opened = to_minari(logs, tmp_path / "walks-v0")
    assert isinstance(opened, minari.MinariDataset)
    assert [episode.rewards.tolist() for episode in opened] == [[0, 1, 2], [3, 4], [5, 6, 7, 8]]
    assert from_minari(opened).content_hash == logs.content_hash
    short = opened.filter_episodes(lambda episode: len(episode) < 4)
    assert from_minari(short).content_hash == logs.episodes([0, 1]).content_hash


class MDPDataset:
    """What d3rlpy 2.8 makes of its arguments, so that this test needs neither d3rlpy nor PyTorch."""

    def __init__(self, observations, actions, rewards, terminals, timeouts, action_size):
        assert actions.ndim == rewards.ndim == 2
        assert terminals.ndim == timeouts.ndim == 1
        assert not np.logical_and(terminals, timeouts).any()
        stops = np.flatnonzero((terminals + timeouts) > 0) + 1
        self.episodes = [
            SimpleNamespace(
                observations=observations[a:b], actions=actions[a:b], rewards=rewards[a:b],
                terminated=bool(terminals[b - 1]),
            )
            for a, b in zip(np.append(0, stops[:-1]), stops)
        ]  # fmt: skip
        self.action_size = action_size


def test_d3rlpy_keeps_all_but_the_last_step_before_a_time_out():
    logs = walks("..o.t...")
    theirs = MDPDataset(**to_d3rlpy(logs))
    assert [len(episode.actions) for episode in theirs.episodes] == [3, 2, 3]
    assert theirs.action_size == 1
    back = from_d3rlpy(theirs)
    assert np.array_equal(back.rewards, [0, 1, 3, 4, 5, 6])
    assert back.next_observations[:, 0].tolist() == [1, 2, 1, 1, 1, 2]  # of a terminal: never used
    assert np.flatnonzero(back.terminals).tolist() == [3]
    assert back.timeouts.tolist() == [False, True, False, False, False, True]


def test_d3rlpy_gets_discrete_actions_and_rewards_of_your_own():
    logs = walks("..t", actions=np.array([1, 0, 1]), action_names=("a", "b", "c"))
    arguments = to_d3rlpy(logs, rewards=np.array([0.5, 1, 0]))
    assert arguments["action_size"] == 3
    back = from_d3rlpy(MDPDataset(**arguments))
    assert back.actions.tolist() == [1, 0, 1]
    assert np.array_equal(back.rewards, [0.5, 1, 0])


def test_d3rlpy_needs_rewards():
    logs = replace(walks("..t"), rewards=None)
    with pytest.raises(IlbrlError, match="d3rlpy needs rewards"):
        to_d3rlpy(logs)
    with pytest.raises(IlbrlError, match="one number for each of the 3 rows"):
        to_d3rlpy(logs, rewards=np.zeros(4))
