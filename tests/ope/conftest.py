"""Two problems whose values are known in closed form: a finite MDP seen through one-hot states, and a linear system."""

from dataclasses import dataclass

import numpy as np
import pytest

from ilbrl import ope
from ilbrl.data import Dataset
from ilbrl.learning.spec import Spec
from ilbrl.tabular import FiniteMDP, garnet

GAMMA = 0.9
CRITICS = ope.ESTIMATORS["expected_sarsa"].Config(
    lr=1e-3, target_update_every=1.0, tau=0.03, gamma=GAMMA, hidden=(32, 32), batch_size=128, informed_start=False,
    grid="none",
)  # fmt: skip


@dataclass(frozen=True)
class Finite:
    """A random MDP of 5 states and 2 actions; action 0 is the number −1, action 1 the number 1."""

    mdp: FiniteMDP
    log: Dataset  # by the uniform policy, with log-probabilities

    def act(self, choices: np.ndarray):
        """The deterministic policy that takes action choices[s], as a function of one-hot observations."""
        return lambda observations: 2.0 * choices[observations.argmax(-1)][:, None] - 1.0

    def value(self, probabilities: np.ndarray) -> float:
        """Exact discounted value at P₀ of the [S, A] policy."""
        states, actions = self.mdp.rewards.shape
        moves = self.mdp.transitions.reshape(states, actions, states)
        chain = np.einsum("sa,sat->st", probabilities, moves)
        earned = (probabilities * self.mdp.rewards).sum(1)
        assert self.mdp.initial is not None
        return float(self.mdp.initial @ np.linalg.solve(np.eye(states) - GAMMA * chain, earned))

    def evidence(self) -> ope.Evidence:
        spec = Spec(np.zeros(5), np.ones(5), -np.ones(1), np.ones(1))
        return ope.Evidence.of({"logs": self.log}, initial_observations=np.eye(5, dtype=np.float32), spec=spec)


@pytest.fixture(scope="session")
def finite() -> Finite:
    rng = np.random.default_rng(1)
    mdp = garnet(5, 2, rng)
    return Finite(mdp, finite_log(mdp, np.full((5, 2), 0.5), 300, 40, rng))


def finite_log(mdp: FiniteMDP, policy: np.ndarray, episodes: int, steps: int, rng: np.random.Generator) -> Dataset:
    moves = mdp.transitions.reshape(5, 2, 5)
    state = rng.choice(5, episodes, p=mdp.initial)
    columns = []
    for t in range(steps):
        action = (rng.random(episodes) > policy[state, 0]).astype(int)
        following = np.array([rng.choice(5, p=moves[s, a]) for s, a in zip(state, action)])
        chance = np.log(policy[state, action])
        columns.append((state, action, mdp.rewards[state, action], following, chance, np.full(episodes, t)))
        state = following
    states, actions, rewards, following, log_probs, step = (np.stack(c, 1).reshape(-1) for c in zip(*columns))
    one_hot = np.eye(5, dtype=np.float32)
    return Dataset(
        one_hot[states], 2.0 * actions[:, None] - 1.0, one_hot[following], np.zeros(len(states), bool),
        step == steps - 1, rewards=rewards, log_probs=log_probs, action_low=[-1.0], action_high=[1.0], source="finite",
    )  # fmt: skip


@dataclass(frozen=True)
class Linear:
    """x′ = 0.9 x + 0.5 u + 0.05 ε, r = −(x² + 0.1 u²); the policy u = −k x is worth −(P x² + c)."""

    def value(self, k: float, start: np.ndarray) -> float:
        pull = 0.9 - 0.5 * k
        curvature = (1 + 0.1 * k**2) / (1 - GAMMA * pull**2)
        return -float((curvature * start**2).mean() + GAMMA * curvature * 0.05**2 / (1 - GAMMA))

    def log(
        self, k: float, spread: float, episodes: int, steps: int = 25, seed: int = 0, noise: float = 0.05
    ) -> Dataset:
        """Episodes of u = −k x + spread · ε."""
        rng = np.random.default_rng(seed)
        x, columns = rng.uniform(-1, 1, episodes), []
        for _ in range(steps):
            u = np.clip(-k * x + spread * rng.standard_normal(episodes), -1, 1)
            following = 0.9 * x + 0.5 * u + noise * rng.standard_normal(episodes)
            columns.append((x, u, -(x**2 + 0.1 * u**2), following))
            x = following
        x, u, r, y = (np.stack(column, 1).reshape(-1) for column in zip(*columns))
        ends = np.tile(np.arange(steps) == steps - 1, episodes)
        return Dataset(
            x[:, None], u[:, None], y[:, None], np.zeros(len(x), bool), ends, rewards=r,
            action_low=[-1.0], action_high=[1.0], source=f"linear {k}",
        )  # fmt: skip


@pytest.fixture(scope="session")
def linear() -> Linear:
    return Linear()


@pytest.fixture(scope="session")
def critics():
    """A configuration of Expected SARSA that is right on these problems within seconds."""
    return CRITICS
