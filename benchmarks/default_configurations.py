"""How the default hyper-parameters were chosen: a small sweep per algorithm, scored in the environment.

    python -m benchmarks.default_configurations hopper walker2d --out results/defaults      (minutes on a GPU)

2 expert episodes + 400,000 medium transitions. SMODICE's default was picked from this table, that is, after seeing
environment scores on the built-in tasks; `docs/results.md` says so. One population per value of the static fields;
every entry of the JSON file holds a configuration, a number of updates and the scores of its seeds. Several numbers of
updates are trainings of their own (SMODICE's scores rise and fall with it).
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from dataclasses import asdict, replace
from itertools import product
from pathlib import Path

import jax
import numpy as np

import ilbrl
from ilbrl.agents import AGENTS
from ilbrl.agents.fit import fit
from ilbrl.base.files import written_whole
from ilbrl.base.provenance import commit, versions
from ilbrl.envs import TASKS, rollout_all

SWEPT = ("lam", "actor_lr", "layer_norm", "reward_scale", "value_lr")


def populations(agent: str) -> list[list]:
    """Configurations of an agent, one list per value of its static fields."""
    default, rates = AGENTS[agent].presets["default"], (4e-5, 3e-4)
    if agent == "smodice":
        swept = [(0.1, 3e-5), (0.1, 1e-4), (0.1, 3e-4), (0.3, 3e-4), (1.0, 3e-5), (1.0, 1e-4), (1.0, 3e-4)]
        cloning = replace(default, reward_scale=0.0, value_lr=0.0, actor_lr=3e-4)  # V fixed: all rows weigh the same
        return [[*(replace(default, reward_scale=k, actor_lr=lr) for k, lr in swept), cloning]]
    return [
        [
            replace(default, lam=lam, actor_lr=lr, critic_lr=lr, layer_norm=layer_norm)
            for lam, lr in product((0.3, 1.0, 2.5), rates)
        ]
        for layer_norm in (True, False)
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tasks", nargs="+", choices=list(TASKS))
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--agents", nargs="+", default=["smodice"])
    parser.add_argument("--updates", type=int, nargs="+", default=[100_000])
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--transitions", type=int, default=400_000)
    parser.add_argument("--episodes", type=int, default=10)
    parser.add_argument("--rollout-seed", type=int, default=12345)
    args = parser.parse_args()
    for task, agent in product(args.tasks, args.agents):
        entries = list(sweep(task, agent, args))
        with written_whole(args.out / f"{task}-{agent}.json") as partial:
            partial.write_text(json.dumps(entries, indent=1))


def sweep(task: str, agent: str, args: argparse.Namespace) -> Iterator[dict]:
    expert, data = ilbrl.load(f"{task}/expert:2ep"), ilbrl.load(f"{task}/medium:{args.transitions}")
    for configs, updates in product(populations(agent), args.updates):
        configs = [replace(config, dtype=args.dtype) for config in configs]
        learned = fit(agent, expert, data, config=configs, seeds=args.seeds, updates=updates, quiet=True)
        played = rollout_all(learned.policies, task, args.episodes, seed=args.rollout_seed, quiet=True)
        scores = np.array([r.score for r in played]).reshape(len(configs), -1)
        magnitudes = learned.fitted.metrics["q_magnitude"][-1].reshape(len(configs), -1)
        for config, of_seeds, magnitude in zip(map(asdict, configs), scores, magnitudes):
            swept = {name: config[name] for name in SWEPT if name in config}
            print(
                f"{task} {agent} {swept} {updates:,} updates: {of_seeds.mean():.1f} ± {of_seeds.std():.1f},"
                f" |Q| {magnitude.mean():.0f}",
                flush=True,
            )
            yield {
                "task": task, "agent": agent, "config": config, "scores": of_seeds.tolist(),
                "q_magnitude": magnitude.tolist(), "updates": updates, "seconds": learned.fitted.seconds,
                "device": jax.devices()[0].device_kind, "versions": versions(), "commit": commit(),
            }  # fmt: skip


if __name__ == "__main__":
    main()
