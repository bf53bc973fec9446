"""The verdict, on made-up estimates: each reason by itself, and what it speaks about."""

import re
from dataclasses import replace

import numpy as np
import pytest

from ilbrl import ope
from ilbrl.data import Dataset
from ilbrl.ope.trust import trust_report

GRADES = {"fine": "sound", "moving": "doubtful", "diverged": "void"}
TRUTHS = {"low": ope.Truth(100.0, 1.0, 50, 0.0), "high": ope.Truth(200.0, 1.0, 50, 0.0)}
NOTHING = Dataset(np.zeros((1, 1)), np.zeros((1, 1)), np.zeros((1, 1)), [False], [True], rewards=[0.0])


def known(*names, clone=False):
    return [ope.Known(name, lambda x: x, NOTHING, "mean", name, clone) for name in names]


def estimates(low, high, verdict="fine", distance=1.0):
    made = {
        "low": ope.Estimate(np.mean(low), 1.0, "fine", tuple(low), distance),
        "high": ope.Estimate(np.mean(high), 1.0, verdict, tuple(high), distance),
    }
    return ope.Estimates("made up", None, ope.Quantity(), made, GRADES, 0.0, (ope.Part(0),))


GOOD = estimates([110, 108], [195, 190])


def report(seen, truths=TRUTHS, unseen=GOOD, **options):
    return trust_report(known("low", "high", **options), truths, seen, unseen and unseen.policies)


@pytest.mark.parametrize(
    ("seen", "truths", "verdict", "reason"),
    [
        (GOOD, TRUTHS, "trust", "right order"),
        (estimates([210, 208], [195, 190]), TRUTHS, "distrust", "wrong order$"),
        (estimates([110, 108], [195, 190], "diverged"), TRUTHS, "distrust", "void"),
        (estimates([310, 308], [395, 390]), TRUTHS, "distrust", r"value error is 2 times .* \(too high\)"),
        (estimates([160, 158], [195, 190]), TRUTHS, "care", "value error is 33% of the spread"),
        (estimates([110, 108], [195, 190], "moving"), TRUTHS, "care", r"high \(moving\) is doubtful"),
        (estimates([110, 108], [195, 105]), TRUTHS, "care", "1 of 2 seeds or models order"),
        (
            estimates([100, 100], [103, 103]), {**TRUTHS, "high": ope.Truth(103.0, 5.0, 50, 0.0)}, "care",
            "within each other's error",
        ),
        (GOOD, {**TRUTHS, "high": ope.Truth(200.0, 1.0, 3, 0.0)}, "care", r"few episodes .* of high \(3\)"),
        (GOOD, {**TRUTHS, "low": ope.Truth(100.0, 1.0, 50, 0.2)}, "care", "low were cut off early"),
    ],
)  # fmt: skip
def test_the_rule(seen, truths, verdict, reason):
    trust = report(seen, truths, unseen=estimates(*[[t.value] * 2 for t in truths.values()]))
    assert trust.verdict == verdict
    assert any(re.search(reason, said) for said in trust.reasons), trust.reasons
    assert trust.rule.startswith("Distrust: the value of a known policy is void;")


def test_what_was_not_checked_off_the_logs_asks_for_care():
    trust = report(GOOD, unseen=None)
    assert trust.verdict == "care"
    assert trust.unseen is None
    assert "no known policy was valued without its own logs" in trust.reasons[0]
    partly = report(GOOD, unseen=replace(GOOD, policies={"low": GOOD["low"]}))
    assert "not every known policy was valued without its own logs" in partly.reasons[0]


def test_one_known_policy_shows_no_order():
    one = ope.Estimates("made up", None, ope.Quantity(), {"low": GOOD["low"]}, GRADES, 0.0, (ope.Part(0),))
    trust = trust_report(known("low"), {"low": TRUTHS["low"]}, one, one.policies)
    assert trust.verdict == "care"
    assert "only one known policy" in trust.reasons[0]
    assert trust.seen.value_error == pytest.approx(0.09)


