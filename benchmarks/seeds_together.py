"""What the seeds of one configuration are worth together: a committee of them beside each alone, in finished studies.

    python -m benchmarks.seeds_together runs/hopper-18 runs/ant-18 --out docs/results/together.json      (minutes)
    python -m benchmarks.seeds_together --table docs/results/together.json                      (the table in docs)
    python -m benchmarks.seeds_together --highest docs/results/locomotion/*-18                   (can values tell?)

The policy seeds of every configuration answer as one committee (docs/committees.md), which is played as the revealed
candidates were: `ilbrl tune --reveal` comes first. A committee is compared with the mean of its members, and with the
member that has the highest offline value. `--highest` asks of revealed studies whether that member is better than
the others.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ilbrl.base.files import written_whole
from ilbrl.base.provenance import commit
from ilbrl.envs import rollout_all
from ilbrl.policy import Policy, committee_of
from ilbrl.report.pictures import display
from ilbrl.results.folder import Run, read_run
from ilbrl.results.tables import Candidate

PLAY_SEED = 7272


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="*", type=Path)
    parser.add_argument("--episodes", type=int, default=30)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--table", type=Path, help="print the table of a file")
    parser.add_argument("--highest", action="store_true", help="print one line about the seeds with the highest value")
    args = parser.parse_args()
    if args.table:
        print("\n".join(lines_of(json.loads(args.table.read_text())["studies"])))
        return
    if args.highest:
        print(highest_line(args.runs))
        return
    if args.out is None:
        parser.error("--out is missing")
    studies = {run.name: measure(run, args.episodes) for run in args.runs}
    with written_whole(args.out) as partial:
        partial.write_text(json.dumps({"studies": studies, "episodes": args.episodes, "commit": commit()}, indent=1))
    print("\n".join(lines_of(studies)))


def measure(folder: Path, episodes: int) -> list[dict[str, Any]]:
    """An entry per algorithm and configuration: scores of the members, of the highest valued one, of all together."""
    run = read_run(folder)
    groups = _played(run)
    committees = [committee_of([Policy.load(_file(folder, c)) for c in members]) for members in groups.values()]
    played = rollout_all(committees, run.task, episodes, PLAY_SEED, quiet=True)
    return [
        {
            "algorithm": algorithm,
            "configuration": number,
            "members": [c.true_score for c in members],
            "highest_value": max(members, key=_value).true_score,
            "together": together.score,
            "selected": any(c.selected for c in members),
        }
        for ((algorithm, number), members), together in zip(groups.items(), played)
    ]


def _played(run: Run) -> dict[tuple[str, int], list[Candidate]]:
    """(algorithm, configuration) → its seeds, where several were played."""
    groups: dict[tuple[str, int], list[Candidate]] = {}
    for c in run.candidates:
        if not c.diverged and c.true_score is not None:
            groups.setdefault((c.algorithm, c.configuration), []).append(c)
    return {key: members for key, members in groups.items() if len(members) > 1}


def highest_line(folders: Sequence[Path]) -> str:
    """How much better the seed with the highest value is than the mean of its configuration: of ILBRL and its ablation,
    and of all algorithms. ± 1.96 standard errors, as if configurations of one task were independent."""
    gaps: dict[str, list[float]] = {}
    for folder in folders:
        for (algorithm, _), members in _played(read_run(folder)).items():
            scores = [c.true_score for c in members if c.true_score is not None]
            gap = (max(members, key=_value).true_score or 0.0) - float(np.mean(scores))
            gaps.setdefault(algorithm, []).append(gap)
    ours = [*gaps.get("ilbrl", []), *gaps.get("ilbrl-unweighted", [])]
    every = [gap for own in gaps.values() for gap in own]
    shown = [
        f"{np.mean(own):+.1f} ± {1.96 * np.std(own, ddof=1) / len(own) ** 0.5:.1f} ({len(own)})"
        for own in (ours, every)
    ]
    return " | ".join(shown)


def _value(c: Candidate) -> float:
    return -np.inf if c.offline_value is None else c.offline_value


def _file(folder: Path, c: Candidate) -> Path:
    name = f"configuration{c.configuration}-seed{c.policy_seed}.safetensors"
    (found,) = (path for path in folder.glob(f"jobs/train-*/{name}") if _algorithm(path.parent) == c.algorithm)
    return found


def _algorithm(job: Path) -> str:
    return json.loads((job / "result.json").read_text())["algorithm"]


def lines_of(studies: Mapping[str, Sequence[dict[str, Any]]]) -> list[str]:
    """Means over the configurations of each algorithm, and how often all together are better."""
    lines = [
        "| study | algorithm | configurations | a member | highest value | together | together above the mean |",
        "|---|---|---:|---:|---:|---:|---:|",
    ]
    for study, entries in studies.items():
        for algorithm in dict.fromkeys(entry["algorithm"] for entry in entries):
            own = [entry for entry in entries if entry["algorithm"] == algorithm]
            means = [float(np.mean(entry["members"])) for entry in own]
            better = sum(entry["together"] > mean for entry, mean in zip(own, means))
            cells = [
                np.mean(means),
                *(np.mean([entry[name] for entry in own]) for name in ("highest_value", "together")),
            ]
            shown = " | ".join(f"{cell:.1f}" for cell in cells)
            lines.append(f"| {study} | {display(algorithm)} | {len(own)} | {shown} | {better} of {len(own)} |")
    return lines


if __name__ == "__main__":
    main()
