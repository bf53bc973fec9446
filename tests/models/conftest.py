"""Worlds whose returns are known: a linear system, and models that are exactly it."""

from dataclasses import replace

import numpy as np
import pytest

from ilbrl.data import from_arrays
from ilbrl.models.dynamics import Config
from ilbrl.models.file import Errors, Models, Scales
from ilbrl.policy import Policy

A = np.array([[0.9, 0.1], [-0.05, 0.95]])
B = np.array([[0.2], [0.1]])
REWARD = np.array([1.0, -0.5, 0.3])  # of s₁, s₂, a


def steady(action: float, obs_dim: int = 2) -> Policy:
    """A policy that always takes the same action."""
    bias = np.array([np.arctanh(action)], np.float32)
    return Policy(((np.zeros((obs_dim, 1), np.float32), bias),), -np.ones(1), np.ones(1))


def linear_return(action: float, start: np.ndarray, horizon: int, gamma: float = 1.0) -> float:
    """Σ γ^t r of the linear system under a constant action, step by step in float64."""
    state, total = np.asarray(start, np.float64), 0.0
    for t in range(horizon):
        total += gamma**t * (REWARD[:2] @ state + REWARD[2] * action)
        state = A @ state + B[:, 0] * action
    return total


def linear_logs(episodes: int = 40, length: int = 50, seed: int = 0, rewards: bool = True):
    rng = np.random.default_rng(seed)
    rows = []
    for _ in range(episodes):
        state, habit = rng.normal(size=2), rng.uniform(-1, 1)  # steady policies stay within such logs
        for t in range(length):
            action = np.clip(habit + 0.3 * rng.normal(size=1), -1, 1)
            following = A @ state + B @ action
            rows.append((state, action, following, REWARD @ np.append(state, action), t == length - 1))
            state = following
    columns = [np.array(column) for column in zip(*rows)]
    found = dict(zip(("observations", "actions", "next_observations", "rewards", "timeouts"), columns))
    if not rewards:
        found.pop("rewards")
    return from_arrays(**found, terminals=np.zeros(len(rows)), action_low=[-1.0], action_high=[1.0])


@pytest.fixture(scope="session")
def logs():
    return linear_logs()


def exact_models(members: int = 1, shift: float = 0.0, end_bias: float | None = None, wide: float = 1e6) -> Models:
    """The linear system as a network without hidden layers; member k predicts k · shift too much of s₁.

    end_bias: the logit of the end is s₁ + end_bias.
    """
    outputs = 3 + (end_bias is not None)
    w, b = np.zeros((members, 3, outputs)), np.zeros((members, outputs))
    w[:, :2, :2], w[:, 2, :2] = (A - np.eye(2)).T, B[:, 0]
    w[:, :, 2] = REWARD
    b[:, 0] = shift * np.arange(members)
    if end_bias is not None:
        w[:, 0, 3], b[:, 3] = 1.0, end_bias
    zeros, ones = np.zeros(2, np.float32), np.ones(2, np.float32)
    reward = np.array([0.0, 1.0, -wide, wide], np.float32)
    one = np.ones((), np.float32)
    scales = Scales(
        zeros, ones, -ones[:1], ones[:1], zeros, ones, -wide * ones, wide * ones, reward, 0.1 * ones, one, one
    )  # fmt: skip
    config = Config(hidden=(), rewards=True, ends=end_bias is not None)
    layers = ({"w": w.astype(np.float32), "b": b.astype(np.float32)},)
    return Models(layers, config, scales, 50, Errors((), (), ()))


def with_bounds(models: Models, low: float, high: float) -> Models:
    ones = np.ones(2, np.float32)
    return replace(models, scales=replace(models.scales, state_low=low * ones, state_high=high * ones))
