"""Selection against tables worked out by hand."""

from typing import Any

import pytest

from ilbrl.results.schema import EstimateRecord, Ranked
from ilbrl.results.tables import Candidate, as_selected
from ilbrl.study.selection import has_converged, judge_by_all, policy_value, winner
from ilbrl.study.selection import judge_by_converged as judge
from ilbrl.study.selection import select as select_by

C, M, D = "converged", "moving", "diverged"


def candidate(configuration, seed, estimates, diverged=False, algorithm="ilbrl"):
    """estimates: (value, verdict) per evaluation seed."""
    grades = {C: "sound", M: "doubtful", D: "void"}
    shown = tuple(
        EstimateRecord(i, None if verdict == D else value, verdict, grades[verdict], 1)
        for i, (value, verdict) in enumerate(estimates)
    )
    return Candidate(algorithm, configuration, seed, {"lam": configuration}, diverged, shown)


def select(candidates, penalty=0.0) -> Any:
    return select_by(candidates, "converged", penalty)


@pytest.mark.parametrize(
    ("estimates", "diverged", "converged"),
    [
        ([(1, C), (2, C), (3, C)], False, True),
        ([(1, C), (2, M)], False, True),  # half is enough
        ([(1, C), (2, M), (3, M)], False, False),
        ([(1, C), (2, C), (9, D)], False, False),  # one diverged evaluation is one too many
        ([(1, C), (2, C)], True, False),
        ([], True, False),
    ],
)
def test_when_a_policy_has_converged(estimates, diverged, converged):
    assert has_converged(candidate(0, 0, estimates, diverged)) is converged


def test_a_configuration_by_hand():
    """Seeds 0 and 1 converged, 2 diverged in evaluation, 3 in training: half is enough; converged values count."""
    seeds = [
        candidate(4, 0, [(10, C), (20, C)]),
        candidate(4, 1, [(30, C), (99, M)]),
        candidate(4, 2, [(40, C), (0, D)]),
        candidate(4, 3, [(1000, C), (1000, C)], diverged=True),
    ]
    judged = judge(seeds)
    assert judged.converged_share == 0.5
    assert judged.eligible
    assert judged.value == (10 + 20 + 30 + 40) / 4
    assert judged.best_seed == 1  # seed 2 is higher, but has not converged
    means = [15, 30, 40]
    spread = (sum((m - 85 / 3) ** 2 for m in means) / 2) ** 0.5
    assert judged.value_std_error == pytest.approx(spread / 3**0.5)
    assert policy_value(seeds[3], ("sound",)) is None


def test_the_highest_eligible_wins_and_ties_go_to_the_earlier_draw():
    low = judge([candidate(0, 0, [(5, C)])])
    high = judge([candidate(1, 0, [(7, C)])])
    same = judge([candidate(2, 0, [(7, C)])])
    unfit = judge([candidate(3, 0, [(99, C)], diverged=True), candidate(3, 1, [(99, M)])])
    assert winner([low, same, high, unfit]) is high
    assert winner([unfit]) is None


def test_a_penalty_prefers_the_configuration_whose_evaluations_agree():
    disputed, agreed = candidate(0, 0, [(2, C), (12, C)]), candidate(1, 0, [(5, C), (6, C)])
    plain = judge([disputed])
    assert plain.value == 7
    assert judge([disputed], penalty=2.0).value == pytest.approx(7 - 2 * 50**0.5)
    assert judge([agreed], penalty=2.0).value == pytest.approx(5.5 - 2 * 0.5**0.5)
    assert select([disputed, agreed]).overall.configuration == 0
    selection = select([disputed, agreed], penalty=1.0)
    assert selection.overall.configuration == 1
    (shown,) = as_selected([agreed], selection)
    assert shown.offline_value == selection.overall.value  # a report shows what was selected by


