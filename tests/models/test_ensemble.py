"""Learned models: what they learn is what the logs show, and what is kept survives kills and damage."""

import json
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import safetensors.numpy
from tests.models.conftest import linear_logs, linear_return, steady

from ilbrl import models
from ilbrl.base.errors import IlbrlError
from ilbrl.learning import population
from ilbrl.learning.batches import Batch
from ilbrl.models import dynamics
from ilbrl.models.ensemble import _rows, default_shares
from ilbrl.models.scales import ends_are_unlike, scales_of

SMALL = dynamics.Config(updates=1000.0, batch_size=64, held_out_batch=32, hidden=(32,), lr=3e-3, smoothing=0.02)


@pytest.fixture(scope="module")
def learned(logs):
    return models.train([logs], replace(SMALL, updates=4000.0), members=3, quiet=True)


def test_learned_values_come_within_two_percent_of_the_closed_form(learned):
    starts = np.array([[1.0, 0.0], [0.5, -1.0], [-1.0, 1.0]], np.float32)
    actions = (-0.8, 0.2, 0.9)
    played = models.rollout([steady(a) for a in actions], learned, starts, 50, penalty=0.0, noise=0.0, quiet=True)
    truth = [np.mean([linear_return(a, s, 50) for s in starts]) for a in actions]
    np.testing.assert_allclose(played.values, truth, rtol=0.02)


def test_errors_on_held_out_episodes_are_recorded(learned):
    assert learned.members == 3
    assert learned.horizon == 50
    assert learned.errors.steps == (1, 2, 5, 10, 20)
    assert np.array(learned.errors.many_step).shape == (3, 5)
    assert max(learned.errors.many_step[0]) < 0.2
    assert len(learned.errors.held_out_loss) == 3


def test_a_tabular_problem_is_valued_within_two_percent():
    """A ring of five states, one-hot: right moves on, reward 1 at state 4, and the episode ends there."""
    rng, rows = np.random.default_rng(0), []
    for _ in range(60):
        state = int(rng.integers(4))
        for t in range(12):
            action = rng.uniform(-1, 1)
            following = state + 1 if action > 0 else max(state - 1, 0)
            rows.append((np.eye(5)[state], [np.sign(action)], np.eye(5)[following], following == 4, t == 11))
            state = following
            if following == 4:
                break
    observations, actions, following, ends, cut = (np.array(c, np.float32) for c in zip(*rows))
    data = models_data(observations, actions, following, rewards=10.0 * ends, terminals=ends, timeouts=cut * (1 - ends))
    learned = models.train([data], replace(SMALL, updates=800.0, hidden=(64,), batch_size=32), members=2, quiet=True)
    right, left = (steady(0.999 * sign, obs_dim=5) for sign in (1, -1))
    played = models.rollout(
        [right, left], learned, np.eye(5, dtype=np.float32)[:1], 12, penalty=0.0, noise=0.0, quiet=True
    )
    assert played.values[0] == pytest.approx(10.0, rel=0.02)
    assert abs(played.values[1]) < 0.2
    np.testing.assert_allclose(played.lengths[0, :, 0], 4.0, rtol=0.02)
    assert (played.lengths[1] > 1.5 * played.lengths[0]).all()


def models_data(observations, actions, following, **columns):
    from ilbrl.data import from_arrays

    return from_arrays(
        observations=observations, actions=actions, next_observations=following,
        action_low=[-1.0], action_high=[1.0], **columns,
    )  # fmt: skip


@pytest.mark.parametrize("more", [{}, {"end_rewards": True, "patterns": 3}], ids=["plain", "ends and patterns apart"])
def test_loss_is_the_equation(more):
    rng = np.random.default_rng(0)
    cfg = dynamics.Config(hidden=(), end_weight=0.7, **more)
    outputs = dynamics.outputs(cfg, obs_dim=2)
    w, b = rng.normal(size=(3, outputs)), rng.normal(size=outputs)
    s, a, change, r = rng.normal(size=(6, 2)), rng.normal(size=(6, 1)), rng.normal(size=(6, 2)), rng.normal(size=6)
    continues, following = np.array([1, 1, 0, 1, 0, 1.0]), np.array([0, 2, 1, 1, 0, 2])
    found = np.hstack([s, a]) @ w + b
    p = 1 / (1 + np.exp(-found[:, -1]))
    reward = np.where(continues == 0, found[:, 3], found[:, 2]) if more else found[:, 2]
    truth = ((found[:, :2] - change) ** 2).mean() + ((reward - r) ** 2).mean()
    truth -= 0.7 * ((1 - continues) * np.log(p) + continues * np.log(1 - p)).mean()
    if more:
        chances = np.exp(found[:, 4:7]) / np.exp(found[:, 4:7]).sum(1, keepdims=True)
        truth -= np.log(chances[np.arange(6), following]).mean()
        change = np.column_stack([change, following])
    batch = Batch(
        *(jnp.asarray(x, jnp.float32) for x in (s, a, change, continues)), rewards=jnp.asarray(r, jnp.float32)
    )
    layers = ({"w": jnp.asarray(w, jnp.float32), "b": jnp.asarray(b, jnp.float32)},)
    assert float(dynamics.loss(layers, cfg, batch)) == pytest.approx(truth, rel=1e-5)


