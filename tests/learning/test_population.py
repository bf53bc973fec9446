"""The loop: what a member becomes depends on its configuration, its seed, the data and the updates alone."""

import json
import os
import subprocess
import sys
import textwrap
from contextlib import contextmanager
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ilbrl.agents import td3bc
from ilbrl.base.errors import IlbrlError
from ilbrl.learning import memory, nets
from ilbrl.learning import population as train
from ilbrl.learning.batches import Feed
from ilbrl.learning.loggers import json_lines
from ilbrl.learning.spec import Spec

CFG = td3bc.Config(hidden=(16, 16), batch_size=32, lam=0.5)
SPEC = Spec(np.zeros(3), np.ones(3), -np.ones(2), np.ones(2))


def feed(rows=500, rewards=None):
    rng = np.random.default_rng(0)
    return Feed(
        {
            "observations": rng.standard_normal((rows, 3)).astype(np.float32),
            "actions": rng.uniform(-1, 1, (rows, 2)).astype(np.float32),
            "next_observations": rng.standard_normal((rows, 3)).astype(np.float32),
            "continues": np.ones(rows, np.float32),
            "rewards": rng.random(rows).astype(np.float32) if rewards is None else rewards,
            "weights": np.ones(rows, np.float32),
        }
    )


def fit(configs, seeds, updates, **options):
    return train.fit(
        td3bc.SOLVER.learner, configs, seeds, options.pop("feed", feed()), SPEC, updates, quiet=True, **options
    )


def leaves(fitted, member):
    return jax.tree.leaves(fitted.member(member))


def assert_identical(a, b):
    for left, right in zip(a, b, strict=True):
        np.testing.assert_array_equal(left, right)


def assert_alike(a, b):
    """Two programs of one meaning: on a CPU they agree to the bit, a GPU may add in another order."""
    if jax.default_backend() == "cpu":
        assert_identical(a, b)
    for left, right in zip(a, b, strict=True):
        np.testing.assert_allclose(left, right, rtol=1e-3, atol=1e-5)


@pytest.fixture(scope="module")
def whole():
    return fit([CFG, replace(CFG, lam=2.0, actor_lr=1e-3)], [3, 5], 100, chunk=20)


def test_chunks_change_no_bit(whole):
    cut = fit([CFG, replace(CFG, lam=2.0, actor_lr=1e-3)], [3, 5], 100, chunk=30)
    assert_alike(jax.tree.leaves(whole.state), jax.tree.leaves(cut.state))
    assert cut.metrics["update"].tolist() == [30, 60, 90, 100]
    assert list(cut.metrics) == ["update", *sorted(cut.metrics.keys() - {"update"})]  # so that tables compare too


def test_compilation_is_a_named_step_of_the_bar(monkeypatch):
    seen = []

    @contextmanager
    def bar(label, total, unit, quiet, shorter):
        yield lambda n=1, note="", total=None: seen.append((n, note))

    monkeypatch.setattr(train, "progress", bar)
    fit([CFG], [0], 40, chunk=20)
    assert [step for step in seen if step != (0, "")] == [(0, "compiling"), (20, ""), (20, "")]


def test_a_probe_reads_the_members_and_changes_no_bit(whole):
    """The mean of Q₁ over rows 2 and 3, read after 50 and after 100 updates."""

    def read(cfg, state, batch):
        return {"first": nets.critics(state.critic.params, batch.observations, batch.actions)[0].mean()}

    configs, seeds = [CFG, replace(CFG, lam=2.0, actor_lr=1e-3)], [3, 5]
    probed = fit(configs, seeds, 100, chunk=50, probe=train.Probe(2, 4, read))
    assert_alike(jax.tree.leaves(whole.state), jax.tree.leaves(probed.state))
    rows = feed().shared["observations"][2:4], feed().shared["actions"][2:4]
    for p in range(2):
        expected = nets.critics(probed.member(p).critic.params, *rows)[0].mean()
        np.testing.assert_allclose(probed.metrics["first"][-1, p], expected, rtol=1e-4)
    assert probed.metrics["first"].shape == (2, 2)


def test_company_changes_nothing(whole):
    alone = fit([replace(CFG, lam=2.0, actor_lr=1e-3)], [5], 100, chunk=100)
    for together, single in zip(leaves(whole, 1), leaves(alone, 0), strict=True):
        np.testing.assert_allclose(together, single, rtol=1e-3, atol=1e-5)


def test_members_differ_by_seed_and_by_hyper_parameter():
    fitted = fit([CFG, CFG, replace(CFG, critic_lr=1e-2)], [0, 1, 0], 20)
    first = [np.asarray(leaves(fitted, p)[0]) for p in range(3)]
    assert not np.allclose(first[0], first[1])
    assert not np.allclose(leaves(fitted, 0)[-1], leaves(fitted, 2)[-1])


