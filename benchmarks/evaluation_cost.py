"""What valuing many policies costs: learned models and rollouts in them, beside Expected SARSA in the same run.

    python -m benchmarks.evaluation_cost --out results/evaluation-cost.json                                    (GPU)
    python -m benchmarks.evaluation_cost --size small --members 4 --policies 6 18 --updates 400 --sarsa-updates 100
                                                                                         (two cores: as in the demo)

Halfcheetah's sizes, 600,000 made-up rows, policies of 256–256 units, episodes of 1,000 steps from 40 initial states.
Training is timed over `--updates` updates of the models, and of Expected SARSA over `--sarsa-updates` of every policy;
both are extrapolated to their usual number, compilation left out. Rollouts are timed whole: once with compilation, and
once more without. Models are trained once for any number of policies, Expected SARSA is fitted to every one of them.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np

import ilbrl
from benchmarks.evaluation_speed import evaluation
from benchmarks.training_speed import ACT, OBS, columns
from ilbrl import models
from ilbrl.base.provenance import commit, versions
from ilbrl.base.records import write_json
from ilbrl.ope.estimators import critics
from ilbrl.policy import Layer, Policy

EPISODE = 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="a JSON file")
    parser.add_argument("--size", choices=models.SIZES, default=models.size_for_this_machine())
    parser.add_argument("--members", type=int, default=models.MEMBERS)
    parser.add_argument("--policies", type=int, nargs="+", default=[60, 240])
    parser.add_argument("--updates", type=int, default=4000, help="of the models, to measure their rate")
    parser.add_argument("--sarsa-updates", type=int, default=1000, help="of Expected SARSA, for each policy")
    args = parser.parse_args()
    data = columns()
    ensemble, seconds = trained(data, args)
    record: dict[str, Any] = {
        "device": jax.devices()[0].device_kind, "versions": versions(), "commit": commit(), "size": args.size,
        "members": args.members, "models": seconds, "policies": {},
    }  # fmt: skip
    starts = data["observations"][:: len(data["observations"]) // models.STARTS][: models.STARTS]
    for count in args.policies:
        policies = [_policy(seed) for seed in range(count)]
        times = []
        for _ in range(2):
            started = time.monotonic()
            models.rollout(policies, ensemble, starts, EPISODE, quiet=True)
            times.append(time.monotonic() - started)
        sarsa = evaluation(data, count, 1, models.SIZES[args.size].dtype)(args.sarsa_updates)
        usual = sarsa * critics.Config().updates / args.sarsa_updates
        record["policies"][count] = {"first": times[0], "again": times[1], "expected_sarsa": usual}
        if args.out:
            write_json(args.out, record)
    print(table(record))


def trained(data: dict[str, np.ndarray], args: argparse.Namespace) -> tuple[models.Models, float]:
    """Models of made-up logs, and the seconds that their usual number of updates takes."""
    last = np.arange(len(data["rewards"])) % EPISODE == EPISODE - 1
    logs = ilbrl.Dataset(
        data["observations"], data["actions"], data["next_observations"], last & (np.arange(len(last)) % 2 == 0),
        last, data["rewards"], action_low=-np.ones(ACT), action_high=np.ones(ACT),
    )  # fmt: skip
    config, rates = models.SIZES[args.size], []
    ensemble = models.train(
        [logs], replace(config, updates=float(args.updates)), members=args.members, quiet=True,
        log=lambda record: rates.append(record["updates_per_second"]),
    )  # fmt: skip
    return ensemble, float(config.updates) * args.members / rates[-1]


def _policy(seed: int) -> Policy:
    rng = np.random.default_rng(seed)
    sizes = ((OBS, 256), (256, 256), (256, ACT))
    layers = tuple(Layer(rng.normal(0, a**-0.5, (a, b)).astype(np.float32), np.zeros(b, np.float32)) for a, b in sizes)
    return Policy(layers, -np.ones(ACT), np.ones(ACT))


def table(record: dict[str, Any]) -> str:
    return "\n".join(
        [
            f"{record['device']}, commit {record['commit']}; {record['members']} {record['size']} models:"
            f" {record['models']:.0f} s",
            "| policies | rollouts | compiled before | Expected SARSA |",
            "|---:|---:|---:|---:|",
            *(
                f"| {count} | {each['first']:.0f} s | {each['again']:.1f} s | {each['expected_sarsa']:.0f} s |"
                for count, each in record["policies"].items()
            ),
        ]
    )


if __name__ == "__main__":
    main()
