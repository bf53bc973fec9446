"""Programs compiled quickly and only once, and the small study that tests of study, results and report share.

The study is so small that all its phases take seconds: a point that two known policies push towards the origin.
"""

import os
import shutil
import signal
import tempfile

os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true")

import jax
import pytest

# Started in the background of a script (`nohup make test &`), Ctrl-C is ignored here and in every child: tests send it.
signal.signal(signal.SIGINT, signal.default_int_handler)

_cache = tempfile.TemporaryDirectory(prefix="ilbrl-tests-")  # lives as long as the tests do
jax.config.update("jax_compilation_cache_dir", _cache.name)
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
jax.config.update("jax_persistent_cache_min_entry_size_bytes", 0)
jax.config.update("jax_default_matmul_precision", "highest")  # a GPU would multiply float32 in tf32
jax.devices()  # decided here: a command under test must not make every core a device for the tests after it


@pytest.fixture(scope="session")
def files(tmp_path_factory):
    """expert.npz and medium.npz, and the policies behind them; sizes are those of Gymnasium's Pendulum."""
    from benchmarks.kills import pushed

    from ilbrl.data import save

    folder = tmp_path_factory.mktemp("logs")
    for name, (policy, logs) in zip(("expert", "medium"), pushed().values()):
        save(logs, folder / f"{name}.npz")
        policy.save(folder / f"{name}.safetensors")
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
