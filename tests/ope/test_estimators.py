"""The seam: what every estimator answers, and an estimator that is invented here."""

from dataclasses import dataclass, fields, replace

import numpy as np
import pytest

from ilbrl import ope
from ilbrl.base.errors import IlbrlError
from ilbrl.ope.estimates import Choices
from ilbrl.policy import Policy

SMALL = {
    "models": {"size": "small", "members": 2, "updates": 60, "hidden": (8, 8), "starts": 4},
    "expected_sarsa": {"updates": 40, "hidden": (8, 8), "batch_size": 16, "grid": "small"},
    "importance": {},
    "doubly_robust": {"updates": 40, "hidden": (8, 8), "batch_size": 16, "grid": "none"},
}


@pytest.fixture(scope="module")
def evidence(linear):
    """Two logs of a linear system, each with probabilities; what is held out has the same names."""
    logs = {
        name: linear.log(k, 0.2, 20, seed=seed) for seed, (name, k) in enumerate({"expert": 0.8, "logs": 0.1}.items())
    }
    likely = {name: replace(log, log_probs=np.zeros(len(log))) for name, log in logs.items()}
    return ope.Evidence.of(likely, held_out={name: log.episodes(range(6)) for name, log in likely.items()})


@pytest.fixture(scope="module")
def stochastic():
    """u ~ tanh of a Gaussian around −0.5 x: every estimator can value it."""
    layers = ((np.array([[-0.5, 0.0]]), np.array([0.0, -1.0])),)
    return Policy(layers, -np.ones(1), np.ones(1), head="tanh_gaussian")


@pytest.mark.parametrize("name", ope.ESTIMATORS)
def test_every_estimator_keeps_the_contract(name, evidence, stochastic, tmp_path):
    estimator = ope.ESTIMATORS[name]
    assert estimator.name == name
    config = estimator.changed(SMALL[name])
    found = ope.estimate(
        {"a": stochastic, "b": stochastic}, evidence, name, config, [0], workplace=tmp_path, quiet=True
    )
    assert (found.estimator, found.config, found.quantity) == (name, config, estimator.quantity(config, evidence))
    assert set(found.policies) == {"a", "b"}
    assert found.seconds > 0
    for estimate in found.policies.values():
        assert estimate.verdict in estimator.verdicts
        assert estimate.interval[0] <= estimate.value <= estimate.interval[1]
        assert estimate.value == pytest.approx(np.mean(estimate.parts))
    again = ope.estimate({"a": stochastic}, evidence, name, config, [0], quiet=True)
    assert again["a"].value == pytest.approx(found["a"].value, rel=1e-4)
    choices = estimator.choices(config, evidence)
    assert len(choices.configs) >= 1
    assert {estimator.quantity(c, evidence) for c in choices.configs} == {found.quantity}
    assert list(estimator.verdicts.values()).count("void") >= 1


@pytest.mark.parametrize("name", ope.ESTIMATORS)
def test_every_configuration_has_plain_settings(name):
    """Studies and the command line name them in text."""
    for field in fields(ope.ESTIMATORS[name].Config):
        assert field.default is not None or field.default_factory is not None
    with pytest.raises(IlbrlError, match=f"{name} has no setting 'wings'; there are "):
        ope.ESTIMATORS[name].changed({"wings": 2})


@dataclass(frozen=True)
class Config:
    trust_in_numbers: float = 1.0


def constant(policies, evidence, configs, seeds, *, workplace=None, log=None, quiet=False):
    """Every policy is worth what it does in state 1."""
    worth = {name: float(policy(np.ones((1, 1)))[0, 0]) for name, policy in policies.items()}
    return [
        ope.Estimates(
            "constant", c, quantity(c, evidence),
            {n: ope.Estimate(v * c.trust_in_numbers, 0.1, "said", (v,)) for n, v in worth.items()},
            {"said": "sound"}, 0.0, tuple(ope.Part(seed) for seed in seeds[:1]),
        )
        for c in configs
    ]  # fmt: skip


def quantity(config, evidence):
    return ope.Quantity(1.0, evidence.horizon, evidence.reward)


INVENTED = ope.Estimator(
    "constant", "a constant", Config, {"said": "sound", "silent": "void"}, quantity, constant,
    choices=lambda config, evidence: Choices([replace(config, trust_in_numbers=t) for t in (-1.0, 1.0, 2.0)]),
)  # fmt: skip


def test_an_invented_estimator_estimates_and_is_calibrated(evidence, linear):
    policies = {"half": lambda x: 0.5 * x, "whole": lambda x: x}
    assert ope.estimate(policies, evidence, INVENTED, quiet=True)["half"].value == 0.5
    calibration = ope.calibrate(made(linear, low=0.5, high=0.9), evidence, INVENTED, quiet=True)
    assert calibration.config == Config(1.0)  # −1 orders them wrongly, 2 misses the values
    assert [row.order[0] for row in calibration.table] == [2.0, 0.0, 0.0]
    assert calibration.trust.verdict == "care"  # nothing was checked without the policies' own logs


def test_pessimism_is_chosen_by_order_alone(evidence, linear):
    """The first setting wins where it orders known policies as well as the others, whatever their value errors."""
    backwards = replace(
        INVENTED,
        pessimistic=True,
        choices=lambda config, evidence: Choices([replace(config, trust_in_numbers=t) for t in (2.0, 1.0, -1.0)]),
    )
    known = made(linear, low=0.5, high=0.9)
    assert ope.calibrate(known, evidence, backwards, quiet=True).config == Config(2.0)
    assert ope.calibrate(known, evidence, replace(backwards, pessimistic=False), quiet=True).config == Config(1.0)


