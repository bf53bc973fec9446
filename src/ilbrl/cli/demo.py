"""`ilbrl demo`: the whole protocol on built-in data, in a minute or two."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import tyro

from ilbrl.cli.tune import as_text
from ilbrl.report.verdict import verdict
from ilbrl.results import read_run
from ilbrl.study.study import Study
from ilbrl.study.tune import tune

PRESETS = {"clinic": "demo", "hopper": "demo-hopper"}
DATA = {
    "clinic": "the records of three patients of an expert, and thousands of a mediocre clinic (all made up)",
    "hopper": "two episodes of an expert, and many of a policy that is not as fast (a robot that hops)",
}
NEXT = "With logs of your own: ilbrl tune --expert demos.csv --logs logs.csv --out runs/mine"
STORY = """Policies learn from {data}.
ILBRL learns from both, BC from the expert alone, by cloning. One of them is selected from logs alone, by small models
of the task that learn from these and further logs: no environment is touched before. The study is the preset `{preset}`
of `ilbrl tune`.
"""


@dataclass(frozen=True)
class DemoOptions:
    """Imitate an expert from a few of its episodes and the logs of somebody worse, and select a policy offline.

    The environment appears only at the end, to show what came of it. `--task hopper` needs
    `pip install "ilbrl[benchmark]"`.
    """

    out: Path | None = None
    """Run folder; the same command continues there if it is interrupted. By default runs/demo-TASK, and with a seed
    runs/demo-TASK-seedN."""
    task: Literal["clinic", "hopper"] = "clinic"
    """Treatments in a made-up clinic (a minute or two), or a robot that hops (three minutes; right in eight of ten
    studies)."""
    seed: int = 0
    """Of the study: splits, draws, training."""


def main(words: list[str]) -> int:
    from ilbrl.report.page import write_page

    args = tyro.cli(DemoOptions, args=words, prog="ilbrl demo")
    preset = PRESETS[args.task]
    out = args.out or Path("runs") / f"demo-{args.task}{f'-seed{args.seed}' if args.seed else ''}"
    study = replace(Study.load(preset), seed=args.seed)
    print(STORY.format(data=DATA[args.task], preset=preset), flush=True)
    result = tune(study, out=out, command="ilbrl demo " + shlex.join(words))
    page, found = write_page([out], out / "report.html"), verdict(read_run(out))
    ending = [*found.in_short, f"The verdict: {found.call}.", f"The report: {page}", NEXT]
    print("\n".join(["", as_text(result), "", *ending]))
    return 0  # it ran to its end; a bad verdict is part of what it shows
