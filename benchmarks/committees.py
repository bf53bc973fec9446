"""What committees bring: twelve trainings of one algorithm, alone and in committees of three, six and twelve.

    python -m benchmarks.committees hopper --small --draws 2 --out docs/results/committees        (minutes on two cores)
    python -m benchmarks.committees hopper ant --expert-episodes 2 --out results/committees       (minutes on a GPU)
    python -m benchmarks.committees --table docs/results/committees                               (the table in docs)

Every draw has seeds of its own, for its expert episodes and its trainings. With --small: sizes of
studies/small-hopper.toml, and the first configuration that it would draw. Otherwise the defaults, 400,000 medium
transitions and 100,000 updates in bfloat16. 30 deterministic episodes of every policy. A file per task, number of
expert episodes, algorithm and draw; what is there is not computed again.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import jax
import numpy as np

import ilbrl
from benchmarks.imagined_steps import SMALL_HOPPER
from ilbrl.agents import AGENTS
from ilbrl.base.files import written_whole
from ilbrl.base.provenance import commit, versions
from ilbrl.envs import rollout_all
from ilbrl.policy import committee_of
from ilbrl.study.search import draw
from ilbrl.study.study import Study

EXPERT_STEPS, LOGS_STEPS, UPDATES, EPISODES = 60_000, 400_000, 100_000, 30
FIRST_SEED, PLAY_SEED = 3000, 5353
TRAININGS, SIZES = 12, (3, 6, 12)
ALGORITHMS = ("ilbrl", "bc")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tasks", nargs="*")
    parser.add_argument("--expert-episodes", type=int, default=1)
    parser.add_argument("--draws", type=int, default=1)
    parser.add_argument("--small", action="store_true", help="small sizes, for two cores")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--table", type=Path, help="print the table of a folder")
    args = parser.parse_args()
    if args.table:
        print("\n".join(table(args.table)))
        return
    if args.out is None:
        parser.error("--out is missing")
    args.out.mkdir(parents=True, exist_ok=True)
    for task in args.tasks:
        for number in range(args.draws):
            for algorithm in ALGORITHMS:
                measure(task, algorithm, number, args)


def measure(task: str, algorithm: str, number: int, args: argparse.Namespace) -> None:
    """One file: scores of all trainings alone, and of their committees."""
    path, count = args.out / f"{task}-{args.expert_episodes}-{algorithm}-{number}.json", args.expert_episodes
    small = Study.load(SMALL_HOPPER)
    config: Any = replace(AGENTS[algorithm].presets["default"], dtype="bfloat16")
    steps, updates = LOGS_STEPS, UPDATES
    if args.small and small.training.updates and small.data.training_transitions:
        config = draw(small.search, algorithm, FIRST_SEED + number)[0].config
        steps, updates = small.data.training_transitions, small.training.updates
    if path.exists():
        if (there := json.loads(path.read_text())["updates"]) != updates:
            raise SystemExit(f"{path}: of {there:,} updates, not {updates:,}; choose another --out")
        return
    expert = ilbrl.load(f"{task}/expert:{EXPERT_STEPS}steps", quiet=True)
    logs = replace(ilbrl.load(f"{task}/medium:{steps}steps", quiet=True), rewards=None)
    order = np.random.default_rng(FIRST_SEED + number).permutation(np.flatnonzero(expert.complete))
    if count > len(order):
        raise SystemExit(f"{task}: {count} demonstrations were asked for, and there are {len(order)}")
    expert = replace(expert.episodes(np.sort(order[:count])), rewards=None)
    seeds = [FIRST_SEED + TRAININGS * number + i for i in range(TRAININGS)]
    learned = ilbrl.fit(algorithm, expert, logs, config=config, seeds=seeds, updates=updates)
    groups = {str(size): np.arange(TRAININGS).reshape(-1, size).tolist() for size in SIZES}
    together = [committee_of([learned.policies[p] for p in group]) for of in groups.values() for group in of]
    scores = [each.score for each in rollout_all([*learned.policies, *together], task, EPISODES, PLAY_SEED)]
    found = {
        "task": task, "algorithm": algorithm, "expert_episodes": count, "draw": number, "updates": updates,
        "diverged": int(learned.diverged.sum()), "alone": scores[:TRAININGS], "committees": {},
        "config": asdict(config), "device": jax.devices()[0].device_kind, "versions": versions(), "commit": commit(),
    }  # fmt: skip
    left = scores[TRAININGS:]
    for size, of in groups.items():
        found["committees"][size], left = left[: len(of)], left[len(of) :]
    with written_whole(path) as partial:
        partial.write_text(json.dumps(found, indent=1))
    print(path.stem, np.round(found["alone"], 1).tolist(), found["committees"], flush=True)


def table(folder: Path) -> list[str]:
    """Means of all draws, with the lowest score."""
    cells: dict[tuple[str, int, str], list[dict[str, Any]]] = {}
    for path in sorted(folder.glob("*.json")):
        cell = json.loads(path.read_text())
        cells.setdefault((cell["task"], cell["expert_episodes"], cell["algorithm"]), []).append(cell)
    columns = " | ".join(f"committees of {size}" for size in SIZES)
    lines = [f"| task, expert episodes | | draws | alone | {columns} |", "|---|---|---:|" + "---:|" * (1 + len(SIZES))]
    for (task, count, algorithm), draws in cells.items():
        kinds = [np.concatenate([cell["alone"] for cell in draws])]
        kinds += [np.concatenate([cell["committees"][str(size)] for cell in draws]) for size in SIZES]
        shown = " | ".join(f"{np.mean(scores):.1f} ({round(np.min(scores))})" for scores in kinds)
        lines.append(f"| {task}, {count} | {AGENTS[algorithm].title} | {len(draws)} | {shown} |")
    return lines


if __name__ == "__main__":
    main()
