from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ilbrl.agents import bc
from ilbrl.agents.agent import prepare
from ilbrl.agents.baselines import BC
from ilbrl.agents.fit import export
from ilbrl.base.errors import IlbrlError
from ilbrl.data import Dataset
from ilbrl.learning import nets
from ilbrl.learning.batches import Batch
from ilbrl.learning.spec import Spec


def logs(observations, actions, bound=1.0):
    n, act_dim = actions.shape
    timeouts = np.arange(1, n + 1) % 10 == 0
    bounds = {"action_low": np.full(act_dim, -bound), "action_high": np.full(act_dim, bound)}
    return Dataset(observations, actions, observations, np.zeros(n, bool), timeouts, **bounds)


def test_on_linear_data_it_is_least_squares():
    """With actions far inside wide bounds tanh is the identity, and one layer is a linear regression."""
    rng = np.random.default_rng(0)
    observations = 3 + 2 * rng.standard_normal((200, 3))
    actions = observations @ rng.standard_normal((3, 2)) + 1 + rng.standard_normal((200, 2))
    expert = logs(observations, actions, bound=2000)
    prepared = prepare(BC, expert, expert, [bc.Config(hidden=())], [0])
    batch = Batch(**{name: jnp.asarray(column) for name, column in prepared.feed.shared.items()})

    def update(state, lr):
        return bc.step(bc.Config(lr=lr, hidden=()), state, batch, jax.random.key(0), 0)

    rates = jnp.asarray(np.geomspace(0.03, 1e-6, 3000), jnp.float32)
    state, _ = jax.jit(lambda s: jax.lax.scan(update, s, rates))(
        bc.init(bc.Config(hidden=()), prepared.spec, jax.random.key(0))
    )
    design = np.column_stack([observations, np.ones(200)])
    solution = np.linalg.lstsq(design, actions, rcond=None)[0]
    policy = export(bc.SOLVER, state, prepared.spec)
    np.testing.assert_allclose(policy.act(observations), design @ solution, atol=0.01)


STOPPING = bc.Config(lr=0.02, smoothing=1.0, hidden=(8,))


@jax.jit
def update(state, batch):
    return bc.step(STOPPING, state, batch, jax.random.key(0), 0)[0]


@pytest.mark.parametrize(("held_out_action", "best"), [(-1.0, 0), (1.0, -1), (0.5, None)])
def test_early_stopping_keeps_the_actor_of_the_lowest_held_out_loss(held_out_action, best):
    """Towards 1 the loss of a held-out −1 only rises, that of 1 only falls, that of 0.5 has its minimum on the way."""
    rows = Batch(jnp.ones((4, 2)), jnp.ones((4, 1)), jnp.ones((4, 2)), jnp.ones(4))
    batch = rows._replace(expert=rows._replace(actions=jnp.full((4, 1), held_out_action)))
    state = bc.init(STOPPING, Spec(np.zeros(2), np.ones(2), -np.ones(1), np.ones(1)), jax.random.key(0))
    losses, actors = [], []
    for _ in range(60):
        state = update(state, batch)
        actors.append(state.actor.params)
        losses.append(float(jnp.square(nets.actor(state.actor.params, rows.observations) - held_out_action).mean()))
    lowest = int(np.argmin(losses))
    assert lowest == (len(losses) - 1 if best == -1 else best) if best is not None else 0 < lowest < len(losses) - 1
    for kept, seen in zip(jax.tree.leaves(bc.actor_layers(state)), jax.tree.leaves(actors[lowest])):
        np.testing.assert_array_equal(kept, seen)
    np.testing.assert_allclose(state.lowest, min(losses), rtol=1e-5, atol=1e-6)  # a difference of actions, squared


def test_held_out_rows_are_the_last_and_never_trained_on():
    rng = np.random.default_rng(0)
    expert = logs(rng.standard_normal((50, 2)), np.linspace(-1, 1, 50)[:, None])
    feed = prepare(BC, expert, expert, [bc.Config(held_out_percent=20)], [0]).feed
    assert feed.expert_rows == 10
    np.testing.assert_array_equal(feed.shared["actions"][:10], expert.actions[40:])
    assert feed.subsets is not None
    np.testing.assert_array_equal(feed.shared["actions"][feed.subsets[0]], expert.actions[:40])
    with pytest.raises(IlbrlError, match="cannot hold out"):
        prepare(BC, expert, expert, [bc.Config(held_out_percent=100)], [0])


def test_the_normaliser_is_the_experts_alone():
    rng = np.random.default_rng(0)
    expert = logs(rng.standard_normal((50, 2)), np.zeros((50, 1)))
    elsewhere = replace(expert, observations=expert.observations + 100)
    ours, theirs = (prepare(BC, expert, logs, [bc.Config()], [0]).spec for logs in (expert, elsewhere))
    np.testing.assert_array_equal(ours.obs_mean, theirs.obs_mean)