def test_resuming_changes_no_bit(whole, tmp_path):
    path = tmp_path / "population.safetensors"
    configs, seeds = [CFG, replace(CFG, lam=2.0, actor_lr=1e-3)], [3, 5]
    fit(configs, seeds, 40, chunk=20, resume_from=path)
    resumed = fit(configs, seeds, 100, chunk=20, resume_from=path)
    assert_identical(jax.tree.leaves(whole.state), jax.tree.leaves(resumed.state))
    assert resumed.metrics["update"][-1] == 100
    with pytest.raises(IlbrlError, match="already at 100 updates, 60 were asked for"):
        fit(configs, seeds, 60, resume_from=path)
    with pytest.raises(IlbrlError, match="other settings or data"):
        fit(configs, [3, 6], 100, resume_from=path)
    whole_file = path.read_bytes()
    path.write_bytes(whole_file[:-1] + bytes([whole_file[-1] ^ 64]))
    with pytest.raises(IlbrlError, match="a damaged checkpoint"):
        fit(configs, seeds, 100, resume_from=path)
    at = whole_file.index(b'"done":"100"')
    path.write_bytes(whole_file[:at] + b'"done":"900"' + whole_file[at + 12 :])  # the header counts too
    with pytest.raises(IlbrlError, match="a damaged checkpoint"):
        fit(configs, seeds, 1000, resume_from=path)
    path.write_bytes(whole_file[:100])
    with pytest.raises(IlbrlError, match="not a checkpoint"):
        fit(configs, seeds, 100, resume_from=path)
    path.unlink()
    path.mkdir()
    with pytest.raises(IlbrlError, match="not a checkpoint"):
        fit(configs, seeds, 100, resume_from=path)


def test_a_diverged_member_is_frozen_and_the_others_go_on(whole):
    rewards = feed().shared["rewards"].copy()
    configs = [CFG, replace(CFG, critic_lr=1e20)]
    fitted = fit(configs, [3, 3], 60, chunk=2, feed=feed(rewards=rewards), q_limit=[1e9, 1e3])
    assert fitted.diverged_at[0] == -1
    assert 0 < fitted.diverged_at[1] < 10
    assert all(np.isfinite(leaf).all() for leaf in leaves(fitted, 0))
    until = int(fitted.diverged_at[1]) // 2 * 2 + 2
    early = fit(configs, [3, 3], until, chunk=2, feed=feed(rewards=rewards), q_limit=[1e9, 1e3])
    assert_identical(leaves(early, 1), leaves(fitted, 1))  # nothing moved after the update that failed


def test_a_last_update_that_breaks_the_parameters_is_noticed():
    fitted = fit([replace(CFG, critic_lr=1e38)], [0], 2)
    assert fitted.diverged_at.tolist() == [1]


def test_nan_rewards_are_divergence_not_a_crash():
    fitted = fit([CFG], [0], 20, feed=feed(rewards=np.full(500, np.nan, np.float32)))
    assert fitted.diverged_at.tolist() == [0]
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(fitted.state.critic.params))


def root_of_zero(cfg, state, batch, key, phase):
    """A finite loss whose gradient is not: √0 brings ∞ · 0."""
    loss, gradients = jax.value_and_grad(lambda w: jnp.sqrt(0 * w[0]) + w[1] ** 2)(state.params)
    return nets.descend(state, gradients, cfg.critic_lr), {"loss": loss}


def test_a_broken_gradient_behind_a_finite_loss_is_noticed_at_the_end():
    learner = train.Learner(lambda cfg, spec, key: nets.optimised(jnp.ones(2)), root_of_zero)
    fitted = train.fit(learner, [CFG], [0], feed(), SPEC, 20, quiet=True)
    assert np.isfinite(fitted.metrics["loss"]).all()
    assert fitted.diverged_at.tolist() == [19]
    assert fitted.state.params[0, 0] == 1
    assert fitted.state.params[0, 1] < 1


def test_what_cannot_fit_is_refused_with_the_numbers(monkeypatch):
    monkeypatch.setattr(memory, "available", lambda: 10_000_000)
    with pytest.raises(IlbrlError, match=r"needs .* GB .* are free"):
        fit([CFG], [0], 20)


def test_a_population_too_large_for_memory_trains_in_groups(whole, monkeypatch, tmp_path):
    monkeypatch.setattr(memory, "available", lambda: 25_000_000)
    split = fit(
        [CFG, replace(CFG, lam=2.0, actor_lr=1e-3)], [3, 5], 100, chunk=100, resume_from=tmp_path / "p.safetensors"
    )
    assert sorted(p.name for p in tmp_path.iterdir()) == ["p-1-of-2.safetensors", "p-2-of-2.safetensors"]
    for ours, theirs in zip(jax.tree.leaves(split.state), jax.tree.leaves(whole.state), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-5)
    assert split.metrics["critic_loss"].shape == (1, 2)
    train.forget_checkpoint(tmp_path / "p.safetensors")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("little_first", "files"), [(True, ["p-1-of-2", "p-2-of-2"]), (False, ["p"])])