def test_clones_never_end_in_trust_nor_their_order_in_distrust():
    assert report(GOOD, clone=True).verdict == "care"
    assert report(estimates([210, 208], [195, 190]), clone=True).verdict == "care"
    assert report(estimates([510, 508], [395, 390]), clone=True).verdict == "distrust"  # values that far off are


@pytest.mark.parametrize("seen", [GOOD, estimates([210, 208], [195, 105]), estimates([510, 508], [395, 390])])
@pytest.mark.parametrize("unseen", [None, GOOD])
def test_clones_are_never_called_known_policies(seen, unseen):
    trust = report(seen, unseen=unseen, clone=True)
    assert trust.clones
    said = [*trust.reasons, *ope.warnings(estimates([900], [195], distance=9.0), 1.5, 200.0, 1.0, trust.clones)]
    said.remove(
        "no known policy behind low, high: the logs' episodes were compared with rollouts of clones, and a clone is"
        " not the policy that made the logs"
    )
    assert not [line for line in said if "known polic" in line]
    assert any("clones" in line for line in said)


def test_the_miss_of_one_clone_may_be_its_own_fault():
    """Clones of low (100) and high (200): the second is worth far less than its log, and is rightly valued so."""
    found = report(estimates([110, 108], [-305, -315]), clone=True)
    assert found.verdict == "care"
    assert found.error == pytest.approx(np.hypot(9, 1), rel=0.3)
    assert report(estimates([110, 108], [-305, -315])).error > 300  # of known policies every miss counts


def test_three_policies_may_change_places_but_not_fall_into_disorder():
    truths = {name: ope.Truth(value, 0.1, 50, 0.0) for name, value in zip("abcd", (10.0, 20.0, 30.0, 40.0))}

    def ranked(*values):
        made = {name: ope.Estimate(value, 1.0, "fine", (value,), 1.0) for name, value in zip("abcd", values)}
        found = ope.Estimates("made up", None, ope.Quantity(), made, GRADES, 0.0, (ope.Part(0),))
        return trust_report(known(*"abcd"), truths, found, made)

    assert ranked(10, 20, 30, 40).verdict == "trust"
    swapped = ranked(21, 20, 30, 40)
    assert swapped.verdict == "care"
    assert "some known policies change places (Spearman 0.80)" in swapped.reasons
    assert ranked(40, 35, 30, 20).verdict == "distrust"
    alike = ranked(25, 25, 25, 25)
    assert alike.verdict == "distrust"
    assert "the known policies all have the same value" in alike.reasons
    lost = ranked(10, 20, 38, 35)  # chooses c, which is worth 10 less than d
    assert lost.verdict == "distrust"
    assert any("33% of the spread is lost" in reason for reason in lost.reasons)


def test_reservations_about_the_evidence_and_lucky_settings_ask_for_care():
    noted = trust_report(known("low", "high"), TRUTHS, GOOD, GOOD.policies, notes=["a fraction came out as 0.41"])
    assert noted.verdict == "care"
    assert trust_report(known("low", "high"), TRUTHS, GOOD, GOOD.policies, agreement=(10, 18)).verdict == "trust"
    lucky = trust_report(known("low", "high"), TRUTHS, GOOD, GOOD.policies, agreement=(9, 18))
    assert lucky.verdict == "care"
    assert "only 9 of 18 settings" in lucky.reasons[0]


def test_it_speaks_about_policies_no_farther_than_the_known_ones():
    assert report(GOOD, unseen=None).limit == 1.5
    assert report(GOOD, unseen=estimates([110, 108], [195, 190], distance=4.0)).limit == 4.0
    unmeasured = estimates([110, 108], [195, 190], distance=float("nan"))
    assert report(unmeasured, unseen=None).limit == float("inf")
