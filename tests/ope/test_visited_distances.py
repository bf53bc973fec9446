"""Distances between visited and expert steps: closed forms, brute force, SciPy, and the rollouts they come from."""

from dataclasses import replace

import numpy as np
import pytest
from benchmarks.kills import tiny_study
from benchmarks.visited_distances import (
    DRAWN,
    WAYS,
    Rules,
    Steps,
    Visited,
    distances,
    draw,
    energy_distance,
    expert_steps,
    judge,
    measure,
    squared_mmd,
    to_nearest,
    usual_distance,
    visit,
    visited_steps,
)
from scipy import stats
from tests.models.conftest import exact_models, steady

from ilbrl import models
from ilbrl.data import from_arrays
from ilbrl.learning.spec import Spec
from ilbrl.models.rollouts import NOISE
from ilbrl.study.study import Training

SPEC = Spec(np.array([1.0]), np.array([2.0]), np.array([-4.0]), np.array([4.0]))


def weighted(features, weights=None):
    features = np.asarray(features, float)
    weights = np.ones(len(features)) if weights is None else np.asarray(weights, float)
    return Steps(features, weights / weights.sum())


@pytest.fixture
def two():
    """Two weighted samples in three dimensions."""
    rng = np.random.default_rng(0)
    return [weighted(rng.normal(size=(n, 3)), rng.random(n)) for n in (7, 5)]


def mean_over_pairs(a, b, function):
    pairs = [(i, j) for i in range(len(a.weights)) for j in range(len(b.weights))]
    return sum(a.weights[i] * b.weights[j] * function(a.features[i], b.features[j]) for i, j in pairs)


def test_the_energy_distance_on_a_line_is_that_of_scipy():
    rng = np.random.default_rng(1)
    x, y, p, q = rng.normal(size=6), rng.normal(size=9) + 1, rng.random(6), rng.random(9)
    expected = stats.energy_distance(x, y, p, q) ** 2  # SciPy takes the root
    assert energy_distance(weighted(x[:, None], p), weighted(y[:, None], q)) == pytest.approx(expected)
    assert energy_distance(weighted([[0.0]]), weighted([[3.0]])) == pytest.approx(6)  # two points: twice their distance


def test_distances_by_brute_force(two):
    x, y = two

    def of_all(function, sign):
        own, theirs = (mean_over_pairs(a, a, function) for a in two)
        return sign * (2 * mean_over_pairs(x, y, function) - own - theirs)

    assert energy_distance(x, y) == pytest.approx(of_all(lambda a, b: np.linalg.norm(a - b), 1))
    kernel = of_all(lambda a, b: np.exp(-np.sum((a - b) ** 2) / (2 * 1.3**2)), -1)
    assert squared_mmd(x, y, 1.3) == pytest.approx(kernel)
    nearest = [min(np.linalg.norm(a - b) for b in y.features) for a in x.features]
    assert to_nearest(x, y) == pytest.approx(np.dot(x.weights, nearest))
    for distance in (energy_distance(x, x), squared_mmd(x, x, 1.3)):
        assert distance == pytest.approx(0, abs=1e-12)
    assert to_nearest(x, x) == pytest.approx(0, abs=1e-6)


def test_the_mmd_of_two_points_and_the_usual_distance():
    expected = 2 - 2 * np.exp(-9 / 8)
    assert squared_mmd(weighted([[0.0]]), weighted([[3.0]]), 2.0) == pytest.approx(expected)
    assert usual_distance(np.array([[0.0], [1.0], [5.0]])) == pytest.approx(4)  # of 1, 4 and 5


def test_rows_are_drawn_as_often_as_their_weights_say():
    weights = np.array([0.0, 1.0, 0.0, 2.5, 0.5])
    counts = np.bincount(draw(weights, 400), minlength=5)
    assert counts.tolist() == [0, 100, 0, 250, 50]


@pytest.mark.parametrize("averaged", [False, True])
def test_visited_steps_are_those_of_the_rollouts(averaged):
    """With noise, ends and members that differ: lengths and a sum over the steps are as rollouts count them."""
    exact, starts = exact_models(3, shift=0.05, end_bias=-3.0), np.array([[1.0, 0.0], [0.5, -1.0]], np.float32)
    exact = replace(exact, scales=replace(exact.scales, high_disagreement=np.float32(1e6)))  # nothing is too strange
    policies = [steady(0.3), steady(-0.8)]
    options = {"score": lambda s, a: s[..., 0] - 2 * s[..., 1], "penalty": 0.0, "averaged": averaged}
    played = models.rollout(policies, exact, starts, 12, quiet=True, **options)
    for p, policy in enumerate(policies):
        found = visit(policy, exact, starts, Rules(12, NOISE, averaged, True))
        assert found.observations.shape == (12, 3, 2, 2)
        np.testing.assert_allclose(found.alive.sum(0), played.lengths[p], rtol=1e-5)
        scores = found.observations @ np.array([1.0, -2.0])
        np.testing.assert_allclose((found.alive * scores).sum(0), played.unpenalised[p], rtol=1e-4)
        np.testing.assert_allclose(found.ends[:-1], found.alive[:-1] - found.alive[1:], atol=1e-6)
        assert found.actions == pytest.approx(0.3 if p == 0 else -0.8)


