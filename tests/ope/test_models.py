"""Rollouts in learned models, through the seam: a linear system whose returns are known, with and without rewards."""

from dataclasses import asdict, replace

import jax.numpy as jnp
import numpy as np
import pytest

import ilbrl
from ilbrl import models, ope
from ilbrl.base.errors import IlbrlError
from ilbrl.ope.estimators import models as estimator
from ilbrl.policy import Policy

CONFIG = estimator.Config(size="small", members=2, updates=1500, hidden=(64, 64), starts=20, penalty=0.0, noise=0.0)
ROUGH = replace(CONFIG, updates=300)  # where no accuracy is asked for


def linear_policy(k: float, scale: float = 0.05) -> Policy:
    """u = −k x, nearly: tanh is linear near 0, and the bounds undo the scale."""
    return Policy(((np.array([[-k * scale]]), np.zeros(1)),), -np.ones(1) / scale, np.ones(1) / scale)


def play(k: float, start: np.ndarray, steps: int = 25) -> np.ndarray:
    """[M] returns of u = −k x without noise."""
    x, total = start.astype(np.float64), np.zeros(len(start))
    for _ in range(steps):
        u = -k * x
        total += -(x**2 + 0.1 * u**2)
        x = 0.9 * x + 0.5 * u
    return total


@pytest.fixture(scope="module")
def evidence(linear):
    """Logs of a system without noise, by two policies that explore."""
    logs = {"expert": linear.log(0.8, 0.2, 60, noise=0.0), "logs": linear.log(0.1, 0.4, 60, seed=1, noise=0.0)}
    return ope.Evidence.of(logs, held_out={name: log.episodes(range(12)) for name, log in logs.items()})


@pytest.fixture(scope="module")
def workplace(tmp_path_factory):
    return tmp_path_factory.mktemp("models")


@pytest.fixture(scope="module")
def found(evidence, workplace):
    policies = {"good": linear_policy(0.8), "weak": linear_policy(0.1)}
    configs = [CONFIG, replace(CONFIG, penalty=1.0)]
    return estimator.estimate(policies, evidence, configs, [0], workplace=workplace, quiet=True)


def test_returns_are_those_of_the_true_system(found, evidence):
    first = evidence.initial_observations
    starts = first[np.linspace(0, len(first) - 1, 20).astype(int)][:, 0]
    plain, _ = found
    assert plain.quantity == ope.Quantity(1.0, 25)
    for name, k in {"good": 0.8, "weak": 0.1}.items():
        assert plain[name].value == pytest.approx(play(k, starts).mean(), rel=0.02)
        assert plain[name].verdict == "fine"
        assert plain[name].length == 25
        assert len(plain[name].parts) == 2


def test_one_rollout_serves_every_penalty(found):
    plain, penalised = found
    assert penalised["weak"].value < plain["weak"].value
    assert penalised["weak"].distance == plain["weak"].distance


def test_estimates_say_how_right_their_models_are(found, workplace):
    (file,) = workplace.iterdir()
    errors = models.Models.load(file).errors
    for estimates in found:
        assert [asdict(each) for each in estimates.model_errors] == [asdict(errors)]
    assert errors.steps == (1, 2, 5, 10)


def test_models_are_trained_once_and_found_again(found, evidence, workplace, monkeypatch):
    assert [path.name.split("-")[0] for path in workplace.iterdir()] == ["models"]
    monkeypatch.setattr(models, "train", None)
    again = ope.estimate({"good": linear_policy(0.8)}, evidence, "models", CONFIG, [0], workplace=workplace, quiet=True)
    assert again["good"].value == pytest.approx(found[0]["good"].value, rel=1e-5)


def test_models_also_learn_from_the_rows_that_policies_were_trained_on(evidence, monkeypatch):
    seen = []
    monkeypatch.setattr(models, "train", lambda logs, *rest, **options: seen.extend(logs))
    estimator.trained(replace(evidence, training={"expert": evidence.logs["expert"]}), CONFIG, 0)
    assert [len(log) for log in seen] == [2 * len(evidence.logs["expert"]), len(evidence.logs["logs"])]


def test_logs_without_rewards_rank_the_same(linear, evidence, workplace):
    """Closeness to the expert: the policy that acts like the expert is worth more, and a step is worth at most 1."""
    logs = {name: replace(log, rewards=None) for name, log in evidence.logs.items()}
    bare = ope.Evidence.of(logs)
    policies = {"good": linear_policy(0.8), "weak": linear_policy(-0.5)}
    found = ope.estimate(policies, bare, "models", ROUGH, [0], workplace=workplace, quiet=True)
    assert found.quantity == ope.Quantity(1.0, 25, "intrinsic")
    assert 25 >= found["good"].value > found["weak"].value + 1


