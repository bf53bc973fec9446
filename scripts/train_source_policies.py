"""Train the source policies of the built-in benchmark with SAC, choose among the checkpoints, and measure them.

    python scripts/train_source_policies.py train hopper --minutes 20       (once for each task; goes on if repeated)
    python scripts/train_source_policies.py choose --out src/ilbrl/source_policies

Training is SAC (Haarnoja et al. 2018) with a learned temperature. It was written for one GPU and many cores:
environments step in processes of their own while the accelerator runs a compiled scan of updates. Every checkpoint of
the actor is a policy file. `choose` takes the best as `expert` and others by their share of the expert's score, and
records the returns of each. Another run gives similar policies, not the same.

Policies with discrete actions come from `train_discrete_source_policies.py` and `fit_clinic_policies.py`; `choose` is
the same for them.
"""

from __future__ import annotations

import functools
import json
import time
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import tyro

from ilbrl import envs
from ilbrl.base.errors import IlbrlError
from ilbrl.base.files import written_whole
from ilbrl.learning.checkpoint import Checkpoint
from ilbrl.learning.nets import Layers, Optimised, critics, descend, init_critics, init_mlp, mlp, optimised, polyak
from ilbrl.policy import Layer, Policy

LOG_STD_BOUNDS = (-5.0, 2.0)
SHARES = {"expert": 1.0, "medium": 0.5, "rung1": 0.2, "rung2": 0.65, "rung3": 0.85}  # of the expert's score
EPISODES = 30
CONTINUOUS = ("hopper", "halfcheetah", "walker2d", "ant")
ORIGINS = ("sac_step", "ppo_step", "judgement_error")  # how a policy came to be what it is


@dataclass(frozen=True)
class Config:
    """Settings of SAC; learning rate, γ and τ are those of its authors."""

    gamma: float = 0.99
    tau: float = 0.005
    learning_rate: float = 3e-4
    hidden: int = 256
    batch_size: int = 512
    environments: int = 16
    updates_per_step: int = 8  # per step of all environments together
    capacity: int = 2_000_000  # transitions kept; a multiple of `environments`
    random_steps: int = 10_000  # of uniform actions, before the first update
    evaluate_every: int = 50_000
    seed: int = 0


DEFAULT = Config()


class State(NamedTuple):
    actor: Optimised
    critic: Optimised
    target: Layers
    log_alpha: Optimised
    key: jax.Array  # raw key data, so that the state is arrays only


def init(cfg: Config, obs_dim: int, act_dim: int) -> State:
    actor_key, critic_key, key = jax.random.split(jax.random.PRNGKey(cfg.seed), 3)
    actor = init_mlp(actor_key, [obs_dim, cfg.hidden, cfg.hidden, 2 * act_dim])
    critic = init_critics(critic_key, [obs_dim + act_dim, cfg.hidden, cfg.hidden, 1])
    target = jax.tree.map(jnp.copy, critic)
    return State(optimised(actor), optimised(critic), target, optimised(jnp.zeros(())), key)


def sample(actor: Layers, observations: jax.Array, key: jax.Array) -> tuple[jax.Array, jax.Array]:
    """[B, act_dim] actions tanh(u), u ~ N(μ, σ), in [−1, 1], and their [B] log-densities."""
    mean, log_std = jnp.split(mlp(actor, observations), 2, axis=-1)
    log_std = jnp.clip(log_std, *LOG_STD_BOUNDS)
    noise = jax.random.normal(key, mean.shape)
    before = mean + jnp.exp(log_std) * noise
    normal = -0.5 * noise**2 - log_std - 0.5 * jnp.log(2 * jnp.pi)
    squash = 2 * (jnp.log(2.0) - before - jax.nn.softplus(-2 * before))  # log(1 − tanh² u), without cancellation
    return jnp.tanh(before), (normal - squash).sum(-1)


def critic_loss(critic: Layers, state: State, cfg: Config, batch: dict[str, jax.Array], key: jax.Array) -> jax.Array:
    """Σ_i (Q_i(s, a) − r − γ (1 − done) [min_j Q̄_j(s′, a′) − α log π(a′|s′)])²,  a′ ~ π(·|s′)."""
    actions, log_prob = sample(state.actor.params, batch["next_observations"], key)
    value = critics(state.target, batch["next_observations"], actions).min(0)
    value -= jnp.exp(state.log_alpha.params) * log_prob
    target = batch["rewards"] + cfg.gamma * batch["continues"] * value
    return jnp.square(critics(critic, batch["observations"], batch["actions"]) - target).mean(1).sum()


