"""What follows a terminal: known answers of the likeness of ends, and when it applies."""

from dataclasses import replace

import numpy as np
import pytest

from ilbrl.agents import AGENTS
from ilbrl.agents.agent import prepare
from ilbrl.data import Dataset, concatenate
from ilbrl.learning.spec import Spec
from ilbrl.rewards import Labelling, soft_support
from ilbrl.rewards.ends import likeness, rewards_after, settled


def episodes(last: list[float], steps: int = 2, arrive: int = 2) -> Dataset:
    """So many steps each, at 0 until the last observation given; the first `arrive` of them end by a terminal."""
    observations = np.zeros((len(last), steps, 1))
    observations[:, -1, 0] = last
    ends = np.zeros((2, len(last), steps), bool)
    ends[0, :arrive, -1], ends[1, arrive:, -1] = True, True
    terminals, timeouts = ends.reshape(2, -1)
    rows = observations.reshape(-1, 1)
    return Dataset(rows, np.zeros(len(rows), int), rows, terminals, timeouts, action_names=("a", "b"))


def continuous(data: Dataset) -> Dataset:
    actions = np.zeros((len(data), 1), np.float32)
    return replace(data, actions=actions, action_names=None, action_low=np.array([-1.0]), action_high=np.array([1.0]))


def test_ends_of_another_kind_are_less_like_the_experts():
    experts, ends = np.array([[0.0], [2.0]]), np.array([[0.0], [1.0], [4.0], [22.0]])
    kernel = [1, 1, (0.25 + 1) / 2, ((2 / 22) ** 2 + (2 / 20) ** 2) / 2]  # σ = 2, and each end is k = 1 from the other
    np.testing.assert_allclose(likeness(ends, experts), kernel)
    for same in (experts[:1], experts[[0, 0]]):  # no distance to learn σ from: √(2 D), here √2
        np.testing.assert_allclose(likeness(ends, same), [1, 1, 2 / 16, 2 / 22**2])


def test_many_ends_are_compared_with_some_of_the_experts(monkeypatch):
    experts, ends = np.random.default_rng(0).normal(size=(60, 2)), np.random.default_rng(1).normal(size=(50, 2))
    whole = likeness(ends, experts)
    monkeypatch.setattr("ilbrl.rewards.ends.BLOCK", 7)
    np.testing.assert_array_equal(likeness(ends, experts), whole)
    monkeypatch.setattr("ilbrl.rewards.ends.MOST_EXPERTS", 30)
    np.testing.assert_allclose(likeness(ends, experts), whole, atol=0.15)


@pytest.mark.parametrize(
    ("ends", "steps", "arrive", "applies"),
    [
        ("auto", 2, 2, True),
        ("auto", 2, 1, True),  # the other one timed out
        ("auto", 2, 0, False),
        ("auto", 8, 2, False),  # the logs meet terminals sooner: these are falls, and the expert falls late
        ("failure", 2, 2, False),
        ("success", 8, 2, True),
        ("success", 2, 0, False),  # there is no end to resemble
    ],
)
def test_it_applies_where_the_expert_works_towards_terminals(ends, steps, arrive, applies):
    expert, others = episodes([5.0, 6.0], steps, arrive), episodes([5.0, -50.0], steps=6)
    spec = Spec.of(expert, others)
    after = rewards_after(Labelling(expert, others, spec, [soft_support.SupportReward(ends=ends)], [0]))
    assert (after is not None) == applies
    if after is None:
        return
    at = np.concatenate([expert.terminals, others.terminals])
    np.testing.assert_array_equal(after[~at], 0)  # no terminal, nothing follows
    assert after[at][:-1].tolist() == [1] * (arrive + 1)
    assert after[-1] < 0.5
    config = replace(AGENTS["ilbrl"].presets["default"], ends=ends)
    columns = prepare(AGENTS["ilbrl"], expert, others, [config], [0], quiet=True).feed.shared
    np.testing.assert_array_equal(columns["absorbing"], after)


def test_a_fall_among_two_demonstrations_is_no_goal():
    """As on ant: one of two demonstrations falls at once, the logs seldom do. Among choices it may be a goal."""
    config = soft_support.SupportReward(ends="auto")
    lying, standing = episodes([5.0], steps=2, arrive=1), episodes([6.0], steps=100, arrive=0)
    logs = concatenate([episodes([0.0] * 5, steps=100, arrive=0), episodes([5.0], steps=100, arrive=1)])
    goals = episodes([5.0] * 4, steps=50, arrive=4)

    def ends(*demonstrations, of=config, actions=continuous):
        return settled(of, actions(concatenate(demonstrations)), actions(logs)).ends

    assert ends(lying, standing) == "failure"
    assert ends(lying, standing, actions=lambda data: data) == "success"
    assert ends(lying) == "success"  # all that is known of the expert
    assert ends(goals, standing) == "success"
    assert ends(goals, of=replace(config, ends="failure")) == "failure"


def test_imagined_steps_do_not_decide_what_a_terminal_is():
    """They seldom end, so beside them an expert that falls late seems to arrive early."""
    expert, logs = episodes([5.0, 6.0], steps=70, arrive=2), episodes([5.0] * 5, steps=30, arrive=5)
    imagined = episodes([0.0] * 50, steps=10, arrive=0)
    config = soft_support.SupportReward(ends="auto")
    assert settled(config, expert, logs).ends == "failure"
    assert settled(config, expert, concatenate([logs, imagined])).ends == "success"  # which is why they are left out
