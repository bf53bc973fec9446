"""How well ILBRL learns: 2 expert episodes + 400,000 medium transitions, scores over training, 6 seeds.

    python -m benchmarks.learning_curves hopper --out results/learning      (minutes on a GPU, hours on a CPU)
    python -m benchmarks.learning_curves stability --out results/learning   (what cures the divergence on ant)
    python -m benchmarks.learning_plot results/learning docs/figures

Each entry of the JSON file holds the scores of every seed at every evaluation, its configuration, the machine and the
commit. Evaluation is deterministic; the last one plays 30 episodes, the others 10.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from dataclasses import asdict, replace
from pathlib import Path

import jax
import numpy as np

import ilbrl
from ilbrl.agents import AGENTS
from ilbrl.agents.agent import prepare
from ilbrl.agents.fit import fit
from ilbrl.base.files import written_whole
from ilbrl.base.provenance import commit, versions
from ilbrl.envs import rollout_all
from ilbrl.rewards import Labels

AGENT = AGENTS["ilbrl"]
DEFAULT = AGENT.presets["default"]


def learning(task: str) -> dict[str, list]:
    """The default configuration, the same with products in bfloat16, and the paper's."""
    return {
        "default": [DEFAULT],
        "bfloat16": [replace(DEFAULT, dtype="bfloat16")],
        "paper": [AGENT.presets["paper-hopper" if task == "hopper" else "paper"]],
    }


def stability() -> dict[str, list]:
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
    parser.add_argument("what", choices=["hopper", "halfcheetah", "walker2d", "ant", "stability"])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--updates", type=int, default=200_000)
    parser.add_argument("--every", type=int, default=50_000)
    parser.add_argument("--seeds", type=int, default=6)
    parser.add_argument("--transitions", type=int, default=400_000)
    parser.add_argument("--episodes", type=int, default=30)
    parser.add_argument("--workers", type=int, default=None)
    args = parser.parse_args()
    task = "ant" if args.what == "stability" else args.what
    variants = stability() if args.what == "stability" else learning(task)
    expert = ilbrl.load(f"{task}/expert:2ep")
    data = ilbrl.load(f"{task}/medium:{args.transitions}steps")
    labels = None
    entries: list[dict] = []
    for name, configs in variants.items():
        started = time.monotonic()
        members = [(c, seed) for c in configs for seed in range(args.seeds)]
        prepared = prepare(AGENT, expert, data, *zip(*members), labels=labels)
        labels = prepared.labels if isinstance(prepared.labels, Labels) else None  # once for all variants
        curve: dict[str, list] = {"update": [], "scores": [], "q_magnitude": []}
        with tempfile.TemporaryDirectory() as folder:
            for updates in range(args.every, args.updates + 1, args.every):
                learned = fit(
                    "ilbrl", expert, data, config=configs, seeds=args.seeds, updates=updates, prepared=prepared,
                    divergence_factor=np.inf if args.what == "stability" else 100.0,
                    out=folder, quiet=True,
                )  # fmt: skip
                last = updates == args.updates
                episodes = args.episodes if last else max(1, args.episodes // 3)
                curve["update"].append(updates)
                played = rollout_all(learned.policies, task, episodes, seed=12345, workers=args.workers, quiet=True)
                curve["scores"].append([r.score for r in played])
                curve["q_magnitude"].append(learned.fitted.metrics["q_magnitude"][-1].tolist())
                print(f"{args.what} {name} {updates}: {np.mean(curve['scores'][-1]):.1f}", flush=True)
        per_seed = {
            key: np.array(curve[key]).reshape(-1, len(configs), args.seeds) for key in ("scores", "q_magnitude")
        }
        entries += [
            {
                "task": task, "variant": name, "config": asdict(config), "update": curve["update"],
                "scores": per_seed["scores"][:, i].tolist(), "q_magnitude": per_seed["q_magnitude"][:, i].tolist(),
                "diverged_at": learned.fitted.diverged_at.reshape(len(configs), -1)[i].tolist(),  # pyright: ignore
                "last_episodes": args.episodes, "seconds": time.monotonic() - started,
                "device": jax.devices()[0].device_kind, "versions": versions(), "commit": commit(),
            }
            for i, config in enumerate(configs)
        ]  # fmt: skip
        with written_whole(args.out / f"{args.what}.json") as partial:
            partial.write_text(json.dumps(entries, indent=1))


if __name__ == "__main__":
    main()
