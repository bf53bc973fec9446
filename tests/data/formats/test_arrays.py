"""Missing fields are completed as documented, and every decision is noted."""

from dataclasses import replace

import numpy as np
import pytest

from ilbrl.base.errors import IlbrlError
from ilbrl.data import concatenate, from_arrays
from ilbrl.data.checks import check_finite

# Two episodes, 0 → 1 → 2 (terminal) and 10 → 11 → 12 (time-out), as logs that keep one row per step.
OBSERVATIONS = np.array([[0], [1], [2], [10], [11], [12]], np.float32)
ACTIONS = np.arange(6.0)[:, None]
TERMINALS = [0, 0, 1, 0, 0, 0]
TIMEOUTS = [0, 0, 0, 0, 0, 1]


def test_next_observations_come_from_the_following_row() -> None:
    dataset = from_arrays(OBSERVATIONS, ACTIONS, rewards=ACTIONS, terminals=TERMINALS, timeouts=TIMEOUTS)
    # Row 2 is terminal and repeats itself; row 5 timed out, nobody knows where it led: it goes, row 4 ends the episode.
    assert dataset.observations.ravel().tolist() == [0, 1, 2, 10, 11]
    assert dataset.next_observations.ravel().tolist() == [1, 2, 2, 11, 12]
    assert dataset.actions.ravel().tolist() == [0, 1, 2, 3, 4]
    assert dataset.rewards is not None
    assert dataset.rewards.tolist() == [0, 1, 2, 3, 4]
    assert dataset.terminals.tolist() == [False, False, True, False, False]
    assert dataset.timeouts.tolist() == [False, False, False, False, True]
    assert "dropped 1 row without one (first: row 5)" in dataset.notes[0]


def test_rows_keep_their_numbers_when_others_are_dropped() -> None:
    observations = np.arange(9.0)[:, None]
    observations[7] = np.nan
    dataset = from_arrays(observations, np.zeros((9, 1)), timeouts=[0, 0, 1, 0, 0, 1, 0, 0, 1], source="log")
    assert dataset.source_rows is not None
    assert dataset.source_rows.tolist() == [0, 1, 3, 4, 6, 7]  # 2, 5 and 8 led nobody knows where
    found = {finding.field: finding for finding in check_finite(dataset)}
    assert found["observations"].row == 7
    assert "(first: row 7, column 0)" in found["observations"].message
    assert [dataset.episodes([2]).source_row(i) for i in range(2)] == [6, 7]
    assert concatenate([dataset, dataset]).source_rows is None
    assert replace(dataset, source_rows=None).content_hash == dataset.content_hash


def test_a_log_cut_by_the_end_of_the_file_stays_unfinished() -> None:
    dataset = from_arrays(OBSERVATIONS, ACTIONS, terminals=TERMINALS, timeouts=np.zeros(6))
    assert dataset.observations.ravel().tolist() == [0, 1, 2, 10, 11]
    assert dataset.complete.tolist() == [True, False]


def test_a_timed_out_row_that_stands_alone_does_not_mark_the_episode_before_it() -> None:
    dataset = from_arrays([[0], [1], [5], [9]], np.zeros((4, 1)), terminals=[0, 1, 0, 1], timeouts=[0, 0, 1, 0])
    assert dataset.observations.ravel().tolist() == [0, 1, 9]
    assert dataset.timeouts.sum() == 0


def test_timeouts_are_inferred_from_jumps() -> None:
    following = np.array([[1], [2], [3], [11], [12], [13]], np.float32)
    dataset = from_arrays(OBSERVATIONS, ACTIONS, following, terminals=np.zeros(6))
    assert dataset.timeouts.tolist() == [False, False, True, False, False, False]
    assert "placed on 1 row whose next observation is not" in dataset.notes[0]


def test_timeouts_every_max_episode_steps_count_from_the_last_end() -> None:
    terminals = [0, 1, 0, 0, 0, 0]
    dataset = from_arrays(OBSERVATIONS, ACTIONS, OBSERVATIONS, terminals=terminals, max_episode_steps=3)
    assert dataset.timeouts.tolist() == [False, False, False, False, True, False]


def test_episode_labels_close_every_episode() -> None:
    dataset = from_arrays(OBSERVATIONS, ACTIONS, OBSERVATIONS, terminals=TERMINALS, episodes=list("aaabbb"))
    assert dataset.timeouts.tolist() == [False, False, False, False, False, True]
    assert dataset.complete.all()


def test_without_any_evidence_the_assumption_is_noted() -> None:
    dataset = from_arrays(OBSERVATIONS, ACTIONS, terminals=TERMINALS)
    assert "episodes are taken to end at terminals alone" in dataset.notes[0]
    assert dataset.num_episodes == 2


def test_shapes_that_mean_one_number_per_row_are_understood() -> None:
    dataset = from_arrays(
        np.arange(3), np.array([[1], [0], [1]]), np.arange(3), np.ones((3, 1)), np.array([[0], [0], [1]]), np.zeros(3)
    )
    assert dataset.observations.shape == (3, 1)
    assert dataset.discrete
    assert dataset.actions.tolist() == [1, 0, 1]
    assert dataset.terminals.tolist() == [False, False, True]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rewards": np.zeros(5)}, "rewards has 5 rows, observations 6"),
        ({"terminals": [0, 0, 0.5, 0, 0, 1]}, "terminals must be true/false or 1/0, found 0.5 in row 2"),
        ({"terminals": [0, 0, 0, np.nan, 0, 1]}, "found nan in row 3"),
        ({"actions": ["left", "", *["left"] * 4]}, "actions hold '' in row 1, neither a number nor a name"),
        ({"actions": ["left", None, *["left"] * 4]}, "actions hold None in row 1, neither a number nor a name"),
        ({"observations": np.empty(6, object)}, "observations holds object values"),
        ({"observations": [[1, 2], [3]] * 3}, "rows of observations have different lengths"),
        ({"rewards": 1.0}, "rewards is a single number"),
        ({"observations": np.zeros((6, 4, 4, 3))}, "flatten images"),
        ({"episodes": [1, 2]}, "episodes has 2 rows"),
        ({"max_episode_steps": 0, "timeouts": None}, "max_episode_steps must be at least 1"),
        ({name: [] for name in ("observations", "actions", "terminals", "timeouts")}, "holds no transitions"),
        ({name: [[1.0]] for name in ("observations", "actions")} | {"terminals": [0], "timeouts": [0]}, "no row has"),
    ],
)
def test_errors_name_the_field_and_the_row(change: dict, message: str) -> None:
    fields = {"observations": OBSERVATIONS, "actions": ACTIONS, "terminals": TERMINALS, "timeouts": TIMEOUTS}
    with pytest.raises(IlbrlError, match=message):
        from_arrays(**{**fields, **change}, source="mine")
