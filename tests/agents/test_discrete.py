"""Discrete actions, from logs to policies: known answers of each agent, resumption, and refusals by name."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ilbrl.agents import AGENTS, bc, smodice, td3bc, td3bc_discrete
from ilbrl.agents.agent import Agent
from ilbrl.agents.fit import fit
from ilbrl.base.errors import IlbrlError
from ilbrl.data import Dataset, from_arrays
from ilbrl.learning.batches import Batch
from ilbrl.learning.spec import Spec
from ilbrl.policy import Policy
from ilbrl.tabular import FiniteMDP, discounted_optimum
from ilbrl.tabular.exact import action_values, discounted_values

STATES, ACTIONS, GAMMA = 5, 3, 0.8
RNG = np.random.default_rng(4)
THERE = RNG.integers(0, STATES, (STATES, ACTIONS))
WORLD = FiniteMDP(np.eye(STATES)[THERE], RNG.random((STATES, ACTIONS)))
COUNTS = RNG.integers(1, 5, (STATES, ACTIONS))  # how often each pair was logged
SPEC = Spec(np.zeros(STATES), np.ones(STATES), np.zeros(1), np.full(1, ACTIONS - 1.0), ACTIONS)


def table() -> Batch:
    """All logged steps of the finite problem, with one-hot observations: linear networks are tables."""
    states, actions = np.divmod(np.repeat(np.arange(STATES * ACTIONS), COUNTS.ravel()), ACTIONS)
    columns = {
        "observations": np.eye(STATES)[states],
        "actions": np.eye(ACTIONS)[actions],
        "next_observations": np.eye(STATES)[THERE[states, actions]],
        "continues": np.ones(len(states)),
        "rewards": WORLD.rewards[states, actions],
    }
    return Batch(**{name: jnp.asarray(column, jnp.float32) for name, column in columns.items()})


def run(learner, cfg, rates: str, updates: int = 2000):
    """The state after so many updates with all rows, while the learning rates named fall to almost nothing."""
    rows = table()

    def update(state, rate):
        cfg_now = replace(cfg, **dict.fromkeys(rates.split(), rate))
        return learner.step(cfg_now, state, rows, jax.random.key(0), 0)

    start = learner.init(cfg, SPEC, jax.random.key(1))
    return jax.jit(lambda s: jax.lax.scan(update, s, jnp.geomspace(0.1, 1e-5, updates)))(start)[0]


def tables_of(layers) -> np.ndarray:
    """[…, S, A] outputs at the one-hot states."""
    return np.asarray(layers[0]["w"] + layers[0]["b"][..., None, :])


def probabilities(layers) -> np.ndarray:
    return np.asarray(jax.nn.softmax(tables_of(layers)))


LOGGED = COUNTS / COUNTS.sum(1, keepdims=True)  # [S, A] the policy that the logs show


@pytest.mark.parametrize(("lam", "wanted"), [(0.0, "logged"), (1e3, "optimal")])
def test_values_are_those_of_the_tabular_solver(lam, wanted):
    """λ = 0 clones the logs, and the critics value the clone; a large λ ends in the optimum and its Q*."""
    cfg = td3bc.Config(lam=lam, actor_lr=0.01, gamma=GAMMA, tau=0.2, policy_delay=1, hidden=())
    state = run(td3bc_discrete.SOLVER.learner, cfg, "critic_lr", updates=3000)
    if wanted == "logged":
        expected = action_values(WORLD, discounted_values(WORLD, LOGGED, GAMMA), GAMMA)
        np.testing.assert_allclose(probabilities(state.actor.params), LOGGED, atol=1e-3)
    else:
        optimum = discounted_optimum(WORLD, GAMMA)
        expected = optimum.action_values
        np.testing.assert_array_equal(probabilities(state.actor.params).argmax(1), optimum.policy)
    for values in tables_of(state.critic.params):
        np.testing.assert_allclose(values, expected, atol=0.02)


def test_cloning_is_the_share_of_each_action():
    state = run(bc.DISCRETE.learner, bc.Config(hidden=()), "lr")
    np.testing.assert_allclose(probabilities(bc.actor_layers(state)), LOGGED, atol=1e-3)


def test_the_loss_of_smodice_is_that_of_float64_numpy():
    rows, cfg, key = table(), smodice.Config(hidden=()), jax.random.key(0)
    w = np.random.default_rng(0).random(len(rows.rewards))
    layers = smodice.DISCRETE.learner.init(cfg, SPEC, key).actor.params
    loss, entropy = smodice.categorical_loss(layers, cfg, rows, jnp.asarray(w), jnp.asarray(0.3), key)
    log_pi = np.log(np.asarray(jax.nn.softmax(tables_of(layers)), np.float64))
    states, actions = (np.asarray(column).argmax(1) for column in (rows.observations, rows.actions))
    spread = -(np.exp(log_pi) * log_pi).sum(1)[states].mean()
    np.testing.assert_allclose(entropy, spread, rtol=1e-5)
    np.testing.assert_allclose(loss, -(w * log_pi[states, actions]).mean() - 0.3 * spread, rtol=1e-5)
    assert smodice.CATEGORICAL.target_entropy(ACTIONS) == pytest.approx(0.1 * np.log(3))


# --- whole fits -------------------------------------------------------------------------------------------------------

NAMES = ("left", "stay", "right")


def logs(rows: int, noise: float, seed: int, names: tuple[str, ...] | None = NAMES) -> Dataset:
    """Two observed numbers; the expert goes left below −0.4, right above 0.4 of the first, and stays between."""
    rng = np.random.default_rng(seed)
    observations = rng.standard_normal((rows, 2))
    actions = np.digitize(observations[:, 0], [-0.4, 0.4])
    actions = np.where(rng.random(rows) < noise, rng.integers(0, 3, rows), actions)
    last = np.arange(1, rows + 1) % 20 == 0
    return from_arrays(
        observations, actions, observations + 0.1, rng.random(rows), np.zeros(rows, bool), last, action_names=names
    )


def small(name: str, **changes):
    usual = replace(AGENTS[name].presets["default"], hidden=(16,), batch_size=32, **changes)
    return replace(usual, discriminator_passes=2) if hasattr(usual, "discriminator_passes") else usual


def test_a_policy_names_its_actions_and_acts_in_numpy_alone(tmp_path):
    learned = fit("bc", logs(200, 0.0, 0), logs(200, 0.5, 1), config=small("bc", lr=0.01), updates=400, quiet=True)
    policy = Policy.load(learned.policies[0].save(tmp_path / "policy"))
    fresh = logs(500, 0.0, 2)
    assert (policy.head, policy.num_actions, policy.action_names) == ("categorical", 3, NAMES)
    assert (policy.act(fresh.observations) == fresh.actions).mean() > 0.9
    chances = policy.probabilities(fresh.observations)
    np.testing.assert_allclose(chances.sum(1), 1)
    drawn = np.stack([policy.act(fresh.observations, np.random.default_rng(seed)) for seed in range(200)])
    for action in range(3):
        np.testing.assert_allclose((drawn == action).mean(0), chances[:, action], atol=0.2)


def test_actions_that_only_the_logs_take_are_actions_of_the_policy():
    """BC learns from the expert's rows alone, and still chooses among all."""
    expert, others = logs(60, 0.0, 0, names=None), logs(60, 0.5, 1, names=None)
    expert = replace(expert, actions=np.minimum(expert.actions, 1))
    learned = fit("bc", expert, others, config=small("bc"), updates=2, quiet=True)
    assert learned.policies[0].num_actions == 3
    assert learned.policies[0].action_names == ("0", "1", "2")


