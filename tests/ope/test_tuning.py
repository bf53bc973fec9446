"""Tuning on known policies: truths, the choice, the trust report and the record of it all."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from ilbrl import ope
from ilbrl.base.errors import IlbrlError
from ilbrl.data.splits import CompositionSizes, compose
from ilbrl.ope.evaluation import Combined
from ilbrl.ope.known import Truth
from ilbrl.policy import Policy

SIZES = CompositionSizes(training=1000, expert_episodes=2, evaluation=2000, validation=1000)


@pytest.fixture(scope="module")
def composition(linear):
    return compose(linear.log(0.8, 0.0, 120), linear.log(0.1, 0.0, 160, seed=1), SIZES)


@pytest.fixture(scope="module")
def tuning(composition, config):
    known = ope.known_of_composition(composition, expert=lambda x: -0.8 * x, exploratory=lambda x: -0.1 * x)
    data = ope.EvaluationData.of_composition(composition, [0.5])
    small = replace(config, hidden=(16, 16), batch_size=64)
    settings = [ope.Setting(0.5, replace(small, lr=lr)) for lr in (1e-6, 3e-3, 1e4)]
    return ope.tune(known, data, settings, [0, 1], 800, quiet=True)


def test_the_best_setting_is_chosen(tuning):
    assert tuning.chosen_id == 1
    assert tuning.chosen is tuning.evaluation.settings[1]
    still, good, wild = tuning.table
    assert (good.rank_error, good.diverged) == (0, 0)
    assert good.value_error < still.value_error
    assert (wild.rank_error, wild.diverged, wild.value_error) == (4.0, 2, np.inf)
    assert set(good.policies) == {"expert", "exploratory"}
    needed = [e.decided_at for e in tuning.evaluation.estimates if e.setting == 1 and e.verdict == "converged"]
    assert tuning.updates == (max(needed) if len(needed) == 4 else 800)


def test_the_record_is_as_documented(tuning):
    record = json.loads(json.dumps(tuning.to_json(), allow_nan=False))
    assert record["chosen"] == 1
    assert record["configurations"][2]["value_error"] is None
    entry = record["configurations"][1]
    assert {"id", "expert_fraction", "lr", "target_update_every", "rank_error", "value_error", "diverged"} <= set(entry)
    assert set(entry["policies"]["expert"]) == {
        "estimate", "std_error", "truth", "truth_std_error", "verdict", "per_seed",
    }  # fmt: skip
    assert set(record["known"]["expert"]) == {"source", "variant", "truth", "truth_std_error", "episodes"}
    assert {
        "verdict", "reasons", "rule", "rank_error", "spearman", "kendall", "relative_value_error", "regret_at_1",
        "regret_at_k", "intervals", "distance_warning",
    } <= set(record["trust"])  # fmt: skip
    assert record["trust"]["regret_at_k"] == [0, 0]
    assert record["known"]["expert"]["variant"] == "mean"


def test_distances_warn_of_policies_outside_the_data(tuning, composition):
    data = ope.EvaluationData.of_composition(composition, [0.5])
    policies = {"near": lambda x: -0.5 * x, "far": lambda x: np.ones_like(x)}
    near, far = ope.distances_from_data(policies, data, 0.5).values()
    assert max(tuning.trust.distances.values()) < near < far
    log, spec, rows = data.dataset, data.spec, data.subset(0.5)
    states = log.next_observations[rows[np.linspace(0, len(rows) - 1, 512, dtype=int)]]
    asked = np.hstack([spec.standardise(states), spec.scale_actions(np.ones_like(states))])
    logged = np.hstack([spec.standardise(log.observations[rows]), spec.scale_actions(log.actions[rows])])
    np.testing.assert_allclose(far, cdist(asked, logged).min(1).mean() / np.sqrt(asked.shape[1]), rtol=1e-5)
    limit = tuning.trust.distance_limit
    assert limit == 1.5 * max(tuning.trust.distances.values())
    assert ope.distance_warning({"near": 0.0}, limit) is None
    assert f"far ({far:.2f})" in str(ope.distance_warning({"near": 0.0, "far": far}, limit))


def test_truth_is_the_mean_return_of_complete_episodes(linear):
    log = linear.log(0.8, 0.0, 30)
    cut = log.transitions(0, 29 * 25 + 10)
    truth = ope.truth(ope.Known("k", lambda x: -0.8 * x, cut, "mean"), ope.Quantity(0.9))
    returns = log.returns(0.9)[:29]
    assert truth.value == pytest.approx(returns.mean())
    assert truth.std_error == pytest.approx(returns.std(ddof=1) / np.sqrt(29))
    assert truth.episodes == 29
    assert truth.cut_off == pytest.approx(0.9**25)
    with pytest.raises(IlbrlError, match="no complete episode"):
        ope.truth(ope.Known("k", lambda x: x, log.transitions(0, 10), "mean"), ope.Quantity(0.9))
    holed = replace(log, rewards=np.where(np.arange(len(log)) == 30, np.nan, log.rewards))
    with pytest.raises(IlbrlError, match=r"known policy k: linear 0\.8: rewards of episode 1 are not finite"):
        ope.truth(ope.Known("k", lambda x: x, holed, "mean"), ope.Quantity(0.9))


def test_variants_of_a_known_policy(linear):
    log = linear.log(0.8, 0.0, 2)
    layers = ((np.zeros((1, 2)), np.zeros(2)),)
    stochastic = Policy(layers, -np.ones(1), np.ones(1), head="tanh_gaussian")
    assert ope.Known("s", stochastic, log, "sampled").evaluable == ope.Sampled(stochastic)
    assert ope.Known("s", stochastic, log, "mean").evaluable is stochastic
    deterministic = Policy(((np.zeros((1, 1)), np.zeros(1)),), -np.ones(1), np.ones(1))
    with pytest.raises(IlbrlError, match="has no sampled variant"):
        _ = ope.Known("d", deterministic, log, "sampled").evaluable


def test_impossible_tunings_are_refused(composition, config):
    data = ope.EvaluationData.of_composition(composition, [0.5])
    with pytest.raises(IlbrlError, match="none was given"):
        ope.tune([], data, [ope.Setting(0.5, config)], [0], 10)
    known = ope.known_of_composition(composition, lambda x: x, None)
    with pytest.raises(IlbrlError, match="different names"):
        ope.tune(known * 2, data, [ope.Setting(0.5, config)], [0], 10)
    other = ope.Setting(0.5, replace(config, gamma=0.5))
    with pytest.raises(IlbrlError, match="share the discount"):
        ope.tune(known, data, [ope.Setting(0.5, config), other], [0], 10)


# --- the trust report, on made-up estimates ---------------------------------------------------------------------------

TRUTHS = {"low": Truth(100.0, 1.0, 50, 0.0), "high": Truth(200.0, 1.0, 50, 0.0)}


def estimates(low, high, verdict="converged"):
    return {
        "low": Combined(np.mean(low), 1.0, "converged", tuple(low)),
        "high": Combined(np.mean(high), 1.0, verdict, tuple(high)),
    }


@pytest.mark.parametrize(
    ("made", "truths", "verdict", "reason"),
    [
        (estimates([110, 108], [195, 190]), TRUTHS, "trust", "right order"),
        (estimates([210, 208], [195, 190]), TRUTHS, "distrust", "wrong order"),
        (estimates([110, 108], [195, 190], "diverged"), TRUTHS, "distrust", "high diverged"),
        (estimates([310, 308], [395, 390]), TRUTHS, "distrust", "value error is 2 times the spread"),
        (estimates([160, 158], [195, 190]), TRUTHS, "care", "value error is 33% of the spread"),
        (estimates([110, 108], [195, 190], "moving"), TRUTHS, "care", "high was still moving"),
        (estimates([110, 108], [195, 105]), TRUTHS, "care", "1 of 2 evaluation seeds"),
        (
            estimates([100, 100], [103, 103]), {**TRUTHS, "high": Truth(103.0, 5.0, 50, 0.0)}, "care",
            "within each other's error",
        ),
        (
            estimates([110, 108], [195, 190]), {**TRUTHS, "high": Truth(200.0, 1.0, 3, 0.0)}, "care",
            r"few episodes behind the true value of high \(3\)",
        ),
        (
            estimates([110, 108], [195, 190]), {**TRUTHS, "low": Truth(100.0, 1.0, 50, 0.2)}, "care",
            "low were cut off early",
        ),
    ],
)  # fmt: skip
def test_the_rule(made, truths, verdict, reason):
    trust = ope.trust_report(made, truths)
    assert trust.verdict == verdict
    assert re.search(reason, " · ".join(trust.reasons))


def test_one_known_policy_shows_no_order():
    trust = ope.trust_report({"low": estimates([99], [0])["low"]}, {"low": TRUTHS["low"]})
    assert trust.verdict == "care"
    assert "only one known policy" in trust.reasons[0]
    assert trust.relative_value_error == pytest.approx(0.01)


def test_notes_on_the_data_ask_for_care():
    trust = ope.trust_report(estimates([110, 108], [195, 190]), TRUTHS, notes=["expert fraction 0.3 came out as 0.41"])
    assert trust.verdict == "care"
    assert trust.spearman == pytest.approx(1.0)


def test_an_order_that_few_settings_find_may_be_luck():
    made = estimates([110, 108], [195, 190])
    assert ope.trust_report(made, TRUTHS, agreement=(10, 18)).verdict == "trust"
    lucky = ope.trust_report(made, TRUTHS, agreement=(9, 18))
    assert lucky.verdict == "care"
    assert "only 9 of 18 settings" in lucky.reasons[0]
