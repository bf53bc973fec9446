import numpy as np
import pytest

from ilbrl.base.errors import IlbrlError
from ilbrl.data import Dataset
from ilbrl.learning.spec import Spec
from ilbrl.rewards import Labelling, Labels, indicator, soft_support
from ilbrl.rewards.neighbours import nearest_of_blocks


def dataset(observations, actions, source="logs", episode=5) -> Dataset:
    n = len(observations)
    timeouts = np.arange(1, n + 1) % episode == 0
    return Dataset(observations, actions, observations, np.zeros(n, bool), timeouts, source=source)


def raw(data: Dataset) -> np.ndarray:
    return np.hstack([data.observations, data.actions])


def test_rewards_by_hand():
    expert = dataset([[0.0, 0.0], [3.0, 0.0]], [[0.0], [0.0]])
    other = dataset([[0.0, 0.0], [3.0, 4.0], [1.0, 0.0]], [[0.0], [0.0], [0.0]])
    labels = soft_support.label(expert, other, raw, quiet=True)
    np.testing.assert_allclose(labels.distance, [0, 0, 0, 4, 1])
    np.testing.assert_array_equal(labels.nearest, [0, 1, 0, 1, 0])
    np.testing.assert_allclose(labels.reward, [1, 1, 1, 0, 0.5])
    assert labels.d_max == 4.0


def test_expert_rows_are_worth_exactly_one():
    rng = np.random.default_rng(0)
    base = 100 + 0.01 * rng.standard_normal((400, 17))
    expert, other = dataset(base, rng.uniform(-1, 1, (400, 6))), dataset(base + 0.1, rng.uniform(-1, 1, (400, 6)))
    labels = soft_support.label(expert, other, soft_support.standard_features(Spec.of(other)), quiet=True)
    assert (labels.reward[:400] == 1.0).all()
    np.testing.assert_array_equal(labels.nearest[:400], np.arange(400))
    assert labels.reward.min() == 0.0


def test_data_identical_to_the_expert_is_all_reward():
    expert = dataset(np.eye(4), np.zeros((4, 1)))
    labels = soft_support.label(expert, expert, raw, quiet=True)
    assert labels.d_max == 0.0
    assert (labels.reward == 1.0).all()


def test_standard_features_are_standardised_observations_beside_scaled_actions():
    never = np.zeros(2, bool)
    data = Dataset([[1.0], [3.0]], [[0.0], [4.0]], [[0.0], [0.0]], never, never, action_low=[0.0], action_high=[4.0])
    spec = Spec.of(data)
    np.testing.assert_allclose(spec.obs_std, [1.001], rtol=1e-6)  # TD3-BC adds 1e-3
    features = soft_support.standard_features(spec)(data)
    np.testing.assert_allclose(features, [[-1 / 1.001, -1.0], [1 / 1.001, 1.0]], rtol=1e-6)


def test_bad_features_name_the_row():
    expert = dataset(np.eye(4), np.zeros((4, 1)))
    with pytest.raises(IlbrlError, match="row 2 has a feature"):
        soft_support.label(expert, expert, lambda d: np.where(np.arange(4)[:, None] == 2, np.nan, raw(d)), quiet=True)


def test_explanation_names_the_nearest_expert_step():
    expert = dataset(np.arange(20.0)[:, None] * 10, np.zeros((20, 1)), "expert")
    other = dataset([[52.0], [171.0]], [[0.0], [1.0]], "other")
    labels = soft_support.label(expert, other, raw, quiet=True)
    why = soft_support.explain(labels, expert, other, raw, 21)
    assert (why.source, why.episode, why.step) == ("other", 0, 1)
    assert (why.nearest_episode, why.nearest_step) == (3, 2)  # row 17 of episodes of 5
    np.testing.assert_allclose(why.per_feature, [1.0, 1.0])
    np.testing.assert_allclose(np.sqrt((why.per_feature**2).sum()), why.distance)
    with pytest.raises(IlbrlError, match="no row 22"):
        soft_support.explain(labels, expert, other, raw, 22)


def test_indicator_is_equality():
    def table(states, actions):
        states = np.asarray(states, np.float32)[:, None]
        n = len(states)
        return Dataset(states, np.asarray(actions), states, np.zeros(n, bool), np.zeros(n, bool))

    labels = indicator.label(table([3, 1, 3], [0, 2, 0]), table([1, 1, 3, 0], [2, 1, 0, 0]))
    np.testing.assert_array_equal(labels.reward, [1, 1, 1, 1, 0, 1, 0])
    np.testing.assert_array_equal(labels.nearest, [0, 1, 2, 1, -1, 0, -1])


def test_other_shapes_by_hand():
    distance = np.array([0.0, 0.0, 4.0, 1.0, 0.0, 1.0, 9.0])  # two expert rows, five others; one of them the expert's
    np.testing.assert_allclose(
        soft_support.exponential_reward(distance, 2)[2:], np.exp(-np.array([1, 0.25, 0, 0.25, 2.25]))
    )
    expected = [1, 1, 0.95 * 2 / 5, 0.95 * 4 / 5, 1, 0.95 * 4 / 5, 0.95 / 5]
    np.testing.assert_allclose(soft_support.rank_reward(distance, 2), expected, rtol=1e-6)
    farther = np.append(distance, 1e6)  # one far row: the order of the others stays, and so do their differences
    np.testing.assert_allclose(
        np.diff(soft_support.rank_reward(farther, 2)[[6, 2, 3]]), [0.95 / 6, 0.95 * 2 / 6], rtol=1e-5
    )