def alarms(episodes: int = 300, chance: float = 0.1, price: float = -50.0):
    """A flag is raised with a small chance; one step later the episode ends, at a price. Other steps earn 1."""
    rng, rows = np.random.default_rng(0), []
    for _ in range(episodes):
        raised, place = 0.0, rng.normal()
        for t in range(40):
            following = 1.0 if raised else float(rng.random() < chance)
            rows.append(([place, raised], [place, following], price if raised else 1.0, raised, t == 39 and not raised))
            if raised:
                break
            raised = following
    observations, following, rewards, ends, cut = (np.array(column, np.float32) for column in zip(*rows))
    actions = np.zeros((len(rows), 1), np.float32)
    return models_data(observations, actions, following, rewards=rewards, terminals=ends, timeouts=cut)


def test_a_rare_event_comes_to_pass_and_its_price_is_paid():
    """The mean of a flag that is raised once in ten steps is never near 1, and the price an outlier of the rewards."""
    learned = models.train([alarms()], SMALL, members=2, quiet=True)
    starts = np.column_stack([np.linspace(-1, 1, 300), np.zeros(300)]).astype(np.float32)
    played = models.rollout([steady(0.0)], learned, starts, 40, penalty=0.0, noise=0.0, quiet=True)
    lived = (1 - 0.9**40) / 0.1  # steps without the flag
    assert played.values[0] == pytest.approx(lived - 50 * (1 - 0.9**39), abs=2.0)
    assert played.lengths.mean() == pytest.approx(lived + 1 - 0.9**39, abs=0.8)


def test_flags_have_patterns_and_measurements_and_small_counts_have_none():
    data = alarms(episodes=20)
    count = (np.arange(len(data)) % 5).astype(np.float32)
    both = (np.column_stack([rows, count]) for rows in (data.observations, data.next_observations))
    counted = scales_of(
        models_data(next(both), data.actions, next(both), terminals=data.terminals, timeouts=data.timeouts)
    )
    np.testing.assert_array_equal(counted.patterns, [[np.nan, 0, np.nan], [np.nan, 1, np.nan]])
    assert np.isfinite(counted.levels[2]).sum() == 5
    assert not scales_of(linear_logs()).patterns.size


def test_last_rewards_are_a_kind_of_their_own_only_where_they_are_far_from_others():
    assert ends_are_unlike(alarms(episodes=20))
    assert not ends_are_unlike(alarms(episodes=20, price=1.0))
    assert not ends_are_unlike(linear_logs())


def test_the_rate_follows_a_cosine():
    cfg = dynamics.Config(lr=1.0, final_lr=0.1, updates=100.0)
    found = [float(dynamics.learning_rate(cfg, jnp.asarray(t))) for t in (0, 50, 100, 200)]
    np.testing.assert_allclose(found, [1.0, 0.55, 0.1, 0.1], rtol=1e-5)


def test_what_is_kept_is_the_best_on_held_out_rows():
    """A learning rate of 0 after the first update, and held-out rows that the first update made worse."""
    cfg = dynamics.Config(hidden=(), lr=0.5, smoothing=1.0, held_out_batch=4, rewards=False, ends=False, final_lr=1.0)
    from ilbrl.learning.spec import Spec

    spec = Spec(np.zeros(1), np.ones(1), -np.ones(1), np.ones(1))
    state = dynamics.init(cfg, spec, jax.random.key(0))
    rows = [jnp.ones((4, 1)), jnp.ones((4, 1))]
    up, down = (Batch(*rows, target * jnp.ones((4, 1)), jnp.ones(4)) for target in (100.0, -100.0))
    first, _ = dynamics.step(cfg, state, up._replace(expert=up), jax.random.key(0), 0)
    second, _ = dynamics.step(cfg, first, down._replace(expert=up), jax.random.key(0), 0)
    assert float(second.held_out) > float(first.held_out)
    np.testing.assert_array_equal(second.best[0]["w"], first.net.params[0]["w"])


