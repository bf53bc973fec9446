"""SMODICE on a finite problem: one-hot observations, a linear V and whole-data batches solve its program exactly."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import minimize

from ilbrl.agents import smodice
from ilbrl.learning import nets
from ilbrl.learning.batches import Batch
from ilbrl.learning.spec import Spec
from ilbrl.policy import Policy

STATES, GAMMA = 4, 0.9
CFG = smodice.Config(gamma=GAMMA, weight_decay=0.0, hidden=())
SPEC = Spec(np.zeros(STATES), np.ones(STATES), -np.ones(1), np.ones(1))

# Rows (state, successor, how often), two per state, deterministic; and where episodes start.
HERE = np.repeat(np.arange(STATES), 2)
THERE = np.array([1, 2, 2, 0, 3, 0, 0, 3])
COUNTS = np.array([3, 1, 2, 2, 1, 4, 2, 1])
START = np.array([0, 0, 0, 1, 2])
REWARDS = 2 * np.random.default_rng(3).normal(size=8)

OFFLINE = COUNTS / COUNTS.sum()
P0 = np.bincount(START, minlength=STATES) / len(START)
FLOW = np.eye(STATES)[HERE].T - GAMMA * np.eye(STATES)[THERE].T  # [S, 8]: FLOW @ d = (1 − γ) p₀


def batch() -> Batch:
    rows = np.repeat(np.arange(8), COUNTS)
    one_hot = np.eye(STATES, dtype=np.float32)
    return Batch(
        observations=jnp.asarray(one_hot[HERE[rows]]),
        actions=jnp.asarray(np.where(rows % 2, 0.5, -0.5)[:, None], jnp.float32),
        next_observations=jnp.asarray(one_hot[THERE[rows]]),
        continues=jnp.ones(len(rows)),
        rewards=jnp.asarray(REWARDS[rows], jnp.float32),
        initial_observations=jnp.asarray(one_hot[START]),
    )


@jax.jit
def solve(cfg: smodice.Config, rows: Batch) -> tuple[jax.Array, jax.Array]:
    """The dual's minimum, and [B] weights there."""

    def update(state, value_lr):
        return smodice.step(replace(cfg, value_lr=value_lr), state, rows, jax.random.key(0), 0)

    rates = jnp.geomspace(0.3, 1e-5, 3000)
    state, _ = jax.lax.scan(update, smodice.init(cfg, SPEC, jax.random.key(1)), rates)
    dual, (w, _) = smodice.value_loss(state.value.params, cfg, rows)
    return dual, w


def per_pair(values: jax.Array) -> np.ndarray:
    """[8] from [B]: equal rows carry equal values."""
    return np.asarray(values)[np.cumsum(COUNTS) - 1]


def divergence(name: str, w: np.ndarray, offline=OFFLINE) -> float:
    return offline @ (w * np.log(np.maximum(w, 1e-300)) if name == "kl" else (w - 1) ** 2 / 2)


def primal(name: str, offline=OFFLINE, rewards=REWARDS, flow=FLOW, start=P0) -> tuple[float, np.ndarray]:
    """max_d d·R − D_f(d ‖ d_O) under the flow constraints, and d ≥ 0: the optimum by scipy, in the ratios w."""
    inflow = (1 - GAMMA) * start
    kept = {"type": "eq", "fun": lambda w: flow @ (offline * w) - inflow, "jac": lambda w: flow * offline}
    objective = lambda w: divergence(name, w, offline) - offline @ (w * rewards)  # noqa: E731
    options, bounds = {"ftol": 1e-14, "maxiter": 1000}, [(1e-12, None)] * len(offline)
    found = minimize(objective, np.ones(len(offline)), method="SLSQP", bounds=bounds, constraints=kept, options=options)
    assert found.success
    return -found.fun, found.x


def test_chi2_as_printed_is_the_closed_form_of_the_program_without_positivity():
    """Stationarity and flow are one linear system: w − R − 1 = −Fᵀ V, F diag(d_O) w = (1 − γ) p₀."""
    dual, found = solve(replace(CFG, divergence="chi2"), batch())
    system = np.block([[np.eye(8), FLOW.T], [FLOW * OFFLINE, np.zeros((STATES, STATES))]])
    w = np.linalg.solve(system, np.concatenate([1 + REWARDS, (1 - GAMMA) * P0]))[:8]
    np.testing.assert_allclose(dual, OFFLINE @ (w * REWARDS) - divergence("chi2", w), atol=1e-4)
    assert w.min() < -0.1  # positivity would have mattered
    np.testing.assert_allclose(per_pair(found), np.maximum(w, 0), atol=1e-3)


@pytest.mark.parametrize("name", ["kl", "chi2_nonnegative"])
def test_weights_are_the_optimum_of_the_program(name):
    cfg = replace(CFG, divergence=name)
    dual, found = solve(cfg, batch())
    optimum, w = primal(name)
    np.testing.assert_allclose(per_pair(found), w, atol=2e-3)
    np.testing.assert_allclose(dual, optimum, atol=1e-4)


