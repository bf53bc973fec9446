"""Does the demo choose right? `ilbrl demo` with several study seeds, each in a folder of its own.

    python -m benchmarks.demo_seeds [--task clinic] [--seeds 350 …] [--runs runs/demo-seeds] [--out docs/results/demo]

TASK.json has a record for each seed: what was selected from logs alone, offline values and true scores (of the files
that would be deployed, of the policies behind the logs), seconds. The table of docs/protocol.md is printed. A study
that is finished already in its folder is read, not run again.
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime
from pathlib import Path
from typing import Any

from ilbrl.base.provenance import commit, versions
from ilbrl.base.records import write_json
from ilbrl.cli.demo import PRESETS
from ilbrl.report.deployed import file_played
from ilbrl.report.pictures import display
from ilbrl.report.scoreboard import reference_score
from ilbrl.report.text import number
from ilbrl.results import read_run
from ilbrl.study.final import FINAL


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", choices=list(PRESETS), default="clinic")
    parser.add_argument("--seeds", type=int, nargs="+", default=list(range(350, 360)))
    parser.add_argument("--runs", type=Path, default=Path("runs/demo-seeds"))
    parser.add_argument("--out", type=Path, default=Path("docs/results/demo"))
    args = parser.parse_args()
    records = []
    for seed in args.seeds:
        folder = args.runs / f"{args.task}-{seed}"
        options = ["--task", args.task, "--seed", str(seed), "--out", str(folder)]
        subprocess.run([sys.executable, "-m", "ilbrl", "demo", *options], check=True)
        records.append(record(seed, folder))
        print("\n".join(table(records)), flush=True)
    right = sum(beats(each["scores"], each["selected"]) for each in records)
    print(f"In {right} of {len(records)} studies the selected policy beats the logs' policy and cloning.")
    args.out.mkdir(parents=True, exist_ok=True)
    found = {
        "date": date.today().isoformat(),
        "commit": commit(),
        "versions": versions(),
        "machine": f"{platform.machine()}, {len(os.sched_getaffinity(0))} cores",
        "better_than_logs_and_cloning": right,
        "studies": records,
    }
    write_json(args.out / f"{args.task}.json", found)


def record(seed: int, folder: Path) -> dict[str, Any]:
    """What a study chose, and what came of it."""
    run = read_run(folder)
    overall, evaluator, audit = run.selection.overall, run.tuning.chosen_evaluator, run.audit
    played = {name: file_played(run, name) for name in run.selection.algorithms}
    scores = {name: found.mean.value for name, found in played.items() if found is not None}
    offline = {name: chosen.to_deploy.value for name, chosen in run.selection.algorithms.items()}
    chosen_file = run.selection.algorithms[overall.algorithm].file if overall else None
    known = {name: each.estimate for name, each in evaluator.policies.items()} if evaluator else {}
    played_at = next((event.time for event in audit.events if event.what == FINAL), None)  # asked again, it stays
    started, finished = (datetime.fromisoformat(text) if text else None for text in (audit.started, played_at))
    return {
        "seed": seed,
        "selected": overall.algorithm if overall else None,
        "configuration": overall.configuration if overall else None,
        "scores": scores | {role: reference_score(run, role) for role in ("logs", "expert")},
        "offline": offline | known,
        "trust": run.tuning.trust.verdict if run.tuning.trust else None,
        "deployed": chosen_file,
        "commit": audit.commit,
        "seconds": (finished - started).total_seconds() if started and finished else None,
    }


def table(studies: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """The rows of docs/protocol.md."""
    yield "| study seed | selected | offline: ILBRL | BC | played: ILBRL | BC | minutes |"
    yield "|---|---|---:|---:|---:|---:|---:|"
    for study in studies:
        offline = [number(study["offline"][name]) for name in ("ilbrl", "bc")]
        scores = [f"{study['scores'][name]:.1f}" for name in ("ilbrl", "bc")]
        cells = [str(study["seed"]), display(study["selected"]), *offline, *scores, f"{study['seconds'] / 60:.1f}"]
        yield f"| {' | '.join(cells)} |"


def beats(scores: dict[str, float | None], selected: str | None) -> bool:
    """Better than behaviour cloning, and than the policy that made the logs."""
    beaten = [scores.get(name) for name in ("bc", "logs")]
    ours = scores.get(selected or "")
    return selected != "bc" and ours is not None and all(other is not None and ours > other for other in beaten)


if __name__ == "__main__":
    main()
