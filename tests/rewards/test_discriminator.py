"""The discriminator against densities that are known: x ~ N(±m, 1), so that log p_E(x) / p_X(x) = 2 m x."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ilbrl.base.errors import IlbrlError
from ilbrl.data import Dataset, concatenate
from ilbrl.learning.batches import Batch
from ilbrl.learning.spec import Spec
from ilbrl.rewards import Logits
from ilbrl.rewards.discriminator import Config, classification_loss, features, label, logit, slope_penalty, updates

MEAN = np.array([0.8, 0.3])  # of the expert's (s, a); the other logs have minus that


def logs(rows: int, sign: float) -> Dataset:
    rng = np.random.default_rng(rows)
    x = sign * MEAN + rng.standard_normal((rows, 2))
    bounds = {"action_low": np.array([-10.0]), "action_high": np.array([10.0])}
    return Dataset(x[:, :1], x[:, 1:], x[:, :1], np.zeros(rows, bool), np.arange(1, rows + 1) % 50 == 0, **bounds)


EXPERT, OTHERS = logs(2000, 1.0), logs(4000, -1.0)
UNION = concatenate([EXPERT, OTHERS])
X = np.column_stack([UNION.observations, UNION.actions])
INNER = np.abs(X).max(1) < 1.5  # where there are many rows of both kinds
LOG_RATIO = X @ (2 * MEAN)  # log p_E / p_X
SHARE = len(EXPERT) / len(UNION)
SMALL = Config(lr=3e-3, gradient_penalty=0.0, passes=100, batch_size=250, hidden=(16,))  # 800 updates: whole chunks


@pytest.fixture(scope="module")
def population() -> Logits:
    """Penalty off, penalty on, the first again, and one whose learning rate makes it diverge."""
    off, on = (replace(SMALL, gradient_penalty=c) for c in (0.0, 10.0))
    broken = replace(SMALL, lr=1e38)
    return label(EXPERT, OTHERS, [off, on, off, broken], [0, 0, 0, 0], quiet=True)


def test_without_penalty_the_logit_is_the_log_ratio_of_expert_to_all_rows(population):
    truth = LOG_RATIO - np.log(SHARE * np.exp(LOG_RATIO) + 1 - SHARE)
    error = (population.logit[0] - truth)[INNER]
    assert np.abs(error).mean() < 0.1
    assert np.abs(error).max() < 0.4


def test_the_penalty_holds_the_slope_at_one(population):
    """Per standardised unit of the observation and scaled unit of the action (ten wide, so nearly flat)."""
    spec = Spec.of(UNION)
    inputs = np.column_stack(
        [spec.standardise(UNION.observations), spec.encode_actions(UNION.actions), np.ones(len(X))]
    )
    slope = [np.linalg.norm(np.linalg.lstsq(inputs, one, rcond=None)[0][:2]) for one in population.logit[:2]]
    assert slope[0] > 2
    assert 0.8 < slope[1] < 1.2


def test_members_share_what_is_equal_and_divergence_shows(population):
    assert list(population.set_of) == [0, 1, 0, 2]
    assert population.logit.shape == (3, len(UNION))
    assert np.isnan(population.logit[2]).all()
    assert np.isfinite(population.logit[:2]).all()


def test_labels_on_disk(population, tmp_path):
    population.save(tmp_path / "labels.npz")
    with np.load(tmp_path / "labels.npz") as found:
        np.testing.assert_array_equal(found["logit"], population.logit)
        assert found["set_of"].tolist() == [0, 1, 0, 2]
        assert found["expert_rows"] == len(EXPERT)
    np.testing.assert_allclose(population.probability[0], 1 / (1 + np.exp(-population.logit[0])), rtol=1e-5)


def test_the_positive_unlabelled_logit_leaves_the_experts_kind_out_of_the_unlabelled():
    """All rows are a share η expert's: what remains is p_X, and the logit is log η p_E / ((1 − η) p_X)."""
    cfg = replace(SMALL, loss="positive_unlabelled", positive_share=SHARE, state_only=True)
    found = label(EXPERT, OTHERS, [cfg], [0], quiet=True).logit[0]
    truth = 2 * MEAN[0] * X[:, 0] + np.log(SHARE / (1 - SHARE))
    assert np.abs(found - truth)[INNER].mean() < 0.15


def test_losses_by_hand():
    expert, others = jnp.array([0.0, 2.0]), jnp.array([-1.0, 1.0])
    found = (np.log(2) + np.log(1 + np.exp(-2))) / 2
    alarm = (np.log(1 + np.exp(-1)) + np.log(1 + np.exp(1))) / 2
    np.testing.assert_allclose(classification_loss(Config(), expert, others), found + alarm, rtol=1e-5)
    known = (np.log(2) + np.log(1 + np.exp(2))) / 2
    for share, remains in [(0.5, alarm - known / 2), (0.9, 0.0)]:  # never below 0
        cfg = Config(loss="positive_unlabelled", positive_share=share)
        np.testing.assert_allclose(classification_loss(cfg, expert, others), share * found + remains, rtol=1e-5)


def test_penalty_by_hand():
    """A linear logit has the same slope everywhere: (‖(3, 4)‖ − 1)² = 16."""
    layers = ({"w": jnp.array([[3.0], [4.0]]), "b": jnp.zeros(1)},)
    penalty = slope_penalty(layers, jnp.ones((5, 2)), jnp.zeros((5, 2)), jax.random.key(0))
    np.testing.assert_allclose(penalty, 16, rtol=1e-5)
    np.testing.assert_allclose(logit(layers, jnp.ones((1, 2))), 7)


def test_states_alone_or_with_actions():
    batch = Batch(jnp.zeros((4, 3)), jnp.ones((4, 2)), jnp.zeros((4, 3)), jnp.ones(4))
    assert features(Config(), batch).shape == (4, 5)
    assert features(Config(state_only=True), batch).shape == (4, 3)


def test_a_thousand_passes_in_batches_of_256():
    assert updates(Config(), 512) == 2000
    assert updates(Config(passes=1), 257) == 2


def test_no_expert_rows():
    with pytest.raises(IlbrlError, match="no expert rows"):
        label(EXPERT.transitions(0, 0), OTHERS, [Config()], [0])
