"""Updates per second of every algorithm at its default hyper-parameters, one member or a population.

    python -m benchmarks.algorithm_speed                                               (CPU, one member)
    python -m benchmarks.algorithm_speed --members 60 --dtype bfloat16 --updates 2000  (GPU)

Halfcheetah's sizes, 600,000 rows of which the first 2,000 are the expert's. SMODICE's batches are twice as large as the
others', and its discriminators are trained before the clock starts.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from statistics import median

import jax
import numpy as np

from benchmarks.training_speed import ROWS, columns
from ilbrl.agents import AGENTS
from ilbrl.agents.agent import prepare
from ilbrl.base.provenance import commit, versions
from ilbrl.data import Dataset
from ilbrl.learning import population as train

EXPERT = 2000


def logs() -> tuple[Dataset, Dataset]:
    data, ends = columns(), np.arange(1, ROWS + 1) % 1000 == 0
    both = Dataset(
        data["observations"],
        data["actions"],
        data["next_observations"],
        terminals=np.zeros(ROWS, bool),
        timeouts=ends,
        rewards=data["rewards"],
        source="synthetic",
    )
    return both.episodes(slice(0, EXPERT // 1000)), both.episodes(slice(EXPERT // 1000, None))


def rate(agent: str, expert: Dataset, data: Dataset, args: argparse.Namespace) -> float:
    """Median over chunks, the first of which compiles and is left out."""
    recipe, seeds = AGENTS[agent], range(args.members)
    config = replace(recipe.presets["default"], dtype=args.dtype)
    if hasattr(config, "discriminator_passes"):
        config = replace(config, discriminator_passes=1)
    configs = [config] * args.members
    prepared = prepare(recipe, expert, data, configs, seeds, quiet=True)
    rates: list[float] = []
    train.fit(
        recipe.solver.learner,
        configs, seeds, prepared.feed, prepared.spec, (args.turns + 1) * args.updates, chunk=args.updates, quiet=True,
        log=lambda record: rates.append(record["updates_per_second"]),
    )  # fmt: skip
    return median(rates[1:])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--agents", nargs="+", default=list(AGENTS))
    parser.add_argument("--members", type=int, default=1)
    parser.add_argument("--updates", type=int, default=200, help="per member and turn")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--dtype", default="float32")
    args = parser.parse_args()
    expert, data = logs()
    machine = {"device": jax.devices()[0].device_kind, "versions": versions(), "commit": commit()}
    for agent in args.agents:
        found = {"agent": agent, "members": args.members, "dtype": args.dtype, "rate": rate(agent, expert, data, args)}
        print(json.dumps({**found, **machine}), flush=True)


if __name__ == "__main__":
    main()
