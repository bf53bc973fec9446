"""The dataset's contract, on arrays small enough to check by eye."""

from dataclasses import replace

import numpy as np
import pytest

from ilbrl.base.errors import IlbrlError
from ilbrl.data import Dataset, concatenate, from_arrays


def test_it_knows_its_episodes(full: Dataset) -> None:
    assert full.episode_starts.tolist() == [0, 3, 5]
    assert full.episode_lengths.tolist() == [3, 2, 2]
    assert full.complete.tolist() == [True, True, False]
    assert full.episode_of.tolist() == [0, 0, 0, 1, 1, 2, 2]
    assert full.step_of.tolist() == [0, 1, 2, 0, 1, 0, 1]
    assert np.array_equal(full.initial_observations, full.observations[[0, 3, 5]])


def test_returns_are_discounted_from_each_start() -> None:
    dataset = Dataset(
        observations=np.zeros((4, 1)),
        actions=np.zeros((4, 1)),
        next_observations=np.zeros((4, 1)),
        rewards=np.array([1, 2, 4, 8]),
        terminals=np.array([0, 0, 1, 0]),
        timeouts=np.zeros(4),
    )
    assert dataset.returns().tolist() == [7, 8]
    assert dataset.returns(0.5).tolist() == [1 + 1 + 1, 8]


def test_it_cannot_be_changed_but_the_callers_array_can(full: Dataset) -> None:
    mine = np.zeros((7, 3), np.float32)
    dataset = Dataset(mine, full.actions, mine, full.terminals, full.timeouts)
    with pytest.raises(ValueError, match="read-only"):
        dataset.observations[0] = 1
    mine[0] = 1  # raises nothing


def test_episodes_in_any_order_except_after_an_unfinished_one(full: Dataset) -> None:
    swapped = full.episodes([1, 0])
    assert np.array_equal(swapped.observations, full.observations[[3, 4, 0, 1, 2]])
    assert swapped.episode_lengths.tolist() == [2, 3]
    assert full.episodes(slice(1, 3)).episode_lengths.tolist() == [2, 2]
    with pytest.raises(IlbrlError, match="can only come last"):
        full.episodes([2, 0])


def test_joining_tells_experts_and_closes_unfinished_episodes(full: Dataset) -> None:
    joined = concatenate([full.as_expert(), full])
    assert joined.is_expert is not None
    assert joined.is_expert.tolist() == [True] * 7 + [True] * 3 + [False] * 4  # the second keeps its own marks
    assert joined.timeouts[6]
    assert joined.num_episodes == 6
    assert "row 6" in joined.notes[-1].replace("rows", "row")


def test_the_hash_is_of_the_content_alone(full: Dataset) -> None:
    assert replace(full, source="elsewhere", notes=()).content_hash == full.content_hash
    assert replace(full, rewards=None).content_hash != full.content_hash
    other = full.actions.copy()
    other[3, 1] += 1e-6
    assert replace(full, actions=other).content_hash != full.content_hash


def test_what_has_no_columns_is_refused() -> None:
    flags = np.zeros(5, bool)
    with pytest.raises(IlbrlError, match="observations have no columns"):
        Dataset(np.zeros((5, 0)), np.zeros((5, 1)), np.zeros((5, 0)), flags, flags)


def test_bounds_that_differ_are_told_with_their_logs() -> None:
    flags = np.zeros(5, bool)
    one, other = (
        Dataset(np.zeros((5, 1)), np.zeros((5, 1)), np.zeros((5, 1)), flags, flags, action_low=[low], source=name)
        for name, low in (("a.npz", -1.0), ("b.npz", -2.0))
    )
    with pytest.raises(IlbrlError, match=r"action_low differ \(a\.npz \[-1\.\]; b\.npz \[-2\.\]\)"):
        concatenate([one, other])


def test_action_numbers_do_not_wrap_around() -> None:
    flags = np.zeros(2, bool)
    for make in (Dataset, lambda o, a, n, *ends: from_arrays(o, a, n, None, *ends)):
        with pytest.raises(IlbrlError, match="actions hold 18446744073709551615"):
            make(np.zeros((2, 1)), np.array([0, 2**64 - 1], np.uint64), np.zeros((2, 1)), flags, flags)