def ending() -> Batch:
    """The same with copies of the first pair that end the episode, from a state with another way out, and pay 1."""
    rows, first = batch(), COUNTS[0]
    return rows._replace(continues=rows.continues.at[:first].set(0), rewards=rows.rewards.at[:first].set(1.0))


def test_kl_gives_no_weight_to_steps_into_a_terminal():
    """Σ d = 1 and the flow leave nothing for them, however well they are paid; V reaches that only in the limit."""
    assert per_pair(solve(CFG, ending())[1])[0] < 0.03
    assert per_pair(solve(CFG, batch())[1])[0] > 0.3


@pytest.mark.parametrize("name", ["kl", "chi2_nonnegative"])
@pytest.mark.parametrize("price", [-1.0, 0.5])
def test_an_absorbing_state_is_one_more_state_of_the_program(name, price):
    """A state that every terminal leads to and only leads to itself, logged as often as terminals are."""
    dual, found = solve(replace(CFG, divergence=name, absorbing_reward=price), ending())
    counts = np.append(COUNTS, COUNTS[0])
    here, there = np.append(HERE, STATES), np.append(np.where(np.arange(8) == 0, STATES, THERE), STATES)
    flow = np.eye(STATES + 1)[here].T - GAMMA * np.eye(STATES + 1)[there].T
    rewards = np.append(np.where(np.arange(8) == 0, 1.0, REWARDS), price)
    optimum, w = primal(name, counts / counts.sum(), rewards, flow, np.append(P0, 0))
    np.testing.assert_allclose(per_pair(found), w[:8], atol=1e-2)
    np.testing.assert_allclose(dual, optimum, atol=2e-4)
    assert w[0] > 0.01  # a terminal has mass, at its price


def test_weights_stay_finite_where_exponentials_do_not():
    e = jnp.array([1e4, 1e4, -1e4, 0.0])
    counts = jnp.ones(4)
    np.testing.assert_allclose(smodice.weights(CFG, e, counts), [2, 2, 0, 0])
    np.testing.assert_allclose(smodice.conjugate(CFG, e, counts), 1e4 + np.log(0.5), rtol=1e-6)


def test_densities_and_mean_actions_are_those_of_the_deployed_policy():
    layers = nets.init_mlp(jax.random.key(0), [3, 16, 4])
    layers[-1]["b"] = jnp.array([0.0, 9.0, 0.0, -7.0])  # the second mean and log σ lie beyond their bounds
    rng = np.random.default_rng(0)
    observations = rng.standard_normal((20, 3)).astype(np.float32)
    actions = np.column_stack([rng.uniform(-0.99, 0.99, 20), np.full(20, 0.9999985)]).astype(np.float32)
    policy = Policy(
        tuple((np.asarray(layer["w"]), np.asarray(layer["b"])) for layer in layers), -np.ones(2), np.ones(2),
        head="tanh_gaussian", mean_bound=smodice.MEAN_BOUND, log_std_bounds=smodice.LOG_STD_BOUNDS,
    )  # fmt: skip
    mean, log_std = nets.tanh_gaussian(layers, jnp.asarray(observations), smodice.MEAN_BOUND, smodice.LOG_STD_BOUNDS)
    np.testing.assert_array_equal(mean[:, 1], np.float32(smodice.MEAN_BOUND))
    np.testing.assert_array_equal(log_std[:, 1], -5.0)
    np.testing.assert_allclose(policy.act(observations), jnp.tanh(mean), atol=1e-5)
    moderate = actions * np.array([1.0, 0.5], np.float32)
    wide = jnp.zeros_like(log_std)
    centred = Policy(policy.layers, -np.ones(2), np.ones(2), "tanh_gaussian", log_std_bounds=(0.0, 0.0))
    unbounded = nets.mlp(layers, jnp.asarray(observations))[:, :2]
    np.testing.assert_allclose(
        nets.tanh_gaussian_log_prob(unbounded, wide, jnp.asarray(moderate)),
        centred.log_prob(observations, moderate),
        rtol=1e-4,
    )


def test_a_sample_has_the_density_it_is_said_to_have():
    mean, log_std = jnp.array([[0.3, -1.0]]), jnp.array([[-0.5, 0.1]])
    actions, log_prob = jax.jit(nets.tanh_gaussian_sample)(jax.random.key(0), mean, log_std)
    np.testing.assert_allclose(nets.tanh_gaussian_log_prob(mean, log_std, actions), log_prob, rtol=1e-4)


@pytest.mark.parametrize(("log_std", "rises"), [(-4.0, True), (0.0, False)])
def test_the_coefficient_rises_where_entropy_falls_short(log_std, rises):
    state = smodice.init(CFG, SPEC, jax.random.key(0))
    actor = ({"w": jnp.zeros((STATES, 2)), "b": jnp.array([0.0, log_std])},)
    step = jax.jit(lambda state: smodice.step(CFG, state, batch(), jax.random.key(0), 0))
    after, info = step(state._replace(actor=nets.optimised(actor)))
    assert (float(info["entropy"]) < -1) is rises
    assert (float(after.log_alpha.params) > 0) is rises
