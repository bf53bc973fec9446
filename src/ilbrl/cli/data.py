"""`ilbrl data`: inspect, convert and make datasets."""

from __future__ import annotations

import json as json_format
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import tyro
from tyro.conf import FlagCreatePairsOff, OmitArgPrefixes, Positional, arg

from ilbrl.base.errors import printable
from ilbrl.cli.named import refuse_input
from ilbrl.data.checks import counted
from ilbrl.data.dataset import Dataset
from ilbrl.data.doctor import Finding, examine
from ilbrl.data.formats import FORMATS
from ilbrl.data.joining import same_actions
from ilbrl.data.loading import load, parse, save
from ilbrl.data.reading import Reading
from ilbrl.data.summary import columns, sparkline, summarise

if TYPE_CHECKING:
    from ilbrl.report.pictures import Picture

_FORMATS = "\n".join(f"  {name + ':':<12}{format.what}" for name, format in FORMATS.items())
_ABOUT = f"""Look at logged data, change its format, or collect the built-in kind.

examples:
  ilbrl data inspect logs.hdf5 --expert demos.npz
  ilbrl data inspect logs.csv --columns observations angle,speed actions torque episodes trial
  ilbrl data convert minari:mujoco/hopper/expert-v0 expert.npz
  ilbrl data make hopper/medium --transitions 1000000

A dataset is a built-in name (hopper/medium), a path, or a format and a path; :18ep or :5000steps after it takes
the first 18 episodes or 5000 transitions. The formats, told from the path where possible:
{_FORMATS}"""

What = Annotated[str, arg(metavar="WHAT")]
_STYLES = {"error": "bold red", "warning": "yellow", "note": "dim"}


def main(words: list[str]) -> int:
    """Run `ilbrl data …` and return its exit code."""
    commands = {"inspect": inspect, "convert": convert, "make": make}
    return tyro.extras.subcommand_cli_from_dict(
        commands, prog="ilbrl data", description=_ABOUT, args=words, config=(FlagCreatePairsOff,)
    )


def inspect(
    what: Positional[What],
    /,
    expert: Annotated[str | None, arg(metavar="WHAT")] = None,
    json: bool = False,
    plot: Annotated[Path | None, arg(metavar="FILE")] = None,
    reading: OmitArgPrefixes[Reading] = Reading(),  # noqa: B008 - immutable
) -> int:
    """Describe a dataset and say what is wrong with it.

    Example: ilbrl data inspect logs.hdf5 --expert demos.npz

    The exit code is 1 if there is an error to mend before training, else 0.

    Args:
        what: The dataset: a built-in name, a path or format:path.
        expert: Expert data: examined too, and its rows are looked for in the other logs.
        json: Print one JSON object instead of tables.
        plot: Write histograms of everything to this file (.png, .svg or .pdf).
        reading: What the files do not say.
    """
    refuse_input(plot, what, expert)
    dataset, demonstrations = load(what, reading), None
    if expert is not None:
        dataset, demonstrations = same_actions([dataset, load(expert, reading)])
    findings = examine(dataset, demonstrations)
    of_expert = [] if demonstrations is None else examine(demonstrations, demonstrations=True)
    if plot is not None:
        from ilbrl.report.pictures import paper

        paper.save_as(plot, *_histograms(dataset))
    if json:
        beside = None if demonstrations is None else _as_json(demonstrations, of_expert)
        print(json_format.dumps({**_as_json(dataset, findings), "expert": beside}, indent=2))
    else:
        _show(dataset, findings, _says_lines(what, findings))
        if demonstrations is not None and expert is not None:
            _show_expert(demonstrations, of_expert, _says_lines(expert, of_expert))
    return int(any(finding.grade == "error" for finding in (*findings, *of_expert)))


def convert(
    source: Positional[Annotated[str, arg(metavar="FROM")]],
    target: Positional[Annotated[str, arg(metavar="TO")]],
    /,
    force: bool = False,
    reading: OmitArgPrefixes[Reading] = Reading(),  # noqa: B008 - immutable
) -> int:
    """Write a dataset in another format: npz, D4RL HDF5 (.hdf5) or Minari (minari:FOLDER).

    Example: ilbrl data convert lift.csv minari:lift-v0 --columns observations 'sensor_*' actions u --action-low -2
    --action-high 2

    Args:
        source: The dataset to read.
        target: The file or folder to write.
        force: Overwrite the target if it exists.
        reading: What the file does not say.
    """
    refuse_input(Path(parse(target).where), source)
    dataset = load(source, reading)
    path = save(dataset, target, overwrite=force)
    print(f"{path}: {len(dataset):,} transitions in {dataset.num_episodes:,} episodes")
    for grade, lines in (("warning", dataset.warnings), ("note", dataset.notes)):
        for line in lines:
            print(f"  {grade}: {printable(line)}")
    return 0


def make(name: Positional[Annotated[str, arg(metavar="NAME")]], /, transitions: int | None = None) -> int:
    """Collect a built-in dataset into the cache: a task (hopper, cartpole, …) / expert, medium, random or rung1 to 3.

    hopper/medium@7 holds other episodes of the same policy: @ and a seed may stand behind any built-in name.

    Example: ilbrl data make hopper/medium --transitions 1000000

    Args:
        name: The dataset, such as hopper/medium.
        transitions: How many; by default enough for the paper's protocol.
    """
    from ilbrl.data import benchmark

    print(benchmark.make(name, transitions))
    return 0


