"""The verdict in words: the sentences are what a reader acts on, so they are tested as sentences."""

import json

import numpy as np
import pytest

from ilbrl.report import summarise
from ilbrl.report.pictures.runs import of_run
from ilbrl.report.summary import why_no_scores
from ilbrl.report.text import number, plus_minus
from ilbrl.report.verdict import NARROWER, verdict
from ilbrl.results import read_run


@pytest.fixture
def hopper(committed, copy):
    """BC selected; its three seeds and those of four other algorithms played, 30 episodes each."""
    return copy(committed["hopper"])


@pytest.fixture
def rescore(hopper, edit):
    """`rescore(algorithm, seed, score, spread=3.0)`: what final.json says of one policy, in scores."""
    scale = 32.5457  # returns per score in hopper

    def change(algorithm, seed, score, spread=3.0):
        def written(final):
            for each in final["scores"]:
                if each["algorithm"] == algorithm and (seed is None or each["policy_seed"] == seed):
                    each.update(score=score, return_mean=scale * score, return_std=scale * spread)

        edit(hopper / "final.json", written)

    return change


def said(folder):
    return verdict(read_run(folder))


@pytest.fixture
def alone(copy, edit):
    """`alone(folder)`: a copy whose file to deploy is a single seed's."""

    def made(folder):
        place = copy(folder)
        edit(place / "selection.json", lambda s: [entry.update(committee=None) for entry in s["algorithms"].values()])
        return place

    return made


def test_the_number_is_about_the_file_and_the_seeds_stand_beside_it(hopper, rescore, edit):
    for algorithm in ("ilbrl", "ilbrl-unweighted", "smodice", "oril"):
        rescore(algorithm, None, 70.0)
    for seed, score in enumerate((60.0, 84.45, 72.0)):
        rescore("bc", seed, score, spread=5.0)
    edit(
        hopper / "tuning.json",
        lambda tuning: tuning["trust"].update(verdict="trust", reasons=["all known policies fit"]),
    )
    found = said(hopper)
    assert (found.grade, found.headline) == ("good", "Deploy BC")
    assert found.which.startswith("BC, configuration 3, seed 1. The highest offline value")
    assert found.how_good[:3] == (
        "True normalised score of this file 84.5 ± 1.8 (mean of 30 episodes, which vary by ± 5.00).",
        "The 3 seeds of its configuration reach 60.0 to 84.5, 72.1 on average.",
        "That is 25.9 above the policy that made the logs (58.6), 50 % of the way to the expert (110.3).",
    )
    assert found.trust == "The offline numbers can be trusted. All known policies fit."
    assert found.in_short == (
        "BC, chosen from logs alone, scores 84.5 in the environment.",
        "Beside it: the policy that made the logs 58.6; ILBRL 70.0; ILBRL, unweighted 70.0; SMODICE 70.0; ORIL 70.0;"
        " and the expert 110.3.",
    )


def test_the_interval_of_an_estimate_holds_how_far_known_policies_were_missed(hopper, edit):
    def miss(tuning):
        chosen = next(each for each in tuning["configurations"] if each["id"] == tuning["chosen"])
        for policy, off in zip(chosen["policies"].values(), (83.0, -129.0)):
            policy["estimate"] = policy["truth"] + off

    edit(hopper / "tuning.json", miss)
    edit(hopper / "selection.json", lambda s: s["algorithms"]["bc"].update(value=-191.2, value_std_error=0.1))
    assert said(hopper).how_good[-1] == (
        "Estimated discounted value: -191.2 ± 212.6 (from logs alone; known policies were missed by 108.5)."
    )


@pytest.mark.parametrize(
    ("score", "spread", "be", "ending"),
    [
        (50.0, 3.0, "is", "8.57 below the policy that made the logs (58.6)."),
        (
            60.0,
            30.0,
            "may be",
            "the policy that made the logs (58.6): within the interval, so the difference may be chance.",
        ),
    ],
)
def test_a_policy_not_clearly_above_the_logs_is_bad_news(hopper, rescore, score, spread, be, ending):
    rescore("bc", 1, score, spread)
    found = said(hopper)
    assert (found.grade, found.headline) == ("bad", f"BC {be} no better than the logs")
    assert (NARROWER in found.what_would_change) == (be == "may be")
    assert found.how_good[2].endswith(ending)
    assert summarise([hopper]).bad_news