# --- discrete actions -------------------------------------------------------------------------------------------------


def choosing(observations, actions, source="logs", names=("left", "stay", "right")) -> Dataset:
    observations, n = np.asarray(observations, np.float32)[:, None], len(actions)
    return Dataset(
        observations, np.array(actions), observations, np.zeros(n, bool), np.zeros(n, bool),
        action_names=names, source=source,
    )  # fmt: skip


PLAIN = Spec(np.zeros(1, np.float32), np.ones(1, np.float32), np.zeros(1), np.full(1, 2.0), 3)  # nothing is rescaled


def test_only_expert_steps_with_the_same_action_are_near():
    expert = choosing([0.0, 10.0], [0, 1], "expert")
    other = choosing([9.0, 9.0, 0.0, 0.0], [0, 1, 2, 0])
    labels = soft_support.label_steps(expert, other, PLAIN, quiet=True)
    np.testing.assert_array_equal(labels.distance, [0, 0, 9, 1, np.inf, 0])
    np.testing.assert_array_equal(labels.nearest, [0, 1, 0, 1, -1, 0])
    np.testing.assert_allclose(labels.reward, [1, 1, 0, 2 / 3, 0, 1], rtol=1e-6)
    assert (labels.d_max, labels.action_distance) == (9.0, None)


def test_another_action_may_be_a_stated_distance_away(tmp_path):
    expert = choosing([0.0, 10.0], [0, 1], "expert")
    other = choosing([9.0, 9.0, 0.0, 4.0], [0, 1, 2, 2])
    labels = soft_support.label_steps(expert, other, PLAIN, action_distance=3.0, quiet=True)
    np.testing.assert_allclose(labels.distance, [0, 0, np.sqrt(1 + 9), 1, 3, 5], rtol=1e-6)
    np.testing.assert_array_equal(labels.nearest, [0, 1, 1, 1, 0, 0])
    labels.save(tmp_path / "labels.npz")
    assert Labels.load(tmp_path / "labels.npz").action_distance == 3.0


def test_a_neighbour_of_the_same_action_is_that_of_brute_force():
    rng = np.random.default_rng(0)
    sizes = {"expert": 300, "logs": 1000}
    drawn = {name: (rng.normal(100, 0.01, (n, 5)), rng.integers(0, 4, n)) for name, n in sizes.items()}
    (queries, asking), (points, theirs) = drawn["logs"], drawn["expert"]
    blocks = (queries[start : start + 300] for start in range(0, 1000, 300))
    distance, number = nearest_of_blocks(blocks, 1000, points, quiet=True, groups=(asking, theirs))
    table = np.linalg.norm(queries[:, None] - points, axis=-1)
    table[asking[:, None] != theirs] = np.inf
    np.testing.assert_array_equal(number, table.argmin(1))
    np.testing.assert_allclose(distance, table.min(1), rtol=1e-12)


def test_an_explanation_names_both_actions():
    expert, other = choosing([0.0, 10.0], [0, 1], "expert"), choosing([9.0, 0.0], [0, 2])
    for apart, nearest in ((None, "left"), (3.0, "stay")):
        labels = soft_support.label_steps(expert, other, PLAIN, action_distance=apart, quiet=True)
        features = soft_support.standard_features(PLAIN, action_distance=apart)
        why = soft_support.explain(labels, expert, other, features, 2)
        assert (why.action, why.nearest_action) == ("left", nearest)
        np.testing.assert_allclose(np.linalg.norm(why.per_feature), why.distance, rtol=1e-6)
    labels = soft_support.label_steps(expert, other, PLAIN, quiet=True)
    why = soft_support.explain(labels, expert, other, soft_support.standard_features(PLAIN), 3)
    assert (why.action, why.nearest_action, why.nearest_step, why.reward) == ("right", None, None, 0.0)


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ("root", [1, 1, 0, 1, 0]),
        ("exponential", [1, 1, np.exp(-0.5), 1, 0]),
        ("rank", [1, 1, 0.95 * 2 / 3, 1, 0]),
        ("indicator", [1, 1, 0, 1, 0]),
    ],
)
def test_every_shape_is_1_on_the_expert_and_0_without_neighbour(shape, expected):
    expert, other = choosing([0.0, 10.0], [0, 1], "expert"), choosing([9.0, 0.0, 0.0], [1, 0, 2])
    cfg = soft_support.SupportReward(reward_shape=shape)
    found = soft_support.rewarded(Labelling(expert, other, PLAIN, [cfg, cfg], [0, 1], quiet=True))
    np.testing.assert_allclose(found.rewards, expected, rtol=1e-6)
    assert found.set_of is None


def test_members_with_other_distances_between_actions_have_rewards_of_their_own():
    expert, other = choosing([0.0, 10.0], [0, 1], "expert"), choosing([9.0, 0.0], [1, 2])
    cfgs = [soft_support.SupportReward(action_distance=apart) for apart in (2.0, 4.0, 2.0)]
    found = soft_support.rewarded(Labelling(expert, other, PLAIN, cfgs, [0, 0, 0], quiet=True))
    assert found.set_of == [0, 1, 0]
    np.testing.assert_allclose(found.rewards[:, 2], [1 - np.sqrt(1 / 2), 1 - np.sqrt(1 / 4)], rtol=1e-6)
