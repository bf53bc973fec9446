"""Train the source policies of the built-in tasks with discrete actions with PPO; two cores are enough.

    python scripts/train_discrete_source_policies.py cartpole --steps 150000          (minutes; once for each task)
    python scripts/train_source_policies.py choose cartpole acrobot lunarlander --out src/ilbrl/source_policies

PPO (Schulman et al. 2017): 16 environments play `rollout` steps each, advantages are GAE(λ), and both networks learn
from the shuffled batch for some epochs. Checkpoints of the actor are policy files; `choose` takes experts and others
among them. The same seed gives the same policies on the same machine.
"""

from __future__ import annotations

import functools
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import tyro

from ilbrl import envs
from ilbrl.learning.nets import Layers, Optimised, descend, init_mlp, mlp, optimised
from ilbrl.policy import Layer, Policy

PURPOSE = "training source policies"


@dataclass(frozen=True)
class Config:
    """Settings of PPO: those of its authors, with the larger batch of later implementations."""

    gamma: float = 0.99
    smoothing: float = 0.95  # λ of the advantages
    clip: float = 0.2
    entropy: float = 0.01
    learning_rate: float = 1e-3
    hidden: int = 32
    environments: int = 16
    rollout: int = 128  # steps of each environment between two rounds of learning
    epochs: int = 6
    minibatches: int = 8
    checkpoint_every: int = 2_000
    seed: int = 0


DEFAULT = Config()


class State(NamedTuple):
    actor: Optimised
    critic: Optimised


class Rows(NamedTuple):
    """What a round of learning is about, all [N] or [N, obs_dim]."""

    observations: Any
    actions: Any
    log_probs: Any
    advantages: Any
    returns: Any


def init(cfg: Config, obs_dim: int, num_actions: int) -> State:
    actor_key, critic_key = jax.random.split(jax.random.PRNGKey(cfg.seed))
    *hidden, last = init_mlp(actor_key, [obs_dim, cfg.hidden, cfg.hidden, num_actions])
    flat = {name: 0.01 * leaf for name, leaf in last.items()}  # begin with nearly uniform actions
    critic = init_mlp(critic_key, [obs_dim, 2 * cfg.hidden, 2 * cfg.hidden, 1])
    return State(optimised((*hidden, flat)), optimised(critic))


def actor_loss(actor: Layers, cfg: Config, rows: Rows) -> jax.Array:
    """−E[min(ρ A, clip(ρ, 1 ± ε) A)] − c H(π),  ρ = π(a|s) / π_old(a|s)."""
    logits = jax.nn.log_softmax(mlp(actor, rows.observations, jnp.tanh))
    chosen = jnp.take_along_axis(logits, rows.actions[:, None], 1)[:, 0]
    ratio = jnp.exp(chosen - rows.log_probs)
    clipped = jnp.clip(ratio, 1 - cfg.clip, 1 + cfg.clip)
    entropy = -(jnp.exp(logits) * logits).sum(-1).mean()
    return -jnp.minimum(ratio * rows.advantages, clipped * rows.advantages).mean() - cfg.entropy * entropy


def critic_loss(critic: Layers, rows: Rows) -> jax.Array:
    """E[(V(s) − R)²]."""
    return jnp.square(mlp(critic, rows.observations, jnp.tanh)[:, 0] - rows.returns).mean()


@functools.partial(jax.jit, static_argnums=0)
def learn(cfg: Config, state: State, rows: Rows, orders: jax.Array, rate: jax.Array) -> State:
    """One pass over minibatches whose row numbers are the lines of `orders`."""

    def one(state: State, order: jax.Array) -> tuple[State, None]:
        part = Rows(*(column[order] for column in rows))
        centred = part.advantages - part.advantages.mean()
        part = part._replace(advantages=centred / (centred.std() + 1e-8))
        actor = descend(state.actor, jax.grad(actor_loss)(state.actor.params, cfg, part), rate)
        critic = descend(state.critic, jax.grad(critic_loss)(state.critic.params, part), rate)
        return State(actor, critic), None

    return jax.lax.scan(one, state, orders)[0]


class Scale:
    """Running mean and standard deviation of the observations, which end up inside the policy."""

    def __init__(self, obs_dim: int) -> None:
        self.count, self.mean, self.squares = 1e-4, np.zeros(obs_dim), np.ones(obs_dim) * 1e-4

    def add(self, observations: np.ndarray) -> None:
        total = self.count + len(observations)
        change = observations.mean(0) - self.mean
        self.squares += observations.var(0) * len(observations) + change**2 * self.count * len(observations) / total
        self.mean += change * len(observations) / total
        self.count = total

    @property
    def std(self) -> np.ndarray:
        return np.sqrt(self.squares / self.count) + 1e-3

    def __call__(self, observations: np.ndarray) -> np.ndarray:
        return ((observations - self.mean) / self.std).astype(np.float32)


def export(actor: Layers, scale: Scale, task: str) -> Policy:
    layers = tuple(Layer(layer["w"], layer["b"]) for layer in jax.device_get(actor))
    last = np.array([layers[-1].units - 1.0])
    mean, std = scale.mean.astype(np.float32), scale.std.astype(np.float32)
    names = envs.TASKS[task].action_names
    about: dict[str, Any] = {"task": task, "action_names": list(names)} if names else {"task": task}
    return Policy(layers, np.zeros(1), last, "categorical", mean, std, "tanh", metadata=about)


