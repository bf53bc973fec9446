"""The whole report for papers and machines: Markdown, LaTeX, CSV and JSON."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import numpy as np

from ilbrl.report.selection import selection_regret
from ilbrl.report.summary import Summary, comparison_sentence, why_no_scores
from ilbrl.report.tables import Cell, score_table, small_print


def markdown(summary: Summary) -> str:
    parts = ["# ilbrl report"]
    if len(summary.runs) > 1:
        parts.append(comparison_sentence(summary))
    for run, each in zip(summary.runs, summary.verdicts):
        parts += [f"## {run.name} ({run.task}): {each.headline}", each.which, each.how_good, each.trust]
        parts.append("\n".join(f"- {change}" for change in each.what_would_change))
        if run.missing:
            parts.append("**Missing:**\n\n" + "\n".join(f"- {what}" for what in run.missing))
    table = score_table(summary)
    if table is not None:
        rows = ["| " + " | ".join(_markdown(cell) for cell in row) + " |" for row in table.rows]
        lines = ["| " + " | ".join(table.columns) + " |", "|---" + "|---:" * (len(table.columns) - 1) + "|", *rows]
        parts += ["## True scores", "\n".join(lines), table.caption]
    parts += ["## Small print", "\n".join(f"- {each}" for each in small_print(summary))]
    return "\n\n".join(parts) + "\n"


def _markdown(cell: Cell) -> str:
    text = cell.text.replace("|", "\\|")
    return f"**{text}**" if cell.bold else text


_TEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "±": r"$\pm$", "–": "--", "·": r"$\cdot$", "⌊": r"$\lfloor$",
    "⌋": r"$\rfloor$", "√": r"$\surd$",
}  # fmt: skip


def tex(text: str) -> str:
    """Text that LaTeX sets as it is written; letters that pdfLaTeX's fonts lack become question marks."""
    escaped = "".join(_TEX.get(letter, letter) for letter in text)
    return escaped.encode("latin-1", "replace").decode("latin-1")


def latex(summary: Summary) -> str:
    """The score table as a float for a paper; it needs \\usepackage{booktabs}."""
    table = score_table(summary)
    if table is None:
        return f"% {why_no_scores(summary)}\n"
    rows = [" & ".join(map(_tex_cell, row)) + r" \\" for row in table.rows]
    if table.algorithms < len(rows):
        rows.insert(table.algorithms, r"\midrule")
    lines = [
        r"% needs \usepackage{booktabs}", r"\begin{table}", r"\centering",
        rf"\begin{{tabular}}{{l{'r' * (len(table.columns) - 1)}}}", r"\toprule",
        " & ".join(map(tex, table.columns)) + r" \\", r"\midrule", *rows, r"\bottomrule", r"\end{tabular}",
        rf"\caption{{{tex(table.caption)}}}", r"\end{table}",
    ]  # fmt: skip
    return "\n".join(lines) + "\n"


def _tex_cell(cell: Cell) -> str:
    return rf"\textbf{{{tex(cell.text)}}}" if cell.bold else tex(cell.text)


COLUMNS = (
    "algorithm", "configuration", "policy_seed", "offline_value", "offline_std_error", "unsettled_value", "verdict",
    "distance", "diverged", "selected", "true_return", "true_score", "true_episodes", "updates", "seconds",
    "hyperparameters",
)  # fmt: skip
"""Of a candidate, in the CSV."""


def comma_separated(summary: Summary) -> str:
    """One row per trained policy of every run; hyper-parameters as a JSON object."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(["run", "task", *COLUMNS])
    for run in summary.runs:
        for each in run.candidates:
            cells = {name: getattr(each, name) for name in COLUMNS}
            cells |= {name: int(cells[name]) for name in ("diverged", "selected")}
            cells["hyperparameters"] = json.dumps(each.hyperparameters)
            writer.writerow([run.name, run.task, *cells.values()])
    return buffer.getvalue()


def machine_readable(summary: Summary) -> str:
    """One JSON object; numbers that do not exist are null."""
    board = summary.board
    found = {
        "runs": [
            {
                "run": run.name, "path": str(run.path), "task": run.task,
                "verdict": asdict(each) | {"score": each.score and each.score._asdict()},
                "selected": None if run.selection.overall is None else asdict(run.selection.overall),
                "trust": None if run.tuning.trust is None else asdict(run.tuning.trust),
                "regret_of_selection": {name: r.regret for name, r in selection_regret(run).items()},
                "missing": run.missing,
            }
            for run, each in zip(summary.runs, summary.verdicts)
        ],
        "unit": None if board is None else board.unit,
        "scores": {} if board is None else _lists(board.scores),
        "references": {} if board is None else board.references,
        "aggregates": {
            name: {kind: _interval(each) for kind, each in found.items()} for name, found in summary.aggregates.items()
        },
        "difference_to_best": {name: _interval(each) for name, each in summary.to_best.items()},
        "small_print": small_print(summary),
    }  # fmt: skip
    return json.dumps(without_nan(found), indent=1) + "\n"


def _lists(scores: dict[str, dict[str, np.ndarray]]) -> dict[str, dict[str, list[float]]]:
    return {name: {task: runs.tolist() for task, runs in by_task.items()} for name, by_task in scores.items()}


def _interval(found: Any) -> dict[str, float]:
    return {"point": float(found.point), "low": float(found.low), "high": float(found.high)}


def without_nan(value: Any) -> Any:
    """JSON has no word for NaN: null."""
    if isinstance(value, dict):
        return {key: without_nan(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [without_nan(each) for each in value]
    return None if isinstance(value, float) and not np.isfinite(value) else value


FORMATS: dict[str, Callable[[Summary], str]] = {
    "md": markdown,
    "latex": latex,
    "csv": comma_separated,
    "json": machine_readable,
}
