"""How the default hyper-parameters were chosen: a small sweep per algorithm, scored in the environment.

    python -m benchmarks.default_configurations hopper --out results/defaults      (minutes on a GPU)

2 expert episodes + 400,000 medium transitions. The defaults of the package were picked from this table, that is, after
seeing environment scores on the built-in tasks; `docs/results.md` says so. One population per value of the static
fields; every entry of the JSON file holds a configuration and the scores of its seeds.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import asdict, replace
from itertools import product
from pathlib import Path

import jax
import numpy as np

import ilbrl
from ilbrl.agents import AGENTS
from ilbrl.envs import TASKS, rollout_all
from ilbrl.files import written_whole
from ilbrl.learning import fit
from ilbrl.provenance import commit, versions


def populations() -> list[tuple[str, float, list]]:
    """(agent, share of the updates, configurations that differ in traced fields alone)."""
    support, dice, oril = (AGENTS[name].PRESETS["default"] for name in ("ilbrl", "smodice", "oril"))
    rates = (4e-5, 3e-4)
    return [
        *(
            (
                "ilbrl",
                1.0,
                [
                    replace(support, lam=lam, actor_lr=lr, critic_lr=lr, layer_norm=layer_norm)
                    for lam, lr in product((0.3, 1.0, 2.5), rates)
                ],
            )
            for layer_norm in (True, False)
        ),
        (
            "smodice",
            0.7,
            [
                replace(dice, gradient_penalty=penalty, reward_scale=scale, actor_lr=lr)
                for penalty, scale, lr in product((1.0, 10.0), (0.1, 1.0), (3e-5, 3e-4))
            ],
        ),
        *(
            (
                "oril",
                0.7,
                [
                    replace(oril, lam=lam, actor_lr=lr, critic_lr=lr, layer_norm=layer_norm)
                    for lam, lr in product((0.3, 2.5), rates)
                ],
            )
            for layer_norm in (True, False)
        ),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task", choices=list(TASKS))
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--agents", nargs="+", default=["ilbrl", "smodice", "oril"])
    parser.add_argument("--updates", type=int, default=150_000)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--transitions", type=int, default=400_000)
    parser.add_argument("--episodes", type=int, default=10)
    parser.add_argument("--workers", type=int, default=None)
    args = parser.parse_args()
    expert = ilbrl.load(f"{args.task}/expert:2ep")
    data = ilbrl.load(f"{args.task}/medium:{args.transitions}")
    entries: list[dict] = []
    for agent, share, configs in populations():
        if agent not in args.agents:
            continue
        started, updates = time.monotonic(), int(share * args.updates) // 2 * 2
        learned = fit(agent, expert, data, config=configs, seeds=args.seeds, updates=updates, quiet=True)
        trained = time.monotonic() - started
        played = rollout_all(learned.policies, args.task, args.episodes, seed=12345, workers=args.workers, quiet=True)
        scores = np.array([r.score for r in played]).reshape(len(configs), -1)
        magnitudes = learned.fitted.metrics["q_magnitude"][-1].reshape(len(configs), -1)
        for config, seeds, magnitude in zip(configs, scores, magnitudes):
            entries.append(
                {
                    "task": args.task, "agent": agent, "config": asdict(config), "scores": seeds.tolist(),
                    "q_magnitude": magnitude.tolist(), "updates": updates, "seconds": trained,
                    "device": jax.devices()[0].device_kind, "versions": versions(), "commit": commit(),
                }
            )  # fmt: skip
            shown = {
                k: v
                for k, v in asdict(config).items()
                if k in ("lam", "actor_lr", "layer_norm", "gradient_penalty", "reward_scale")
            }
            print(
                args.task,
                agent,
                shown,
                f"{seeds.mean():.1f} ± {seeds.std():.1f}, |Q| {magnitude.mean():.0f}",
                flush=True,
            )
        with written_whole(args.out / f"{args.task}.json") as partial:
            partial.write_text(json.dumps(entries, indent=1))


if __name__ == "__main__":
    main()
