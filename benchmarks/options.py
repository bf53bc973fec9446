"""What ILBRL's options bring: its default with one of them changed at a time, and logs that are no use beside.

    python -m benchmarks.options hopper --out docs/results/options                      (minutes on a GPU)
    python -m benchmarks.options hopper --logs random --out docs/results/options        (the same)
    python -m benchmarks.options hopper --logs no --out docs/results/options            (cloning, beside)
    python -m benchmarks.options hopper --out try --tiny                                (a try of the command)
    python -m benchmarks.options --table docs/results/options                           (the tables in docs)

2 and 18 expert episodes and 400,000 transitions of the medium policy, or of one that acts at random; with no logs the
expert's episodes are cloned (BC). Everything else is the default, in bfloat16 (on a CPU float32); 30 deterministic
episodes after the last update. Options that share a compiled program train as one population. A file per task, number
of expert episodes and kind of logs; what is there is not computed again.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np

import ilbrl
from benchmarks.imagined_steps import read, shown
from ilbrl.agents import AGENTS
from ilbrl.base.files import written_whole
from ilbrl.base.provenance import commit, versions
from ilbrl.envs import rollout_all
from ilbrl.learning.config import static_fields

TASKS = ("hopper", "halfcheetah", "walker2d", "ant")
EXPERT_SEED, LOGS_STEPS, FIRST_SEED, PLAY_SEED = 21, 400_000, 900, 6262

OPTIONS: dict[str, dict[str, Any]] = {
    "the default": {},
    "agreement 2": {"agreement": 2.0},
    "weight_horizon 10": {"weight_horizon": 10},
    "critic_penalty 0.01": {"critic_penalty": 0.01},
    "four critics": {"critics": 4},
    "second actor, λ 0.3": {"deploy_lam": 0.3},
    "rewards on (s, a, s′)": {"reward_on": "transition"},
    "rewards by rank": {"reward_shape": "rank"},
    "exponential rewards": {"reward_shape": "exponential"},
    "three layers": {"hidden": (256, 256, 256)},
    "batches of 1,024, rates 10⁻³": {"batch_size": 1024, "actor_lr": 1e-3, "critic_lr": 1e-3},
}
"""Name → what differs from the default."""
ON_RANDOM_LOGS: dict[str, dict[str, Any]] = {
    "the default": {},
    "agreement 2": {"agreement": 2.0},
    "expert_odds 300": {"expert_odds": 300.0},
    "both": {"agreement": 2.0, "expert_odds": 300.0},
}
ASKED = {"medium": OPTIONS, "random": ON_RANDOM_LOGS, "no": {"cloning": {}}}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tasks", nargs="*")
    parser.add_argument("--expert-episodes", type=int, nargs="+", default=[2, 18])
    parser.add_argument("--logs", choices=list(ASKED), default="medium", help="whose logs")
    parser.add_argument("--updates", type=int, default=100_000)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--episodes", type=int, default=30)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--tiny", action="store_true", help="tiny sizes, to try the command")
    parser.add_argument("--table", type=Path, help="print the tables of a folder")
    args = parser.parse_args()
    if args.table:
        print("\n".join(lines_of(args.table)))
        return
    if args.out is None:
        parser.error("--out is missing")
    for task in args.tasks:
        for count in args.expert_episodes:
            measure(task, count, args)


def measure(task: str, count: int, args: argparse.Namespace) -> None:
    path = args.out / f"{task}-{count}{'' if args.logs == 'medium' else f'-{args.logs}'}.json"
    found: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {"scores": {}}
    missing = {name: changes for name, changes in ASKED[args.logs].items() if name not in found["scores"]}
    if not missing:
        return
    updates, episodes = (20, 2) if args.tiny else (args.updates, args.episodes)
    sizes = {"updates": updates, "episodes": episodes, "commit": commit(), "seeds": args.seeds}
    known = found | {"seeds": max(map(len, found["scores"].values()), default=args.seeds)}
    if found["scores"] and (other := {name: known.get(name) for name in sizes}) != sizes:
        raise SystemExit(f"{path}: was measured with {other}, not {sizes}; use another folder")
    expert = ilbrl.load(f"{task}/expert@{EXPERT_SEED}:{count}ep", quiet=True)
    agent, logs = "bc", expert
    if args.logs != "no":
        agent, logs = "ilbrl", ilbrl.load(f"{task}/{args.logs}:{3000 if args.tiny else LOGS_STEPS}steps", quiet=True)
    dtype = "float32" if args.tiny or jax.default_backend() == "cpu" else "bfloat16"
    default = replace(AGENTS[agent].presets["default"], dtype=dtype)
    alike: dict[str, dict[str, Any]] = {}
    for name, changes in missing.items():
        config = replace(default, **changes)
        alike.setdefault(repr(static_fields(config)), {})[name] = config
    seeds = [FIRST_SEED + i for i in range(args.seeds)]
    for group in alike.values():
        started = time.monotonic()
        learned = ilbrl.fit(agent, expert, logs, config=list(group.values()), seeds=seeds, updates=updates, quiet=True)
        seconds = time.monotonic() - started
        scores = [r.score for r in rollout_all(learned.policies, task, episodes, PLAY_SEED, quiet=True)]
        found["scores"] |= {name: scores[i * len(seeds) : (i + 1) * len(seeds)] for i, name in enumerate(group)}
        about = {
            "task": task, "expert_episodes": count, "logs": args.logs, "updates": updates, "episodes": episodes,
            "expert_returns": expert.returns().tolist(), "device": jax.devices()[0].device_kind,
            "versions": versions(), "commit": commit(),
        }  # fmt: skip
        path.parent.mkdir(parents=True, exist_ok=True)
        with written_whole(path) as partial:
            partial.write_text(json.dumps(found | about, indent=1))
        print(task, count, args.logs, ", ".join(group), _rounded(scores), f"{seconds:.0f} s", flush=True)


def lines_of(folder: Path) -> list[str]:
    """A table for each kind of logs: mean ± normal 95 % over seeds, a column per task and number of episodes."""
    cells = {(c["task"], c["expert_episodes"], c["logs"]): c for c in map(read, sorted(folder.glob("*.json")))}
    lines: list[str] = []
    for logs, options in ASKED.items():
        columns = [(task, count) for count in (18, 2) for task in TASKS if (task, count, logs) in cells]
        if not columns:
            continue
        heads = " | ".join(f"{task} {count}" for task, count in columns)
        lines += ["", f"| {logs} logs | {heads} | mean |", "|---|" + "---:|" * (len(columns) + 1)]
        for name in options:
            scores = [cells[task, count, logs]["scores"].get(name) for task, count in columns]
            mean = "{:.1f} ± {:.1f}".format(*mean_of(scores)) if all(scores) else "—"
            lines.append(f"| {name} | {' | '.join(map(shown, scores))} | {mean} |")
    return lines[1:]


def mean_of(cells: Sequence[Sequence[float]]) -> tuple[float, float]:
    """Over cells of a score for each seed: the mean of their means, and 1.96 standard errors over seeds."""
    errors = [np.var(scores, ddof=1) / len(scores) for scores in cells]
    return float(np.mean([np.mean(scores) for scores in cells])), float(1.96 * np.sqrt(np.sum(errors)) / len(cells))


def _rounded(scores: list[float | None]) -> list[float | None]:
    return [None if score is None else round(score, 1) for score in scores]


if __name__ == "__main__":
    main()
