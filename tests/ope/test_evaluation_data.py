from dataclasses import replace

import numpy as np
import pytest

from ilbrl import ope
from ilbrl.base.errors import IlbrlError
from ilbrl.data import concatenate
from ilbrl.data.splits import CompositionSizes, compose
from ilbrl.learning.batches import Spec

SIZES = CompositionSizes(training=1000, expert_episodes=2, evaluation=1000, validation=400)


@pytest.fixture(scope="module")
def composition(linear):
    return compose(linear.log(0.8, 0.1, 80), linear.log(0.1, 0.3, 120, seed=1), SIZES)


def test_subsets_of_one_union_are_the_compositions_mixtures(composition):
    data = ope.EvaluationData.of_composition(composition, [0.8, 0.0, 0.3])
    for fraction in (0.0, 0.3, 0.8):
        mixture, rows = composition.evaluation(fraction), data.subset(fraction)
        np.testing.assert_array_equal(data.dataset.observations[rows], mixture.observations)
        np.testing.assert_array_equal(np.asarray(data.dataset.rewards)[rows], mixture.rewards)
    assert len(data.dataset) == 800 + 1000  # the most expert and the most exploratory rows that any mixture takes
    np.testing.assert_array_equal(data.initial_observations, composition.validation.initial_observations)
    np.testing.assert_array_equal(data.spec.obs_mean, Spec.of(composition.training).obs_mean)
    with pytest.raises(IlbrlError, match=r"expert fraction 0\.5 was prepared \(there is 0, 0\.3, 0\.8\)"):
        data.subset(0.5)


def test_values_that_rewards_allow(composition):
    data = ope.EvaluationData.of_composition(composition, [0.5])
    low, high = data.value_range(0.9)
    assert low == pytest.approx(np.min(data.dataset.rewards) / 0.1)
    assert high == 0.0  # costs alone: the best that can happen is that the episode ends


def test_the_mean_value_of_rows_that_are_alike(composition):
    """Reward 1 in every row, one row in ten a terminal: V = 1 + 0.9 · 0.9 V."""
    data = ope.EvaluationData.of_composition(composition, [0.5])
    ends = np.zeros(len(data.dataset), bool)
    ends[data.subset(0.5)[::10]] = True
    alike = replace(data, dataset=replace(data.dataset, rewards=np.ones(len(ends)), terminals=ends))
    assert alike.mean_value(0.5, 0.9) == pytest.approx(1 / (1 - 0.9 * 0.9))


def test_logs_without_rewards_are_refused(linear):
    log = linear.log(0.3, 0.3, 4)
    with pytest.raises(IlbrlError, match="needs the true rewards"):
        ope.EvaluationData.of(replace(log, rewards=None), log.initial_observations, Spec.of(log))
    with pytest.raises(IlbrlError, match="all rewards are 0"):
        ope.EvaluationData.of(replace(log, rewards=np.zeros(len(log))), log.initial_observations, Spec.of(log))
    spoilt = log.rewards.copy()
    spoilt[7] = np.nan
    with pytest.raises(IlbrlError, match="row 7 is not finite"):
        ope.EvaluationData.of(replace(log, rewards=spoilt), log.initial_observations, Spec.of(log))


def test_too_few_expert_episodes_are_noted_or_refused(linear):
    sizes = CompositionSizes(training=500, expert_episodes=1, evaluation=100, validation=50)
    few = compose(linear.log(0.8, 0.1, 12), linear.log(0.1, 0.3, 100, seed=1), sizes)
    notes = ope.EvaluationData.of_composition(few, [0.35]).notes
    assert any("expert fraction 0.35 came out as" in note for note in notes)
    few = ope.held_out(linear.log(0.8, 0.1, 3, steps=1000), linear.log(0.1, 0.3, 100, seed=1))
    with pytest.raises(IlbrlError, match=r"2 expert episodes cannot make .* fraction 0\.1"):
        ope.EvaluationData.of_composition(few, [0.1])


def test_holding_out_for_evaluation_alone(linear):
    expert, exploratory = linear.log(0.8, 0.1, 14), linear.log(0.1, 0.3, 28, seed=1)
    split = ope.held_out(expert, exploratory)
    assert split.validation.num_episodes == 4 + 8
    parts = [split.validation, split.evaluation_expert, split.evaluation_logs]
    everything = np.sort(concatenate(parts).observations[:, 0])
    np.testing.assert_array_equal(everything, np.sort(concatenate([expert, exploratory]).observations[:, 0]))
    with pytest.raises(IlbrlError, match="1 complete episodes; evaluation needs at least two"):
        ope.held_out(linear.log(0.8, 0.1, 1), exploratory)
