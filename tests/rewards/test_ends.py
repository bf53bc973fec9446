"""What follows a terminal: known answers of the likeness of ends, and when it applies."""

import numpy as np
import pytest

from ilbrl.agents import AGENTS
from ilbrl.agents.agent import prepare
from ilbrl.data import Dataset
from ilbrl.learning.spec import Spec
from ilbrl.rewards import Labelling, soft_support
from ilbrl.rewards.ends import likeness, rewards_after


def episodes(last: list[float], by_terminal: bool = True) -> Dataset:
    """Two steps each, from 0 to the last observation given."""
    observations = np.column_stack([np.zeros(len(last)), last]).reshape(-1, 1)
    ends = np.arange(2 * len(last)) % 2 == 1
    never = np.zeros(len(ends), bool)
    terminals, timeouts = (ends, never) if by_terminal else (never, ends)
    return Dataset(observations, np.zeros(len(ends), int), observations, terminals, timeouts, action_names=("a", "b"))


def test_ends_of_another_kind_are_less_like_the_experts():
    experts, ends = np.array([[0.0], [2.0]]), np.array([[0.0], [1.0], [4.0], [22.0]])
    kernel = [1, 1, (0.25 + 1) / 2, ((2 / 22) ** 2 + (2 / 20) ** 2) / 2]  # σ = 2, and each end is k = 1 from the other
    np.testing.assert_allclose(likeness(ends, experts), kernel)
    np.testing.assert_array_equal(likeness(ends, experts[:1]), 1)
    np.testing.assert_array_equal(likeness(np.array([[5.0], [6.0]]), np.array([[5.0], [5.0]])), [1, 0])  # σ = 0


def test_many_ends_are_compared_with_some_of_the_experts(monkeypatch):
    experts, ends = np.random.default_rng(0).normal(size=(60, 2)), np.random.default_rng(1).normal(size=(50, 2))
    whole = likeness(ends, experts)
    monkeypatch.setattr("ilbrl.rewards.ends.BLOCK", 7)
    np.testing.assert_array_equal(likeness(ends, experts), whole)
    monkeypatch.setattr("ilbrl.rewards.ends.MOST_EXPERTS", 30)
    np.testing.assert_allclose(likeness(ends, experts), whole, atol=0.15)


@pytest.mark.parametrize(
    ("ends", "expert_arrives", "applies"),
    [("auto", True, True), ("auto", False, False), ("failure", True, False), ("success", False, False)],
)
def test_it_applies_where_the_expert_arrives(ends, expert_arrives, applies):
    expert, others = episodes([5.0, 6.0], expert_arrives), episodes([5.0, -5.0])
    spec = Spec.of(expert, others)
    after = rewards_after(Labelling(expert, others, spec, [soft_support.SupportReward(ends=ends)], [0]))
    assert (after is not None) == applies
    if after is None:
        return
    np.testing.assert_array_equal(after[::2], 0)  # no terminal, nothing follows
    assert after[1::2][:3].tolist() == [1, 1, 1]
    assert after[-1] < 0.05
    columns = prepare(
        AGENTS["ilbrl"], expert, others, [AGENTS["ilbrl"].presets["default"]], [0], quiet=True
    ).feed.shared
    np.testing.assert_array_equal(columns["absorbing"], after)
