"""`ilbrl demo`: the whole protocol on built-in data, in a few minutes."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace
from pathlib import Path

import tyro

from ilbrl.cli.tune import as_text, true_score
from ilbrl.report.verdict import verdict
from ilbrl.results import read_run
from ilbrl.study.run import StudyResult
from ilbrl.study.study import Study
from ilbrl.study.tune import tune

STORY = """The logs: {episodes} episodes of an expert and some of a mediocre policy ({task}). Nothing else is known
to what follows: no environment is touched until a policy is selected. The study is the preset `demo` of `ilbrl tune`.
"""


@dataclass(frozen=True)
class DemoOptions:
    """Imitate an expert from a few of its episodes and the logs of somebody worse, and select a policy offline.

    The environment appears only at the end, to show what came of it. Needs `pip install "ilbrl[benchmark]"`.
    """

    out: Path | None = None
    """Run folder; the same command continues there if it is interrupted. By default runs/demo, or runs/demo-seedN."""
    seed: int = 0
    """Of the study: splits, draws, training."""


def main(words: list[str]) -> int:
    args = tyro.cli(DemoOptions, args=words, prog="ilbrl demo")
    out = args.out or Path("runs/demo" if args.seed == 0 else f"runs/demo-seed{args.seed}")
    study = replace(Study.load("demo"), seed=args.seed)
    print(STORY.format(episodes=study.data.expert_episodes, task=study.task), flush=True)
    result = tune(study, out=out, command="ilbrl demo " + shlex.join(words))
    print(f"\n{as_text(result)}\n{_gap(result)}{_report(result.folder)}")
    return int(verdict(read_run(out)).grade == "bad")


def _gap(result: StudyResult) -> str:
    """How much of the distance between the logs and the expert the selected policy closed."""
    overall, final = result.selection.overall, result.final
    if overall is None or final is None:
        return ""
    score = true_score(result, overall.algorithm or "")
    low, high = (final.references[role].true_score for role in ("logs", "expert"))
    if score is None or low is None or high is None:
        return ""
    gap = (score - low) / (high - low)
    return f"It closes {gap:.0%} of the gap between the mediocre policy in the logs and the expert.\n"


def _report(folder: Path) -> str:
    from ilbrl.report.page import write_page

    return f"The report: {write_page([folder], folder / 'report.html')}"
