"""Programs compiled quickly and only once, and the small study that tests of study, results and report share.

The study is so small that all its phases take seconds: a point that two known policies push towards the origin.
"""

import os
import shutil
import signal
import tempfile

os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true")

import jax
import numpy as np
import pytest

# Started in the background of a script (`nohup make test &`), Ctrl-C is ignored here and in every child: tests send it.
signal.signal(signal.SIGINT, signal.default_int_handler)

_cache = tempfile.TemporaryDirectory(prefix="ilbrl-tests-")  # lives as long as the tests do
jax.config.update("jax_compilation_cache_dir", _cache.name)
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
jax.config.update("jax_persistent_cache_min_entry_size_bytes", 0)
jax.config.update("jax_default_matmul_precision", "highest")  # a GPU would multiply float32 in tf32
jax.devices()  # decided here: a command under test must not make every core a device for the tests after it

LENGTH = 20


def pushing(gain: float):
    """a = 2 tanh(−gain · s₀): deterministic, towards the origin."""
    from ilbrl.policy import Policy

    weights = np.zeros((3, 1), np.float32)
    weights[0, 0] = -gain
    return Policy(((weights, np.zeros(1)),), action_low=[-2.0], action_high=[2.0])


def logs(policy, episodes: int, noise: float, seed: int):
    """Rewards 1 − s₀²; every episode is a time-out after 20 steps. Sizes are those of Gymnasium's Pendulum."""
    from ilbrl.data import Dataset

    rng = np.random.default_rng(seed)
    rows = []
    for _ in range(episodes):
        state = rng.uniform(-1, 1, 3).astype(np.float32)
        for _ in range(LENGTH):
            action = np.clip(policy.act(state) + noise * rng.standard_normal(1), -2, 2).astype(np.float32)
            following = (0.9 * state + 0.1 * np.array([action[0], 0, 0])).astype(np.float32)
            rows.append((state, action, following, 1 - state[0] ** 2))
            state = following
    columns = [np.array(column) for column in zip(*rows)]
    ends = np.arange(1, len(rows) + 1) % LENGTH == 0
    return Dataset(
        *columns[:3], np.zeros(len(rows), bool), ends, rewards=columns[3], action_low=[-2.0], action_high=[2.0]
    )


@pytest.fixture(scope="session")
def files(tmp_path_factory):
    """expert.npz and medium.npz, and the policies behind them."""
    from ilbrl.data import save

    folder = tmp_path_factory.mktemp("logs")
    for name, gain, noise, seed in (("expert", 3.0, 0.1, 0), ("medium", -0.2, 0.5, 1)):
        save(logs(pushing(gain), 40, noise, seed), folder / f"{name}.npz")
        pushing(gain).save(folder / f"{name}.safetensors")
    return folder


@pytest.fixture(scope="session")
def tiny(files):
    """ILBRL and BC, 2 configurations × 2 seeds; no environment."""
    from ilbrl.study.study import Data, Evaluation, Search, Study, Training

    return Study(
        name="tiny",
        data=Data(f"{files}/expert.npz", f"{files}/medium.npz", 2, 300, 300, 120),
        known={"expert.policy": f"{files}/expert.safetensors", "logs.policy": f"{files}/medium.safetensors"},
        search=Search(
            ("ilbrl", "bc"), 2, ranges={"all.hidden": "[8, 8]", "all.batch_size": "16", "ilbrl.actor_lr": "0.001"}
        ),
        training=Training(seeds=2, updates=40),
        evaluation=Evaluation(
            "expected_sarsa",
            {
                "grid": "small", "updates": "400", "hidden": "[8, 8]", "batch_size": "16", "gamma": "0.5",
                "lr": "0.01", "tau": "0.2", "target_update_every": "1",
            },
            evaluation_seeds=2,
        ),
    )  # fmt: skip


@pytest.fixture(scope="session")
def finished(tmp_path_factory, tiny):
    """A finished study without an environment. To be looked at, not changed."""
    out = tmp_path_factory.mktemp("finished") / "run"
    assert tiny.run(out, quiet=True).nothing is None
    return out


@pytest.fixture(scope="session")
def played(tmp_path_factory, tiny, finished):
    """The same study played in Pendulum, and its other candidates revealed. To be looked at, not changed."""
    from dataclasses import replace

    from ilbrl.study.run import reveal
    from ilbrl.study.study import Final

    out = shutil.copytree(finished, tmp_path_factory.mktemp("played") / "run")
    replace(tiny, task="Pendulum-v1", final=Final(episodes=2, environment_seeds=2)).run(out, change=True, quiet=True)
    reveal(out, quiet=True)
    return out


@pytest.fixture
def run(finished, tmp_path):
    """A copy of the finished study to work in."""
    return shutil.copytree(finished, tmp_path / "run")
