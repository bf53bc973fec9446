"""Data shared by the tests of `ilbrl.data`."""

from pathlib import Path

import numpy as np
import pytest

from ilbrl.data import Dataset
from ilbrl.policy import Policy


@pytest.fixture
def others_files() -> Path:
    """The folder of real files made by other projects, where it stands beside the checkout."""
    folder = Path(__file__).parents[2].parent / "shared" / "data"
    if not folder.is_dir():
        pytest.skip("the folder of real D4RL and imitation files is not beside the checkout")
    return folder


@pytest.fixture
def full() -> Dataset:
    """Every field set: a terminal episode of 3 steps, a time-out of 2, an unfinished one of 2."""
    rng = np.random.default_rng(0)
    observations = rng.normal(size=(7, 3)).astype(np.float32)
    next_observations = np.roll(observations, -1, axis=0)
    next_observations[[2, 4, 6]] = rng.normal(size=(3, 3))
    return Dataset(
        observations=observations,
        actions=rng.uniform(-1, 1, (7, 2)),
        next_observations=next_observations,
        rewards=rng.normal(size=7),
        terminals=np.array([0, 0, 1, 0, 0, 0, 0]),
        timeouts=np.array([0, 0, 0, 0, 1, 0, 0]),
        log_probs=rng.normal(size=7),
        is_expert=np.array([1, 1, 1, 0, 0, 0, 0]),
        action_low=np.array([-1, -2]),
        action_high=np.array([1, 2]),
        policy=small_policy(rng),
        source="by hand",
        notes=("made for tests",),
    )


def small_policy(rng: np.random.Generator) -> Policy:
    sizes = [(3, 5), (5, 4), (4, 4)]
    layers = [(rng.normal(size=size).astype(np.float32), rng.normal(size=size[1]).astype(np.float32)) for size in sizes]
    return Policy(
        layers=tuple(layers),
        action_low=np.array([-1, -2], np.float32),
        action_high=np.array([1, 2], np.float32),
        head="tanh_gaussian",
        obs_mean=np.ones(3, np.float32),
        obs_std=np.full(3, 2, np.float32),
        activation="tanh",
        log_std_bounds=(-3.0, 1.0),
        metadata={"trained_on": "nothing"},
    )
