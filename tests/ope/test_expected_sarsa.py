"""Expected SARSA: its equations by hand, its rhythm, exact values through the seam, and who learns from which rows."""

from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.spatial.distance import cdist

from ilbrl import ope
from ilbrl.base.errors import IlbrlError
from ilbrl.learning import population
from ilbrl.learning.batches import Batch
from ilbrl.learning.spec import Spec
from ilbrl.ope.estimators import critics as learner
from ilbrl.ope.estimators import expected_sarsa
from ilbrl.ope.estimators.critics import Config
from ilbrl.ope.estimators.mixtures import Mixtures, distances_from_data

SPEC = Spec(np.zeros(2), np.ones(2), -np.ones(1), np.ones(1))
CFG = Config(hidden=(4, 4), batch_size=3, gamma=0.5)


def constant_critics(first: float, second: float):
    """Twin critics whose weights are zero: Q₁ = first, Q₂ = second everywhere."""
    state = learner.init(CFG, SPEC, jax.random.key(0))
    zeros = jax.tree.map(jnp.zeros_like, state.target)
    zeros[-1]["b"] = jnp.array([[first], [second]])
    return zeros


def batch(rewards=(1.0, 2.0, 3.0), continues=(1.0, 0.0, 1.0)):
    return Batch(
        jnp.zeros((3, 2)), jnp.zeros((3, 1)), jnp.ones((3, 2)), jnp.array(continues), jnp.array(rewards),
        next_actions=jnp.zeros((3, 1)),
    )  # fmt: skip


@pytest.mark.parametrize(("pessimism", "bracket"), [(0.0, 6.0), (1.0, 4.0), (3.0, 0.0)])
def test_the_target_by_hand(pessimism, bracket):
    """Critics 4 and 8: mean 6, standard deviation 2; a terminal earns its reward alone."""
    target = learner.bootstrap_target(replace(CFG, pessimism=pessimism), constant_critics(4.0, 8.0), batch())
    np.testing.assert_allclose(target, [1 + 0.5 * bracket, 2.0, 3 + 0.5 * bracket])


def test_value_bounds_clip_the_target():
    bounded = replace(CFG, value_low=2.5, value_high=5.0)
    target = learner.bootstrap_target(bounded, constant_critics(4.0, 8.0), batch())
    np.testing.assert_allclose(target, [4.0, 2.5, 5.0])


def test_the_loss_by_hand():
    loss, magnitude = learner.critic_loss(constant_critics(1.0, -3.0), CFG, batch(), jnp.array([1.0, 2.0, 3.0]))
    assert float(loss) == pytest.approx((0 + 1 + 4) / 3 + (16 + 25 + 36) / 3)
    assert float(magnitude) == pytest.approx(2.0)


def test_targets_move_in_their_own_rhythm():
    """Every third update by τ, in between not at all; the rhythm is traced, so it may differ between members."""
    cfg = replace(CFG, target_update_every=3.0, tau=0.25, lr=0.1)
    state = learner.init(cfg, SPEC, jax.random.key(1))
    step = jax.jit(learner.step, static_argnums=4)
    for update in range(1, 7):
        before = state
        state, _ = step(cfg, state, batch(), jax.random.key(0), 0)
        share = 0.25 if update % 3 == 0 else 0.0
        expected = jax.tree.map(lambda t, q, share=share: t + share * (q - t), before.target, state.critic.params)
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-7), state.target, expected)


def value(policies, evidence, configs, seeds=(0,), **options):
    return expected_sarsa.estimate(policies, evidence, configs, list(seeds), quiet=True, **options)


def test_exact_values_of_a_finite_mdp(finite, critics):
    """The paper's estimator, the clipped double target and bounded values, all in one population."""
    choices = np.array([0, 1, 0, 1, 1])
    config = replace(critics, updates=2000)
    configs = [config, replace(config, pessimism=1.0), replace(config, value_bounds=True)]
    for found in value({"chosen": finite.act(choices)}, finite.evidence(), configs):
        assert found["chosen"].value == pytest.approx(finite.value(np.eye(2)[choices]), rel=0.02), found.config
        assert found["chosen"].verdict == "converged"
        assert found.quantity == ope.Quantity(0.9)


def test_exact_values_of_a_linear_system(linear, critics):
    log = linear.log(k=0.3, spread=0.3, episodes=400)
    start = log.initial_observations[:64]
    evidence = ope.Evidence.of({"logs": log}, initial_observations=start)
    gains = {"0": 0.0, "0.6": 0.6}
    policies = {name: (lambda x, k=k: -k * x) for name, k in gains.items()}
    found = ope.estimate(policies, evidence, "expected_sarsa", replace(critics, updates=3000), [0, 1], quiet=True)
    for name, k in gains.items():
        assert found[name].value == pytest.approx(linear.value(k, start), rel=0.02)


# --- who learns from which rows ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def tiny(critics):
    return replace(critics, hidden=(8, 8), batch_size=16, updates=40)


@pytest.fixture(scope="module")
def evidence(linear):
    return ope.Evidence.of({"expert": linear.log(0.8, 0.1, 40), "logs": linear.log(0.1, 0.3, 60, seed=1)})


