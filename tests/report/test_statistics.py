"""Statistics against rliable's own numbers and against brute force."""

from typing import Any

import numpy as np
import pytest
from scipy import stats

from ilbrl.base.errors import IlbrlError
from ilbrl.report import bootstrap, statistics

# rng = default_rng(7); OURS = rng.normal(60, 25, (6, 4)).round(1); THEIRS = rng.normal(50, 25, (5, 4)).round(1), with
# THEIRS[0, 0] = OURS[0, 0] for a tie
OURS = np.array(
    [[60.0, 67.5, 53.1, 37.7], [48.6, 35.2, 61.5, 93.5], [47.7, 44.5, 72.2, 68.9],
     [62.6, 36.7, 59.3, 77.4], [26.4, 48.6, 12.5, 27.8], [14.0, 54.1, 28.3, 66.8]]
)  # fmt: skip
THEIRS = np.array(
    [[60.0, 45.3, -12.9, 36.5], [48.8, 52.8, 11.7, 38.1], [25.5, 29.8, 76.5, 29.8],
     [49.2, 72.1, 35.4, 47.2], [52.8, 51.6, 19.4, 51.9]]
)  # fmt: skip

# rliable 1.2.0: metrics.aggregate_mean, aggregate_median, aggregate_iqm, aggregate_optimality_gap(…, gamma=100)
RLIABLE = {
    "mean": (50.204166666666666, 41.075),
    "median": (47.791666666666664, 43.980000000000004),
    "pooled_iqm": (51.199999999999996, 43.38),
    "optimality_gap": (49.79583333333333, 58.925000000000004),
}


@pytest.mark.parametrize("name", RLIABLE)
def test_aggregates_equal_rliable(name):
    statistic = statistics.AGGREGATES[name]
    for scores, expected in zip((OURS, THEIRS), RLIABLE[name]):
        assert statistic(scores) == pytest.approx(expected, abs=1e-12)


def test_probability_of_improvement_equals_rliable():
    assert statistics.probability_of_improvement(OURS, THEIRS) == pytest.approx(0.5708333333333333, abs=1e-12)
    assert statistics.probability_of_improvement(OURS, OURS) == 0.5


def test_profiles_equal_rliable():
    """rliable's run_score_deviation at each threshold."""
    thresholds = np.array([0.0, 25.0, 50.0, 60.0, 75.0, 100.0])
    expected = [1.0, 0.9166666666666666, 0.5, 0.3333333333333333, 0.08333333333333333, 0.0]
    np.testing.assert_allclose(statistics.profile(thresholds)(OURS), expected, atol=1e-12)


def test_the_paper_s_iqm_drops_one_of_six_on_each_side_within_each_task():
    scores = np.array([[0, 10], [1, 20], [2, 30], [3, 40], [4, 50], [1000, -999]], float)
    np.testing.assert_allclose(statistics.task_iqm(scores), [2.5, 25.0])
    assert statistics.iqm(scores) == 13.75
    np.testing.assert_allclose(statistics.task_iqm(scores[:3]), [1.0, 20.0])  # three runs: nothing to drop
    assert statistics.profile(np.array([2.4, 2.6, 26.0]), over="tasks")(scores).tolist() == [1.0, 0.5, 0.0]


@pytest.mark.parametrize("statistic", statistics.AGGREGATES.values(), ids=statistics.AGGREGATES)
def test_leading_axes_are_resamples(statistic):
    stacked = np.stack([OURS, OURS[::-1] * 2 - 7, OURS - 100])
    np.testing.assert_allclose(statistic(stacked), [statistic(matrix) for matrix in stacked], rtol=1e-12)


def test_a_resample_keeps_every_score_in_its_task():
    drawn = bootstrap.resampled(OURS, bootstrap.draw(OURS.shape, np.random.default_rng(0), 500))
    assert drawn.shape == (500, 6, 4)
    for task in range(4):
        assert set(np.unique(drawn[:, :, task])) == set(OURS[:, task])
    agree = (drawn[:, :, 0] == 60.0) == (drawn[:, :, 1] == 67.5)  # tasks are drawn independently of one another
    assert not agree.all()


def test_intervals_agree_with_a_brute_force_bootstrap():
    """Every resample of 3 runs × 2 tasks is equally likely: 3⁶ of them, all counted."""
    scores = np.array([[1.0, 10.0], [2.0, 30.0], [4.0, 35.0]])
    every = np.stack(np.meshgrid(*[range(3)] * 6, indexing="ij"), axis=-1).reshape(-1, 3, 2)
    exact = np.sort([statistics.iqm(np.stack([scores[r[:, 0], 0], scores[r[:, 1], 1]], axis=1)) for r in every])
    drawn = bootstrap.bootstrap(scores, statistics.iqm, np.random.default_rng(0), 200_000)
    assert drawn.mean() == pytest.approx(exact.mean(), abs=0.05)
    assert drawn.std() == pytest.approx(exact.std(), rel=0.01)
    values, counts = np.unique(exact.round(9), return_counts=True)
    seen = np.array([(drawn.round(9) == value).mean() for value in values])
    np.testing.assert_allclose(seen, counts / len(every), atol=0.004)


