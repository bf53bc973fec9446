"""Every algorithm at its default hyper-parameters, with 1, 2, 5 and 18 expert episodes: the table of docs/results.md.

    python -m benchmarks.results_table --out results/table --page docs/results.md           (on a GPU; weeks on a CPU)
    python -m benchmarks.results_table --out results/table --agents ilbrl --logs random expert --expert-episodes 2 18

For each task 420,000 transitions: the expert episodes, filled up with medium ones, or with those of a policy that acts
at random, or of the expert itself. Default hyper-parameters, six seeds, 30 deterministic episodes after the last
update. Each cell of the table is a file under --out; a file that is there is not computed again unless other seeds,
updates, episodes or default hyper-parameters are asked for, so a killed run continues, and several processes can share
the work (--tasks, --agents).
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterable
from dataclasses import asdict, replace
from itertools import product
from pathlib import Path
from typing import Any

import jax
import numpy as np

import ilbrl
from ilbrl.agents import AGENTS
from ilbrl.base.files import written_whole
from ilbrl.base.provenance import commit, versions
from ilbrl.data.benchmark import source_score
from ilbrl.envs import NOT_D4RL, TASKS, normalised_score, rollout_all

ROWS = 420_000
LOGS = {"medium": "medium", "random": "random", "expert": "expert@1"}  # the expert's own, but other episodes
AGENTS_SHOWN = ["ilbrl", "ilbrl-unweighted", "bc", "smodice", "oril"]
EPISODES_SHOWN = [1, 2, 5, 18]
TASKS_SHOWN = ["hopper", "halfcheetah", "walker2d", "ant"]


def measure(task: str, agent: str, expert_episodes: int, logs: str, args: argparse.Namespace) -> dict:
    expert = ilbrl.load(f"{task}/expert:{expert_episodes}ep", quiet=True)
    data = ilbrl.load(f"{task}/{LOGS[logs]}:{args.rows - len(expert)}steps", quiet=True)
    logged = normalised_score(task, data.returns()[data.complete])
    assert logged is not None  # of a task whose scores are shown
    config = _config(agent, args)
    started = time.monotonic()
    learned = ilbrl.fit(agent, expert, data, config=config, seeds=args.seeds, updates=args.updates)
    trained = time.monotonic()
    played = rollout_all(learned.policies, task, args.episodes, seed=12345, workers=args.workers)
    return {
        "task": task, "agent": agent, "expert_episodes": expert_episodes, "logs": logs,
        "logs_score": float(logged.mean()),
        "scores": [r.score for r in played],
        "config": asdict(config), "diverged_at": learned.fitted.diverged_at.tolist(), "updates": args.updates,
        "episodes": args.episodes, "dtype": args.dtype, "training_seconds": trained - started,
        "playing_seconds": time.monotonic() - trained,
        "device": jax.devices()[0].device_kind, "versions": versions(), "commit": commit(),
    }  # fmt: skip


def _config(agent: str, args: argparse.Namespace) -> Any:
    return replace(AGENTS[agent].presets["default"], dtype=args.dtype)


def is_current(path: Path, agent: str, args: argparse.Namespace) -> bool:
    """Whether a cell is there that was computed as it would be now."""
    if not path.exists():
        return False
    cell = json.loads(path.read_text())
    config, plain = (json.loads(json.dumps(asdict(c))) for c in (_config(agent, args), AGENTS[agent].Config()))
    recorded = {**plain, **cell["config"]}  # options that came later were off
    asked = (args.seeds, args.updates, args.episodes, config)
    return (len(cell["scores"]), cell["updates"], cell["episodes"], recorded) == asked


def table(cells: Iterable[dict]) -> str:
    """Markdown: a row per task and number of expert episodes, a column per algorithm, mean ± normal 95 %."""
    found = {(c["task"], c["expert_episodes"], c["agent"]): c for c in cells if c["logs"] == "medium"}
    agents = [agent for agent in AGENTS_SHOWN if any(agent == each for *_, each in found)]
    lines = [
        f"| task | expert episodes | logs | {' | '.join(agents)} | expert |",
        "|---|---|---|" + "---|" * (len(agents) + 1),
    ]
    for task, episodes in _rows((task, episodes) for task, episodes, _ in found):
        shown = [_mean_and_interval(found.get((task, episodes, agent))) for agent in agents]
        ends = [f"{source_score(task, level):.1f}" for level in ("medium", "expert")]
        lines.append(f"| {task} | {episodes} | {ends[0]} | {' | '.join(shown)} | {ends[1]} |")
    return "\n".join([*lines, "", f"*{NOT_D4RL}*", "", *_small_print(list(found.values()))])


def by_logs(cells: Iterable[dict]) -> str:
    """Markdown: ILBRL with logs of other policies, each beside the score of whoever logged; BC sees none of them."""
    found = {(c["task"], c["expert_episodes"], c["logs"], c["agent"]): c for c in cells}
    lines = [
        "| task | expert episodes | BC | " + " | ".join(f"ILBRL, {logs} logs | their policy" for logs in LOGS) + " |",
        "|---" * (3 + 2 * len(LOGS)) + "|",
    ]
    others = ((task, episodes) for task, episodes, logs, _ in found if logs != "medium")
    for task, episodes in _rows(others):
        shown = [_mean_and_interval(found.get((task, episodes, "medium", "bc")))]
        for logs in LOGS:
            cell = found.get((task, episodes, logs, "ilbrl"))
            shown += [_mean_and_interval(cell), "–" if cell is None else f"{_score_of_logs(cell):.1f}"]
        lines.append(f"| {task} | {episodes} | {' | '.join(shown)} |")
    return "\n".join(lines)


def _rows(found: Iterable[tuple[str, int]]) -> list[tuple[str, int]]:
    return sorted(set(found), key=lambda row: (list(TASKS).index(row[0]), row[1]))


def _score_of_logs(cell: dict) -> float:
    """Of the policy behind the logs: by its mean action, as learned policies are played; random ones have none."""
    return cell["logs_score"] if cell["logs"] == "random" else source_score(cell["task"], cell["logs"])


def _mean_and_interval(cell: dict | None) -> str:
    if cell is None:
        return "–"
    scores = np.array(cell["scores"])
    half = 1.96 * scores.std(ddof=1) / np.sqrt(len(scores)) if len(scores) > 1 else np.nan
    diverged = sum(at >= 0 for at in cell["diverged_at"])
    return f"{scores.mean():.1f} ± {half:.1f}" + (f" ({diverged} diverged)" if diverged else "")


def _small_print(cells: list[dict]) -> list[str]:
    if not cells:
        return []
    first, hours = cells[0], sum(c["training_seconds"] + c["playing_seconds"] for c in cells) / 3600
    commits = ", ".join(sorted({str(c["commit"]) for c in cells}))
    return [
        f"{len(first['scores'])} seeds, {first['updates']:,} updates in {first['dtype']}, {first['episodes']} episodes"
        f" each; {first['device']}, commit {commits}; {hours:.1f} process hours."
    ]


def write_between_markers(page: Path, text: str) -> None:
    begin, end = "<!-- table:begin -->", "<!-- table:end -->"
    before, _, rest = page.read_text().partition(begin)
    with written_whole(page) as partial:
        partial.write_text(f"{before}{begin}\n{text}\n{end}{rest.partition(end)[2]}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--page", type=Path, help="write the table between the markers of this page")
    parser.add_argument("--page-only", action="store_true", help="the table of the cells that are there")
    parser.add_argument("--tasks", nargs="*", default=TASKS_SHOWN)
    parser.add_argument("--agents", nargs="*", default=AGENTS_SHOWN)
    parser.add_argument("--logs", nargs="*", choices=list(LOGS), default=["medium"], help="whose logs")
    parser.add_argument("--expert-episodes", type=int, nargs="*", default=EPISODES_SHOWN)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--updates", type=int, default=100_000)
    parser.add_argument("--seeds", type=int, default=6)
    parser.add_argument("--episodes", type=int, default=30)
    parser.add_argument("--dtype", default="bfloat16")
    parser.add_argument("--workers", type=int, default=None)
    args = parser.parse_args()
    for task, logs, agent, episodes in product(args.tasks, args.logs, args.agents, args.expert_episodes):
        path = args.out / f"{task}-{agent}-{episodes}{'' if logs == 'medium' else f'-{logs}'}.json"
        if not args.page_only and not is_current(path, agent, args):
            cell = measure(task, agent, episodes, logs, args)
            with written_whole(path) as partial:
                partial.write_text(json.dumps(cell, indent=1))
            print(f"{path.stem}: {_mean_and_interval(cell)}, {cell['training_seconds']:.0f} s", flush=True)
    cells = [json.loads(path.read_text()) for path in sorted(args.out.glob("*.json"))]
    text = table(c for c in cells if c["expert_episodes"] in args.expert_episodes)
    print(text, by_logs(cells), sep="\n\n")
    if args.page is not None:
        write_between_markers(args.page, text)


if __name__ == "__main__":
    main()