def keep(x):
    return -0.5 * x


def test_every_policy_setting_and_seed_has_its_curve(evidence, tiny):
    configs = [replace(tiny, expert_fraction=0.0), replace(tiny, lr=1e-2)]
    tables = value({"keep": keep, "rest": lambda x: 0 * x}, evidence, configs, (3, 4))
    assert [found.config for found in tables] == configs
    for found in tables:
        for name in ("keep", "rest"):
            trace, estimate = found.traces[name], found[name]
            assert trace.seeds == (3, 4)
            assert trace.updates.tolist() == list(range(1, 41))
            np.testing.assert_allclose(trace.values[:, -1], estimate.parts, rtol=1e-4, atol=1e-6)  # what the loop read
            assert estimate.value == pytest.approx(np.mean(estimate.parts))
    assert len({round(part, 6) for found in tables for e in found.policies.values() for part in e.parts}) == 8


def test_disagreeing_seeds_lower_the_value_and_widen_the_interval():
    values = np.array([[1.0, 3.0], [3.0, 5.0]])  # seeds 2, 4; states 2, 4
    plain = ope.Estimate.of(values, "converged")
    assert plain.value == 3.0
    assert plain.std_error == pytest.approx(np.sqrt(2.0 / 2 + 2.0 / 2))
    assert plain.interval == pytest.approx((3 - 1.96 * 2**0.5, 3 + 1.96 * 2**0.5), abs=1e-3)
    assert ope.Estimate.of(values, "fine", rivals=True).std_error == pytest.approx(np.sqrt(2.0 + 2.0 / 2))
    assert ope.Estimate.of(values, "converged", penalty=2.0).value == pytest.approx(3 - 2 * 2**0.5)
    assert ope.Estimate.of(values[:1], "converged", penalty=2.0).value == 2.0
    assert np.isnan(ope.Estimate.of([[5.0]], "converged").std_error)


def test_a_gain_is_paired_with_what_was_logged_from_the_same_beginnings():
    values = np.array([[9.0, 101.0, 13.0], [11.0, 103.0, 15.0]])  # by model; a good beginning in the middle
    gain = ope.Estimate.of(values, "fine", rivals=True).over(values, np.array([5.0, 98.0, np.nan])).gain
    assert gain is not None
    assert gain.value == 4.5  # (4, 3) by one model, (6, 5) by the other
    assert gain.std_error == pytest.approx(np.sqrt(2.0 + 0.5 / 2))
    assert ope.Estimate.of(values, "fine").over(values, np.array([np.nan, 1.0, np.nan])).gain is None


def test_mixtures_are_the_first_episodes_of_each_log(evidence):
    data = Mixtures.of(evidence, [0.8, 0.0, 0.3])
    expert, logs = evidence.logs["expert"], evidence.logs["logs"]
    for fraction, sizes in {0.0: (0, 1500), 0.3: (450, 1050), 0.8: (1000, 250)}.items():
        rows = data.subset(fraction)
        first = [log.observations[:size] for log, size in zip((expert, logs), sizes)]
        np.testing.assert_array_equal(data.rows.observations[rows], np.concatenate(first))


def test_a_member_sees_the_rows_of_its_own_mixture(evidence, tiny):
    """Rewards of 7 on the expert's rows alone: without those rows no value of a myopic critic comes near 7."""
    logs = {n: replace(d, rewards=np.full(len(d), 7.0 if n == "expert" else 0.0)) for n, d in evidence.logs.items()}
    myopic = replace(tiny, gamma=0.0, lr=0.05, updates=150)
    configs = [replace(myopic, expert_fraction=0.0), myopic]
    without, half = (found["keep"].value for found in value({"keep": keep}, replace(evidence, logs=logs), configs))
    assert abs(without) < 0.2
    assert 1.5 < half < 6


def test_too_few_expert_episodes_are_noted_or_refused(linear):
    few = ope.Evidence.of({"expert": linear.log(0.8, 0.1, 4, steps=400), "logs": linear.log(0.1, 0.3, 100, seed=1)})
    (note,) = Mixtures.of(few, [0.24, 0.3]).notes
    assert note == "expert fraction 0.24 came out as 0.17: 4 expert episodes are few"
    fewer = ope.Evidence.of({"expert": linear.log(0.8, 0.1, 2, steps=900), "logs": linear.log(0.1, 0.3, 60, seed=1)})
    with pytest.raises(IlbrlError, match=r"2 expert episodes cannot make .* fraction 0\.1"):
        Mixtures.of(fewer, [0.1])


def test_a_likely_start_and_bounds_come_from_the_logs(finite):
    """Reward 1 in every row, one row in ten a terminal: V = 1 + 0.9 · 0.9 V."""
    ends = np.arange(len(finite.log)) % 10 == 0
    alike = ope.Evidence.of({"logs": replace(finite.log, rewards=np.ones(len(ends)), terminals=ends)})
    data = Mixtures.of(alike, [0.5])
    assert data.mean_value(0.5, 0.9) == pytest.approx(1 / (1 - 0.9 * 0.9))
    asked = Config(gamma=0.9, informed_start=True, value_bounds=True)
    filled = expected_sarsa.fill_in(asked, data, alike)
    assert (filled.value_low, filled.value_high) == pytest.approx((0.0, 10.0))
    assert filled.start == pytest.approx(1 / (1 - 0.9 * 0.9))


