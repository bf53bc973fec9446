"""How well off-policy evaluation orders policies it was not tuned on: five known policies per task, from worst to best.

    python -m benchmarks.policy_ladder hopper halfcheetah walker2d ant --out results/ladder      (minutes on a GPU)
    python -m benchmarks.policy_ladder hopper --out results/small --transitions 40000 --grid small \\
        --tune-updates 10000 --tune-seeds 1 --updates 30000 --seeds 1 --hidden 64 64 --batch-size 64   (small, on a CPU)
    python -m benchmarks.evaluation_plots results/ladder docs/figures

Tuned on {medium, expert} alone, as the protocol does: their logs, their sampled actions, their logged returns. Then the
chosen setting, with each remedy, values the mean actions of rung1, rung2, medium, rung3 and expert; their true values
are those of 30 deterministic episodes (source_policies/returns.json). All remedies of one task are one population, and
a longer run is read off the same curves. Each task's JSON file is rewritten after every step.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np

import ilbrl
from ilbrl import ope
from ilbrl.base.files import written_whole
from ilbrl.base.provenance import commit, versions
from ilbrl.data.benchmark import measured_returns, source_policy
from ilbrl.ope.evaluation import Estimate, lowered
from ilbrl.ope.settings import GRIDS, Setting
from ilbrl.ope.verdicts import verdict

LEVELS = ("rung1", "rung2", "medium", "rung3", "expert")
TUNED_ON = ("medium", "expert")
PENALTY = 2.0  # standard deviations over evaluation seeds


def remedies(chosen: Setting) -> dict[str, Setting]:
    """The chosen setting as the paper would run it, and with each remedy; all of them fit into one population."""
    plain = replace(chosen, informed_start=False, value_bounds=False)
    informed = replace(plain, informed_start=True)
    pessimistic = {k: replace(informed, config=replace(chosen.config, pessimism=k)) for k in (1.0, 3.0)}
    return {
        "paper": plain,
        "informed start": informed,
        "informed, value bounds": replace(informed, value_bounds=True),
        "informed, minimum": pessimistic[1.0],
        "informed, pessimism 3": pessimistic[3.0],
        "informed, bounds, minimum": replace(pessimistic[1.0], value_bounds=True),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tasks", nargs="+")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--transitions", type=int, default=700_000, help="of each log; 5/7 to learn from, 2/7 held out")
    parser.add_argument("--grid", default="default", choices=list(GRIDS))
    parser.add_argument("--tune-updates", type=int, default=40_000)
    parser.add_argument("--tune-seeds", type=int, default=2)
    parser.add_argument("--updates", type=int, default=100_000)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--hidden", type=int, nargs="+", default=[256, 256])
    parser.add_argument("--batch-size", type=int, default=256)
    parser.add_argument("--layer-norm", action="store_true", help="one more population: LayerNorm in the critics")
    args = parser.parse_args()
    for task in args.tasks:
        record: dict[str, Any] = {
            "task": task, "arguments": {name: str(value) for name, value in vars(args).items()},
            "device": jax.devices()[0].device_kind, "versions": versions(), "commit": commit(), "variants": [],
        }  # fmt: skip
        climb(task, args, record)


def climb(task: str, args: argparse.Namespace, record: dict[str, Any]) -> None:
    """Tune and evaluate one task, writing what is known after every step."""
    file, started = args.out / f"{task}.json", time.monotonic()
    logs = {level: ilbrl.load(f"{task}/{level}:{args.transitions}") for level in TUNED_ON}
    composition = ope.held_out(logs["expert"], logs["medium"])
    policies = {level: source_policy(task, level) for level in LEVELS}
    truths = {
        level: measured_returns()["policies"][f"{task}/{level}"]["deterministic"]["discounted_return_mean"]
        for level in LEVELS
    }
    program = {"dtype": args.dtype, "hidden": tuple(args.hidden), "batch_size": args.batch_size}
    grid = [replace(s, config=replace(s.config, **program)) for s in GRIDS[args.grid]]
    data = ope.EvaluationData.of_composition(composition, [s.expert_fraction for s in grid])
    record |= {"truths": truths, "rows": len(data.dataset), "initial_states": len(data.initial_observations)}
    known = ope.known_of_composition(composition, policies["expert"], policies["medium"])
    tuning = ope.tune(known, data, grid, range(args.tune_seeds), args.tune_updates, quiet=True)
    chosen = tuning.chosen
    record |= {"tuning": tuning.to_json(), "tuning_seconds": time.monotonic() - started}
    save(file, record)
    print(f"\n{task}: chose {chosen.as_dict()}; {tuning.trust.verdict}: {'; '.join(tuning.trust.reasons)}", flush=True)

    data = ope.EvaluationData.of_composition(composition, [chosen.expert_fraction])
    distances = ope.distances_from_data(policies, data, chosen.expert_fraction)
    record |= {"distances": distances, "distance_warning": ope.distance_warning(distances, tuning.trust.distance_limit)}
    populations = [remedies(chosen)]
    if args.layer_norm:
        normalised = replace(chosen.config, layer_norm=True)
        populations.append({"informed, LayerNorm": replace(chosen, informed_start=True, config=normalised)})
    for settings in populations:
        evaluation = ope.evaluate(policies, data, list(settings.values()), range(args.seeds), args.updates, quiet=True)
        record["variants"] += [
            found
            for number, name in enumerate(settings)
            for found in readings(name, evaluation, number, truths, data.value_range(chosen.config.gamma))
        ]
        record["evaluation_seconds"] = record.get("evaluation_seconds", 0.0) + evaluation.seconds
        save(file, record)
    table(record)


def readings(
    name: str, evaluation: ope.Evaluation, setting: int, truths: Mapping[str, float], value_range: tuple[float, float]
) -> list[dict[str, Any]]:
    """One variant, read after a quarter of its updates and after all; and with a penalty for disagreeing seeds."""
    curves = {level: evaluation.of(level, setting) for level in truths}
    points = len(curves["expert"][0].updates)
    pace = ope.expected_sarsa.pace(evaluation.settings[setting].config)
    found = []
    for length in (points // 4, points):
        per_seed = {level: [float(e.values[length - 1]) for e in curves[level]] for level in truths}
        words = {level: [_word(e, length, value_range, pace) for e in curves[level]] for level in truths}
        updates = int(curves["expert"][0].updates[length - 1])
        found.append(_scored(name, updates, {k: float(np.mean(v)) for k, v in per_seed.items()}, truths, words))
        found[-1]["per_seed"] = per_seed
    found[-1]["std_error"] = {level: evaluation.combined(level, setting).std_error for level in truths}
    found[-1]["curves"] = {
        level: {"updates": curves[level][0].updates.tolist(), "values": [e.values.tolist() for e in curves[level]]}
        for level in truths
    }
    last = found[-1]
    if len(curves["expert"]) > 1:
        less = {k: lowered(v, PENALTY) for k, v in last["per_seed"].items()}
        found.append(_scored(f"{name} − {PENALTY:g} std of seeds", last["updates"], less, truths, last["verdicts"]))
    return found


def _word(estimate: Estimate, length: int, value_range: tuple[float, float], pace: float) -> str:
    frozen = estimate.decided_at if estimate.verdict == "diverged" else -1
    frozen = frozen if frozen <= estimate.updates[length - 1] else -1
    return verdict(estimate.updates[:length], estimate.values[:length], frozen, value_range, pace).word


def _scored(
    name: str, updates: int, estimates: Mapping[str, float], truths: Mapping[str, float], words: Mapping[str, Sequence]
) -> dict[str, Any]:
    values, true = (np.array([x[level] for level in truths]) for x in (estimates, truths))
    diverged = np.array(["diverged" in words[level] for level in truths])
    ranked = np.where(diverged, -np.inf, values)
    spread = float(np.ptp(true))
    return {
        "variant": name,
        "updates": updates,
        "estimates": dict(estimates),
        "verdicts": {level: list(words[level]) for level in truths},
        "rank_error": ope.rank_error(values, true, diverged),
        "spearman": _number(ope.spearman(values[~diverged], true[~diverged])),
        "kendall": _number(ope.kendall(values[~diverged], true[~diverged])),
        "regret_at_1": ope.regret(ranked, true) / spread,
        "value_error": _number(float(np.abs(values - true)[~diverged].mean() / spread)) if (~diverged).any() else None,
    }


def _number(value: float) -> float | None:
    return value if np.isfinite(value) else None


def save(file: Path, record: dict[str, Any]) -> None:
    with written_whole(file) as partial:
        partial.write_text(json.dumps(record, indent=1))


def table(record: dict[str, Any]) -> None:
    """The estimates beside the truth; regret and value error in units of the spread of the true values."""
    truths = record["truths"]
    print(f"| {record['task']} | updates | " + " | ".join(truths) + " | Spearman | Kendall | regret@1 | value error |")
    print("|---" * (len(truths) + 6) + "|")
    print("| truth | | " + " | ".join(f"{value:.0f}" for value in truths.values()) + " | | | | |")
    print("| distance from the data | | " + " | ".join(f"{record['distances'][k]:.2f}" for k in truths) + " | | | | |")
    for entry in record["variants"]:
        marks = {k: {"converged": "", "moving": "~", "diverged": "!"}[_worst(entry["verdicts"][k])] for k in truths}
        cells = [f"{entry['estimates'][k]:.0f}{marks[k]}" for k in truths]
        scores = [_shown(entry[key]) for key in ("spearman", "kendall", "regret_at_1", "value_error")]
        print(f"| {entry['variant']} | {entry['updates']:,} | " + " | ".join([*cells, *scores]) + " |", flush=True)


def _worst(words: Sequence[str]) -> str:
    return max(words, key=["converged", "moving", "diverged"].index)


def _shown(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"


if __name__ == "__main__":
    main()