def test_closeness_tells_the_return_of_the_same_rollouts(found, evidence, workplace, monkeypatch):
    """Where the logs carry rewards: the very models that value by reward serve, and their values stand beside."""
    held_out = evidence.held_out
    close = ope.Evidence.of(evidence.logs, held_out=held_out, intrinsic=True)
    assert close.logs["logs"].rewards is not evidence.logs["logs"].rewards
    monkeypatch.setattr(models, "train", None)
    both = ope.estimate({"weak": linear_policy(0.1)}, close, "models", CONFIG, [0], workplace=workplace, quiet=True)
    assert both.quantity.reward == "intrinsic"
    assert both["weak"].task_return == pytest.approx(found[0]["weak"].value, rel=1e-4)
    assert both["weak"].value > 0
    assert found[0]["weak"].task_return is None
    rest = close.without("logs")
    assert rest is not None
    assert set(rest.with_rewards) == {"expert"}


def test_the_user_says_where_episodes_end(evidence, workplace, found):
    """An episode ends with the first step that leads below 0.5, whoever plays it; without ends all are whole."""
    policies = {"good": linear_policy(0.8), "weak": linear_policy(0.1)}
    options = {"config": CONFIG, "seeds": 1, "out": workplace, "quiet": True}
    short = ilbrl.evaluate(policies, evidence, **options, end=lambda s, a, following: jnp.abs(following[..., 0]) < 0.5)
    first = evidence.initial_observations
    starts = first[np.linspace(0, len(first) - 1, 20).astype(int)][:, 0].astype(np.float64)
    for name, k in {"good": 0.8, "weak": 0.1}.items():
        path = np.abs(starts[:, None]) * (0.9 - 0.5 * k) ** np.arange(1, 26)
        steps = np.where((path < 0.5).any(1), (path < 0.5).argmax(1) + 1, 25)
        assert short[name].length == pytest.approx(steps.mean(), abs=0.2)
    whole = ilbrl.evaluate(policies, evidence, **options, learned_ends=False)
    assert whole["good"].length == 25
    assert whole["good"].value == pytest.approx(found[0]["good"].value, rel=1e-5)  # no end was logged
    with pytest.raises(IlbrlError, match="end: expected_sarsa plays no episodes that could end"):
        ilbrl.evaluate(policies, evidence, estimator="expected_sarsa", end=lambda s, a, following: s[..., 0] < 0)


def test_rewards_that_are_not_all_there_are_not_learned(evidence):
    for rewards in (None, np.full(len(evidence.logs["logs"]), np.nan)):
        logs = evidence.logs | {"logs": replace(evidence.logs["logs"], rewards=rewards)}
        assert not ope.Evidence.of(logs, intrinsic=True).with_rewards


def test_known_policies_are_also_valued_without_their_own_logs(evidence, workplace):
    known = [
        ope.Known("expert", linear_policy(0.8), evidence.held_out["expert"], "mean", "expert"),
        ope.Known("other", linear_policy(0.1), evidence.held_out["logs"], "mean", "logs"),
    ]
    config = replace(ROUGH, penalties=(1.0,))
    calibration = ope.calibrate(known, evidence, "models", config, [0], workplace=workplace, quiet=True)
    assert len(list(workplace.glob("models-*"))) >= 3  # with everything, without the expert's log, without the other
    assert len(calibration.table) == 2
    row = calibration.table[calibration.chosen]
    assert set(row.unseen) == {"expert", "other"}
    assert row.seen_check.rank_error == 0
    assert calibration.trust.unseen is not None
    assert np.isfinite(calibration.trust.limit)


def test_a_policy_whose_actions_are_no_numbers_is_void_and_harms_nobody(found, evidence, workplace):
    policies = {"good": linear_policy(0.8), "lost": linear_policy(float("nan"))}
    both = ope.estimate(policies, evidence, "models", CONFIG, [0], workplace=workplace, quiet=True)
    assert both["lost"].verdict == "broken"
    assert both.grade("lost") == "void"
    assert np.isnan(both["lost"].value)
    assert both.sound == ["good"]
    assert both["good"].value == pytest.approx(found[0]["good"].value, rel=1e-5)


def test_what_models_cannot_play_is_said(evidence):
    with pytest.raises(IlbrlError, match="policy f: models can play policies of ilbrl alone"):
        ope.estimate({"f": lambda x: x}, evidence, "models", CONFIG)
    with pytest.raises(IlbrlError, match="size: must be one of large, medium, small, got 'huge'"):
        ope.estimate({"f": linear_policy(0.1)}, evidence, "models", replace(CONFIG, size="huge"))


@pytest.mark.parametrize(("inputs", "outputs", "said"), [(2, 1, "takes observations of 2"), (1, 3, "has actions of 3")])
def test_a_policy_of_another_task_is_refused_before_models_are_trained(evidence, monkeypatch, inputs, outputs, said):
    monkeypatch.setattr(estimator, "trained", lambda *rest: pytest.fail("trained first"))
    policy = Policy(((np.zeros((inputs, outputs)), np.zeros(outputs)),), -np.ones(outputs), np.ones(outputs))
    with pytest.raises(IlbrlError, match=f"policy other: {said}"):
        estimator.estimate({"other": policy}, evidence, [CONFIG], [0], quiet=True)
