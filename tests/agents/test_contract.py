"""What every agent promises: one fit of a population from logs, for each entry of the registry."""

import itertools
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ilbrl.agents import AGENTS
from ilbrl.agents.fit import fit
from ilbrl.data import Dataset
from ilbrl.learning import nets
from ilbrl.policy import Policy

SEEDS, UPDATES = [3, 5], 4
LEARNS_FROM_THE_TRUE_REWARD = ["td3bc"]


def logs(rows: int, noise: float, seed: int, rewards: bool = True, discrete: bool = False) -> Dataset:
    """Three observed numbers, actions within ±2 or three choices; each second episode (20 steps) ends in a terminal."""
    rng = np.random.default_rng(seed)
    observations = 5 + 2 * rng.standard_normal((rows, 3))
    actions = 2 * np.tanh(observations[:, :2] - 5 + noise * rng.standard_normal((rows, 2)))
    if discrete:
        actions = np.digitize(actions[:, 0], [-1, 1])
    last = np.arange(1, rows + 1) % 20 == 0
    terminals = last & (np.arange(1, rows + 1) % 40 == 0)
    bounds = {} if discrete else {"action_low": np.full(2, -2.0), "action_high": np.full(2, 2.0)}
    rewards_of = observations[:, 0] if rewards else None
    return Dataset(observations, actions, observations + 0.1, terminals, last & ~terminals, rewards_of, **bounds)


def configs(name: str) -> list:
    """A usual member, one with other hyper-parameters, and one that cannot but diverge."""
    small = {"hidden": (8,), "batch_size": 16}
    usual = AGENTS[name].presets["default"]
    if hasattr(usual, "discriminator_passes"):
        small["discriminator_passes"] = 2
    usual = replace(usual, **small)
    rate = "lr" if name == "bc" else "actor_lr"
    return [usual, replace(usual, **{rate: 0.05}), replace(usual, **{rate: 1e30})]


def train(name: str, discrete: bool, rewards: bool = True):
    expert, logged = logs(60, 0.0, 0, rewards, discrete), logs(200, 0.5, 1, rewards, discrete)
    return fit(name, expert, logged, config=configs(name), seeds=SEEDS, updates=UPDATES, quiet=True)


@pytest.fixture(
    scope="module", params=itertools.product(AGENTS, (False, True)), ids=lambda p: p[0] + "-discrete" * p[1]
)
def learned(request):
    return train(*request.param)


def test_members_differ_by_configuration_and_by_seed(learned):
    assert learned.seeds == SEEDS * 3
    weights = [policy.layers[0][0] for policy in learned.policies[:4]]
    for i, one in enumerate(weights):
        for other in weights[i + 1 :]:
            assert not np.allclose(one, other, atol=1e-6)


def test_a_diverging_member_is_marked_and_leaves_the_others_alone(learned):
    assert learned.diverged.tolist() == [False] * 4 + [True] * 2
    assert [policy.metadata["diverged_at"] >= 0 for policy in learned.policies] == learned.diverged.tolist()
    assert all(np.isfinite(w).all() for policy in learned.policies[:4] for layer in policy.layers for w in layer[:2])


def test_the_same_call_gives_the_same_bits_and_imitators_never_read_the_true_reward(learned):
    discrete = learned.policies[0].head == "categorical"
    again = train(learned.agent, discrete, rewards=learned.agent in LEARNS_FROM_THE_TRUE_REWARD)
    for one, other in zip(learned.policies, again.policies):
        for left, right in zip(one.layers, other.layers):
            np.testing.assert_array_equal(left[0], right[0])
            np.testing.assert_array_equal(left[1], right[1])


def test_the_saved_policy_acts_like_the_trained_network(learned, tmp_path):
    discrete = learned.policies[0].head == "categorical"
    agent = AGENTS[learned.agent]
    solver = agent.discrete if discrete and agent.discrete else agent.solver
    observations = logs(50, 0.5, seed=2).observations
    for p, policy in enumerate(learned.policies[:4]):
        loaded = Policy.load(policy.save(tmp_path / f"{p}"))
        standardised = jnp.asarray((observations - policy.obs_mean) / policy.obs_std)
        outputs = nets.mlp(solver.actor_layers(learned.fitted.member(p)), standardised)
        if discrete:
            np.testing.assert_allclose(loaded.probabilities(observations), jax.nn.softmax(outputs), atol=1e-5)
            np.testing.assert_array_equal(loaded.act(observations), outputs.argmax(1))
        else:
            bound = loaded.mean_bound or np.inf
            expected = 2 * jnp.tanh(jnp.clip(outputs[:, :2], -bound, bound))
            np.testing.assert_allclose(loaded.act(observations), expected, atol=1e-5)
        assert loaded.metadata["agent"] == learned.agent
        assert loaded.metadata["seed"] == learned.seeds[p]


@pytest.mark.parametrize("name", AGENTS)
def test_presets_of_an_agent_are_its_configurations(name):
    agent = AGENTS[name]
    assert all(isinstance(preset, agent.Config) for preset in agent.presets.values())
    assert "default" in agent.presets
    assert agent.name == name
    paper = [preset for preset in agent.presets if preset.startswith("paper")]
    assert paper or name in LEARNS_FROM_THE_TRUE_REWARD
