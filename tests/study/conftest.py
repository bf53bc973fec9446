"""A study so small that all its phases take seconds: a point that two known policies push towards the origin."""

import shutil

import jax
import numpy as np
import pytest

from ilbrl.data import Dataset, save
from ilbrl.policy import Policy
from ilbrl.study import kinds
from ilbrl.study.executors import local
from ilbrl.study.study import Data, Evaluation, Search, Study, Training

LENGTH = 20
jax.devices()  # commands that make every core a device shall not do so to all tests after them


def pushing(gain: float) -> Policy:
    """a = 2 tanh(−gain · s₀): deterministic, towards the origin."""
    weights = np.zeros((3, 1), np.float32)
    weights[0, 0] = -gain
    return Policy(((weights, np.zeros(1)),), action_low=[-2.0], action_high=[2.0])


def logs(policy: Policy, episodes: int, noise: float, seed: int) -> Dataset:
    """Rewards 1 − s₀²; every episode is a time-out after 20 steps. Sizes are those of Gymnasium's Pendulum."""
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
def weights():
    """A function: the policies of a run folder, to the bit. (Their metadata names the commit, which may move.)"""

    def of(run):
        found = {str(path.relative_to(run)): Policy.load(path) for path in sorted(run.rglob("*.safetensors"))}
        assert found
        return {name: [array.tobytes() for layer in p.layers for array in layer] for name, p in found.items()}

    return of


@pytest.fixture(scope="session")
def files(tmp_path_factory):
    """expert.npz and medium.npz, and the policies behind them."""
    folder = tmp_path_factory.mktemp("logs")
    for name, gain, noise, seed in (("expert", 3.0, 0.1, 0), ("medium", -0.2, 0.5, 1)):
        save(logs(pushing(gain), 40, noise, seed), folder / f"{name}.npz")
        pushing(gain).save(folder / f"{name}.safetensors")
    return folder


@pytest.fixture(scope="session")
def tiny(files) -> Study:
    """ILBRL and BC, 2 configurations × 2 seeds; no environment."""
    return Study(
        name="tiny",
        data=Data(f"{files}/expert.npz", f"{files}/medium.npz", 2, 300, 300, 120),
        known={
            "expert.policy": f"{files}/expert.safetensors",
            "exploratory.policy": f"{files}/medium.safetensors",
        },
        search=Search(
            ("ilbrl", "bc"), 2, ranges={"all.hidden": "[8, 8]", "all.batch_size": "16", "ilbrl.actor_lr": "0.001"}
        ),
        training=Training(seeds=2, updates=40),
        evaluation=Evaluation(
            "small",
            2,
            400,
            {
                "hidden": "[8, 8]",
                "batch_size": "16",
                "gamma": "0.5",
                "lr": "0.01",
                "tau": "0.2",
                "target_update_every": "1",
            },
        ),
    )


@pytest.fixture(scope="session")
def finished(tmp_path_factory, tiny):
    """A finished study without an environment."""
    out = tmp_path_factory.mktemp("finished") / "run"
    assert tiny.run(out, quiet=True).nothing is None
    return out


@pytest.fixture
def run(finished, tmp_path):
    """A copy of it to work in."""
    return shutil.copytree(finished, tmp_path / "run")


@pytest.fixture
def done(monkeypatch):
    """The jobs that are really done from here on: (kind, algorithm or purpose)."""
    jobs = []

    def work(job, *rest):
        jobs.append((job.kind, job.inputs.get("algorithm")))
        kinds.work(job, *rest)

    monkeypatch.setattr(local, "work", work)
    return jobs
