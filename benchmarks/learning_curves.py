"""How scores change while ILBRL trains: its default over a million updates, 400,000 medium transitions, six seeds.

    python -m benchmarks.learning_curves hopper --expert-episodes 2 18 --out results/curves   (minutes on a GPU)
    python -m benchmarks.learning_curves stability --out results/learning --seeds 2 --updates 100000 --every 50000
                                                              (what cures the paper's divergence on ant)
    python -m benchmarks.learning_curves stability --table results/learning      (prints what came of it)
    python -m benchmarks.learning_plot results/curves docs/figures

The policy is a mean of the actor's weights (`actor_average`); the weights of the last update are played beside it. Each
entry of a JSON file holds the scores of every seed at every evaluation, its configuration, the machine and the commit,
and is written again after each of them. Evaluation is deterministic; the last one plays 30 episodes, the others 10.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Generator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import jax
import numpy as np

import ilbrl
from ilbrl.agents import AGENTS
from ilbrl.agents.agent import prepare
from ilbrl.agents.fit import Learned, export, fit
from ilbrl.base.files import written_whole
from ilbrl.base.provenance import commit, versions
from ilbrl.envs import rollout_all
from ilbrl.learning.spec import Spec

AGENT = AGENTS["ilbrl"]
TASKS = ("hopper", "halfcheetah", "walker2d", "ant")


def default() -> dict[str, list[Any]]:
    return {"default": [replace(AGENT.presets["default"], dtype="bfloat16")]}


def stability() -> dict[str, list[Any]]:
    """Ant with λ ≥ 1: the plain agent, and each cure."""
    paper = AGENT.presets["paper"]
    plain = [replace(paper, lam=lam, actor_lr=lr, critic_lr=lr) for lam, lr in ((1.0, 4e-5), (2.5, 4e-5), (2.5, 3e-4))]
    return {
        "plain": plain,
        "bounded targets": [replace(c, reward_bounds=(0.0, 1.0)) for c in plain],
        "LayerNorm": [replace(c, layer_norm=True) for c in plain],
        "both": [replace(c, reward_bounds=(0.0, 1.0), layer_norm=True) for c in plain],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=[*TASKS, "stability"])
    parser.add_argument("--out", type=Path)
    parser.add_argument("--table", type=Path, help="print what this folder has of `stability`")
    parser.add_argument("--expert-episodes", type=int, nargs="+", default=[2])
    parser.add_argument("--updates", type=int, default=1_000_000)
    parser.add_argument("--every", type=int, default=100_000)
    parser.add_argument("--seeds", type=int, default=6)
    parser.add_argument("--transitions", type=int, default=400_000)
    parser.add_argument("--episodes", type=int, default=30)
    parser.add_argument("--workers", type=int, default=None)
    args = parser.parse_args()
    if args.table:
        print("\n".join(stability_table(args.table)))
        return
    if args.out is None:
        parser.error("--out: a folder for what comes of it")
    for count in args.expert_episodes:
        path = args.out / ("stability.json" if args.what == "stability" else f"{args.what}-{count}.json")
        entries: list[dict[str, Any]] = []
        for name, configs in (stability() if args.what == "stability" else default()).items():
            found: list[dict[str, Any]] = []
            for found in follow(args, count, name, configs):
                with written_whole(path) as partial:
                    partial.write_text(json.dumps(entries + found, indent=1))
            entries += found


def follow(args: argparse.Namespace, count: int, name: str, configs: Sequence[Any]) -> Generator[list[dict[str, Any]]]:
    """An entry per configuration, after every evaluation."""
    started = time.monotonic()
    task = "ant" if args.what == "stability" else args.what
    expert = ilbrl.load(f"{task}/expert:{count}ep", quiet=True)
    logs = ilbrl.load(f"{task}/medium:{args.transitions}steps", quiet=True)
    members = [(c, seed) for c in configs for seed in range(args.seeds)]
    prepared = prepare(AGENT, expert, logs, *zip(*members), quiet=True)
    entries: list[dict[str, Any]] = [
        {"task": task, "expert_episodes": count, "variant": name, "config": asdict(config), "update": [], "scores": [],
         "scores_of_last_weights": [], "q_magnitude": [], "last_episodes": args.episodes,
         "device": jax.devices()[0].device_kind, "versions": versions(), "commit": commit()}
        for config in configs
    ]  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        for updates in range(args.every, args.updates + 1, args.every):
            learned = fit(
                AGENT, expert, logs, config=configs, seeds=args.seeds, updates=updates, prepared=prepared,
                divergence_factor=np.inf if args.what == "stability" else 100.0, out=folder, quiet=True,
            )  # fmt: skip
            policies = [*learned.policies, *_last_weights(learned, prepared.spec)]
            episodes = args.episodes if updates == args.updates else max(1, args.episodes // 3)
            played = rollout_all(policies, task, episodes, seed=12345, workers=args.workers, quiet=True)
            scores = np.array([r.score for r in played]).reshape(-1, len(configs), args.seeds)
            q_magnitude = learned.fitted.metrics["q_magnitude"][-1].reshape(len(configs), args.seeds)
            for i, entry in enumerate(entries):
                entry["update"].append(updates)
                entry["scores"].append(scores[0, i].tolist())
                entry["scores_of_last_weights"].append(scores[-1, i].tolist())
                entry["q_magnitude"].append(q_magnitude[i].tolist())
                entry["diverged_at"] = learned.diverged_at.reshape(len(configs), -1)[i].tolist()
                entry["seconds"] = time.monotonic() - started
            print(f"{args.what} {count} {name} {updates}: {scores.mean((1, 2)).round(1)}", flush=True)
            yield entries


def stability_table(folder: Path) -> list[str]:
    """Mean score and mean |Q| of the seeds at the end, a column per cure; bold: the highest score."""
    entries = json.loads((folder / "stability.json").read_text())
    variants = list(dict.fromkeys(entry["variant"] for entry in entries))
    lines = [f"| λ | learning rates | | {' | '.join(variants)} |", "|---" * (len(variants) + 3) + "|"]
    for lam, rate in dict.fromkeys((entry["config"]["lam"], entry["config"]["actor_lr"]) for entry in entries):
        row = [entry for entry in entries if (entry["config"]["lam"], entry["config"]["actor_lr"]) == (lam, rate)]
        scores, magnitudes = (np.array([np.mean(e[field][-1]) for e in row]) for field in ("scores", "q_magnitude"))
        shown = [f"{score:.0f}".replace("-", "−") for score in scores]
        shown[scores.argmax()] = f"**{shown[scores.argmax()]}**"
        lines.append(f"| {lam} | {power_of_ten(rate)} | score | {' | '.join(shown)} |")
        lines.append(f"| | | mean \\|Q\\| | {' | '.join(f'{magnitude:,.0f}' for magnitude in magnitudes)} |")
    return lines


def power_of_ten(rate: float) -> str:
    digit, exponent = f"{rate:.0e}".split("e-")
    return f"{digit} × 10⁻{'⁰¹²³⁴⁵⁶⁷⁸⁹'[int(exponent)]}"


def _last_weights(learned: Learned, spec: Spec) -> list[ilbrl.Policy]:
    """The same policies without averaging; none where nothing was averaged."""
    if learned.configs[0].actor_average is None:
        return []
    last = AGENT.solver._replace(actor_layers=lambda state: state.actor.params)
    return [export(last, learned.fitted.member(p), spec) for p in range(len(learned.policies))]


if __name__ == "__main__":
    main()
