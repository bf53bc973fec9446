"""Updates per second of off-policy evaluation, beside those of TD3-BC in the same run.

    python -m benchmarks.evaluation_speed                                              (CPU: 6 members of each)
    python -m benchmarks.evaluation_speed --policies 60 --seeds 3 --dtype bfloat16 --updates 2000        (GPU)

Halfcheetah's sizes, batches of 256 from 600,000 rows, networks 256–256. An update of Expected SARSA needs fewer
products than one of TD3-BC, so beside updates per second stands the floating-point rate. The two take turns; figures
are medians over turns.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from itertools import pairwise
from statistics import median

import jax
import numpy as np

from benchmarks.training_speed import ACT, OBS, ROWS, columns, ours
from ilbrl.base.provenance import commit, versions
from ilbrl.learning import population as train
from ilbrl.learning.batches import Feed
from ilbrl.learning.spec import Spec
from ilbrl.ope.estimators import critics

BATCH, HIDDEN, INITIAL = 256, 256, 208
CRITIC, ACTOR = (OBS + ACT, HIDDEN, HIDDEN, 1), (OBS, HIDDEN, HIDDEN, ACT)


def evaluation(data: dict[str, np.ndarray], policies: int, seeds: int, dtype: str) -> Callable[[int], float]:
    """Seconds of so many updates of each member; every policy brings its own column of next actions."""
    spec = Spec(np.zeros(OBS), np.ones(OBS), -np.ones(ACT), np.ones(ACT))
    rng = np.random.default_rng(1)
    actions = np.stack([np.tanh(rng.standard_normal((ROWS, ACT), dtype=np.float32)) for _ in range(policies)])
    feed = Feed(
        {name: column for name, column in data.items() if name != "weights"},
        own={"next_actions": actions},
        own_of=np.repeat(np.arange(policies), seeds).tolist(),
        subsets=[np.arange(ROWS - INITIAL)],
    )
    members = policies * seeds

    def run(updates: int) -> float:
        rates: list[float] = []
        train.fit(
            critics.LEARNER, [critics.Config(dtype=dtype)] * members, range(members), feed, spec, 2 * updates,
            chunk=updates,
            probe=train.Probe(ROWS - INITIAL, ROWS, critics.value), quiet=True,
            log=lambda record: rates.append(record["updates_per_second"]),
        )  # fmt: skip
        return updates * members / rates[-1]

    return run


def forward(sizes: tuple[int, ...]) -> float:
    """Floating-point operations of a batch through an MLP."""
    return 2.0 * BATCH * sum(fan_in * fan_out for fan_in, fan_out in pairwise(sizes))


def backward(sizes: tuple[int, ...]) -> float:
    """Gradients of all weights, and of all hidden layers; not of the inputs."""
    return 2 * forward(sizes) - 2.0 * BATCH * sizes[0] * sizes[1]


EVALUATION_FLOPS = 4 * forward(CRITIC) + 2 * backward(CRITIC)  # two critics and two targets
# beside that the target actor; every second update the actor, and the inputs' gradient through one critic
TRAINING_FLOPS = EVALUATION_FLOPS + forward(ACTOR) + (forward(ACTOR) + backward(ACTOR) + 2 * forward(CRITIC)) / 2


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--policies", type=int, default=3)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--updates", type=int, default=400, help="per member and turn")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    data, members = columns(), args.policies * args.seeds
    contestants = {
        "training (TD3-BC)": (ours(data, members, args.dtype), TRAINING_FLOPS),
        "evaluation": (evaluation(data, args.policies, args.seeds, args.dtype), EVALUATION_FLOPS),
    }
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(args.turns):
        for name, (run, _) in contestants.items():
            seconds[name].append(run(args.updates))
    rates = {name: members * args.updates / median(turns) for name, turns in seconds.items()}
    gigaflops = {name: rates[name] * flops / 1e9 for name, (_, flops) in contestants.items()}
    ratio = gigaflops["evaluation"] / gigaflops["training (TD3-BC)"]
    machine = {"device": jax.devices()[0].device_kind, "versions": versions(), "commit": commit()}
    if args.json:
        found = {"members": members, "updates_per_second": rates, "gigaflops": gigaflops, "ratio": ratio}
        print(json.dumps({**found, "dtype": args.dtype, **machine}))
        return
    print(f"{members} members, {machine['device']}, {args.dtype}, commit {machine['commit']}")
    print(f"{'':<20}{'updates/s':>12}{'GFLOP/s':>12}")
    for name, rate in rates.items():
        print(f"{name:<20}{rate:>12,.0f}{gigaflops[name]:>12,.0f}")
    print(f"floating-point rate of evaluation relative to training: {ratio:.2f}")


if __name__ == "__main__":
    main()