def test_a_small_log_is_drawn_less_often_than_a_large_one():
    found = default_shares([linear_logs(episodes=40, length=100), *[linear_logs(episodes=400, length=100)] * 2])
    np.testing.assert_allclose(found, np.array([0.1 ** (1 / 3), 1, 1]) / (2 + 0.1 ** (1 / 3)))


def test_shares_and_held_out_episodes():
    few, many = linear_logs(episodes=2, length=10), linear_logs(episodes=100, length=10, seed=1)
    held_out, rows = _rows([few, many], [0.25, 0.75], np.random.default_rng(0))
    assert len(held_out) == 50  # five episodes of the larger log; two episodes are too few to give one away
    assert (held_out >= 20).all()
    assert not set(held_out) & set(rows)
    assert np.mean(rows < 20) == pytest.approx(0.25, abs=0.01)
    assert set(range(20)) <= set(rows)


def test_killed_and_continued_to_the_same_bits(logs, tmp_path, monkeypatch):
    monkeypatch.setattr("ilbrl.learning.population.default_chunk", lambda: 200)  # a GPU reports less often
    quick = replace(SMALL, updates=400.0)
    whole = models.train([logs], quick, members=2, quiet=True)

    def interrupted(record):
        if record["update"] == 200:
            raise KeyboardInterrupt

    path = tmp_path / "checkpoint.safetensors"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ilbrl.learning.checkpoint.time.monotonic", iter(range(0, 10**9, 1000)).__next__)
        with pytest.raises(KeyboardInterrupt):
            models.train([logs], quick, members=2, resume_from=path, log=interrupted, quiet=True)
    again = models.train([logs], quick, members=2, resume_from=path, quiet=True)
    assert again.content_hash == whole.content_hash


def test_saved_models_come_back_and_damage_is_named(learned, tmp_path):
    path = learned.save(tmp_path / "models.safetensors")
    back = models.Models.load(path)
    assert back.content_hash == learned.content_hash
    assert back.config == learned.config
    assert back.errors == learned.errors
    content = bytearray(path.read_bytes())
    content[-5] ^= 1
    path.write_bytes(content)
    with pytest.raises(IlbrlError, match=r"models\.safetensors: damaged"):
        models.Models.load(path)
    content[-5] ^= 1
    at = content.index(b"horizon") + len(b'horizon\\": ')
    content[at] ^= 1  # another digit: the header counts too
    path.write_bytes(content)
    with pytest.raises(IlbrlError, match=r"models\.safetensors: damaged"):
        models.Models.load(path)
    path.write_bytes(content[:100])
    with pytest.raises(IlbrlError, match=r"models\.safetensors: not a file of learned models"):
        models.Models.load(path)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda m: {"layers": m.layers[:-1]}, "layer 1 does not fit"),
        (lambda m: {"layers": tuple({k: v[:, :1] for k, v in layer.items()} for layer in m.layers)}, "does not fit"),
        (lambda m: {"layers": tuple({k: v * np.nan for k, v in layer.items()} for layer in m.layers)}, "no finite"),
        (lambda m: {"scales": replace(m.scales, change_std=m.scales.change_std[:1])}, "change_std: not 2 finite"),
        (lambda m: {"scales": replace(m.scales, obs_std=0 * m.scales.obs_std)}, "above 0"),
        (lambda m: {"config": replace(m.config, hidden=(8,) * 5)}, "does not fit"),
        (lambda m: {"config": replace(m.config, rewards=False)}, "layer 1 does not fit"),
        (lambda m: {"scales": replace(m.scales, patterns=np.zeros((3, 2), np.float32))}, "patterns: not 0 rows"),
        (
            lambda m: {"scales": replace(m.scales, end_reward=np.full(4, np.nan, np.float32))},
            "end_reward: not 4 finite",
        ),
        (lambda m: {"horizon": 0}, "above 0"),
    ],
)
def test_parts_that_do_not_fit_are_refused_although_their_checksum_does(learned, tmp_path, change, said):
    path = models.Models(**vars(learned) | change(learned)).save(tmp_path / "models.safetensors")
    with pytest.raises(IlbrlError, match=rf"models\.safetensors: not a file of learned models \(.*{said}"):
        models.Models.load(path)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            lambda header: header["config"].pop("end_rewards"),
            "config: end_rewards: not there.*; train the models",
        ),
        (lambda header: header.update(format="ilbrl-models-1"), "'ilbrl-models-1', .*; train the models again"),
        (lambda header: header.pop("checksum"), r"not a file of learned models \('checksum'\); train them again"),
    ],
)
def test_files_of_other_versions_get_a_way_out(learned, tmp_path, change, said):
    path = learned.save(tmp_path / "models.safetensors")
    with safetensors.safe_open(path, framework="numpy") as file:
        header = json.loads(file.metadata()["ilbrl"])
    change(header)
    path.write_bytes(safetensors.numpy.save(safetensors.numpy.load_file(path), {"ilbrl": json.dumps(header)}))
    with pytest.raises(IlbrlError, match=said):
        models.Models.load(path)


