"""How well offline values choose: many configurations that nobody has looked at, valued from logs, then played.

    python -m benchmarks.offline_choice hopper --expert-episodes 2 18 --out results/choice        (minutes on a GPU)
    python -m benchmarks.offline_choice hopper --out results/choice --kinds "expert logs"         (another estimate)
    python -m benchmarks.offline_choice hopper --out try --small                                  (a try on a CPU)
    python -m benchmarks.offline_choice --table results/choice                                    (the table in docs)
    python -m benchmarks.offline_choice --table results/choice --figure docs/figures/choice.png   (and the picture)

For each task and number of expert episodes: configurations of ILBRL and BC are drawn from their default ranges, trained
with several seeds, and valued by each estimator. A process of its own plays them; nothing else reads what it writes but
the table. Kinds of estimates differ in what they see:

    demonstrations  the expert episodes that were trained on and those logs, and nothing else
    no rewards      the same, every reward withheld: closeness to the expert is valued
    expert logs     200,000 further steps of the expert and the logs that were trained on
    sarsa           the same, for Expected SARSA at its default settings instead of rollouts in models

Several tasks side by side on one GPU need XLA_PYTHON_CLIENT_PREALLOCATE=false and NVIDIA's MPS. Every step leaves a
file, and the same command continues after the last one.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import ilbrl
from ilbrl import ope
from ilbrl.base.files import written_whole
from ilbrl.base.provenance import commit, versions

EXPERT, LOGS = "{task}/expert@11:220000steps", "{task}/medium@11:400000steps"  # of a seed that nothing had used
TINY_EXPERT, TINY_LOGS = "{task}/expert:30000steps", "{task}/medium:20000steps"
SPLIT_SEED = 2027  # which expert episodes are trained on
SEARCH_SEED = 21
SEEDS = (301, 302, 303)
CONFIGURATIONS = {"ilbrl": 20, "bc": 4}
EPISODES, PLAY_SEED = 30, 902
KINDS = ("demonstrations", "no rewards", "expert logs", "sarsa")
OTHER_PENALTIES = (0.0, 0.3, 1.0)  # beside the default; the same rollouts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tasks", nargs="*")
    parser.add_argument("--expert-episodes", type=int, nargs="+", default=[2, 18])
    parser.add_argument("--updates", type=int, default=70_000)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--small", action="store_true", help="tiny sizes, to try the command")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS, help="of estimates, in this order")
    parser.add_argument("--play", type=Path, help="play the candidates of this cell, and do no more")
    parser.add_argument("--play-later", action="store_true", help="leave playing to --play")
    parser.add_argument("--table", type=Path, help="print the table of a folder")
    parser.add_argument("--figure", type=Path, help="draw the folder of --table")
    args = parser.parse_args()
    if args.table:
        print(table(args.table))
        if args.figure:
            draw(args.table, args.figure)
    elif args.play:
        play(args.play, args.tasks[0], 2 if args.small else EPISODES)
    else:
        for task in args.tasks:
            run(task, args)


def run(task: str, args: argparse.Namespace) -> None:
    started = time.monotonic()

    def say(*words: Any) -> None:
        print(f"[{task} {time.monotonic() - started:6.1f}]", *words, flush=True)

    names = (TINY_EXPERT, TINY_LOGS) if args.small else (EXPERT, LOGS)
    expert, logs = (ilbrl.load(name.format(task=task), quiet=True) for name in names)
    say("logs are here")
    order = np.random.default_rng(SPLIT_SEED).permutation(np.flatnonzero(expert.complete))
    cells = {count: args.out / f"{task}-{count}" for count in args.expert_episodes}
    playing = []
    for count, cell in cells.items():
        cell.mkdir(parents=True, exist_ok=True)
        if not (cell / "candidates.json").exists():
            train(cell, expert.episodes(np.sort(order[:count])), logs, args)
            say(count, "trained")
        if not args.play_later and not (cell / "truth.json").exists():
            playing.append(_start_playing(task, cell, args.small))
    unseen = expert.episodes(np.sort(order[max(cells) :]))
    for kind in args.kinds:
        for count, cell in cells.items():
            demonstrations = expert.episodes(np.sort(order[:count]))
            value(cell, kind, demonstrations, unseen, logs, args, args.out / f".models-{task}")
            say(count, kind, "valued")
    for process in playing:
        process.wait()


def _start_playing(task: str, cell: Path, small: bool) -> subprocess.Popen[bytes]:
    """The truth, in a process of its own: nothing here waits for it or looks at it."""
    words = [sys.executable, "-m", "benchmarks.offline_choice", task, "--play", str(cell), *["--small"] * small]
    return subprocess.Popen(["nice", "-n", "10", *words], env={**os.environ, "JAX_PLATFORMS": "cpu"})


def train(cell: Path, expert: ilbrl.Dataset, logs: ilbrl.Dataset, args: argparse.Namespace) -> None:
    from ilbrl.study.search import draw, grouped
    from ilbrl.study.study import Search

    hidden, dtype = ("[32, 32]", "float32") if args.small else ("[256, 256]", "bfloat16")
    found = []
    for algorithm, count in CONFIGURATIONS.items():
        search = Search((algorithm,), 2 if args.small else count, ranges={"all.hidden": hidden, "all.dtype": dtype})
        for group in grouped(draw(search, algorithm, SEARCH_SEED), len(SEEDS), 60):
            learned = ilbrl.fit(
                algorithm, expert, logs, config=[c.config for c in group], seeds=SEEDS,
                updates=200 if args.small else args.updates, quiet=True,
            )  # fmt: skip
            members = [(c, seed) for c in group for seed in SEEDS]
            for policy, (c, seed), diverged in zip(learned.policies, members, learned.diverged):
                file = f"{algorithm}-{c.number}-{seed}.safetensors"
                policy.save(cell / file)
                found.append(
                    {"algorithm": algorithm, "configuration": c.number, "seed": seed, "policy": file,
                     "diverged": bool(diverged), "hyperparameters": c.hyperparameters}
                )  # fmt: skip
    _write(cell / "candidates.json", {"candidates": found, "commit": commit(), "versions": versions()})


def value(
    cell: Path,
    kind: str,
    demonstrations: ilbrl.Dataset,
    unseen: ilbrl.Dataset,
    logs: ilbrl.Dataset,
    args: argparse.Namespace,
    workplace: Path,
) -> None:
    """values-KIND.json: what each candidate is worth, and what that cost."""
    from ilbrl.data.benchmark import source_policy

    path = _values_file(cell, kind)
    if path.exists():
        return
    candidates = _read(cell / "candidates.json")["candidates"]
    if kind == "no rewards":
        demonstrations, logs = (replace(data, rewards=None) for data in (demonstrations, logs))
    policies: dict[str, Any] = {c["policy"]: ilbrl.Policy.load(cell / c["policy"]) for c in candidates}
    task = cell.name.rsplit("-", 1)[0]
    if kind != "sarsa":
        policies |= {f"ladder/{level}": source_policy(task, level) for level in LADDER}
    evidence = ope.Evidence.of(
        {"expert": unseen if kind in ("expert logs", "sarsa") else demonstrations, "logs": logs},
        initial_observations=logs.initial_observations,
        demonstrations=demonstrations,
    )
    started = time.monotonic()
    estimator = ope.ESTIMATORS["expected_sarsa" if kind == "sarsa" else "models"]
    config = estimator.changed(_tiny(kind) if args.small else {"dtype": "bfloat16"})
    others = [] if kind == "sarsa" else [replace(config, penalty=c) for c in OTHER_PENALTIES]
    found, *rest = estimator.estimate(policies, evidence, [config, *others], [0], workplace=workplace, quiet=True)
    _write(
        path,
        {
            "kind": kind,
            "quantity": str(found.quantity),
            "config": repr(config),
            "seconds": time.monotonic() - started,
            "seconds_of_rollouts": found.seconds,
            "values": {
                name: {"value": _number(e.value), "std_error": _number(e.std_error), "verdict": e.verdict,
                       "distance": _number(e.distance), "length": _number(e.length)}
                for name, e in found.policies.items()
            },
            "other_penalties": {
                str(c): {name: _number(e.value) for name, e in other.policies.items()}
                for c, other in zip(OTHER_PENALTIES, rest)
            },
        },
    )  # fmt: skip


def _tiny(kind: str) -> dict[str, Any]:
    """Settings to try the command with."""
    learned = {"updates": 200, "hidden": (16,), "dtype": "float32"}
    return learned if kind == "sarsa" else learned | {"size": "small", "horizon": 20, "members": 2}


def play(cell: Path, task: str, episodes: int) -> None:
    """truth.json: mean score, return and length of every candidate."""
    from ilbrl import envs

    candidates = _read(cell / "candidates.json")["candidates"]
    policies = [ilbrl.Policy.load(cell / c["policy"]) for c in candidates]
    played = envs.rollout_all(policies, task, episodes, PLAY_SEED, quiet=True)
    scores = {}
    for c, r in zip(candidates, played):
        score = r.score
        scores[c["policy"]] = {"score": score, "return": float(r.returns.mean()), "length": float(r.lengths.mean())}
    _write(cell / "truth.json", {"episodes": episodes, "scores": scores})


# --- what came of it --------------------------------------------------------------------------------------------------

TASKS = ("hopper", "halfcheetah", "walker2d", "ant")
LADDER = ("rung1", "rung2", "medium", "rung3", "expert")


class How(NamedTuple):
    """What a policy is worth, for one kind of choice."""

    kind: str  # of estimates
    field: str = "value"
    sign: float = 1.0
    penalty: float | None = None  # another than the default

    def worths(self, cell: Path) -> dict[str, float] | None:
        """Policy → what it is worth, −∞ where it has no value; None: no such values were computed."""
        path = _values_file(cell, self.kind)
        if not path.exists():
            return None
        found = _read(path)
        if self.penalty is None:
            values = {name: each[self.field] for name, each in found["values"].items()}
        elif (values := found.get("other_penalties", {}).get(str(self.penalty))) is None:
            return None
        return {name: -np.inf if value is None else self.sign * value for name, value in values.items()}


HOW = {
    "demonstrations": How("demonstrations"),
    "no rewards": How("no rewards"),
    "expert logs": How("expert logs"),
    **{f"demonstrations, penalty {c:g}": How("demonstrations", penalty=c) for c in OTHER_PENALTIES},
    "Expected SARSA": How("sarsa"),
    "nearest to the logs": How("demonstrations", "distance", sign=-1.0),
}


class Judged(NamedTuple):
    """What choosing by one kind of value came to in one cell."""

    spearman: float  # over ILBRL's configurations
    chosen: float  # true score of ILBRL's chosen configuration
    overall: tuple[str, float]  # algorithm and true score of the best value of all algorithms
    ladder: float | None  # rank correlation on the five known policies


def table(folder: Path) -> str:
    """How well each kind of value chooses, and what there was to choose from; as in docs/results.md."""
    cells = _played(folder)
    return "\n".join([*_choice_table(cells), "", *_scores_table(cells)])


def _played(folder: Path) -> list[Path]:
    cells = [folder / f"{task}-{count}" for count in (18, 2) for task in TASKS]
    return [cell for cell in cells if (cell / "truth.json").exists()]


def draw(folder: Path, path: Path) -> None:
    """Predicted against true return of an episode, a panel per cell; on the dashed line they agree."""
    from ilbrl.report.pictures import STYLES, Picture, Series, paper

    panels = []
    for cell in _played(folder):
        values, truth = _read(cell / "values-demonstrations.json")["values"], _read(cell / "truth.json")["scores"]
        series = []
        for algorithm, style in zip(CONFIGURATIONS, STYLES):
            groups = by_configuration(_read(cell / "candidates.json")["candidates"])
            own = [names for key, names in groups.items() if key[0] == algorithm]
            true = np.array([np.mean([truth[name]["return"] for name in names]) for names in own])
            predicted = np.array([np.mean([values[name]["value"] for name in names]) for names in own])
            series.append(Series(algorithm, style, true, predicted, "points"))
        title = f"{_title(cell)} expert episodes"
        panels.append(Picture(cell.name, title, "", "true return", "predicted", tuple(series), identity=True))
    paper.save_as(path, *panels)


def _choice_table(cells: Sequence[Path]) -> list[str]:
    lines = [
        "| chosen by | " + " | ".join(_title(cell) for cell in cells) + " | mean |",
        "|---" * (len(cells) + 2) + "|",
    ]
    for how in HOW:
        found = [judge(cell, how) for cell in cells]
        if not any(found):
            continue
        shown = ["—" if j is None else f"{j.chosen:.1f} ({j.spearman:.2f})" for j in found]
        whole = [j for j in found if j is not None]
        mean = f"{np.mean([j.chosen for j in whole]):.1f} ({np.mean([j.spearman for j in whole]):.2f})"
        lines.append(f"| {how} | " + " | ".join(shown) + f" | {mean if len(whole) == len(cells) else '—'} |")
    for name, number in (("at random", np.mean), ("best there was", np.max)):
        scores = [float(number(list(true_scores(cell, "ilbrl").values()))) for cell in cells]
        lines.append(f"| {name} | " + " | ".join(f"{s:.1f}" for s in scores) + f" | {np.mean(scores):.1f} |")
    return lines


def _scores_table(cells: Sequence[Path]) -> list[str]:
    lines = ["| | " + " | ".join(_title(cell) for cell in cells) + " |", "|---" * (len(cells) + 1) + "|"]
    for algorithm in CONFIGURATIONS:
        scores = [list(true_scores(cell, algorithm).values()) for cell in cells]
        lines.append(f"| {algorithm}, best configuration | " + " | ".join(f"{max(s):.1f}" for s in scores) + " |")
        lines.append(f"| {algorithm}, median | " + " | ".join(f"{np.median(s):.1f}" for s in scores) + " |")
    return lines


def judge(cell: Path, how: str) -> Judged | None:
    """None: no such values were computed."""
    worth = HOW[how].worths(cell)
    if worth is None:
        return None
    groups = by_configuration(_read(cell / "candidates.json")["candidates"])
    offline = {key: float(np.mean([worth[name] for name in names])) for key, names in groups.items()}
    truth = {key: score for algorithm in CONFIGURATIONS for key, score in true_scores(cell, algorithm).items()}
    own = [key for key in offline if key[0] == "ilbrl"]
    rungs = [worth[f"ladder/{level}"] for level in LADDER if f"ladder/{level}" in worth]
    best = max(offline, key=offline.__getitem__)
    return Judged(
        spearman=ope.spearman(np.array([offline[k] for k in own]), np.array([truth[k] for k in own])),
        chosen=truth[max(own, key=offline.__getitem__)],
        overall=(best[0], truth[best]),
        ladder=ope.spearman(np.array(rungs), np.arange(5.0)) if len(rungs) == len(LADDER) else None,
    )


def true_scores(cell: Path, algorithm: str) -> dict[tuple[str, int], float]:
    """Configuration → mean true score over its seeds."""
    scores = _read(cell / "truth.json")["scores"]
    groups = by_configuration(_read(cell / "candidates.json")["candidates"])
    return {k: float(np.mean([scores[p]["score"] for p in names])) for k, names in groups.items() if k[0] == algorithm}


def _title(cell: Path) -> str:
    return " ".join(cell.name.rsplit("-", 1))


def by_configuration(candidates: Sequence[Mapping[str, Any]]) -> dict[tuple[str, int], list[str]]:
    found: dict[tuple[str, int], list[str]] = {}
    for c in candidates:
        found.setdefault((c["algorithm"], c["configuration"]), []).append(c["policy"])
    return found


def _values_file(cell: Path, kind: str) -> Path:
    return cell / f"values-{kind.replace(' ', '-')}.json"


def _number(x: float) -> float | None:
    return float(x) if np.isfinite(x) else None


def _write(path: Path, record: Any) -> None:
    with written_whole(path) as partial:
        partial.write_text(json.dumps(record, indent=1))


def _read(path: Path) -> Any:
    return json.loads(path.read_text())


if __name__ == "__main__":
    main()