def test_unknown_estimators_and_empty_calls_are_refused(evidence):
    with pytest.raises(IlbrlError, match="no estimator 'oracle': there are "):
        ope.estimate({"p": lambda x: x}, evidence, "oracle")
    with pytest.raises(IlbrlError, match="at least one policy"):
        ope.estimate({}, evidence)


# --- calibration on made-up estimators --------------------------------------------------------------------------------


def made(linear, **truths):
    """Known policies x ↦ truth · x, each with 12 episodes of exactly this return, and a log of their own."""
    known = []
    for log, (name, true) in zip(("expert", "logs"), truths.items()):
        episodes = linear.log(0.5, 0.0, 12)
        rewards = np.where(episodes.step_of == 0, true, 0.0)
        known.append(ope.Known(name, lambda x, t=true: t * x, replace(episodes, rewards=rewards), "mean", log))
    return known


def biased(off_the_logs):
    """An estimator that is right on policies whose own logs it saw, and else adds what it is told to the worst."""

    def estimate(policies, evidence, configs, seeds, **options):
        (found,) = constant(policies, evidence, configs, seeds)
        if len(evidence.logs) == 2:
            return [found]
        wrong = {n: replace(e, value=off_the_logs(n, e.value), distance=2.0) for n, e in found.policies.items()}
        return [replace(found, policies=wrong)]

    return replace(INVENTED, estimate=estimate, blind=True, choices=lambda config, evidence: Choices([config]))


@pytest.mark.parametrize(
    ("off_the_logs", "verdict", "reason"),
    [
        (lambda name, value: value, "trust", "with and without their own logs"),
        (lambda name, value: value + 0.2, "care", "value error without their own logs is 50% of the spread"),
        (lambda name, value: value + 0.6, "distrust", "without their own logs is 1.5 times the spread .* too high"),
        (lambda name, value: value + (0.5 if name == "low" else 0), "distrust", "wrong order without their own logs"),
    ],
)
def test_optimism_off_the_logs_ends_in_distrust(evidence, linear, off_the_logs, verdict, reason):
    known = made(linear, low=0.5, high=0.9)
    trust = ope.calibrate(known, evidence, biased(off_the_logs), quiet=True).trust
    assert trust.verdict == verdict
    assert trust.seen.rank_error == 0
    assert trust.seen.value_error == pytest.approx(0.0, abs=1e-6)
    assert any(np.char.find(r, reason.split(" .*")[0]) >= 0 for r in trust.reasons), trust.reasons


def test_the_error_on_known_policies_widens_every_interval(evidence, linear):
    calibration = ope.calibrate(
        made(linear, low=0.5, high=0.9), evidence, biased(lambda name, value: value + 0.2), quiet=True
    )
    error = np.sqrt(0.2**2 - 0.1**2)  # the standard errors of 0.1 explain the rest; those of the truth are 0
    assert calibration.trust.error == pytest.approx(error, rel=1e-4)
    candidate = ope.estimate({"c": lambda x: 0.7 * x}, evidence, INVENTED)
    assert calibration.widen(candidate)["c"].std_error == pytest.approx(np.hypot(0.1, error), rel=1e-4)


def test_candidates_beyond_what_was_checked_are_named(evidence, linear):
    calibration = ope.calibrate(
        made(linear, low=0.5, high=0.9), evidence, biased(lambda name, value: value), quiet=True
    )
    assert calibration.trust.limit == 2.0
    found = ope.estimate(
        {"near": lambda x: 0.8 * x, "far": lambda x: 0.7 * x, "great": lambda x: 3 * x}, evidence, INVENTED
    )
    far = {name: replace(e, distance=2.5 if name == "far" else 1.0) for name, e in found.policies.items()}
    outside, above = calibration.warnings(replace(found, policies=far))
    assert "vouch for (limit 2.00): far (2.50);" in outside
    assert above.endswith("valued above the best known policy (0.9), where nothing was checked: great (3)")


def test_several_known_policies_may_have_made_one_log(evidence, linear):
    low, high = made(linear, low=0.5, high=0.9)
    middle = replace(made(linear, middle=0.7)[0], log="logs")
    outsider = replace(made(linear, outsider=0.6)[0], log=None)  # made no log: never seen
    asked = []

    def estimate(policies, evidence, configs, seeds, **options):
        asked.append((sorted(policies), sorted(evidence.logs)))
        return constant(policies, evidence, configs, seeds)

    estimator = replace(INVENTED, estimate=estimate, blind=True)
    trust = ope.calibrate([low, high, middle, outsider], evidence, estimator, quiet=True).trust
    assert asked == [
        (["high", "low", "middle", "outsider"], ["expert", "logs"]),
        (["low"], ["logs"]),
        (["high", "middle"], ["expert"]),
    ]
    assert trust.verdict == "trust"
    assert trust.seen.spearman == pytest.approx(1.0)


def test_impossible_calibrations_are_refused(evidence, linear):
    known = made(linear, low=0.5, high=0.9)
    with pytest.raises(IlbrlError, match="none was given"):
        ope.calibrate([], evidence, INVENTED)
    with pytest.raises(IlbrlError, match="different names"):
        ope.calibrate([*known, known[0]], evidence, INVENTED)
    with pytest.raises(IlbrlError, match=r"not among the evidence: low \(elsewhere\); there are expert, logs"):
        ope.calibrate([replace(known[0], log="elsewhere")], evidence, INVENTED)