def test_a_better_algorithm_is_named_when_the_final_play_shows_one(hopper, rescore, edit):
    for seed in range(3):
        rescore("bc", seed, 80.0)
        rescore("smodice", seed, 95.0)
    edit(hopper / "tuning.json", lambda tuning: tuning["trust"].update(verdict="trust"))
    found = said(hopper)
    assert found.grade == "care"
    assert found.what_would_change[0] == (
        "Played in the environment, the file of SMODICE (policies/smodice/best.safetensors) did better: 95.0 against"
        " 80.0, more than episodes vary by."
    )
    rescore("smodice", None, 81.0, spread=20.0)
    found = said(hopper)
    assert found.grade == "good"
    assert found.what_would_change[0].endswith("81.0 against 80.0, within what episodes vary by.")


def test_an_estimate_that_does_not_clear_the_logs_is_bad_news_too(finished, alone, edit):
    """Without an environment the estimate is compared with the true value of the policy behind the logs."""
    folder = alone(finished)

    def known(tuning):
        tuning["known"]["logs"]["truth"], tuning["known"]["expert"]["truth"] = 1.0, 3.0
        tuning["trust"].update(verdict="trust", error=0.1)

    edit(folder / "tuning.json", known)
    logs, expert = "above the policy that made the logs (1.00)", "50 % of the way to the expert (3.00)"
    chance = "within the interval, so the difference may be chance"
    for value, headline, placed in (
        (2.0, "Deploy", f"That is 1.00 {logs}, {expert}."),
        (1.1, "no better than the logs", f"That is 0.100 {logs}: {chance}."),
    ):
        edit(
            folder / "selection.json",
            lambda s, value=value: [e.update(value=value, value_std_error=0.0) for e in s["algorithms"].values()],
        )
        assert headline in said(folder).headline
        assert said(folder).how_good[1] == placed


@pytest.mark.parametrize(
    ("gain", "error", "given", "headline"),
    [
        (45.0, 10.0, -18.0, "Deploy"),  # a clone valued too low is no reason for doubt
        (45.0, 10.0, 18.0, "Deploy"),
        (45.0, 10.0, 30.0, "may be no better than the logs"),  # 30 of the 45 are the evaluator's error
        (45.0, 30.0, -18.0, "may be no better than the logs"),
        (-2.0, 1.0, -18.0, "is no better than the logs"),
    ],
)
def test_where_only_clones_are_known_policy_and_logs_are_compared_from_the_same_beginnings(
    finished, alone, edit, gain, error, given, headline
):
    folder = alone(finished)

    def clones(tuning):
        tuning["trust"].update(verdict="trust", error=1e6)  # the width of the value says nothing about the difference
        for entry in tuning["known"].values():
            entry["clone"] = True
        for tried in tuning["configurations"]:
            tried["policies"]["logs"]["gain"] = {"value": given, "std_error": 1.0}

    edit(folder / "tuning.json", clones)
    recorded = {"value": gain, "std_error": error}
    edit(folder / "selection.json", lambda s: [e.update(gain=recorded) for e in s["algorithms"].values()])
    assert headline in said(folder).headline
    edit(folder / "tuning.json", lambda tuning: tuning["trust"].update(verdict="care"))
    assert said(folder).call.endswith(", with care" if headline == "Deploy" else headline)
    (line,) = (
        line for line in said(folder).how_good if "than the logs earned from the same first observations" in line
    )
    assert f"That is {number(abs(gain - max(0.0, given)))} ± " in line
    assert (f"after {number(given)} were taken off" in line) == (given > 0)


@pytest.mark.parametrize(
    ("gain", "error", "headline"),
    [(45.0, 10.0, "Deploy"), (45.0, 30.0, "may be no better than the logs"), (-2.0, 1.0, "is no better than the logs")],
)
@pytest.mark.parametrize("several", [True, False])
def test_where_no_one_policy_is_behind_the_logs_the_beginnings_are_the_same_too(
    finished, alone, edit, gain, error, headline, several
):
    """Several made them, or none of the known ones did; how far these are missed is part of the error."""
    folder = alone(finished)

    def known(tuning):
        for tried in tuning["configurations"]:  # missed by nothing
            for each in tried["policies"].values():
                each["estimate"] = each["truth"]
        tuning["known"]["other"] = dict(tuning["known"]["logs"])
        tuning["known"]["new"] = dict(tuning["known"].pop("logs"), log="logs" if several else None)
        if not several:
            tuning["known"].pop("other")
        tuning["trust"].update(verdict="trust", error=error)

    edit(folder / "tuning.json", known)
    recorded = {"value": gain, "std_error": 1.0}
    edit(folder / "selection.json", lambda s: [e.update(gain=recorded) for e in s["algorithms"].values()])
    found = said(folder)
    assert headline in found.headline
    (line,) = (line for line in found.how_good if "the logs earned from the same first observations" in line)
    half_width = number(1.96 * np.hypot(error, 1.0))
    assert line.startswith(f"That is {number(abs(gain))} ± {half_width} {'more' if gain > 0 else 'less'} than the logs")
    assert " in all)" not in line


