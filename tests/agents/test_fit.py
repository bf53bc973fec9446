"""From logs to policies: what goes in, what comes out, and what must not matter."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pytest

import ilbrl
from ilbrl.agents import AGENTS
from ilbrl.agents.fit import fit, trainings
from ilbrl.base.errors import IlbrlError
from ilbrl.data import Dataset, save
from ilbrl.learning import nets
from ilbrl.learning.population import fit as train
from ilbrl.learning.spec import Spec
from ilbrl.policy import committee_of

SMALL = replace(AGENTS["ilbrl"].presets["default"], hidden=(16, 16), batch_size=32)


def logs(rows, seed, rewards=None) -> Dataset:
    rng = np.random.default_rng(seed)
    ends = np.arange(1, rows + 1) % 50 == 0
    return Dataset(
        rng.standard_normal((rows, 3)), rng.uniform(-2, 2, (rows, 2)), rng.standard_normal((rows, 3)),
        np.zeros(rows, bool), ends, rewards, action_low=[-2.0, -2.0], action_high=[2.0, 2.0], source=f"logs-{seed}",
    )  # fmt: skip


def test_no_true_reward_leaks_in():
    """With the training rewards set to NaN, or absent, every weight is bit-identical."""
    learned = [
        fit("ilbrl", logs(100, 0, rewards(100)), logs(300, 1, rewards(300)), config=SMALL, updates=40, quiet=True)
        for rewards in (lambda n: np.arange(n), lambda n: np.full(n, np.nan), lambda n: None)
    ]
    for other in learned[1:]:
        for (w, b, *_), (v, c, *_) in zip(learned[0].policies[0].layers, other.policies[0].layers):
            np.testing.assert_array_equal(w, v)
            np.testing.assert_array_equal(b, c)


def test_the_policy_is_the_trained_actor_and_knows_its_origin(tmp_path):
    expert, data = logs(100, 0), logs(300, 1)
    learned = fit("ilbrl", expert, data, config=SMALL, seeds=2, updates=40, out=tmp_path, quiet=True)
    policies = ["policy-config0-seed0.safetensors", "policy-config0-seed1.safetensors"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["checkpoint.safetensors", "metrics.jsonl", *policies]
    policy = ilbrl.Policy.load(tmp_path / "policy-config0-seed1.safetensors")
    spec = Spec.of(ilbrl.concatenate([expert, data]))
    layers = AGENTS["ilbrl"].solver.actor_layers(learned.fitted.member(1))
    trained = 2 * nets.actor(layers, jnp.asarray(spec.standardise(data.observations)))
    np.testing.assert_allclose(policy.act(data.observations), trained, atol=1e-5)
    assert policy.metadata["seed"] == 1
    assert policy.metadata["logs"]["content_hash"] == data.content_hash
    assert policy.metadata["config"]["lam"] == SMALL.lam


@pytest.mark.parametrize(("agent", "sources"), [("bc", 1), ("ilbrl", 2)])
def test_a_policy_knows_the_range_of_the_rows_it_learned_from(agent, sources):
    data = logs(100, 0), logs(300, 1)
    config = replace(AGENTS[agent].presets["default"], hidden=(8, 8), batch_size=16)
    (policy,) = fit(agent, *data, config=config, updates=2, quiet=True).policies
    seen = np.concatenate([one.observations for one in data[:sources]])
    np.testing.assert_array_equal(policy.obs_low, seen.min(0))
    np.testing.assert_array_equal(policy.obs_high, seen.max(0))


def test_a_committee_is_of_trainings_with_seeds_of_their_own(tmp_path):
    data = logs(100, 0), logs(300, 1)
    learned = fit("ilbrl", *data, config=SMALL, seeds=[3, 4], committee=3, updates=20, out=tmp_path, quiet=True)
    assert (learned.seeds, len(learned.policies), len(learned.fitted.diverged_at)) == ([3, 4], 2, 6)
    alone = fit("ilbrl", *data, config=SMALL, seeds=trainings([SMALL], [3, 4], 3)[1], updates=20, quiet=True)
    assert len({*alone.seeds}) == 6
    assert alone.seeds[::3] == [3, 4]
    x = np.random.default_rng(0).standard_normal((20, 3))
    for p, (policy, file) in enumerate(zip(learned.policies, learned.files)):
        expected = committee_of(alone.policies[3 * p : 3 * p + 3])
        np.testing.assert_array_equal(policy.act(x), expected.act(x))
        np.testing.assert_array_equal(ilbrl.Policy.load(file).act(x), expected.act(x))
        assert policy.metadata["committee"] == 3
    for name, values in learned.metrics.items():
        if name != "update":
            np.testing.assert_allclose(values[:, 1], alone.metrics[name][:, 3:].mean(1), rtol=1e-6)


def test_a_committee_goes_on_without_those_that_diverged(monkeypatch):
    def sick(*args, **kwargs):
        fitted = train(*args, **kwargs)
        metrics = {**fitted.metrics, "sick": np.array([[1.0, np.nan, 2.0, 4.0]])}
        return replace(fitted, metrics=metrics, diverged_at=np.array([-1, 7, 5, 9], fitted.diverged_at.dtype))

    monkeypatch.setattr("ilbrl.agents.fit.train", sick)
    data = logs(100, 0), logs(300, 1)
    learned = fit("ilbrl", *data, config=SMALL, seeds=2, committee=2, updates=20, quiet=True)
    assert learned.diverged_at.tolist() == [-1, 9]
    assert learned.diverged.tolist() == [False, True]
    assert learned.metrics["sick"].tolist() == [[1, 3]]
    assert [policy.metadata["committee"] for policy in learned.policies] == [1, 1]
    assert [policy.metadata["diverged_at"] for policy in learned.policies] == [-1, 9]


def test_a_committee_that_cannot_be_is_refused_before_training():
    data = logs(100, 0), logs(300, 1)
    for committee, config, said in (
        (0, SMALL, "committee: must be between 1 and 100, got 0"),
        (40, replace(SMALL, hidden=(256, 256)), "40 networks of this width make one of 10,240 units"),
        (2, replace(SMALL, actor_layer_norm=True), "committee: must be 1 where actor_layer_norm is on"),
    ):
        with pytest.raises(IlbrlError, match=said):
            fit("ilbrl", *data, config=config, committee=committee, updates=20, quiet=True)


def test_other_data_is_not_continued(tmp_path):
    fit("ilbrl", logs(100, 0), logs(300, 1), config=SMALL, updates=20, out=tmp_path, quiet=True)
    with pytest.raises(IlbrlError, match=r"other settings or data \(other logs\)"):
        fit("ilbrl", logs(100, 0), logs(300, 2), config=SMALL, updates=20, out=tmp_path, quiet=True)


def test_sick_data_stops_before_training():
    data = logs(300, 1)
    observations = data.observations.copy()
    observations[7, 2] = np.nan
    with pytest.raises(IlbrlError, match=r"logs-1: .*observations.*row 7"):
        fit("ilbrl", logs(100, 0), replace(data, observations=observations), config=SMALL, updates=20, quiet=True)


def test_unknown_names_list_what_there_is():
    with pytest.raises(IlbrlError, match="no agent 'gail': there are ilbrl"):
        fit("gail", logs(100, 0), logs(100, 1))
    with pytest.raises(IlbrlError, match="no preset 'best': there are default, discrete, paper"):
        fit("ilbrl", logs(100, 0), logs(100, 1), preset="best")
    with pytest.raises(IlbrlError, match="at least one configuration and one seed"):
        fit("ilbrl", logs(100, 0), logs(100, 1), seeds=[])


@pytest.mark.slow
def test_kill_9_and_the_same_command_ends_in_the_same_bits(tmp_path):
    save(logs(200, 0), tmp_path / "expert.npz")
    save(logs(2000, 1), tmp_path / "data.npz")

    def command(out):
        return [
            sys.executable, "-c", "from ilbrl.cli import main; import ilbrl.learning.population as t; "
            "t.default_chunk = lambda: 100; "
            "import ilbrl.learning.checkpoint as c; c.time.monotonic = iter(range(0, 10**9, 1000)).__next__; "
            "raise SystemExit(main())",
            "train", "ilbrl", "--expert", f"{tmp_path}/expert.npz", "--logs", f"{tmp_path}/data.npz", "--out", str(out),
            "--updates", "10000", "--hidden", "32", "32", "--batch-size", "64", "--seeds", "2", "--quiet",
        ]  # fmt: skip

    def kept(out):
        return [path.stat().st_mtime_ns for path in out.glob("checkpoint*")]

    subprocess.run(command(tmp_path / "whole"), check=True, capture_output=True)
    killed, rng = 0, np.random.default_rng(0)
    for _ in range(4):
        before = kept(tmp_path / "cut")
        process = subprocess.Popen(command(tmp_path / "cut"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while kept(tmp_path / "cut") == before and process.poll() is None:
            time.sleep(0.001)
        time.sleep(0.1 * rng.random())  # somewhere in the next updates, or while the next state is written
        if process.poll() is not None:
            break
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        killed += 1
    assert killed > 0
    subprocess.run(command(tmp_path / "cut"), check=True, capture_output=True)
    for name in ("policy-config0-seed0.safetensors", "policy-config0-seed1.safetensors"):
        assert (tmp_path / "whole" / name).read_bytes() == (tmp_path / "cut" / name).read_bytes()
    assert not list((tmp_path / "cut").glob(".*partial*"))
