"""How well an estimator orders policies whose value is known: five per task, from worst to best.

    python -m benchmarks.policy_ladder hopper halfcheetah walker2d ant --out results/ladder-models    (on a GPU)
    python -m benchmarks.policy_ladder hopper --out results/ladder-small --set members=3 size=small \\
        --expert {task}/expert:40000steps --logs {task}/medium:40000steps
    python -m benchmarks.policy_ladder hopper --out results/ladder-sarsa --estimator expected_sarsa --set updates=100000
    python -m benchmarks.policy_ladder --table docs/results/ladder-models                            (the table in docs)

The evidence are logs of medium and expert alone. Each of rung1, rung2, medium, rung3 and expert is valued as it acts
when it is logged, with its own logs among the evidence and without them (the rungs made none of the logs, so they are
never seen). The truth is the mean over held-out episodes of medium and expert, and over 30 episodes of each rung. Every
setting that a calibration would try is shown. Each task's JSON file is written when the task is done.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import jax

import ilbrl
from ilbrl import ope
from ilbrl.base.provenance import commit, versions
from ilbrl.base.records import to_plain, write_json
from ilbrl.data.benchmark import source_policy
from ilbrl.study.search import parse

TASKS = ("hopper", "halfcheetah", "walker2d", "ant")
LEVELS = ("rung1", "rung2", "medium", "rung3", "expert")
LOGGED = {"expert": "expert", "logs": "medium"}  # log of the evidence → who made it
EPISODES = 30


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tasks", nargs="*")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--expert", default="{task}/expert:700000steps", help="2/7 of its episodes are held out")
    parser.add_argument("--logs", default="{task}/medium:700000steps", help="the same")
    parser.add_argument("--estimator", default=ope.DEFAULT, choices=list(ope.ESTIMATORS))
    parser.add_argument("--set", nargs="*", default=[], metavar="NAME=VALUE", help="settings of the estimator")
    parser.add_argument("--seeds", type=int, help="by default what suits the estimator")
    parser.add_argument("--intrinsic", action="store_true", help="value closeness to the expert instead of the rewards")
    parser.add_argument("--table", type=Path, help="print the table of a folder")
    args = parser.parse_args()
    if args.table:
        print("\n".join(lines_of(args.table)))
        return
    if args.out is None:
        parser.error("--out is missing")
    for task in args.tasks:
        record = climb(task, args)
        write_json(args.out / f"{task}.json", record)
        table(record)


def climb(task: str, args: argparse.Namespace) -> dict[str, Any]:
    """Value the five policies of one task under every setting."""
    started = time.monotonic()
    estimator = ope.find(args.estimator)
    changes = {name: parse(text, name)[1][0] for name, _, text in (entry.partition("=") for entry in args.set)}
    logs = {log: ilbrl.load(getattr(args, log).format(task=task)) for log in LOGGED}
    evidence = ope.Evidence.holding_out(logs, intrinsic=args.intrinsic or None)
    known = []
    for level in LEVELS:
        policy, made = source_policy(task, level), {v: k for k, v in LOGGED.items()}.get(level)
        if made is None:
            known.append(ope.Known(level, policy, ilbrl.load(f"{task}/{level}:{EPISODES}ep")))
        else:
            known.append(ope.known_policy(level, policy, evidence, made))
    seeds = None if args.seeds is None else range(args.seeds)
    found = ope.calibrate(
        known, evidence, estimator, estimator.changed(changes), seeds, blind=True, workplace=args.out / "work"
    )
    return {
        "task": task,
        "arguments": {name: str(value) for name, value in vars(args).items()},
        "device": jax.devices()[0].device_kind,
        "versions": versions(),
        "commit": commit(),
        "estimator": estimator.name,
        "quantity": str(found.quantity),
        "truths": to_plain(found.truths),
        "table": to_plain(found.table),
        "chosen": found.chosen,
        "trust": to_plain(found.trust),
        "seconds": time.monotonic() - started,
    }


def table(record: dict[str, Any]) -> None:
    """The estimates beside the truth; regret and value error in units of the spread of the true values."""
    print(f"\n{record['task']}: {record['quantity']}, {record['trust']['verdict']}, {record['seconds']:.0f} s")
    print("| | " + " | ".join(LEVELS) + " | Spearman | regret@1 | value error | bias |")
    print("|---" * (len(LEVELS) + 5) + "|")
    print("| truth | " + " | ".join(f"{record['truths'][level]['value']:.0f}" for level in LEVELS) + " | | | | |")
    for number, row in enumerate(record["table"]):
        chosen = " (chosen)" if number == record["chosen"] else ""
        for view in ("seen", "unseen"):
            check, estimates = row[f"{view}_check"], row[view]
            if check is None:
                continue
            cells = [_shown(estimates[level]["value"], ".0f") for level in LEVELS]
            scores = [check["spearman"], check["regret_at_k"][0], check["value_error"], check["bias"]]
            name = f"setting {number}{chosen}, own logs {view}"
            print(f"| {name} | " + " | ".join([*cells, *(_shown(score, ".2f") for score in scores)]) + " |", flush=True)


def lines_of(folder: Path) -> list[str]:
    """The chosen setting of every task: truth, estimates of models that know a policy's own logs, and of others."""
    lines = ["| | " + " | ".join(LEVELS) + " | Spearman |", "|---|" + "---:|" * (len(LEVELS) + 1)]
    for task in TASKS:
        record = json.loads((folder / f"{task}.json").read_text())
        row = record["table"][record["chosen"]]
        truth = [f"{record['truths'][level]['value']:,.0f}" for level in LEVELS]
        lines.append(f"| {task}, truth | {' | '.join(truth)} | |")
        for view, name in (("seen", "with its own logs"), ("unseen", "without them")):
            cells = [_shown(row[view][level]["value"], ",.0f").replace("-", "−") for level in LEVELS]
            lines.append(f"| {task}, {name} | {' | '.join(cells)} | {row[f'{view}_check']['spearman']:.1f} |")
    return lines


def _shown(value: float | None, how: str) -> str:
    return "–" if value is None else f"{value:{how}}"


if __name__ == "__main__":
    main()
