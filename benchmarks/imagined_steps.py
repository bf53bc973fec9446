"""What imagined steps bring: ILBRL's default with and without them, from few and from many expert episodes.

    python -m benchmarks.imagined_steps hopper --expert-episodes 2 18 --out results/imagined     (minutes on a GPU)
    python -m benchmarks.imagined_steps hopper --expert-episodes 2 --out results/small --small   (minutes on two cores)
    python -m benchmarks.imagined_steps hopper --expert-episodes 2 --out try --tiny              (a try of the command)
    python -m benchmarks.imagined_steps --table results/imagined                                 (the table in docs)
    python -m benchmarks.imagined_steps ant --expert-episodes 2 --demonstrations                 (which ones are drawn)

400,000 medium transitions, 100,000 updates in bfloat16 of members and teachers alike, six seeds, 30 deterministic
episodes. With --small: sizes of studies/small-hopper.toml, the first configuration that it would draw, and
small models. Expert episodes are drawn by a seed that nothing else uses, and so are teachers and members. A file per
cell says what was found with imagined steps, then without; what is there is not computed again. Several tasks side by
side on one GPU need XLA_PYTHON_CLIENT_PREALLOCATE=false and NVIDIA's MPS.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

import ilbrl
from ilbrl.agents import AGENTS
from ilbrl.base.files import written_whole
from ilbrl.base.provenance import commit, versions
from ilbrl.base.records import to_plain
from ilbrl.data.benchmark import source_score
from ilbrl.envs import rollout_all
from ilbrl.models.imagination import Imagination
from ilbrl.study.search import draw
from ilbrl.study.study import Study

SMALL_HOPPER = Path(__file__).parents[1] / "studies/small-hopper.toml"

SPLIT_SEED, FIRST_SEED, TEACHERS_SEED, PLAY_SEED = 41, 700, 750, 4242
TASKS = ("hopper", "halfcheetah", "walker2d", "ant")
KINDS = ("with", "without")


class Sizes(NamedTuple):
    config: Any  # of ILBRL
    settings: Imagination
    expert_steps: int = 60_000  # demonstrations are drawn from so many
    logs_steps: int = 400_000
    updates: int = 100_000
    seeds: int = 6
    episodes: int = 30


def full() -> Sizes:
    return Sizes(replace(AGENTS["ilbrl"].presets["default"], dtype="bfloat16"), Imagination())


def small() -> Sizes:
    study = Study.load(SMALL_HOPPER)
    logs_steps, updates = study.data.training_transitions, study.training.updates
    assert logs_steps is not None
    assert updates is not None
    config = draw(study.search, "ilbrl", FIRST_SEED)[0].config
    return Sizes(config, Imagination(size="small"), logs_steps=logs_steps, updates=updates)


def tiny() -> Sizes:
    config = replace(AGENTS["ilbrl"].presets["default"], hidden=(16,))
    return Sizes(config, Imagination(rows=100, teachers=2, models_updates=5), 6_000, 3_000, 20, seeds=2, episodes=2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tasks", nargs="*")
    parser.add_argument("--expert-episodes", type=int, nargs="+", default=[2, 18])
    parser.add_argument("--out", type=Path)
    parser.add_argument("--small", dest="sizes", action="store_const", const=small, help="for two cores")
    parser.add_argument("--tiny", dest="sizes", action="store_const", const=tiny, help="to try the command")
    parser.set_defaults(sizes=full)
    parser.add_argument("--demonstrations", action="store_true", help="print which ones are drawn, and do no more")
    parser.add_argument("--table", type=Path, help="print the table of a folder")
    args = parser.parse_args()
    if args.table:
        print(table(args.table))
        return
    sizes = args.sizes()
    if args.demonstrations:
        for task in args.tasks:
            for count in args.expert_episodes:
                print(task, *steps_and_returns(demonstrations(task, count, sizes)))
        return
    if args.out is None:
        parser.error("--out is missing")
    args.out.mkdir(parents=True, exist_ok=True)
    for task in args.tasks:
        for count in args.expert_episodes:
            measure(task, count, args.out / f"{task}-{count}.json", sizes)


def measure(task: str, count: int, path: Path, sizes: Sizes) -> None:
    found: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    if found and found["updates"] != sizes.updates:
        raise SystemExit(f"{path}: of {found['updates']:,} updates, not {sizes.updates:,}; choose another --out")
    if all(kind in found for kind in KINDS):
        return
    expert = demonstrations(task, count, sizes)
    logs = ilbrl.load(f"{task}/medium:{sizes.logs_steps}steps", quiet=True)
    seen = steps_and_returns(expert)
    expert, logs = (replace(data, rewards=None) for data in (expert, logs))
    config, settings, updates = sizes.config, sizes.settings, sizes.updates
    started = time.monotonic()
    for kind in KINDS:
        if kind in found:
            continue
        rows = logs
        if kind == "with":
            imagined = ilbrl.imagine(
                expert, logs, settings, config=config, updates=updates, seed=TEACHERS_SEED, quiet=True
            )
            rows = ilbrl.concatenate([logs, imagined])
        prepared = time.monotonic()
        seeds = [FIRST_SEED + i for i in range(sizes.seeds)]
        learned = ilbrl.fit("ilbrl", expert, rows, config=config, seeds=seeds, updates=updates, quiet=True)
        trained = time.monotonic()
        played = rollout_all(learned.policies, task, sizes.episodes, PLAY_SEED, quiet=True)
        found[kind] = {
            "scores": [r.score for r in played],
            "diverged": int(learned.diverged.sum()),
            "rows": len(rows),
            "seconds_of_imagining": prepared - started if kind == "with" else 0.0,
            "seconds_of_training": trained - prepared,
        }
        about = {
            "task": task, "expert_episodes": count, "demonstrations": seen, "updates": updates,
            "settings": to_plain(settings), "config": asdict(config), "device": jax.devices()[0].device_kind,
            "versions": versions(), "commit": commit(),
        }  # fmt: skip
        with written_whole(path) as partial:
            partial.write_text(json.dumps(about | found, indent=1))
        print(task, count, kind, np.round(found[kind]["scores"], 1).tolist(), flush=True)


def demonstrations(task: str, count: int, sizes: Sizes) -> ilbrl.Dataset:
    expert = ilbrl.load(f"{task}/expert:{sizes.expert_steps}steps", quiet=True)
    order = np.random.default_rng(SPLIT_SEED).permutation(np.flatnonzero(expert.complete))
    if count > len(order):
        raise SystemExit(f"{task}: {count} demonstrations were asked for, and there are {len(order)}")
    return expert.episodes(np.sort(order[:count]))


def steps_and_returns(expert: ilbrl.Dataset) -> list[dict[str, float]]:
    return [{"steps": int(n), "return": float(r)} for n, r in zip(expert.episode_lengths, expert.returns())]


def table(folder: Path) -> str:
    """Mean ± normal 95 % over seeds."""
    cells = {(c["task"], c["expert_episodes"]): c for c in map(read, sorted(folder.glob("*.json")))}
    tasks = [task for task in TASKS if any(task == measured for measured, _ in cells)]
    columns = [*tasks, "mean"]
    lines = [f"| expert episodes | imagined steps | {' | '.join(columns)} |", "|---|---|" + "---:|" * len(columns)]
    for count in sorted({count for _, count in cells}, reverse=True):
        for kind in reversed(KINDS):
            scores = [cells.get((task, count), {}).get(kind, {}).get("scores") for task in tasks]
            mean = f"{np.mean([np.mean(s) for s in scores]):.1f}" if all(scores) else "—"
            lines.append(f"| {count} | {kind} | {' | '.join(map(shown, scores))} | {mean} |")
    for level, name in (("medium", "policy of the logs"), ("expert", "expert")):
        scores = [source_score(task, level) for task in tasks]
        lines.append(f"| {name} | | {' | '.join(f'{s:.1f}' for s in scores)} | {np.mean(scores):.1f} |")
    return "\n".join(lines)


def read(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text())


def shown(scores: list[float] | None) -> str:
    """A cell: mean ± normal 95 % over seeds."""
    if not scores:
        return "—"
    return f"{np.mean(scores):.1f} ± {1.96 * np.std(scores, ddof=1) / np.sqrt(len(scores)):.1f}"


if __name__ == "__main__":
    main()