def test_groups_stay_the_same_when_other_memory_is_free(whole, monkeypatch, tmp_path, little_first, files):
    """Other groups would not find their checkpoints, and start over."""
    configs, path = [CFG, replace(CFG, lam=2.0, actor_lr=1e-3)], tmp_path / "p.safetensors"
    enough = memory.available()
    for updates, little in ((40, little_first), (100, not little_first)):
        monkeypatch.setattr(memory, "available", lambda little=little: 25_000_000 if little else enough)
        found = fit(configs, [3, 5], updates, chunk=20, resume_from=path)
    assert found.done_before == 40
    assert sorted(file.stem for file in tmp_path.iterdir()) == files
    for ours, theirs in zip(jax.tree.leaves(found.state), jax.tree.leaves(whole.state), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-5)


def test_other_checkpoints_are_not_taken_for_groups(tmp_path):
    for name in ("p-1-of-x", "pp-1-of-2", "p-1-of-0", "other"):
        (tmp_path / f"{name}.safetensors").write_text("somebody's")
    fit([CFG], [0], 20, resume_from=tmp_path / "p.safetensors")
    train.forget_checkpoint(tmp_path / "p.safetensors")
    assert len(list(tmp_path.iterdir())) == 4


@pytest.mark.parametrize(
    ("seed", "updates", "said"),
    [
        (2**32, 10, "seed: must be a whole number from 0 to 4,294,967,295, got 4294967296"),  # its draws are those of 0
        (-1, 10, "got -1"),
        (10**30, 10, "got an integer of 100 bits"),
        (0, 0, "updates: must be between 1 and 2,147,483,647, got 0"),
        (0, 2**31, "got 2147483648"),
    ],
)
def test_what_would_repeat_or_do_nothing_is_refused(seed, updates, said):
    with pytest.raises(IlbrlError, match=said):
        fit([CFG], [seed], updates)


def test_static_fields_cannot_differ():
    with pytest.raises(IlbrlError, match="cannot mix values of hidden"):
        fit([CFG, replace(CFG, hidden=(8, 8))], [0, 1], 10)


def test_log_lines_repeated_after_a_crash_are_replaced(tmp_path):
    path = tmp_path / "metrics.jsonl"
    log = json_lines(path)
    for update in (10, 20, 30):
        log({"update": update, "loss": np.array([1.0])})
    path.write_text(path.read_text() + '{"update": 4')  # killed while writing
    log = json_lines(path)
    for update in (20, 30):
        log({"update": update, "loss": np.array([2.0])})
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [(line["update"], line["loss"]) for line in lines] == [(10, [1.0]), (20, [2.0]), (30, [2.0])]


@pytest.mark.slow
def test_members_are_spread_over_devices(tmp_path):
    """Three virtual devices, four members: padded, sharded, and the same result as on one device, which may go on."""
    script = textwrap.dedent("""
        import jax, numpy as np, sys
        from dataclasses import replace
        from pathlib import Path
        from ilbrl.learning import population as train
        from ilbrl.agents import td3bc
        from ilbrl.learning.batches import Feed
        from ilbrl.learning.spec import Spec
        rng = np.random.default_rng(0)
        f = Feed({"observations": rng.standard_normal((300, 3)), "actions": rng.uniform(-1, 1, (300, 2)),
                  "next_observations": rng.standard_normal((300, 3)), "continues": np.ones(300),
                  "rewards": rng.random(300), "weights": np.ones(300)})
        cfg = td3bc.Config(hidden=(16, 16), batch_size=32)
        spec = Spec(np.zeros(3), np.ones(3), -np.ones(2), np.ones(2))
        configs = [replace(cfg, lam=l) for l in (0.1, 0.5, 1.0, 2.0)]
        fitted = train.fit(td3bc.SOLVER.learner, configs, [0, 1, 2, 3], f, spec, 50, quiet=True)
        path, until = Path(sys.argv[1]), 20 if len(jax.devices()) == 3 else 50
        kept = train.fit(td3bc.SOLVER.learner, configs, [0, 1, 2, 3], f, spec, until, resume_from=path, quiet=True)
        assert kept.metrics["update"][0] == 20
        if until == 50:
            for whole, continued in zip(jax.tree.leaves(fitted.state), jax.tree.leaves(kept.state)):
                np.testing.assert_allclose(whole, continued, rtol=1e-3, atol=1e-5)
        print(len(jax.devices()), *(f"{np.abs(np.asarray(x)).sum():.4f}" for x in jax.tree.leaves(fitted.state)[:3]))
        print(*(f"{np.abs(np.asarray(jax.tree.leaves(fitted.state)[1][p])).sum():.4f}" for p in range(4)))
    """)
    said = {}
    for devices in (3, 1):
        env = {**os.environ, "XLA_FLAGS": f"--xla_force_host_platform_device_count={devices}", "JAX_PLATFORMS": "cpu"}
        done = subprocess.run(
            [sys.executable, "-c", script, str(tmp_path / "p.safetensors")], env=env, capture_output=True, text=True
        )
        assert not done.returncode, done.stderr
        said[devices] = done.stdout.split()
    assert (said[1][0], said[3][0]) == ("1", "3")
    np.testing.assert_allclose([float(x) for x in said[1][1:]], [float(x) for x in said[3][1:]], rtol=1e-4)