def actor_loss(actor: Layers, critic: Layers, alpha: jax.Array, observations: jax.Array, key: jax.Array) -> jax.Array:
    """E[α log π(a|s) − min_i Q_i(s, a)],  a ~ π(·|s)."""
    actions, log_prob = sample(actor, observations, key)
    return (alpha * log_prob - critics(critic, observations, actions).min(0)).mean()


def temperature_loss(log_alpha: jax.Array, log_prob: jax.Array, act_dim: int) -> jax.Array:
    """−α (E[log π] + H), with the target entropy H = −act_dim."""
    return -jnp.exp(log_alpha) * (log_prob.mean() - act_dim)


@functools.partial(jax.jit, static_argnames=("cfg", "act_dim"), donate_argnums=0)
def update(state: State, buffer: jax.Array, size: int, cfg: Config, act_dim: int) -> State:
    """`updates_per_step` updates from the first `size` rows [observation, next, action, reward, continues]."""
    obs_dim = (buffer.shape[1] - act_dim - 2) // 2

    def one(state: State, nothing: None) -> tuple[State, None]:
        key, batch_key, next_key, actor_key = jax.random.split(state.key, 4)
        rows = buffer[jax.random.randint(batch_key, (cfg.batch_size,), 0, size)]
        cuts = (obs_dim, 2 * obs_dim, 2 * obs_dim + act_dim)
        observations, following, actions, rest = jnp.split(rows, cuts, axis=1)
        batch = {"observations": observations, "next_observations": following, "actions": actions}
        batch |= {"rewards": rest[:, 0], "continues": rest[:, 1]}

        gradients = jax.grad(critic_loss)(state.critic.params, state, cfg, batch, next_key)
        critic = descend(state.critic, gradients, cfg.learning_rate)
        alpha = jnp.exp(state.log_alpha.params)
        gradients = jax.grad(actor_loss)(state.actor.params, critic.params, alpha, observations, actor_key)
        actor = descend(state.actor, gradients, cfg.learning_rate)
        _, log_prob = sample(actor.params, observations, actor_key)
        gradients = jax.grad(temperature_loss)(state.log_alpha.params, log_prob, act_dim)
        log_alpha = descend(state.log_alpha, gradients, cfg.learning_rate)
        return State(actor, critic, polyak(state.target, critic.params, cfg.tau), log_alpha, key), None

    return jax.lax.scan(one, state, None, length=cfg.updates_per_step)[0]


@functools.partial(jax.jit, donate_argnums=0)
def insert(buffer: jax.Array, rows: np.ndarray, start: int) -> jax.Array:
    return jax.lax.dynamic_update_slice(buffer, rows, (start, 0))


def export(actor: Layers, high: np.ndarray, task: str) -> Policy:
    """The actor as a policy in NumPy, which also plays here: tiny calls would only hold up the accelerator."""
    layers = tuple(Layer(layer["w"], layer["b"]) for layer in jax.device_get(actor))
    return Policy(layers, -high, high, "tanh_gaussian", log_std_bounds=LOG_STD_BOUNDS, metadata={"task": task})


def train(
    task: tyro.conf.Positional[str],
    /,
    out: Path = Path("runs/source_policies"),
    minutes: float = 20.0,
    steps: int = 6_000_000,
    config: Config = DEFAULT,
) -> None:
    """Train on one task until the time or the steps are used up; a second call goes on from there.

    Args:
        task: hopper, halfcheetah, walker2d or ant.
        out: Where checkpoints and the resumable state go.
        minutes: Time limit of this call.
        steps: Environment steps in all.
        config: Settings of SAC.
    """
    started, cfg = time.monotonic(), config
    if cfg.capacity % cfg.environments:
        raise IlbrlError(f"capacity {cfg.capacity} must be a multiple of the {cfg.environments} environments")
    # the environments fork before JAX starts its threads
    make: Any = functools.partial(envs.make, task, "training source policies")
    players = gymnasium.vector.AsyncVectorEnv(
        [make] * cfg.environments, autoreset_mode=gymnasium.vector.AutoresetMode.SAME_STEP
    )
    space: Any = players.single_action_space
    obs_dim, act_dim, high = players.single_observation_space.shape[0], space.shape[0], space.high  # pyright: ignore
    if not np.array_equal(space.low, -high):
        raise IlbrlError(f"{task}: actions must lie in a symmetric interval, found {space}")

    saved = Checkpoint(out / task / "state.safetensors", asdict(cfg) | {"task": task}, save_every=0)
    fresh = init(cfg, obs_dim, act_dim), jnp.zeros((cfg.capacity, 2 * obs_dim + act_dim + 2))
    (state, buffer), done, history = saved.read(fresh)
    state, buffer = jax.tree.map(jnp.asarray, (state, buffer))
    rng = np.random.default_rng((cfg.seed, done))
    observations, _ = players.reset(seed=cfg.seed + 1 + done)
    policy = export(state.actor.params, high, task)
    while done < steps and time.monotonic() - started < 60 * minutes:
        warm = done >= cfg.random_steps
        shape = (cfg.environments, act_dim)
        actions = policy.act(observations, rng) if warm else rng.uniform(-high, high, shape).astype(np.float32)
        players.step_async(actions)
        if warm:  # while the environments step
            state = update(state, buffer, min(done, cfg.capacity), cfg, act_dim)
        following, rewards, terminated, truncated, info = players.step_wait()
        last = following.copy()
        for i in np.flatnonzero(terminated | truncated):
            last[i] = info["final_obs"][i]
        columns = [observations, last, actions / high, rewards[:, None], 1.0 - terminated[:, None]]
        buffer = insert(buffer, np.concatenate(columns, axis=1, dtype=np.float32), done % cfg.capacity)
        observations = following
        done += cfg.environments
        if warm:
            policy = export(state.actor.params, high, task)
        if done % cfg.evaluate_every < cfg.environments:
            returns = envs.rollout(policy, task, 4, seed=done, quiet=True, purpose="training source policies").returns
            note = policy.with_metadata(sac_step=done, checked_return=float(returns.mean()))
            note.save(out / task / f"step-{done:08}.safetensors")
            rate = f"{time.monotonic() - started:,.0f} s"
            print(f"{task}: step {done:,}, return {returns.mean():,.0f} ± {returns.std():,.0f} ({rate})", flush=True)
    players.close()
    saved.write((state, buffer), done, [*history, {"update": done}], last=True)