def test_what_is_deployed_together_is_judged_together(played, copy, edit):
    """Its own estimate, its own gain, its own episodes; the seeds stand beside it."""
    folder = copy(played)
    entry = json.loads((folder / "selection.json").read_text())
    algorithm = entry["overall"]["algorithm"]

    def united(s):
        s["algorithms"][algorithm]["committee"].update(value=-7.0, deployed=True)
        for each in s["algorithms"][algorithm]["committee"]["valuation"]["estimates"]:
            each["value"] = -7.0

    def reach(final):
        for each in (*final["scores"], *final["committees"]):
            each.update(return_mean=-300.0 if each["policy_seed"] < 0 else -900.0, return_std=5.0)
        assert [each["policy_seed"] for each in final["committees"]] == [-1] * len(final["committees"])

    edit(folder / "selection.json", united)
    edit(folder / "final.json", reach)
    found = said(folder)
    assert f", configuration {entry['overall']['configuration']}, its 2 seeds together. " in found.which
    assert found.how_good[0].startswith("True return of an episode of this file -300.0 ± ")
    assert "The 2 seeds of its configuration reach -900.0 to -900.0, -900.0 on average." in found.how_good
    assert any(line.startswith("Estimated discounted return at γ = 0.5: -7.00 ± ") for line in found.how_good)


def test_the_score_of_what_is_deployed_together_needs_no_table_of_single_seeds(played, copy, edit):
    folder = copy(played)
    edit(folder / "selection.json", lambda s: [e["committee"].update(deployed=True) for e in s["algorithms"].values()])
    score = {"return_mean": -300.0, "return_std": 5.0}
    edit(folder / "final.json", lambda final: [each.update(score) for each in final["committees"]])
    (folder / "results.csv").unlink()
    lines = said(folder).how_good
    assert lines[0].startswith("True return of an episode of this file -300.0 ± ")
    assert not any("all there is" in line or "seeds of its configuration" in line for line in lines)


def test_the_estimate_is_compared_with_the_same_quantity_played(played, alone, edit):
    folder = alone(played)
    final = json.loads((folder / "final.json").read_text())
    chosen = json.loads((folder / "selection.json").read_text())
    algorithm = chosen["overall"]["algorithm"]
    seed = chosen["algorithms"][algorithm]["best_seed"]
    own = next(s for s in final["scores"] if (s["algorithm"], s["policy_seed"]) == (algorithm, seed))
    assert final["discount"] == 0.5  # the evaluator's
    shown = plus_minus(np.mean(own["discounted_returns"]), 1.96 * np.std(own["discounted_returns"]))  # two episodes
    assert said(folder).how_good[-1] == f"In the environment this quantity was {shown}."
    edit(folder / "tuning.json", lambda tuning: tuning.update(horizon=200))  # Pendulum's episodes are as long
    assert said(folder).how_good[-1] == f"In the environment this quantity was {shown}."
    edit(folder / "tuning.json", lambda tuning: tuning.update(horizon=100))
    assert said(folder).how_good[-1].startswith("Estimated discounted return at γ = 0.5: ")
    assert of_run(read_run(folder))["estimated-against-true"].x == "true return of an episode"  # nor drawn as the same
    edit(folder / "tuning.json", lambda tuning: tuning.update(horizon=None))
    edit(folder / "final.json", lambda final: final.update(discount=0.99))
    assert said(folder).how_good[-1].startswith("Estimated discounted return at γ = 0.5: ")


def test_returns_are_compared_with_the_measured_return_of_the_logging_policy(played, alone, edit):
    folder = alone(played)
    algorithm = json.loads((folder / "selection.json").read_text())["overall"]["algorithm"]

    def reach(final):
        final["references"] = {"logs": {"true_return": -500.0}}
        for each in final["scores"]:
            if each["algorithm"] == algorithm:
                each.update(return_mean=-400.0, return_std=5.0)

    edit(folder / "final.json", reach)
    found = said(folder)
    assert "no better" not in found.headline
    assert found.how_good[0].startswith("True return of an episode of this file -400.0 ± ")
    assert any(each.startswith("That is 100.0 above the policy that made the logs (-500.0)") for each in found.how_good)


def test_a_file_that_was_not_played_is_not_given_its_sisters_score(hopper, edit):
    edit(hopper / "selection.json", lambda s: s["algorithms"]["bc"].update(best_seed=7))
    found = said(hopper)
    assert found.how_good[:2] == (
        "True normalised score 74.7 ± 15.6: mean of 3 seeds.",
        "The file to deploy was not played itself.",
    )


