import jax
import numpy as np
import pytest

from ilbrl.base.errors import IlbrlError
from ilbrl.data import Dataset
from ilbrl.learning import batches as feeding
from ilbrl.learning.batches import Feed, Shares
from ilbrl.learning.spec import Spec

N = 40


def columns():
    rows = np.arange(N, dtype=np.float32)
    return {
        "observations": np.stack([rows, -rows], 1),
        "actions": rows[:, None] / 100,
        "next_observations": np.stack([rows + 1, -rows - 1], 1),
        "continues": (rows % 2).astype(np.float32),
    }


def one_batch(feed: Feed, member: int = 0, members: int = 3, batch_size: int = 256, share=None):
    layout, packed = feeding.pack(feed)
    place = jax.tree.map(lambda x: x[member], feeding.places(feed, members))
    drawn = feeding.draw(jax.random.key(member), batch_size, layout, packed, place, share)
    return feeding.gather(layout, packed, place, drawn)


def test_a_batch_keeps_its_rows_together():
    batch = one_batch(Feed(columns()))
    rows = np.asarray(batch.observations[:, 0]).astype(int)
    assert set(rows) == set(range(N))  # 256 draws of 40 rows: each comes up
    np.testing.assert_array_equal(batch.observations[:, 1], -rows)
    np.testing.assert_allclose(batch.actions[:, 0], rows / 100, rtol=1e-6)
    np.testing.assert_array_equal(batch.next_observations[:, 0], rows + 1)
    np.testing.assert_array_equal(batch.continues, rows % 2)
    assert batch.rewards is None


def test_own_columns_follow_the_member():
    own = {"rewards": np.stack([np.arange(N) + 1000.0 * g for g in range(2)])}
    feed = Feed(columns(), own=own, own_of=[1, 0, 1])
    for member, group in ((0, 1), (1, 0), (2, 1)):
        batch = one_batch(feed, member)
        np.testing.assert_array_equal(batch.rewards, batch.observations[:, 0] + 1000 * group)


def test_subsets_are_all_a_member_draws_from():
    feed = Feed(columns(), subsets=[np.arange(5), np.array([7, 9, 30])], subset_of=[0, 1, 1])
    assert set(np.asarray(one_batch(feed, 0).observations[:, 0])) == set(range(5))
    assert set(np.asarray(one_batch(feed, 2).observations[:, 0])) == {7, 9, 30}


def test_expert_draw_and_initial_observations():
    initial = np.array([[5.0, 6.0], [7.0, 8.0]], np.float32)
    feed = Feed(columns(), expert_rows=4, second_draw=True, initial_observations=initial)
    batch = one_batch(feed)
    assert set(np.asarray(batch.expert.observations[:, 0])) == set(range(4))
    assert {tuple(row) for row in np.asarray(batch.initial_observations)} == {(5.0, 6.0), (7.0, 8.0)}


@pytest.mark.parametrize(("share", "expected"), [(1e-5, 1), (0.1, 410), (0.5, 2048), (0.75, 3072), (1.0, 4096)])
def test_a_share_of_each_batch_is_the_experts(share, expected):
    """Exactly round(share · B) rows, and never none; the others come from the other logs, and each of them comes up."""
    rows = np.asarray(one_batch(Feed(columns(), expert_rows=4), batch_size=4096, share=share).observations[:, 0])
    assert (rows < 4).sum() == expected
    assert set(rows) >= set(range(4) if share == 1 else range(4, N))


def test_members_of_one_program_have_their_own_shares_and_0_is_natural():
    feed = Feed(columns(), expert_rows=4)
    layout, packed = feeding.pack(feed)
    place = jax.tree.map(lambda x: x[0], feeding.places(feed, 1))
    draw = lambda share: feeding.draw(jax.random.key(0), 256, layout, packed, place, share)  # noqa: E731
    rows = np.asarray(jax.jit(jax.vmap(draw))(np.array([0.0, 0.25, 0.5], np.float32)))[:, 0]
    np.testing.assert_array_equal(rows[0], draw(None)[0])
    assert [(row < 4).sum() for row in rows[1:]] == [64, 128]


@pytest.mark.parametrize(
    ("shares", "expected"),
    [
        (Shares(), 0),  # all rows alike
        (Shares(expert_odds=3), 3 * 4 / (3 * 4 + N - 4)),
        (Shares(expert_odds=0.5), 2 / (2 + N - 4)),
        (Shares(expert_share=0.25, expert_odds=3), 0.25),  # a share that is stated wins
    ],
)
def test_odds_say_how_often_a_row_of_the_expert_is_drawn(shares, expected):
    layout, _ = feeding.pack(Feed(columns(), expert_rows=4))
    assert float(feeding.share_of(shares, layout)) == pytest.approx(expected)
    assert feeding.share_of(object(), layout) is None


def test_a_share_needs_no_other_logs():
    rows = np.asarray(one_batch(Feed(columns(), expert_rows=N), share=0.5).observations[:, 0])
    assert set(rows) == set(range(N))


def test_next_actions_are_the_logged_ones_and_unknown_where_an_episode_ends():
    ends = np.array([False, True, False, False, False])
    data = Dataset(
        np.zeros((5, 1)), np.arange(5.0)[:, None], np.zeros((5, 1)), np.zeros(5, bool), ends, action_low=[-2.0],
        action_high=[2.0],
    )  # fmt: skip
    found = feeding.logged_next_actions(data, Spec.of(data))
    np.testing.assert_allclose(found["next_actions"][:, 0], [0.5, 0, 1.5, 2, 0])
    np.testing.assert_array_equal(found["next_known"], [1, 0, 1, 1, 0])


def test_bad_feeds_are_refused():
    with pytest.raises(IlbrlError, match="same number of rows"):
        Feed({**columns(), "rewards": np.zeros(3)})
    with pytest.raises(IlbrlError, match=r"no such columns.*colour"):
        Feed({**columns(), "colour": np.zeros(N)})


def choices(actions: list[int], **more) -> Dataset:
    n = len(actions)
    return Dataset(np.zeros((n, 1)), np.array(actions), np.zeros((n, 1)), np.zeros(n, bool), np.zeros(n, bool), **more)


def test_discrete_actions_become_one_hot_rows():
    spec = Spec.of(choices([0, 2, 1], action_names=("a", "b", "c", "d")))
    assert (spec.discrete, spec.num_actions, spec.act_dim) == (True, 4, 4)
    assert (spec.action_low.tolist(), spec.action_high.tolist()) == ([0], [3])
    encoded = feeding.transitions(choices([0, 2, 1]), spec)["actions"]
    np.testing.assert_array_equal(encoded, np.float32([[1, 0, 0, 0], [0, 0, 1, 0], [0, 1, 0, 0]]))
    assert encoded.dtype == np.float32
    following = feeding.logged_next_actions(choices([0, 2, 1]), spec)
    np.testing.assert_array_equal(following["next_actions"], [[0, 0, 1, 0], [0, 1, 0, 0], [0, 0, 0, 0]])


def test_too_many_discrete_actions_are_refused():
    with pytest.raises(IlbrlError, match=r"5,001 discrete actions.*at most 1,000.*--action-low"):
        Spec.of(choices([0, 5000]))


def test_time_outs_continue_and_terminals_do_not():
    data = Dataset(
        np.zeros((2, 1)), np.zeros((2, 1)), np.zeros((2, 1)), np.array([True, False]), np.array([False, True])
    )
    np.testing.assert_array_equal(feeding.transitions(data, Spec.of(data))["continues"], [0.0, 1.0])