def test_blocks_do_not_show(monkeypatch):
    monkeypatch.setattr(bootstrap, "BLOCK", 24 * 7)  # seven resamples at a time
    found = bootstrap.interval(OURS, statistics.mean, np.random.default_rng(0), 20_000)
    error = np.sqrt((OURS.var(axis=0) / 6).sum()) / 4  # of a resample's mean, in closed form
    assert found.point == pytest.approx(OURS.mean())
    assert found.low == pytest.approx(OURS.mean() - 1.96 * error, abs=0.3)
    assert found.high == pytest.approx(OURS.mean() + 1.96 * error, abs=0.3)


def test_pairs_share_their_draws():
    shifted = OURS + 3.0
    statistic, rng = bootstrap.difference(statistics.mean), np.random.default_rng(0)
    paired = bootstrap.comparison(shifted, OURS, statistic, rng, paired=True)
    assert paired == pytest.approx((3.0, 3.0, 3.0))  # what is common to a pair is no uncertainty
    apart = bootstrap.comparison(shifted, OURS, statistic, rng)
    assert apart.low < -5 < 3 < 11 < apart.high


def test_the_same_generator_gives_the_same_interval():
    first, second = (bootstrap.interval(OURS, statistics.iqm, np.random.default_rng(3)) for _ in range(2))
    assert first == second


def test_bad_scores_are_refused_in_a_sentence():
    rng = np.random.default_rng(0)
    with pytest.raises(IlbrlError, match="run 1 on task 2 is nan"):
        bootstrap.interval(np.where(np.arange(24).reshape(6, 4) == 6, np.nan, OURS), statistics.mean, rng)
    with pytest.raises(IlbrlError, match="runs × tasks"):
        bootstrap.interval(OURS[:, 0], statistics.mean, rng)
    with pytest.raises(IlbrlError, match="cannot be compared in pairs"):
        bootstrap.comparison(OURS, THEIRS, statistics.probability_of_improvement, rng, paired=True)


def test_per_task_mean_and_its_normal_interval():
    found = statistics.normal_mean(np.array([1.0, 2.0, 3.0, 6.0]))
    assert found.value == 3.0
    assert found.half_width == pytest.approx(1.959963984540054 * np.sqrt(14 / 3) / 2)
    assert np.isnan(statistics.normal_mean(np.array([5.0])).half_width)


def test_runs_that_agree_by_chance_are_no_surer_than_their_episodes():
    """Two runs of 20 episodes each, whose returns vary by 78: −138.3 and −137.7 are not known to ± 0.6."""
    error = 78 / np.sqrt(20)
    found = statistics.normal_mean(np.array([-138.3, -137.7]), np.array([error, error]))
    assert found.half_width == pytest.approx(1.959963984540054 * error / np.sqrt(2))
    apart = np.array([-300.0, 0.0])  # the runs differ more than episodes explain: their spread counts
    assert statistics.normal_mean(apart, np.array([error, error])) == statistics.normal_mean(apart)
    assert statistics.normal_mean(apart[:1], np.array([error])).std_error == pytest.approx(error)
    assert statistics.normal_mean(apart, np.array([np.nan, error])) == statistics.normal_mean(apart)


def test_clearly_above_means_the_whole_interval():
    found = statistics.Mean(10.0, 1.0, 1.96, 30)
    assert [found.clearly_above(value) for value in (8.0, 8.05, 11.0)] == [True, False, False]
    assert statistics.Mean(10.0, np.nan, np.nan, 1).clearly_above(9.9)


def test_two_means_differ_where_the_interval_of_their_difference_leaves_out_zero():
    found = statistics.Mean(10.0, 3.0, 5.88, 1)
    assert [found.differs_from(statistics.Mean(value, 4.0, 7.84, 1)) for value in (0.1, 0.3, 19.9)] == [
        True,
        False,
        True,
    ]
    assert not found.differs_from(statistics.Mean(-100.0, np.nan, np.nan, 1))


def test_not_distinguishable_is_welch_s_test():
    rng = np.random.default_rng(0)
    for _ in range(50):
        ours, best = rng.normal(0, 1, 5), rng.normal(1.5, 3, 8)
        found: Any = stats.ttest_ind(ours, best, equal_var=False)
        assert statistics.indistinguishable(ours, best) == (found.pvalue >= 0.05)
    assert statistics.indistinguishable(np.array([1.0]), np.array([2.0, 3.0]))
    assert not statistics.indistinguishable(np.array([1.0, 1.0]), np.array([2.0, 2.0]))


def test_the_t_interval_of_a_mean_is_student_s():
    """For the mean of one task the bootstrap's standard deviation is known: s √((n − 1) / n) / √n."""
    scores = np.array([[3.0], [5.0], [10.0], [14.0]])
    drawn = bootstrap.bootstrap(scores, statistics.mean, np.random.default_rng(0), 200_000)
    found = bootstrap.t_interval(statistics.mean(scores), drawn, runs=4, tasks=1)
    low, high = stats.t.interval(0.95, 3, loc=8.0, scale=stats.sem(scores[:, 0]))
    assert found.low == pytest.approx(low, abs=0.05)
    assert found.high == pytest.approx(high, abs=0.05)
    assert bootstrap.t_interval(statistics.mean(scores), drawn, runs=1, tasks=1).holds_zero


def test_two_runs_of_each_prove_nothing():
    ours, theirs = np.array([[80.0], [82.0]]), np.array([[65.0], [75.0]])
    rng = np.random.default_rng(0)
    assert not bootstrap.comparison(
        ours, theirs, bootstrap.difference(statistics.iqm), rng
    ).holds_zero  # percentiles stay within what was seen
    assert bootstrap.cautious_difference(ours, theirs, statistics.iqm, rng).holds_zero