def test_the_same_action_has_the_same_number_in_both_logs():
    """Logs read one by one number their own names; fit makes the numbers agree."""
    expert, others = logs(60, 0.0, 0), logs(60, 0.5, 1)
    turned = replace(others, actions=2 - others.actions, action_names=NAMES[::-1])
    one = fit("ilbrl", expert, others, config=small("ilbrl"), updates=4, quiet=True)
    other = fit("ilbrl", expert, turned, config=small("ilbrl"), updates=4, quiet=True)
    np.testing.assert_array_equal(one.policies[0].layers[0].weight, other.policies[0].layers[0].weight)


def test_discrete_actions_have_a_preset_of_their_own():
    learned = fit("ilbrl", logs(20, 0.0, 0), logs(20, 0.5, 1), updates=2, quiet=True)
    assert learned.configs[0] == AGENTS["ilbrl"].presets["discrete"]
    assert AGENTS["ilbrl"].usual_preset(discrete=False) == AGENTS["bc"].usual_preset(discrete=True) == "default"


def test_training_in_two_parts_changes_no_bit(tmp_path, monkeypatch):
    monkeypatch.setattr("ilbrl.learning.population.default_chunk", lambda: 2)  # other chunks: other bits on a GPU
    expert, others = logs(60, 0.0, 0), logs(60, 0.5, 1)
    options = {"config": small("ilbrl"), "seeds": 2, "quiet": True}
    whole = fit("ilbrl", expert, others, updates=4, **options)
    fit("ilbrl", expert, others, updates=2, out=tmp_path, **options)
    resumed = fit("ilbrl", expert, others, updates=4, out=tmp_path, **options)
    assert resumed.fitted.done_before == 2
    for one, other in zip(whole.policies, resumed.policies):
        for left, right in zip(one.layers, other.layers):
            np.testing.assert_array_equal(left.weight, right.weight)


def test_what_cannot_be_learned_is_named():
    expert, others = logs(60, 0.0, 0), logs(60, 0.5, 1)
    with pytest.raises(IlbrlError, match=r"its actions are numbers, those of arrays have names.*--action-names left"):
        fit("bc", expert, replace(others, action_names=None), updates=2)
    expert, others = replace(expert, action_names=None), replace(others, action_names=None)
    wrong = np.where(np.arange(60) == 3, -1, others.actions)
    with pytest.raises(IlbrlError, match="-1 in row 3; choices are numbered from 0"):
        fit("bc", expert, replace(others, actions=wrong), updates=2)
    with pytest.raises(IlbrlError, match="the expert data does not fit"):
        fit("bc", expert, replace(others, actions=others.actions[:, None] + 0.5), updates=2)
    own = Agent("mine", "Mine", "Mine.", "#000000", bc.SOLVER, bc.Config, {"default": bc.Config()}, {}, rows="expert")
    with pytest.raises(IlbrlError, match="agent mine: learns real-valued actions only"):
        fit(own, expert, others, updates=2)