def test_a_run_that_was_played_does_not_deny_it_without_its_results(hopper):
    (hopper / "results.csv").unlink()
    found = summarise([hopper])
    assert found.verdicts[0].how_good[-1].startswith("An environment was played, but results.csv")
    assert why_no_scores(found).startswith("An environment was played, but results.csv")


def test_distrust_and_no_selection_are_bad_news(finished, copy, edit):
    folder = copy(finished)
    edit(folder / "tuning.json", lambda tuning: tuning["trust"].update(verdict="distrust"))
    edit(
        folder / "selection.json",
        lambda s: [e["committee"].update(value_std_error=0.0) for e in s["algorithms"].values()],
    )
    found = summarise([folder])
    assert found.bad_news
    assert found.verdicts[0].headline.endswith(", but do not rely on it")
    assert found.verdicts[0].how_good[-1] == "No environment was played, so this estimate is all there is."
    edit(folder / "selection.json", lambda s: s.update(overall=None, nothing="every candidate diverged"))
    assert (said(folder).headline, said(folder).which) == ("No policy to deploy", "Every candidate diverged.")
    (folder / "selection.json").unlink()
    assert said(folder).which == "The study has not come to its selection: continue it with the same command."


def test_rivals_are_measured_in_standard_errors(hopper, edit):
    """Evaluations differ by 50 for everybody, which is no part of the gap; how far two algorithms are apart is."""
    evaluations = [str(e.evaluation_seed) for e in read_run(hopper).candidates[0].estimates]
    assert len(evaluations) == 2

    def close(selection):
        for each in selection["algorithms"].values():
            each.update(value=100.0)
        selection["algorithms"]["bc"]["value"], selection["algorithms"]["oril"]["value"] = 200.0, 200.0 - 2.4

    def valued(bc_apart):
        def change(row):
            second = evaluations.index(row["evaluation_seed"])
            value = {"bc": 200.0 + bc_apart * (-1) ** int(row["policy_seed"]), "oril": 195.2 + 4.8 * second}
            worth = value.get(row["algorithm"], 100.0) + 50 * second
            row.update(offline_value=str(worth), verdict="converged", grade="sound")

        edit(hopper / "results.csv", change)
        return said(hopper).what_would_change

    edit(hopper / "selection.json", close)
    noise = "1.0 standard errors: the order may be chance"
    assert f"ORIL came second, 2.40 behind in offline value ({noise})." in valued(0.0)
    seeds = 15 * 2 / 3  # of bc's three seeds one is 30 below the two others: their standard error
    width = f"{2.4 / np.hypot(2.4, seeds):.1f} standard errors"
    assert any(f"2.40 behind in offline value ({width}: the order" in line for line in valued(15.0))
    edit(hopper / "selection.json", lambda s: s["algorithms"]["oril"].update(value=207.0))
    assert f"ORIL is 7.00 ahead in offline value ({7 / 2.4:.1f} standard errors)." in valued(0.0)
    edit(hopper / "selection.json", lambda s: s["algorithms"]["oril"].update(moving=True))
    changes = said(hopper).what_would_change
    assert "ORIL is 7.00 ahead in offline value, from evaluations that had not converged." in changes


def test_everything_on_record_that_could_turn_the_answer_is_said(hopper, edit):
    edit(
        hopper / "data.json",
        lambda data: next(iter(data["datasets"].values()))["findings"].append({"level": "warning"}),
    )
    edit(hopper / "results.csv", lambda row: row.update(verdict="" if row["algorithm"] == "oril" else row["verdict"]))
    changes = said(hopper).what_would_change
    for expected in (
        "The evaluator was checked on only 2 known policies; more would say more.",
        "12 of 60 candidates have no verdict: results.csv does not say one.",
        "The doctor has 1 warning about the logs: see below.",
        "Files are missing or damaged: see the list below.",
        "Nothing vouches for data.json, tuning.json, results.csv, selection.json, final.json and reveal.json: the audit"
        " has no hash to check them by.",
    ):
        assert expected in changes
    assert any(change.endswith("have doubtful values (moving): evaluate longer.") for change in changes)


def test_what_becomes_of_doubtful_values_depends_on_the_rule(hopper, edit):
    edit(hopper / "selection.json", lambda selection: selection.update(rule="all"))
    edit(hopper / "results.csv", lambda row: row.update(verdict="outside", grade="doubtful"))
    changes = said(hopper).what_would_change
    assert "60 of 60 candidates have doubtful values (outside): they count like the others." in changes


def test_values_that_still_moved_are_said(finished, copy, edit):
    folder = copy(finished)
    edit(folder / "selection.json", lambda s: [each.update(moving=True) for each in s["algorithms"].values()])
    assert said(folder).which.endswith("Too few of its evaluations had converged: values still moving had to count.")
