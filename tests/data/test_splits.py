"""Splits by episode: nothing shared, sizes as asked, the same from the same seed."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ilbrl.base.errors import IlbrlError
from ilbrl.data import Dataset
from ilbrl.data.splits import CompositionSizes, compose, split_episodes


def logs(lengths: list[int], first: int = 0, cut: bool = False) -> Dataset:
    """Episodes whose every observation is their number, counted from `first`."""
    number = np.repeat(np.arange(len(lengths)) + first, lengths)[:, None]
    timeouts = np.zeros(len(number), bool)
    timeouts[np.cumsum(lengths) - 1] = True
    timeouts[-1] = not cut
    return Dataset(number, np.zeros((len(number), 1)), number, np.zeros(len(number)), timeouts, rewards=number[:, 0])


def numbers(dataset: Dataset) -> list[int]:
    return dataset.initial_observations[:, 0].astype(int).tolist()


@settings(max_examples=50, deadline=None)
@given(
    lengths=st.lists(st.integers(1, 30), min_size=5, max_size=40),
    shares=st.lists(st.floats(0.1, 0.3), min_size=1, max_size=3),
    seed=st.integers(0, 1000),
)
def test_parts_are_whole_disjoint_and_of_the_right_size(lengths: list[int], shares: list[float], seed: int) -> None:
    dataset, total = logs(lengths), sum(lengths)
    sizes = [share * total for share in shares]
    try:
        parts = split_episodes(dataset, sizes, np.random.default_rng(seed))
    except IlbrlError as error:
        assert "no whole episode" in str(error)  # noqa: PT017 - a part may be smaller than any episode
        return
    used = [number for part in parts for number in numbers(part)]
    assert len(used) == len(set(used))
    for part, size in zip(parts, sizes):
        assert abs(len(part) - size) <= max(lengths)
        assert part.episode_lengths.tolist() == [lengths[number] for number in numbers(part)]
        assert numbers(part) == sorted(numbers(part))


def test_the_same_seed_gives_the_same_split() -> None:
    dataset = logs([10] * 30)
    first, again, other = (split_episodes(dataset, [100, 100], np.random.default_rng(s)) for s in (1, 1, 2))
    assert [numbers(part) for part in first] == [numbers(part) for part in again]
    assert [numbers(part) for part in first] != [numbers(part) for part in other]


def test_an_episode_cut_by_the_end_of_the_file_is_left_out() -> None:
    (part,) = split_episodes(logs([10] * 4, cut=True), [30], np.random.default_rng(0))
    assert numbers(part) == [0, 1, 2]


def test_too_much_is_an_error() -> None:
    with pytest.raises(IlbrlError, match="holds 30 transitions in 3 complete episodes, 31 were asked for"):
        split_episodes(logs([10] * 3), [20, 11], np.random.default_rng(0))
    with pytest.raises(IlbrlError, match="no whole episode falls into a part of 3 transitions"):
        split_episodes(logs([10] * 3), [3, 20], np.random.default_rng(0))


SIZES = CompositionSizes(training=600, expert_episodes=18, evaluation=500, validation=200)


def test_the_papers_composition() -> None:
    expert, rest = logs([10] * 100), logs([5] * 260, first=1000)
    parts = compose(expert, rest, SIZES, rng=7)
    assert parts.notes == ()
    assert len(parts.training_expert) == 180
    assert len(parts.training_logs) == 420
    assert len(parts.training) == 600
    assert parts.training.is_expert is not None
    assert parts.training.is_expert.sum() == 180
    assert parts.validation.is_expert is not None
    assert (len(parts.validation), parts.validation.is_expert.sum()) == (200, 100)
    assert np.array_equal(parts.initial_observations[:, 0], numbers(parts.validation))
    for fraction in (0, 0.3, 0.5, 0.8, 1):
        evaluation = parts.evaluation(fraction)
        assert len(evaluation) == pytest.approx(500, abs=5)
        from_expert = evaluation.observations[:, 0] < 1000
        assert from_expert.sum() == pytest.approx(500 * fraction, abs=5)
        assert np.array_equal(evaluation.is_expert, from_expert)  # pyright: ignore[reportArgumentType]
    groups = [
        parts.training_expert,
        parts.training_logs,
        parts.validation,
        parts.evaluation(0),
        parts.evaluation(1),
    ]
    used = [number for group in groups for number in numbers(group)]
    assert len(used) == len(set(used))
    again = compose(expert, rest, SIZES, rng=np.random.default_rng(7))
    assert again.training.content_hash == parts.training.content_hash
    assert again.evaluation(0.5).content_hash == parts.evaluation(0.5).content_hash


def test_larger_fractions_contain_smaller_ones() -> None:
    parts = compose(logs([10] * 100), logs([5] * 260, first=1000), SIZES)
    some, more = (set(numbers(parts.evaluation(f))) for f in (0.3, 0.8))
    assert {n for n in some if n < 1000} < {n for n in more if n < 1000}


def test_a_log_too_small_for_stated_sizes_shrinks_its_own_parts_alone() -> None:
    parts = compose(logs([10] * 48), logs([5] * 260, first=1000), SIZES)  # 300 expert rows left where 600 are wanted
    assert len(parts.training) == 600
    assert len(parts.training_expert) == 180
    assert len(parts.evaluation_expert) == 250
    assert parts.validation.is_expert is not None
    assert parts.validation.is_expert.sum() == 50
    assert len(parts.evaluation(0)) == 500
    assert "validation, evaluation shrank to 50.0%" in parts.notes[0]


@pytest.mark.parametrize(
    ("expert", "rest", "trained", "evaluated", "held_out"),
    [
        ([200] * 30, [200] * 200, (18, 120), (9, 60), (True, True)),  # a file of 40,000 rows
        ([10] * 4, [5] * 260, (4, 156), (4, 78), (False, True)),
        ([10] * 2, [50] * 3, (2, 3), (2, 3), (False, False)),
        ([10], [50], (1, 1), (1, 1), (False, False)),
    ],
)
def test_without_stated_sizes_the_split_follows_the_data(
    expert: list[int], rest: list[int], trained: tuple, evaluated: tuple, held_out: tuple
) -> None:
    parts = compose(logs(expert), logs(rest, first=1000))
    assert (parts.training_expert.num_episodes, parts.training_logs.num_episodes) == trained
    assert (parts.evaluation_expert.num_episodes, parts.evaluation_logs.num_episodes) == evaluated
    assert (parts.expert_held_out, parts.logs_held_out) == held_out
    assert len(parts.notes) == held_out.count(False)
    assert all("evaluation reads rows that policies learn from" in note for note in parts.notes)
    assert f"learn from {trained[0]} episode" in parts.described()
    assert len(parts.evaluation()) == len(parts.evaluation_expert) + len(parts.evaluation_logs)
    groups = [parts.training, parts.evaluation(), parts.validation]
    used = [number for group in groups for number in numbers(group)]
    for is_held_out, (first, stop) in zip(held_out, ((0, 1000), (1000, 2000))):
        of_log = [number for number in used if first <= number < stop]
        assert (len(of_log) == len(set(of_log))) == is_held_out


def test_an_unfinished_episode_is_learnt_from_where_there_is_little_else() -> None:
    parts = compose(logs([10, 10, 4], cut=True), logs([5] * 20, first=1000))
    assert numbers(parts.training_expert) == [0, 1, 2]
    assert sorted(numbers(parts.evaluation_expert)) == [0, 1, 2]


def test_stated_expert_episodes_need_no_others_beside_them() -> None:
    parts = compose(logs([10] * 19), logs([5] * 260, first=1000), SIZES)
    assert parts.training_expert.num_episodes == 18
    assert parts.evaluation_expert.num_episodes == 19
    assert not parts.expert_held_out


def test_a_fraction_that_one_pool_cannot_bear_gives_fewer_rows() -> None:
    parts = compose(logs([10] * 10), logs([10] * 100, first=1000))  # 30 and 300 evaluation rows
    assert [len(parts.evaluation(f)) for f in (0, 0.1, 0.5, 1)] == [300, 300, 60, 30]


@pytest.mark.parametrize(
    ("expert", "rest", "message"),
    [
        (logs([10] * 17), logs([5] * 260), "holds 17 episodes, and 18 expert episodes to train on were asked for"),
        (logs([50] * 19), logs([5] * 260), "900 transitions of expert episodes leave no room for other logs"),
    ],
)
def test_impossible_sizes(expert: Dataset, rest: Dataset, message: str) -> None:
    with pytest.raises(IlbrlError, match=message):
        compose(expert, rest, SIZES)


def test_fractions_lie_between_0_and_1() -> None:
    parts = compose(logs([10] * 100), logs([5] * 260, first=1000), SIZES)
    with pytest.raises(IlbrlError, match=r"between 0 and 1, got 1\.1"):
        parts.evaluation(1.1)
