"""What a study deploys: all seeds of a selected configuration as one policy, or the best of them."""

import json
from dataclasses import replace

import numpy as np
import pytest

from ilbrl.policy import Layer, Policy, committee_of
from ilbrl.results.schema import ALL_SEEDS, Chosen, Committee, EstimateRecord, Score, Scores, Selection
from ilbrl.results.tables import Candidate, score_to_deploy
from ilbrl.study.uniting import WIDEST, judged, why_apart


def valued(*values, seed=0):
    """A seed, or all of them, as the models of an ensemble value it."""
    return tuple(EstimateRecord(0, value, "fine", "sound", None, member) for member, value in enumerate(values))


def entry_of(committee, rule="all", penalty=0.0, members=(20.0, 24.0)):
    """What is said of a configuration whose two seeds have these values in each of two evaluations."""
    seeds = [Candidate("ilbrl", 3, seed, estimates=valued(value, value)) for seed, value in enumerate(members)]
    chosen = Chosen(3, value=22.0, value_std_error=2.0, best_seed=1, counted=("sound", "doubtful"))
    return judged("ilbrl", chosen, Committee((0, 1), committee), seeds, rule, penalty)


@pytest.mark.parametrize(
    ("committee", "deployed"),
    [
        (valued(20.0, 26.0), True),  # 23: above the mean of 20 and 24, though below the best seed
        (valued(22.0, 22.0), True),
        (valued(20.0, 23.0), True),  # 21.5, and its evaluations differ by 2.1: no sign of a failure
        (valued(21.0, 21.2), False),  # below by more than that
        ((EstimateRecord(0, None, "broken", "void"),), False),
    ],
)
def test_all_seeds_are_deployed_unless_they_are_worth_less_than_alone(committee, deployed):
    found = entry_of(committee)
    assert found.deployed_seed == (ALL_SEEDS if deployed else 1)
    assert found.file is not None
    assert found.file.startswith("its 2 seeds together, valued at " if deployed else "seed 1, for its 2 seeds together")
    assert found.to_deploy is (found.committee if deployed else found)
    assert found.value == 22.0  # by which it was selected


def test_the_value_of_the_file_and_its_error_are_the_committees():
    found = entry_of(valued(20.0, 26.0)).to_deploy
    assert (found.value, found.value_std_error) == (23.0, pytest.approx(np.std([20.0, 26.0], ddof=1)))


def test_a_committee_that_has_not_converged_is_not_deployed_where_values_must():
    void = (EstimateRecord(1, None, "diverged", "void"), EstimateRecord(2, None, "diverged", "void"))
    part = (EstimateRecord(0, 30.0, "converged", "sound"), *void)
    assert entry_of(part, rule="all").deployed_committee is not None
    found = entry_of(part, rule="converged")
    assert found.committee is not None
    assert (found.deployed_committee, found.committee.value) == (None, None)
    assert found.file == "seed 1, for its 2 seeds together have no value that counts"


def test_the_penalty_of_the_members_is_theirs_too():
    """Two standard deviations over its evaluations are taken off, as they are of the members'."""
    spread = np.sqrt(2.0)
    committee = valued(30 - 1 / spread, 30 + 1 / spread)  # 30 ± 1
    assert entry_of(committee, members=(29.5, 29.5)).deployed_committee is not None
    charged = entry_of(committee, members=(29.5, 29.5), penalty=2.0)
    assert charged.committee is not None
    assert charged.committee.value == pytest.approx(28.0)
    assert charged.deployed_committee is None


def policy(path, units, scale=None, outputs=1):
    hidden = Layer(np.ones((2, units), np.float32), np.zeros(units, np.float32), scale, scale)
    last = Layer(np.ones((units, outputs), np.float32), np.zeros(outputs, np.float32))
    return Policy((hidden, last), -np.ones(outputs), np.ones(outputs)).save(path)


def test_what_cannot_be_one_policy(tmp_path):
    def members(*files):
        return [Candidate("ilbrl", 0, seed, policy=file) for seed, file in enumerate(files)]

    small, large = policy(tmp_path / "small", 8), policy(tmp_path / "large", WIDEST // 2)
    normed = policy(tmp_path / "normed", 8, np.ones(8, np.float32))
    many_outputs = policy(tmp_path / "outputs", 8, outputs=WIDEST)
    assert why_apart(members(small, small, small)) is None
    assert why_apart(members(large, large)) is None
    assert why_apart(members(many_outputs, many_outputs)) is None  # these are averaged, and do not stand side by side
    assert why_apart(members(large, large, small)) == "for side by side their layers have 2,056 units, more than 2,048"
    assert why_apart(members(small)) == "the only one"
    assert "LayerNorm" in (why_apart(members(normed, normed)) or "")  # it would normalise both at once


def test_a_study_deploys_what_its_selection_says(finished):
    selection = json.loads((finished / "selection.json").read_text())
    for name, entry in selection["algorithms"].items():
        seeds = [Policy.load(finished / path) for path in entry["policies"]]
        made = Policy.load(finished / "jobs" / entry["committee"]["job"] / "committee.safetensors")
        assert entry["committee"]["seeds"] == [0, 1]
        assert made.metadata["seeds"] == [0, 1]
        assert "seed" not in made.metadata
        for ours, theirs in zip(made.layers, committee_of(seeds).layers):
            np.testing.assert_array_equal(ours.weight, theirs.weight)
        deployed = made if entry["committee"]["deployed"] else seeds[[0, 1].index(entry["best_seed"])]
        best = Policy.load(finished / "policies" / name / "best.safetensors")
        np.testing.assert_array_equal(best.layers[0].weight, deployed.layers[0].weight)
        value = entry["committee"]["value"] if entry["committee"]["deployed"] else entry["value"]
        assert (best.metadata["study"], best.metadata["offline_value"]) == ("tiny", value)
    overall = Policy.load(finished / "policies/best.safetensors")
    of_winner = Policy.load(finished / "policies" / selection["overall"]["algorithm"] / "best.safetensors")
    np.testing.assert_array_equal(overall.layers[0].weight, of_winner.layers[0].weight)


def test_a_single_seed_is_deployed_where_that_is_asked_for(run, tiny, done):
    alone = replace(tiny, evaluation=replace(tiny.evaluation, together=False))
    result = alone.run(run, change=True, quiet=True)
    assert done == []
    assert all(entry.committee is None for entry in result.selection.algorithms.values())
    assert len(result.policy.layers[0].bias) == 8  # units of a single network


def test_the_score_of_the_file_is_that_of_whoever_is_in_it():
    seeds = tuple(Score("bc", 2, seed, score=score) for seed, score in ((0, 50.0), (1, 60.0)))
    scores = Scores(scores=seeds, committees=(Score("bc", 2, ALL_SEEDS, "unite-1", score=70.0),))
    united = Chosen(2, best_seed=1, committee=Committee(deployed=True, job="unite-1"))
    alone = Chosen(2, best_seed=1, committee=Committee(deployed=False, job="unite-1"))
    for entry, score in ((united, 70.0), (alone, 60.0), (Chosen(2, best_seed=1), 60.0)):
        found = score_to_deploy(Selection({"bc": entry}), scores, "bc")
        assert found is not None
        assert found.score == score
    another = Chosen(2, best_seed=1, committee=Committee(deployed=True, job="unite-2"))
    for entry, played in ((another, scores), (united, Scores(scores=seeds)), (united, None)):
        assert score_to_deploy(Selection({"bc": entry}), played, "bc") is None
    assert score_to_deploy(Selection({"bc": united}), scores, "ilbrl") is None
