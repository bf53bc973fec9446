"""Updates per second of TD3-BC: one member and populations, with PyTorch and d3rlpy in the same run.

    python -m benchmarks.training_speed                          (CPU: 1 and 6 members, and the peers where installed)
    python -m benchmarks.training_speed --members 1 60 --dtype bfloat16 --updates 4000       (GPU)

Halfcheetah's sizes (17 inputs, 6 actions), batches of 256 drawn from 600,000 rows, networks 256–256. The contestants
take turns, and each figure is the median over turns, so that a busy machine disturbs all alike. Peers are measured
where they are installed: `pip install torch==2.13.0 d3rlpy`.
"""

from __future__ import annotations

import argparse
import importlib.util
import logging
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import jax
import numpy as np

from benchmarks.machine import record
from ilbrl.agents import td3bc
from ilbrl.base.provenance import commit
from ilbrl.learning import population as train
from ilbrl.learning.batches import Feed
from ilbrl.learning.spec import Spec

OBS, ACT, ROWS = 17, 6, 600_000


def columns(rows: int = ROWS) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    return {
        "observations": rng.standard_normal((rows, OBS), dtype=np.float32),
        "actions": rng.uniform(-1, 1, (rows, ACT)).astype(np.float32),
        "next_observations": rng.standard_normal((rows, OBS), dtype=np.float32),
        "continues": np.ones(rows, np.float32),
        "rewards": rng.random(rows, dtype=np.float32),
        "weights": np.ones(rows, np.float32),
    }


def ours(data: dict[str, np.ndarray], members: int, dtype: str, layer_norm: bool = False) -> Callable[[int], float]:
    """Seconds of so many updates of each member, as the loop itself reports them (compilation left out)."""
    spec = Spec(np.zeros(OBS), np.ones(OBS), -np.ones(ACT), np.ones(ACT))
    configs = [td3bc.Config(dtype=dtype, layer_norm=layer_norm)] * members

    def run(updates: int) -> float:
        rates: list[float] = []
        train.fit(
            td3bc.SOLVER.learner,
            configs, range(members), Feed(data), spec, 2 * updates, chunk=updates, quiet=True,
            log=lambda record: rates.append(record["updates_per_second"]),
        )  # fmt: skip
        return updates * members / rates[-1]

    return run


def pytorch(data: dict[str, np.ndarray]) -> Callable[[int], float]:
    """A plain PyTorch loop of the same algorithm."""
    import torch  # pyright: ignore[reportMissingImports]
    from torch import nn  # pyright: ignore[reportMissingImports]

    def net(fan_in: int, fan_out: int):
        return nn.Sequential(nn.Linear(fan_in, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, fan_out))

    def copy(model):
        twin = net(model[0].in_features, model[-1].out_features)
        twin.load_state_dict(model.state_dict())
        return twin

    tensors = {name: torch.from_numpy(array) for name, array in data.items()}
    actor, critics = net(OBS, ACT), [net(OBS + ACT, 1) for _ in range(2)]
    target_actor, target_critics = copy(actor), [copy(critic) for critic in critics]
    actor_adam = torch.optim.Adam(actor.parameters(), lr=3e-4)
    critic_adam = torch.optim.Adam([p for critic in critics for p in critic.parameters()], lr=3e-4)

    def q(critic, obs, act):
        return critic(torch.cat([obs, act], 1))[:, 0]

    def update(step: int) -> None:
        rows = torch.randint(0, ROWS, (256,))
        obs, act, nxt = tensors["observations"][rows], tensors["actions"][rows], tensors["next_observations"][rows]
        with torch.no_grad():
            noise = (0.2 * torch.randn_like(act)).clamp(-0.5, 0.5)
            next_act = (torch.tanh(target_actor(nxt)) + noise).clamp(-1, 1)
            next_q = torch.min(*(q(critic, nxt, next_act) for critic in target_critics))
            y = tensors["rewards"][rows] + 0.99 * tensors["continues"][rows] * next_q
        loss = sum((q(critic, obs, act) - y).square().mean() for critic in critics)
        critic_adam.zero_grad()
        loss.backward()  # pyright: ignore[reportAttributeAccessIssue]
        critic_adam.step()
        if step % 2:
            pi = torch.tanh(actor(obs))
            values = q(critics[0], obs, pi)
            cloning = (tensors["weights"][rows] * (pi - act).square().mean(1)).mean()
            loss = -2.5 * values.mean() / values.abs().mean().detach() + cloning
            actor_adam.zero_grad()
            loss.backward()
            actor_adam.step()
            with torch.no_grad():
                for target, online in zip([target_actor, *target_critics], [actor, *critics]):
                    for t, p in zip(target.parameters(), online.parameters()):
                        t.lerp_(p, 0.005)

    return lambda updates: _timed(update, updates)


def d3rlpy(data: dict[str, np.ndarray]) -> Callable[[int], float]:
    """d3rlpy's TD3+BC, sampling from its own replay buffer."""
    import d3rlpy as peer  # pyright: ignore[reportMissingImports]
    import structlog  # pyright: ignore[reportMissingImports]

    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    ends = np.arange(1, ROWS + 1) % 1000 == 0
    dataset = peer.dataset.MDPDataset(
        data["observations"], data["actions"], data["rewards"], np.zeros(ROWS), timeouts=ends.astype(np.float32)
    )
    agent = peer.algos.TD3PlusBCConfig(batch_size=256).create(device="cpu")
    agent.build_with_dataset(dataset)
    return lambda updates: _timed(lambda _: agent.update(dataset.sample_transition_batch(256)), updates)


def _timed(update: Callable[[int], object], updates: int) -> float:
    started = time.perf_counter()
    for step in range(updates):
        update(step)
    return time.perf_counter() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--members", type=int, nargs="+", default=[1, 6])
    parser.add_argument("--updates", type=int, default=400, help="per member and turn")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--dtype", default="float32", help="of populations; a single member runs in float32")
    parser.add_argument("--layer-norm", action="store_true", help="in our critics, as ILBRL's default has it")
    parser.add_argument("--out", type=Path, help="a JSON file")
    args = parser.parse_args()
    data = columns()
    contestants = {
        f"ilbrl, {m} member{'s' * (m > 1)}": (m, ours(data, m, args.dtype if m > 1 else "float32", args.layer_norm))
        for m in args.members
    }
    for name, peer in {"PyTorch loop": pytorch, "d3rlpy": d3rlpy}.items():
        if importlib.util.find_spec("torch" if peer is pytorch else "d3rlpy"):
            contestants[name] = (1, peer(data))
    rates: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(args.turns):
        for name, (members, run) in contestants.items():
            rates[name].append(members * args.updates / run(args.updates))
    result = {name: median(turns) for name, turns in rates.items()}
    if args.out:
        record(args.out, {"rates": result, "dtype": args.dtype, "device": jax.devices()[0].device_kind})
    first = next(iter(result.values()))
    print(
        f"{'':<20}{'updates/s':>12}{'relative':>10}   {jax.devices()[0].device_kind}, {args.dtype}, commit {commit()}"
    )
    for name, rate in result.items():
        print(f"{name:<20}{rate:>12,.0f}{rate / first:>10.2f}")


if __name__ == "__main__":
    main()