class Players:
    """Environments in lock-step, in this process."""

    def __init__(self, task: str, cfg: Config) -> None:
        self.lanes = [envs.make(task, PURPOSE) for _ in range(cfg.environments)]
        self.limit = self.lanes[0].spec.max_episode_steps
        self.seen = np.stack([env.reset(seed=1000 * cfg.seed + i)[0] for i, env in enumerate(self.lanes)])
        self.ages = np.zeros(cfg.environments, int)

    def step(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """(what follows each action, rewards, terminated, ended in any way); ended episodes begin anew."""
        following, rewards = np.zeros_like(self.seen), np.zeros(len(actions))
        terminated, ended = np.zeros(len(actions), bool), np.zeros(len(actions), bool)
        for i, env in enumerate(self.lanes):
            following[i], rewards[i], terminated[i], truncated, _ = env.step(int(actions[i]))
            self.ages[i] += 1
            ended[i] = terminated[i] or truncated or self.ages[i] >= self.limit
        self.seen = following.copy()
        for i in np.flatnonzero(ended):
            self.seen[i], self.ages[i] = self.lanes[i].reset()[0], 0
        return following, rewards, terminated, ended


def play(players: Players, policy: Policy, cfg: Config, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """[T, L] columns of one round."""
    log: list[tuple[np.ndarray, ...]] = []
    for _ in range(cfg.rollout):
        observations = players.seen
        actions = policy.act(observations, rng)
        log_probs = policy.log_prob(observations, actions)
        log.append((observations, actions, log_probs, *players.step(actions)))
    names = ("observations", "actions", "log_probs", "following", "rewards", "terminated", "ended")
    return dict(zip(names, map(np.stack, zip(*log))))


def advantages(cfg: Config, played: dict[str, np.ndarray], values: np.ndarray, after: np.ndarray) -> np.ndarray:
    """[T, L] GAE: Σ (γλ)^k δ, δ = r + γ (1 − terminated) V(s′) − V(s), cut where an episode ends."""
    errors = played["rewards"] + cfg.gamma * ~played["terminated"] * after - values
    found, running = np.zeros_like(errors), np.zeros(errors.shape[1])
    for t in reversed(range(len(errors))):
        running = errors[t] + cfg.gamma * cfg.smoothing * ~played["ended"][t] * running
        found[t] = running
    return found


def train(
    task: tyro.conf.Positional[str],
    /,
    steps: int = 300_000,
    out: Path = Path("runs/source_policies"),
    config: Config = DEFAULT,
) -> None:
    """Train on one task.

    Args:
        task: cartpole, acrobot or lunarlander.
        steps: Environment steps in all.
        out: Where checkpoints go.
        config: Settings of PPO.
    """
    cfg, started, rng = config, time.monotonic(), np.random.default_rng(config.seed)
    players = Players(task, cfg)
    obs_dim, scale = players.seen.shape[1], Scale(players.seen.shape[1])
    state = init(cfg, obs_dim, int(players.lanes[0].action_space.n))
    critic: Any = jax.jit(lambda params, x: mlp(params, x, jnp.tanh)[..., 0])
    name = f"seed{cfg.seed}-rate{cfg.learning_rate:g}"  # several runs of a task may share the folder
    done, saved = 0, -cfg.checkpoint_every
    while done < steps:
        scale.add(players.seen)
        policy = export(state.actor.params, scale, task)
        played = play(players, policy, cfg, rng)
        seen, following = (scale(played[name]) for name in ("observations", "following"))
        values, after = (np.asarray(critic(state.critic.params, x)) for x in (seen, following))
        gained = advantages(cfg, played, values, after)
        columns = seen, played["actions"], played["log_probs"], gained, gained + values
        rows = Rows(*(column.reshape(-1, *column.shape[2:]) for column in columns))
        rate = jnp.float32(cfg.learning_rate * (1 - done / steps))
        for _ in range(cfg.epochs):
            orders = rng.permutation(len(gained) * cfg.environments).reshape(cfg.minibatches, -1)
            state = learn(cfg, state, rows, orders, rate)
        for observations in played["observations"]:
            scale.add(observations)
        done += gained.size
        if done - saved >= cfg.checkpoint_every or done >= steps:
            saved = done
            policy = export(state.actor.params, scale, task)
            checked = {
                "checked_return": measured(policy, task, done),
                "sampled_return": measured(policy, task, done, True),
            }
            policy.with_metadata(ppo_step=done, **checked).save(out / task / f"step-{done:08}-{name}.safetensors")
            returns = " and ".join(f"{value:,.1f}" for value in checked.values())
            print(f"{task}: step {done:,}, return {returns} sampled ({time.monotonic() - started:,.0f} s)", flush=True)


def measured(policy: Policy, task: str, seed: int, stochastic: bool = False) -> float:
    """The mean return of 20 episodes, of the most probable actions or of sampled ones."""
    played = envs.rollout(policy, task, 20, seed, stochastic, quiet=True, workers=1, purpose=PURPOSE)
    return float(played.returns.mean())


if __name__ == "__main__":
    tyro.cli(train, description=__doc__, config=(tyro.conf.OmitArgPrefixes,))
