"""Pictures of discrete actions, from what a study counts of its selected policy."""

from dataclasses import replace

import numpy as np

from ilbrl.data import Dataset
from ilbrl.data.splits import CompositionSizes, compose
from ilbrl.policy import Policy
from ilbrl.report.pictures.choices import action_frequencies, confusion
from ilbrl.results.schema import ChoicesRecord
from ilbrl.study.choices import choices_of

CHOICES = ChoicesRecord(("wait", "go"), (30, 10), (20, 20), (60, 20), ((24, 6), (5, 5)), unseen=True)


def test_shares_of_each_action(summary):
    run = replace(summary.runs[0], choices=CHOICES)
    picture = action_frequencies(run)
    assert picture is not None
    assert picture.x_names == ("wait", "go")
    assert {s.name: s.y.tolist() for s in picture.series} == {
        "expert": [75, 25], "logs": [50, 50], "selected policy": [75, 25],
    }  # fmt: skip
    assert len({s.x[0] for s in picture.series}) == 3  # none hides another


def test_confusion_with_the_expert(summary):
    picture = confusion(replace(summary.runs[0], choices=CHOICES))
    assert picture is not None
    assert {s.name: s.y.tolist() for s in picture.series} == {"policy: wait": [80, 50], "policy: go": [20, 50]}
    assert "At 72 % of expert steps that it was not trained on" in picture.says
    assert confusion(summary.runs[0]) is None  # real-valued actions


def test_what_is_damaged_is_not_drawn(summary):
    for damaged in (
        replace(CHOICES, names=("wait",)),
        replace(CHOICES, confusion=((24, 6), (5,)), policy=(60,)),
        replace(CHOICES, confusion=(), expert=()),
    ):
        run = replace(summary.runs[0], choices=damaged)
        assert action_frequencies(run) is None
        assert confusion(run) is None


def log(actions: list[int], episodes: int, source: str) -> Dataset:
    taken = np.array(actions * episodes)
    seen = np.eye(2, dtype=np.float32)[taken]
    ends = np.arange(len(taken)) % len(actions) == len(actions) - 1
    return Dataset(seen, taken, seen, np.zeros(len(taken), bool), ends, action_names=("wait", "go"), source=source)


def test_a_study_counts_what_its_policy_chooses():
    """The observation shows the logged action; the policy takes it, but never goes."""
    composition = compose(log([0, 1, 1], 20, "expert"), log([0, 0], 30, "logs"), CompositionSizes(), rng=0)
    policy = Policy(((np.zeros((2, 2)), np.array([1.0, 0.0])),), np.zeros(1), np.ones(1), "categorical")
    found = choices_of(policy, composition)
    assert found is not None
    assert found.names == ("wait", "go")
    assert found.policy[1] == 0
    assert found.confusion[0][1] == found.confusion[1][1] == 0
    assert found.confusion[1][0] == 2 * found.confusion[0][0] > 0
    assert sum(map(sum, found.confusion)) == sum(found.expert)
    real = Policy(((np.zeros((2, 1)), np.zeros(1)),), -np.ones(1), np.ones(1))
    assert choices_of(real, composition) is None
