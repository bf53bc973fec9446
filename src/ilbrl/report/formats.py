"""The whole report for papers and machines: Markdown, LaTeX, CSV and JSON, and the table of scores inside them."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from ilbrl.base.records import to_plain
from ilbrl.envs import NOT_D4RL, score_notes
from ilbrl.report import text
from ilbrl.report.pictures import display
from ilbrl.report.scoreboard import Scoreboard, selection_regret
from ilbrl.report.statistics import Mean, indistinguishable
from ilbrl.report.summary import Summary, comparison_sentence, small_print, why_no_scores
from ilbrl.report.text import decimals, number, plus_minus, tex

BOLD = "Bold: the best, and whatever cannot be told apart from it."


@dataclass(frozen=True)
class Cell:
    text: str
    bold: bool = False


@dataclass(frozen=True)
class Table:
    """Scores: a row per algorithm, then per reference; a column per task, then the IQM where tasks can be averaged."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    algorithms: int  # how many rows, the first, are algorithms'
    caption: str


def score_table(summary: Summary) -> Table | None:
    board = summary.board
    if board is None:
        return None
    averaged = bool(summary.aggregates) and (board.enough_runs or len(board.tasks) > 1)
    rows = []
    for name in board.algorithms:
        cells = [Cell(display(name)), *(_task_cell(board, name, task) for task in board.tasks)]
        rows.append((*cells, _iqm_cell(summary, name)) if averaged else tuple(cells))
    for name, known in board.references.items():
        cells = [Cell(f"policy of the {name}"), *(Cell(number(known.get(task))) for task in board.tasks)]
        rows.append((*cells, Cell(number(board.reference(name)))) if averaged else tuple(cells))
    columns = ("", *board.tasks, *(["IQM"] if averaged else []))
    return Table(columns, tuple(rows), len(board.algorithms), caption(board))


def caption(board: Scoreboard) -> str:
    notes = score_notes(board.tasks) if board.unit == "score" else []
    d4rl = "D4RL-normalised scores" if notes == [NOT_D4RL] else "Scores"
    unit = d4rl if board.unit == "score" else "Returns of an episode"
    said = f"{unit}. Task columns: mean ± normal 95 % interval over runs, compared by Welch's t"
    said += "; a single run: over its episodes, compared by these intervals." if board.runs_per_task == 1 else "."
    if board.enough_runs:
        said += " IQM: 95 % bootstrap interval, compared by t intervals."
    return " ".join([said, BOLD, *notes])


def _task_cell(board: Scoreboard, name: str, task: str) -> Cell:
    rivals = {other: scores[task] for other, scores in board.scores.items() if task in scores}
    if name not in rivals:
        return Cell("–")
    best = max(rivals, key=lambda other: float(rivals[other].mean()))
    found = board.mean(name, task)
    if min(len(rivals[name]), len(rivals[best])) > 1:
        alike = indistinguishable(rivals[name], rivals[best])
    else:
        alike = not found.differs_from(board.mean(best, task))
    return Cell(plus_minus(found.value, found.half_width), name == best or alike)


def _iqm_cell(summary: Summary, name: str) -> Cell:
    if name not in summary.aggregates:
        return Cell("–")
    found = summary.aggregates[name]["iqm"]
    gap = summary.to_best.get(name)
    if summary.board is None or not summary.board.enough_runs:
        return Cell(number(float(found.point)))
    digits = decimals(float(found.point))
    low, middle, high = (number(float(each), digits) for each in (found.low, found.point, found.high))
    return Cell(f"{middle} [{low}, {high}]", gap is None or gap.holds_zero)


def markdown(summary: Summary) -> str:
    parts, shown = ["# ilbrl report"], text.markdown
    if len(summary.runs) > 1:
        parts.append(shown(comparison_sentence(summary)))
    for run, each in zip(summary.runs, summary.verdicts):
        parts.append(f"## {shown(run.title)}: {shown(each.call)}")
        parts += [shown(said) for said in (each.which, " ".join(each.how_good), each.trust)]
        parts.append("\n".join(f"- {shown(change)}" for change in each.what_would_change))
        if run.missing:
            parts.append("**Missing:**\n\n" + "\n".join(f"- {shown(what)}" for what in run.missing))
    table = score_table(summary)
    if table is not None:
        rows = ["| " + " | ".join([shown(name.text), *map(_markdown, cells)]) + " |" for name, *cells in table.rows]
        head = "| " + " | ".join(map(shown, table.columns)) + " |"
        lines = [head, "|---" + "|---:" * (len(table.columns) - 1) + "|", *rows]
        parts += ["## True scores", "\n".join(lines), table.caption]
    parts += ["## Small print", "\n".join(f"- {shown(each)}" for each in small_print(summary))]
    return "\n\n".join(parts) + "\n"


def _markdown(cell: Cell) -> str:
    return f"**{cell.text}**" if cell.bold else cell.text


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
    "distance", "task_return", "diverged", "selected", "true_return", "true_score", "true_episodes", "updates",
    "seconds", "hyperparameters",
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
                "verdict": asdict(each) | {name: _mean(getattr(each, name)) for name in ("score", "seeds")},
                "selected": None if run.selection.overall is None else asdict(run.selection.overall),
                "trust": None if run.tuning.trust is None else asdict(run.tuning.trust),
                "regret_of_selection": {name: r.regret for name, r in selection_regret(run).items()},
                "missing": run.missing,
                "vouched": {name: each.state for name, each in run.vouched.items()},
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
    return json.dumps(to_plain(found), indent=1) + "\n"


def _lists(scores: dict[str, dict[str, np.ndarray]]) -> dict[str, dict[str, list[float]]]:
    return {name: {task: runs.tolist() for task, runs in by_task.items()} for name, by_task in scores.items()}


def _mean(found: Mean | None) -> dict[str, Any] | None:
    return None if found is None else found._asdict()


def _interval(found: Any) -> dict[str, float]:
    return {"point": float(found.point), "low": float(found.low), "high": float(found.high)}


FORMATS: dict[str, Callable[[Summary], str]] = {
    "md": markdown,
    "latex": latex,
    "csv": comma_separated,
    "json": machine_readable,
}
