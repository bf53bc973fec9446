"""Does unbalanced evaluation data diverge more often? The paper's figure on data composition, on one trained policy.

    ilbrl train ilbrl --expert walker2d/expert:2ep --logs walker2d/medium:400000steps --out results/walker2d
    python -m benchmarks.data_composition --policy results/walker2d/policy-config0-seed0.safetensors \\
        --out results/composition
    python -m benchmarks.evaluation_plots results/composition docs/figures

One policy, expert fractions 0, 0.3, 0.5 and 0.8 of the same amount of data, several evaluation seeds and learning
rates, everything else as in the paper's final choice: one population. Writes composition.json, draws nothing.
"""

from __future__ import annotations

import argparse
import itertools
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import jax
import numpy as np

import ilbrl
from ilbrl import ope
from ilbrl.base.files import written_whole
from ilbrl.base.provenance import commit, versions
from ilbrl.ope.estimators import critics, expected_sarsa


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--policy", type=Path, required=True)
    parser.add_argument("--task", default="walker2d")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--fractions", type=float, nargs="+", default=[0.0, 0.3, 0.5, 0.8])
    parser.add_argument("--lr", type=float, nargs="+", default=[3e-4, 3e-3])
    parser.add_argument("--every", type=float, nargs="+", default=[2.0, 16.0])
    parser.add_argument("--seeds", type=int, default=6)
    parser.add_argument("--updates", type=int, default=200_000)
    parser.add_argument("--transitions", type=int, default=700_000, help="of each log; 5/7 to learn from, 2/7 held out")
    parser.add_argument("--informed-start", action="store_true", help="the library's default instead of the paper's")
    parser.add_argument("--episodes", type=int, default=30, help="for the true value; 0: leave the environment alone")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--hidden", type=int, nargs="+", default=[256, 256])
    parser.add_argument("--batch-size", type=int, default=256)
    args = parser.parse_args()
    policy = ilbrl.Policy.load(args.policy)
    logs = {level: ilbrl.load(f"{args.task}/{level}:{args.transitions}") for level in ("expert", "medium")}
    evidence = ope.Evidence.holding_out({"expert": logs["expert"], "logs": logs["medium"]})
    configs = [
        critics.Config(
            expert_fraction=fraction, lr=lr, target_update_every=every, informed_start=args.informed_start,
            updates=args.updates, dtype=args.dtype, hidden=tuple(args.hidden), batch_size=args.batch_size,
        )
        for fraction, lr, every in itertools.product(args.fractions, args.lr, args.every)
    ]  # fmt: skip
    found = expected_sarsa.estimate({"policy": policy}, evidence, configs, range(args.seeds), quiet=True)
    truth = float(ilbrl.rollout(policy, args.task, args.episodes).discounted_returns.mean()) if args.episodes else None
    entries = [entry(each) for each in found]
    record = {
        "task": args.task, "truth": truth, "value_range": evidence.value_range(configs[0].gamma),
        "arguments": {name: str(value) for name, value in vars(args).items()}, "entries": entries,
        "seconds": sum(each.seconds for each in found), "device": jax.devices()[0].device_kind, "versions": versions(),
        "commit": commit(),
    }  # fmt: skip
    with written_whole(args.out / "composition.json") as partial:
        partial.write_text(json.dumps(record, indent=1))
    table(record)


def entry(found: ope.Estimates) -> dict[str, Any]:
    trace = found.traces["policy"]
    return {
        "setting": asdict(found.config),
        "values": [value if np.isfinite(value) else None for value in found["policy"].parts],
        "verdicts": list(trace.verdicts),
        "decided_at": list(trace.decided_at),
        "curves": {"updates": trace.updates.tolist(), "values": trace.values.tolist()},
    }


def table(record: dict[str, Any]) -> None:
    """How many seeds diverged, and where the others ended."""
    truth = "unknown" if record["truth"] is None else f"{record['truth']:.0f}"
    print(f"{record['task']}, true value {truth}")
    print("| expert fraction | lr | targets every | diverged | moving | converged | value of the others | spread |")
    print("|---|---|---|---|---|---|---|---|")
    for found in record["entries"]:
        setting, words = found["setting"], found["verdicts"]
        sound = [v for v, word in zip(found["values"], words) if word != "diverged"]
        shown = f"{np.mean(sound):.0f} | {np.std(sound):.0f}" if sound else "– | –"
        counts = " | ".join(str(words.count(word)) for word in ("diverged", "moving", "converged"))
        print(
            f"| {setting['expert_fraction']:g} | {setting['lr']:g} | {setting['target_update_every']:g} |"
            f" {counts} | {shown} |"
        )


if __name__ == "__main__":
    main()