def visited(alive, ends):
    """One rollout that counts its steps, with actions of twice that."""
    steps = np.arange(len(alive), dtype=float)[:, None, None, None]
    return Visited(steps, 2 * steps, *(np.array(x, float)[:, None, None] for x in (alive, ends)))


def test_visited_steps_count_as_long_as_the_episode_lives_and_ended_ones_stay():
    """Lives 1, 1, ½; it ends after step 1 with chance ½, and one step is left then."""
    rollout = visited([1, 1, 0.5], [0, 0.5, 0])
    alive = visited_steps(rollout, SPEC)
    shares = {tuple(row): np.mean((alive.features == row).all(1)) for row in np.unique(alive.features, axis=0)}
    expected = {(-0.5, 0.0, 0.0): 0.4, (0.0, 0.5, 0.0): 0.4, (0.5, 1.0, 0.0): 0.2}  # (s − 1) / 2, a / 4, not ended
    assert shares == pytest.approx(expected, abs=2 / DRAWN)
    whole = visited_steps(rollout, SPEC, count_ends=True)
    ended = (whole.features == [0.0, 0.5, 1.0]).all(1)  # √1 away
    assert ended.mean() == pytest.approx(0.5 / 3, abs=2 / DRAWN)
    assert (whole.features[~ended, 2] == 0).all()


def demonstrations(length=4):
    """An episode of two steps that ends in a terminal, and one of `length` that is cut off."""
    steps = np.r_[:2, :length].astype(float)[:, None]
    last = np.r_[False, True, np.zeros(length - 1, bool), True]
    terminals, timeouts = last & (np.arange(len(last)) == 1), last & (np.arange(len(last)) > 1)
    return from_arrays(
        steps, 2 * steps, steps + 1, terminals=terminals, timeouts=timeouts, action_low=[-4.0], action_high=[4.0]
    )


def test_the_experts_ended_episodes_stay_too():
    found = expert_steps(demonstrations(), SPEC, horizon=5, count_ends=True)
    assert found.features[:6, 2].tolist() == [0] * 6
    assert found.features[6].tolist() == [0.0, 0.5, 1.0]
    np.testing.assert_allclose(found.weights, np.array([1, 1, 1, 1, 1, 1, 3]) / 9)  # steps 2, 3 and 4 are left
    assert len(expert_steps(demonstrations(), SPEC, horizon=5).weights) == 6
    many = expert_steps(demonstrations(3 * DRAWN), SPEC, horizon=5)
    assert len(many.features) == DRAWN
    assert many.weights.sum() == pytest.approx(1)


def test_a_rollout_like_the_demonstrations_is_the_nearest():
    same, early = (visited([1, 1, life, life], [0, 1 - life, 0, 0]) for life in (1.0, 0.2))
    expert = demonstrations().episodes(np.array([1]))
    near, far = (distances(rollout, rollout, expert, SPEC) for rollout in (same, early))
    assert set(near) == set(WAYS) - {"rewards", "closeness", "closeness_unpenalised"}
    assert near == pytest.approx(dict.fromkeys(near, 0), abs=1e-6)
    assert all(far[way] > 0.01 for way in far if way not in ("to_expert", "recall"))  # these see no weights, or half


def test_a_study_is_measured(tmp_path):
    tiny = tiny_study(tmp_path)
    tiny = replace(tiny, search=replace(tiny.search, configurations=1), training=Training(seeds=1, updates=20))
    tiny.run(tmp_path / "run", quiet=True)
    study = measure(tmp_path / "run")
    assert [entry["algorithm"] for entry in study["configurations"]] == ["ilbrl", "bc"]
    for entry in study["configurations"]:
        assert set(entry["values"]) == set(WAYS)
        assert np.isfinite(list(entry["values"].values())).all()
        assert all(entry["values"][way] > 0 for way in ("to_expert", "recall", "energy", "energy_ends"))


def test_studies_without_models_or_scores_are_refused(played, finished):
    for folder, why in ((played, "no learned models"), (finished, "was not played")):
        with pytest.raises(SystemExit, match=why):
            measure(folder)


def test_the_largest_value_and_the_smallest_distance_are_chosen():
    entries = [("ilbrl", 10.0, 1.0, 3.0), ("ilbrl", 30.0, 2.0, 2.0), ("bc", 20.0, 9.0, 1.0)]
    study = {
        "configurations": [
            {"algorithm": name, "score": score, "values": {"rewards": value, "energy": distance}}
            for name, score, value, distance in entries
        ]
    }
    assert judge(study, "rewards") == (0.5, 20.0)
    assert judge(study, "energy") == (0.5, 20.0)
    assert judge(study, "energy", "ilbrl") == pytest.approx((1.0, 30.0))
    for entry in study["configurations"]:
        entry["values"]["energy"] = 0.0
    assert judge(study, "energy") == (0.0, 20.0)  # nothing told apart: as at random