def test_divergence_is_named_and_dated(evidence, tiny):
    """A learning rate of 1,000 blows one member up, and the other goes on."""
    sound, frozen = value({"keep": keep}, evidence, [tiny, replace(tiny, lr=1e3)])
    assert sound.grade("keep") != "void"
    assert frozen["keep"].verdict == "diverged"
    assert np.isnan(frozen["keep"].value)
    assert frozen.sound == []
    assert 0 <= frozen.traces["keep"].decided_at[0] < 40


def test_killed_and_resumed_it_is_the_same(evidence, tiny, tmp_path, monkeypatch):
    whole, fit = value({"keep": keep}, evidence, [tiny])[0], population.fit
    monkeypatch.setattr(population, "fit", partial(fit, save_every=0.0))
    first = []

    def killed(record):
        first.append(record["update"])
        if record["update"] == 20 and first.count(20) == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        value({"keep": keep}, evidence, [tiny], workplace=tmp_path, log=killed)
    resumed = value({"keep": keep}, evidence, [tiny], workplace=tmp_path, log=killed)[0]
    assert first[:2] == [1, 2]
    assert first[20] == 20  # it went on where it had been saved
    np.testing.assert_array_equal(resumed.traces["keep"].values, whole.traces["keep"].values)
    assert resumed["keep"] == whole["keep"]


def test_distances_against_brute_force(evidence):
    data, spec = Mixtures.of(evidence, [0.5]), evidence.spec
    policies = {"near": lambda x: -0.5 * x, "far": lambda x: np.ones_like(x)}
    near, far = distances_from_data(policies, data, 0.5, spec).values()
    assert near < far
    rows, log = data.subset(0.5), data.rows
    states = log.next_observations[rows[np.linspace(0, len(rows) - 1, 512, dtype=int)]]
    asked = np.hstack([spec.standardise(states), spec.encode_actions(np.ones_like(states))])
    logged = np.hstack([spec.standardise(log.observations[rows]), spec.encode_actions(log.actions[rows])])
    np.testing.assert_allclose(far, cdist(asked, logged).min(1).mean() / np.sqrt(asked.shape[1]), rtol=1e-5)


def test_a_logged_column_gives_what_the_logging_policy_gives(linear, tiny):
    """A deterministic log: its next actions are those of its policy, but for the last rows, which are left out."""
    log = linear.log(0.5, 0.0, 60)
    column = ope.logged_next_actions(log)
    assert column.known.sum() == len(log) - 60
    np.testing.assert_array_equal(column.actions[0], log.actions[1])
    own = ope.Evidence.of({"logs": log})
    by_column = value({"log": column}, own, [tiny])[0]["log"]
    ended = replace(log, terminals=log.timeouts)  # the rows left out bootstrap on nothing
    by_policy = value({"log": keep}, ope.Evidence.of({"logs": ended}), [tiny])[0]["log"]
    assert by_column.value != by_policy.value
    with pytest.raises(IlbrlError, match=r"policy log: is known only through linear 0\.5"):
        value({"log": column}, replace(own, initial_observations=own.initial_observations[:5]), [tiny])
    with pytest.raises(IlbrlError, match=r"policy log: is known only through linear 0\.5"):
        value({"log": column}, ope.Evidence.of({"logs": linear.log(0.5, 0.1, 60)}), [tiny])


def test_settings_that_cannot_converge_are_left_out_and_named(evidence):
    kept, notes = expected_sarsa.choices(Config(), evidence)
    assert {c.target_update_every for c in kept} == {2.0}
    assert len(kept) == 9
    assert notes == ("left out: targets every 10, which cannot converge within 100,000 updates (9 settings)",)
    paper, notes = expected_sarsa.choices(Config(grid="paper", updates=1_000_000), evidence)
    assert (len(paper), notes) == (48, ())
    assert {(c.expert_fraction, c.informed_start, c.pessimism) for c in paper} == {
        (fraction, False, 0.0) for fraction in (0.0, 0.3, 0.5, 0.8)
    }
    hopeless, notes = expected_sarsa.choices(Config(grid="paper-choice", updates=1000), evidence)
    assert hopeless[0] in [replace(c, grid="paper-choice", updates=1000) for c in paper]
    assert "too few to converge" in notes[0]
    with pytest.raises(IlbrlError, match="no grid 'vast'"):
        expected_sarsa.choices(Config(grid="vast"), evidence)


def test_candidates_get_the_updates_that_the_known_policies_needed(evidence, tiny):
    found = value({"keep": keep}, evidence, [tiny], (0, 1))[0]
    assert expected_sarsa.settle(tiny, found) == tiny  # still moving: all of them
    trace = found.traces["keep"]._replace(verdicts=("converged", "converged"), decided_at=(20, 33))
    assert expected_sarsa.settle(tiny, replace(found, traces={"keep": trace})).updates == 33
