"""What a study deploys: all seeds of a selected configuration as one policy, or the best of them."""

import json
from dataclasses import replace

import numpy as np
import pytest

from ilbrl.policy import Layer, Policy, committee_of
from ilbrl.results.schema import TOGETHER, Chosen, EstimateRecord, Score, Scores, Selection, Together
from ilbrl.results.tables import Candidate, score_to_deploy
from ilbrl.study.uniting import WIDEST, can_be_one, judged


def valued(*values, seed=0):
    """A seed, or all of them, as the models of an ensemble value it."""
    return tuple(EstimateRecord(0, value, "fine", "sound", None, member) for member, value in enumerate(values))


@pytest.mark.parametrize(
    ("together", "deployed"),
    [
        (valued(20.0, 26.0), True),  # 23: above the mean of 20 and 24, though below the best seed
        (valued(22.0, 22.0), True),
        (valued(21.0, 22.0), False),
        ((EstimateRecord(0, None, "broken", "void"),), False),
    ],
)
def test_all_seeds_are_deployed_unless_they_are_worth_less_than_alone(together, deployed):
    members = [Candidate("ilbrl", 3, seed, estimates=valued(value, value)) for seed, value in ((0, 20.0), (1, 24.0))]
    found = judged(Together((0, 1), together), Chosen(3, best_seed=1), members, penalty=0.0)
    assert found.deployed is deployed
    entry = Chosen(3, best_seed=1, together=found)
    assert entry.deployed_seed == (TOGETHER if deployed else 1)


def test_the_penalty_of_the_members_is_theirs_too():
    """Two standard deviations over its evaluations are taken off: 30 ± 1 is worth 28, and so are its members."""
    spread = np.sqrt(2.0)
    together = Together((0, 1), valued(30 - 1 / spread, 30 + 1 / spread))
    members = [Candidate("ilbrl", 0, seed, estimates=valued(29.0, 29.0)) for seed in (0, 1)]
    assert judged(together, Chosen(0), members, penalty=0.0).deployed
    charged = judged(together, Chosen(0), members, penalty=2.0)
    assert charged.value == pytest.approx(28.0)
    assert not charged.deployed


def policy(path, units, scale=None):
    hidden = Layer(np.ones((2, units), np.float32), np.zeros(units, np.float32), scale, scale)
    made = Policy((hidden, Layer(np.ones((units, 1), np.float32), np.zeros(1, np.float32))), -np.ones(1), np.ones(1))
    return made.save(path)


def test_what_cannot_be_one_policy(tmp_path):
    def members(*files):
        return [Candidate("ilbrl", 0, seed, policy=file) for seed, file in enumerate(files)]

    small, large = policy(tmp_path / "small", 8), policy(tmp_path / "large", WIDEST // 2)
    normed = policy(tmp_path / "normed", 8, np.ones(8, np.float32))
    assert can_be_one(members(small, small, small))
    assert can_be_one(members(large, large))
    assert not can_be_one(members(large, large, small))  # too wide
    assert not can_be_one(members(small))
    assert not can_be_one(members(normed, normed))  # LayerNorm would normalise both at once


def test_a_study_deploys_what_its_selection_says(finished):
    selection = json.loads((finished / "selection.json").read_text())
    for name, entry in selection["algorithms"].items():
        seeds = [Policy.load(finished / path) for path in entry["policies"]]
        made = Policy.load(finished / "jobs" / entry["together"]["job"] / "together.safetensors")
        assert entry["together"]["seeds"] == [0, 1]
        assert made.metadata["seeds"] == [0, 1]
        assert "seed" not in made.metadata
        for ours, theirs in zip(made.layers, committee_of(seeds).layers):
            np.testing.assert_array_equal(ours.weight, theirs.weight)
        deployed = made if entry["together"]["deployed"] else seeds[[0, 1].index(entry["best_seed"])]
        best = Policy.load(finished / "policies" / name / "best.safetensors")
        np.testing.assert_array_equal(best.layers[0].weight, deployed.layers[0].weight)
        assert best.metadata["study"] == "tiny"
    overall = Policy.load(finished / "policies/best.safetensors")
    of_winner = Policy.load(finished / "policies" / selection["overall"]["algorithm"] / "best.safetensors")
    np.testing.assert_array_equal(overall.layers[0].weight, of_winner.layers[0].weight)


def test_a_single_seed_is_deployed_where_that_is_asked_for(run, tiny, done):
    alone = replace(tiny, evaluation=replace(tiny.evaluation, together=False))
    result = alone.run(run, change=True, quiet=True)
    assert done == []
    assert all(entry.together is None for entry in result.selection.algorithms.values())
    assert len(result.policy.layers[0].bias) == 8  # units of a single network


def test_the_score_of_the_file_is_that_of_whoever_is_in_it():
    seeds = tuple(Score("bc", 2, seed, score=score) for seed, score in ((0, 50.0), (1, 60.0)))
    scores = Scores(scores=seeds, together=(Score("bc", 2, TOGETHER, score=70.0),))
    united = Chosen(2, best_seed=1, together=Together(deployed=True))
    alone = Chosen(2, best_seed=1, together=Together(deployed=False))
    for entry, score in ((united, 70.0), (alone, 60.0), (Chosen(2, best_seed=1), 60.0)):
        found = score_to_deploy(Selection({"bc": entry}), scores, "bc")
        assert found is not None
        assert found.score == score
    assert score_to_deploy(Selection({"bc": united}), Scores(scores=seeds), "bc") is None
    assert score_to_deploy(Selection({"bc": united}), None, "bc") is None
    assert score_to_deploy(Selection({"bc": united}), scores, "ilbrl") is None