@pytest.mark.parametrize(
    "data",
    [
        linear_logs(episodes=1, length=30),
        linear_logs(episodes=3, length=1),
    ],
    ids=["one episode", "single rows"],
)
def test_odd_logs_have_defined_answers(data):
    learned = models.train([data], replace(SMALL, updates=20.0), members=2, quiet=True)
    played = models.rollout([steady(0.1)], learned, data.observations[:2], 1, quiet=True)
    assert np.isfinite(played.returns).all()


@pytest.mark.parametrize("constant", [0.0, 2.5])
def test_a_number_that_never_changes_leads_nobody_out_of_the_logs(constant, logs):
    """A dead sensor: it keeps its value in rollouts, and that the noise moved it is no sign of strange states."""
    dead = np.full((len(logs), 1), constant, np.float32)
    before, after = (np.hstack([rows, dead]) for rows in (logs.observations, logs.next_observations))
    wider = replace(logs, observations=before, next_observations=after)
    learned = models.train([wider], replace(SMALL, updates=200.0), members=2, quiet=True)
    played = models.rollout([steady(0.1, obs_dim=3)], learned, before[:20], 5, noise=1.0, penalty=0.0, quiet=True)
    assert np.isfinite(played.returns).all()
    assert played.outside.mean() < 0.2
    score = models.rollout(
        [steady(0.1, obs_dim=3)], learned, before[:2], 5, noise=1.0, penalty=0.0, quiet=True,
        score=lambda s, a: s[..., 2],  # in units of the networks: 0 where the sensor says what it always said
    )  # fmt: skip
    np.testing.assert_allclose(score.returns, 0.0, atol=1e-5)


def test_logs_without_rewards_need_a_score():
    learned = models.train([linear_logs(rewards=False)], replace(SMALL, updates=20.0), members=2, quiet=True)
    start = np.zeros((1, 2), np.float32)
    with pytest.raises(IlbrlError, match="have learned no reward"):
        models.rollout([steady(0.1)], learned, start, 5, quiet=True)
    played = models.rollout(
        [steady(0.1)], learned, start, 5, score=lambda s, a: 1 + 0 * a[..., 0], penalty=0.0, quiet=True
    )
    assert (played.returns == 5).all()


def test_members_that_diverge_do_not_serve():
    with pytest.raises(IlbrlError, match="every model diverged"):
        models.train([linear_logs(episodes=8)], replace(SMALL, updates=60.0, lr=1e30), members=2, quiet=True)


def test_members_that_diverge_or_are_much_worse_are_left_out(monkeypatch):
    """Of five, one diverges, one has no finite loss and one has three times the loss of the others."""
    quick, logs, fit = replace(SMALL, updates=60.0), [linear_logs(episodes=8)], population.fit
    whole = models.train(logs, quick, members=5, quiet=True)
    held_out = np.array([1.0, np.nan, 1.1, 3.3, 1.2])

    def spoiled(*args, **options):
        found = fit(*args, **options)
        state = found.state._replace(lowest=jnp.asarray(held_out))
        return replace(found, state=state, diverged_at=np.array([7, -1, -1, -1, -1]))

    monkeypatch.setattr("ilbrl.models.ensemble.population.fit", spoiled)
    found = models.train(logs, quick, members=5, quiet=True)
    assert found.members == 2
    assert found.errors.left_out == (0, 1, 3)
    np.testing.assert_allclose(found.errors.held_out_loss, [1.1, 1.2], rtol=1e-6)
    for ours, theirs in zip(found.layers, whole.layers):
        np.testing.assert_array_equal(ours["w"], theirs["w"][[2, 4]])
