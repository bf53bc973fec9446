"""What a study deploys: all seeds of a selected configuration as one policy, or the best of them."""

import json
from dataclasses import replace

import numpy as np
import pytest

from ilbrl.policy import Layer, Policy, committee_of
from ilbrl.results.schema import ALL_SEEDS, Chosen, Committee, EstimateRecord, Score, Scores, Selection, Valuation
from ilbrl.results.tables import Candidate, score_to_deploy
from ilbrl.study.selection import among_algorithms, chosen_candidates, select
from ilbrl.study.uniting import WIDEST, why_apart, with_committee


def valued(*values, seed=0):
    """A seed, or all of them, as the models of an ensemble value it."""
    return tuple(EstimateRecord(0, value, "fine", "sound", None, member) for member, value in enumerate(values))


def entry_of(committee, rule="all", penalty=0.0, members=(20.0, 24.0), levels=(0.0, 0.0), std_error=None):
    """What is said of a configuration whose seeds have these values; evaluations differ in their level alone."""
    seeds = [
        Candidate("ilbrl", 3, seed, estimates=valued(*(value + level for level in levels)))
        for seed, value in enumerate(members)
    ]
    chosen = Chosen(3, value=22.0, value_std_error=2.0, best_seed=1, counted=("sound", "doubtful"))
    return with_committee("ilbrl", chosen, Committee((0, 1), Valuation(committee, std_error)), seeds, rule, penalty)


@pytest.mark.parametrize(
    ("committee", "deployed"),
    [
        (valued(20.0, 26.0), True),  # 23: above the mean of 20 and 24, though below the best seed
        (valued(22.0, 22.0), True),
        (valued(20.0, 20.2), True),  # 20.1: below it, but not by more than the two differ
        (valued(19.0, 20.8), False),  # 19.9: below both
        (valued(19.9), False),  # one evaluation is enough to see that
        (valued(20.1), True),
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


def test_one_model_that_sees_the_committee_fail_is_enough():
    """Models differ by much more than the seeds do, but all alike: that is no doubt about the difference."""
    levels, members = (0.0, 50.0, 100.0, 150.0, 200.0), (98.0, 99.0, 100.0, 101.0, 102.0)
    sound, failing = ((100.0 + level for level in levels), (100.0, 150.0, 200.0, 250.0, -1e6))
    assert entry_of(valued(*sound), members=members, levels=levels).deployed_committee is not None
    assert entry_of(valued(*failing), members=members, levels=levels).deployed_committee is None
    worse = (90.0 + level for level in levels)
    assert entry_of(valued(*worse), members=members, levels=levels).deployed_committee is None


def test_one_seed_that_fails_does_not_excuse_the_committee():
    members = (3000.0, 3000.0, 3000.0, 3000.0, 200.0)
    assert entry_of(valued(2000.0), members=members).deployed_committee is None
    assert entry_of(valued(2900.0), members=members).deployed_committee is not None


def test_the_value_of_the_file_and_its_error_are_the_committees():
    found = entry_of(valued(20.0, 26.0), std_error=1.5).to_deploy
    assert (found.value, found.value_std_error) == (23.0, 1.5)  # over models and initial states, as it was estimated
    found = entry_of(valued(20.0, 26.0)).to_deploy  # not recorded
    assert found.value_std_error == pytest.approx(np.std([20.0, 26.0], ddof=1))


def test_the_algorithm_is_chosen_by_what_would_be_deployed():
    """ILBRL's seeds are worth more by themselves, and BC's together."""
    found = [
        Candidate(name, 0, seed, estimates=valued(value), counted=("sound",))
        for name, values in {"ilbrl": (80.0, 80.0, 80.0), "bc": (30.0, 90.0, 90.0)}.items()
        for seed, value in enumerate(values)
    ]
    alone = select(found, "all")
    assert alone.overall is not None
    assert (alone.overall.algorithm, alone.overall.value) == ("ilbrl", 80.0)
    together = {
        name: with_committee(
            name, entry, Committee((0, 1, 2), Valuation(valued(value))),
            [c for c in found if c.algorithm == name], "all", 0.0,
        )
        for (name, entry), value in zip(alone.algorithms.items(), (82.0, 101.0))
    }  # fmt: skip
    overall = among_algorithms(replace(alone, algorithms=together), found).overall
    assert overall is not None
    assert (overall.algorithm, overall.value) == ("bc", 101.0)
    assert overall.reason == "the highest offline value (101) among the choices of ilbrl (82), bc (101)"
    moving = together | {"bc": replace(together["bc"], moving=True)}
    overall = among_algorithms(replace(alone, algorithms=moving), found).overall
    assert overall is not None
    assert overall.algorithm == "ilbrl"  # what has settled goes first


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
    charged = entry_of(committee, members=(29.5, 29.5), penalty=2.0)  # the members' own evaluations agree
    assert charged.committee is not None
    assert charged.committee.value == pytest.approx(28.0)
    assert charged.deployed_committee is None


def test_a_seed_that_diverged_is_no_member():
    found = [Candidate("bc", number, seed, diverged=seed == 1) for number in (0, 1) for seed in (0, 1, 2)]
    members = chosen_candidates(found, Selection({"bc": Chosen(1), "ilbrl": Chosen(0)}))
    assert [c.key for c in members] == [("bc", 1, 0), ("bc", 1, 2)]


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