def _as_json(dataset: Dataset, findings: Sequence[Finding]) -> dict[str, Any]:
    return {**summarise(dataset), "findings": [asdict(finding) for finding in findings]}


def _says_lines(what: str, findings: Sequence[Finding]) -> str | None:
    """Where the first fault of a CSV file stands, as editors and spreadsheets count; None: there is none with a row."""
    text, rows = parse(what), [f.row for f in findings if f.grade != "note" and f.row is not None]
    if not rows or not (text.format == "csv" or Path(text.where).name.lower().endswith(FORMATS["csv"].suffixes)):
        return None
    return f"rows are counted from 0, without the heading: row {rows[0]} is line {rows[0] + 2} of the file"


def _histograms(dataset: Dataset) -> Iterator[Picture]:
    """Of episode lengths, returns, and each column of observations and actions."""
    from ilbrl.report.pictures import STYLES, Picture, Series

    found = {"episode length": dataset.episode_lengths}
    if dataset.rewards is not None:
        found["return"] = dataset.returns()
    for name in ("observations", "actions"):
        found |= dict(zip(dataset.column_names(name), columns(dataset)[name].T))
    for title, values in found.items():
        counts, edges = np.histogram(values[np.isfinite(values)].astype(np.float64), bins=40)
        series = Series(title, STYLES[0], (edges[1:] + edges[:-1]) / 2, counts, "bars")
        yield Picture(title, title, "", "", "", (series,))


def _show(dataset: Dataset, findings: Sequence[Finding], lines: str | None) -> None:
    """lines: how rows are counted."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    console, facts = Console(highlight=False, soft_wrap=True), summarise(dataset)
    console.print(
        f"[bold]{escape(printable(facts['source']))}[/bold]  {counted(facts['transitions'], 'transition')} in"
        f" {counted(facts['episodes'], 'episode')}"
    )
    console.print(f"ends: {facts['terminals']:,} terminals, {facts['timeouts']:,} time-outs")
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("")
    for heading in ("min", "median", "mean", "max"):
        table.add_column(heading, justify="right")
    table.add_column("distribution")
    _add_row(table, "episode length", facts["lengths"], sparkline(dataset.episode_lengths))
    if facts["returns"] is not None:
        _add_row(table, "return", facts["returns"], sparkline(dataset.returns()))
    for name, matrix in columns(dataset).items():
        ranges, labels = facts["ranges"][name], facts["columns"].get(name, [name])
        for i, label in enumerate(labels[:40]):
            cells = {"min": ranges["min"][i], "median": None, "mean": ranges["mean"][i], "max": ranges["max"][i]}
            _add_row(table, label, cells, sparkline(matrix[:, i]))
        if matrix.shape[1] > 40:
            table.add_row(f"… {matrix.shape[1] - 40} more {name} (--json has all)")
    console.print(table)
    if facts["choices"]:
        shares = [f"{printable(name)} {count / facts['transitions']:.1%}" for name, count in facts["choices"].items()]
        console.print(f"actions: {', '.join(shares[:20])}{' …' * (len(shares) > 20)}", markup=False)
    _show_policy(console, facts["behaviour_policy"])
    _show_findings(console, findings, lines)
    if not findings:
        console.print("nothing to report: healthy")


def _show_expert(expert: Dataset, findings: Sequence[Finding], lines: str | None) -> None:
    """In a line what there is of the expert, and what is wrong with it; what the reader decided is as for the logs."""
    from rich.console import Console
    from rich.markup import escape

    console, facts = Console(highlight=False, soft_wrap=True), summarise(expert)
    returns = facts["returns"] and facts["returns"]["mean"]
    console.print(
        f"expert: [bold]{escape(printable(facts['source']))}[/bold]  {counted(facts['transitions'], 'transition')} in"
        f" {counted(facts['episodes'], 'episode')}" + ("" if returns is None else f", mean return {_number(returns)}")
    )
    _show_findings(console, [finding for finding in findings if finding.grade != "note"], lines)


def _show_findings(console: Any, findings: Sequence[Finding], lines: str | None) -> None:
    from rich.markup import escape

    for finding in findings:
        console.print(f"[{_STYLES[finding.grade]}]{finding.grade:>7}[/] {escape(printable(finding.message))}")
    if lines is not None:
        console.print(f"[{_STYLES['note']}]   note[/] {lines}")


def _add_row(table: Any, label: str, cells: dict[str, float | None], picture: str) -> None:
    from rich.markup import escape

    table.add_row(escape(printable(label)), *map(_number, cells.values()), picture)


def _number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if 1000 <= abs(value) < 1e9 else f"{value:.4g}"


def _show_policy(console: Any, policy: dict[str, Any]) -> None:
    if not policy["found"]:
        console.print("behaviour policy: not in the file")
        return
    shape = " → ".join(map(str, policy["layers"]))
    error = policy["log_prob_max_error"]
    check = "" if error is None else f"; stored log-probabilities reproduced to within {error:.2g}"
    console.print(f"behaviour policy: {policy['head']}, {policy['activation']}, {shape}{check}")
