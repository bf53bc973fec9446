"""How the default hyper-parameters were chosen: a small sweep per algorithm, scored in the environment.

    python -m benchmarks.default_configurations hopper walker2d --out results/defaults   (minutes on a GPU)
    python -m benchmarks.default_configurations --table results/defaults                 (SMODICE's, as in results.md)

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
from benchmarks.learning_curves import power_of_ten
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
    parser.add_argument("tasks", nargs="*")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--table", type=Path, help="print what this folder has of SMODICE")
    parser.add_argument("--agents", nargs="+", default=["smodice"])
    parser.add_argument("--updates", type=int, nargs="+", default=[100_000])
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--transitions", type=int, default=400_000)
    parser.add_argument("--episodes", type=int, default=10)
    parser.add_argument("--rollout-seed", type=int, default=12345)
    args = parser.parse_args()
    if args.table:
        print("\n".join(table(args.table)))
        return
    if args.out is None or not args.tasks or not set(args.tasks) <= set(TASKS):
        parser.error(f"name tasks out of {', '.join(TASKS)}, and --out, a folder")
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


def table(folder: Path) -> list[str]:
    """SMODICE's mean score over seeds and numbers of updates, and with the most updates alone."""
    swept = [json.loads((folder / f"{task}-smodice.json").read_text()) for task in ("walker2d", "hopper")]
    most = max(entry["updates"] for entry in swept[0])
    columns = [f"{entries[0]['task']} | after {most:,}" for entries in swept]
    lines = [
        f"| reward scale k | learning rate of the policy | {' | '.join(columns)} |",
        "|---" * (2 + 2 * len(columns)) + "|",
    ]
    for name in dict.fromkeys(_setting(entry) for entry in swept[0]):
        cells = []
        for entries in swept:
            own = [entry for entry in entries if _setting(entry) == name]
            last = [entry["scores"] for entry in own if entry["updates"] == most]
            cells += [f"{np.mean([entry['scores'] for entry in own]):.1f}", f"{np.mean(last):.1f}"]
        lines.append(f"| {' | '.join([*name, *cells])} |")
    return lines


def _setting(entry: dict) -> tuple[str, str]:
    config = entry["config"]
    scale = "no V: every row weighs the same" if config["value_lr"] == 0 else f"{config['reward_scale']:g}"
    return scale, power_of_ten(config["actor_lr"])


if __name__ == "__main__":
    main()