def test_select_within_and_between_algorithms():
    selection = select(
        [
            candidate(0, 0, [(5, C)]),
            candidate(1, 0, [(8, C)]),
            candidate(0, 0, [(9, C)], algorithm="bc"),
            candidate(1, 0, [(50, M)], algorithm="bc"),
            candidate(0, 0, [(70, D)], algorithm="oril"),
        ]
    )
    assert {name: entry.configuration for name, entry in selection.algorithms.items()} == {
        "ilbrl": 1,
        "bc": 0,
        "oril": None,
    }
    assert selection.algorithms["ilbrl"].table == (Ranked(0, 5.0, 1.0, True), Ranked(1, 8.0, 1.0, True))
    assert selection.algorithms["bc"].table[1].eligible is False
    assert (selection.overall.algorithm, selection.overall.value) == ("bc", 9.0)
    assert selection.nothing is None


def rated(algorithm, *values):
    """One policy, valued by as many models."""
    estimates = tuple(EstimateRecord(0, value, None, "sound", None, i) for i, value in enumerate(values))
    return Candidate(algorithm, 0, 0, {}, False, estimates)


@pytest.mark.parametrize(
    ("bc", "oril", "taken"),
    [
        ((11.0, 22.0, 33.0), (10.0, 20.0, 30.0), "bc"),  # 2 ± 1 ahead: all models see it
        ((11.0, 19.0, 33.0), (10.0, 20.0, 30.0), "ilbrl"),  # 1 ± 2: they do not
        ((11.0, 24.0, 33.0), (12.0, 23.0, 34.0), "bc"),  # ORIL is 0.3 ± 1.2 ahead of BC, and 3 ± 1 of ILBRL
        ((11.0, 22.0, 33.0), (12.0, 23.0, 34.0), "oril"),  # 1 ± 0 ahead of BC, too
    ],
)
def test_what_cannot_be_told_from_the_highest_is_taken_in_the_order_of_the_study(bc, oril, taken):
    selection = select([rated("ilbrl", 10.0, 20.0, 30.0), rated("bc", *bc), rated("oril", *oril)])
    assert selection.overall.algorithm == taken


def test_all_diverged_selects_nothing_and_says_so():
    selection = select([candidate(0, 0, [], diverged=True), candidate(0, 1, [(3, D), (4, M)])])
    assert selection.overall is None
    assert "training diverged for 1 of 2 policies" in selection.nothing
    assert "of 2 evaluations 0 are sound, 1 doubtful and 1 void" in selection.nothing


def test_moving_estimates_count_only_where_an_algorithm_has_nothing_better():
    selection = select(
        [
            candidate(0, 0, [(5, C)]),
            candidate(0, 0, [(9, M), (7, M)], algorithm="bc"),
            candidate(1, 0, [(6, M), (1, M)], algorithm="bc"),
        ]
    )
    bc = selection.algorithms["bc"]
    assert (bc.configuration, bc.value, bc.moving) == (0, 8.0, True)
    assert not selection.algorithms["ilbrl"].moving
    assert (bc.counted, selection.algorithms["ilbrl"].counted) == (("sound", "doubtful"), ("sound",))
    assert selection.overall.algorithm == "ilbrl"  # 5 that converged goes before 8 that did not
    assert selection.overall.reason == (
        "the highest offline value (5) among the choices of ilbrl (5); bc (8) was still moving and comes after"
    )


def test_without_convergence_every_seed_counts():
    """Seed 1 of configuration 0 diverged and seed 2 is void: both count with the lowest value of any candidate."""
    lucky = [candidate(0, 0, [(30, C)]), candidate(0, 1, [], diverged=True), candidate(0, 2, [(0, D)])]
    steady = [candidate(1, 0, [(12, C)]), candidate(1, 1, [(14, M)]), candidate(1, 2, [(4, C)])]
    by_all = select_by([*lucky, *steady], "all")
    assert [row.value for row in by_all.algorithms["ilbrl"].table] == pytest.approx([(30 + 4 + 4) / 3, 10])
    assert [row.eligible for row in by_all.algorithms["ilbrl"].table] == [False, True]  # 1 of 3 seeds has a value
    assert by_all.algorithms["ilbrl"].best_seed == 1
    (shown,) = as_selected(steady[1:2], by_all)  # its one evaluation is doubtful, and counted
    assert (shown.offline_value, shown.unsettled_value) == (14.0, None)
    survivors = judge_by_all(lucky[:2], lowest=4.0)
    assert (survivors.value, survivors.eligible, survivors.best_seed) == (17.0, True, 0)
    assert judge_by_all(lucky[1:], lowest=4.0).value is None