def choose(
    tasks: tyro.conf.Positional[tuple[str, ...]] = CONTINUOUS,
    /,
    runs: Path = Path("runs/source_policies"),
    out: Path = Path("source_policies"),
) -> None:
    """Pick expert, medium and three rungs of each task, measure them and write them, and enter them in `returns.json`.

    Args:
        tasks: Which of the built-in tasks; by default those trained by this script.
        runs: What `train` wrote.
        out: Where the chosen policies and their measured returns go.
    """
    record: dict[str, Any] = {package: version(package) for package in ("gymnasium", "mujoco")}
    record |= {"gamma": 0.99, "policies": {}}
    if (out / "returns.json").exists():
        record["policies"] = json.loads((out / "returns.json").read_text())["policies"]
    for task in tasks:
        trained = [Policy.load(path) for path in sorted((runs / task).glob("step-*.safetensors"))]
        if not trained:
            raise IlbrlError(f"{runs / task}: no checkpoints; train {task} first")
        scores = np.array([envs.normalised_score(task, policy.metadata["checked_return"]) for policy in trained])
        # of experts that are equal, the one that loses least when its actions are sampled, as they are in logs
        sampled = np.array([policy.metadata.get("sampled_return", 0.0) for policy in trained])
        expert = int(np.lexsort((sampled, scores))[-1])
        for name, share in SHARES.items():
            policy = trained[expert if share == 1 else int(np.abs(scores - share * scores[expert]).argmin())]
            measured = {mode: _measure(policy, task, mode == "stochastic") for mode in ("deterministic", "stochastic")}
            origin = {key: policy.metadata[key] for key in ORIGINS if key in policy.metadata}
            record["policies"][f"{task}/{name}"] = {**origin, "episodes": episodes_of(task), **measured}
            about = {key: value for key, value in policy.metadata.items() if not key.endswith("_return")}
            kept = Policy(**{**vars(policy), "metadata": about | {"name": name, "measured": measured}})
            kept.save(out / f"{task}-{name}.safetensors")
            print(f"{task}/{name}: {origin}, score {measured['deterministic']['score_mean']}", flush=True)
    with written_whole(out / "returns.json") as partial:
        partial.write_text(json.dumps(record, indent=1) + "\n")


def episodes_of(task: str) -> int:
    """How many episodes a policy is measured over: more where they are cheap."""
    return {"clinic": 5000}.get(task, EPISODES if task in CONTINUOUS else 200)


def _measure(policy: Policy, task: str, stochastic: bool) -> dict[str, float]:
    played = envs.rollout(policy, task, episodes_of(task), stochastic=stochastic, purpose="measuring source policies")
    assert played.score is not None
    digits = 3 if task == "clinic" else 1  # its returns are of the size of 1
    return {
        "return_mean": round(float(played.returns.mean()), digits),
        "return_std": round(float(played.returns.std()), digits),
        "score_mean": round(played.score, 1),
        "discounted_return_mean": round(float(played.discounted_returns.mean()), digits + (digits < 2)),
        "length_mean": round(float(played.lengths.mean()), 1),
    }


if __name__ == "__main__":
    tyro.extras.subcommand_cli_from_dict({"train": train, "choose": choose}, description=__doc__)
