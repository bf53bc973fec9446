"""`ilbrl report`: one page about one study or several, or its tables for papers and machines."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import tyro

from ilbrl.base.files import written_whole
from ilbrl.report.formats import FORMATS
from ilbrl.report.page import render
from ilbrl.report.pictures import Picture, paper
from ilbrl.report.pictures.runs import of_run
from ilbrl.report.pictures.scores import of_scores
from ilbrl.report.summary import Summary, summarise
from ilbrl.report.text import terminal


@dataclass(frozen=True)
class ReportOptions:
    """Report on run folders that `ilbrl tune` wrote. Several runs are compared.

    ilbrl report runs/hopper                                     writes report.html: verdict first, everything inside

    ilbrl report runs/hopper runs/ant --out four.html --figures figures/

    ilbrl report runs/* --format latex > table.tex

    Exit code 1 if some run has no policy to deploy, or none to rely on.
    """

    runs: Annotated[tuple[Path, ...], tyro.conf.Positional]
    """Run folders, whole or unfinished: the report says what is missing."""
    out: Path | None = None
    """The file to write. Default: report.html; the other formats are printed."""
    format: Literal["html", "md", "json", "latex", "csv"] = "html"
    """html is the page; latex is the table of scores; csv has one row per trained policy."""
    figures: Path | None = None
    """Also draw every picture into this folder, each as PNG, SVG and PDF."""


def main(words: list[str]) -> int:
    args = tyro.cli(ReportOptions, args=words, prog="ilbrl report")
    summary = summarise(args.runs)
    text = render(summary) if args.format == "html" else FORMATS[args.format](summary)
    out = Path("report.html") if args.out is None and args.format == "html" else args.out
    if out is None:
        print(text, end="")
    else:
        with written_whole(out) as path:
            path.write_text(text, encoding="utf-8", errors="replace")
    if args.figures is not None:
        paper.save(_named(summary), args.figures)
    if out is not None:
        _tell(summary, out, args.figures)
    return int(summary.bad_news)


def _named(summary: Summary) -> list[tuple[str, Picture]]:
    """Every picture and its name; a run's own name stands before its pictures where there are several runs."""
    rng = np.random.default_rng(0)
    scores = of_scores(summary.board, summary.aggregates, rng) if summary.board else {}
    named = list(scores.items())
    for run in summary.runs:
        before = f"{run.name}-" if len(summary.runs) > 1 else ""
        named += [(before + name, picture) for name, picture in of_run(run).items()]
    return named


def _tell(summary: Summary, out: Path, drawn: Path | None) -> None:
    for run, verdict in zip(summary.runs, summary.verdicts):
        print(terminal(f"{run.title}: {verdict.call}. {' '.join(verdict.how_good)}"))
        for what in run.missing:
            print(terminal(f"  missing: {what}"))
    print(f"written  {out}" + (f", pictures in {drawn}" if drawn else ""))
