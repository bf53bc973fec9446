"""The examples of report.md and statistics.md run as printed, and the small print repeats a measured table."""

import re
import shlex
from pathlib import Path

import pytest

from ilbrl.cli import main
from ilbrl.report.bootstrap import MEASURED_COVERAGE

DOCS = Path(__file__).parents[2] / "docs"
STATISTICS, REPORT = ((DOCS / name).read_text() for name in ("statistics.md", "report.md"))


def examples(text: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


@pytest.fixture
def runs(committed, tmp_path, monkeypatch):
    """A working directory with runs/hopper and runs/ant."""
    (tmp_path / "runs").mkdir()
    for task in ("hopper", "ant"):
        (tmp_path / "runs" / task).symlink_to(committed[task])
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_example_of_the_statistics_runs():
    (example,) = examples(STATISTICS, "python")
    names: dict = {}
    exec(compile(example, "statistics.md", "exec"), names)
    assert names["ours"].shape == (6, 4)


def test_the_example_of_the_report_runs(runs):
    (example,) = examples(REPORT, "python")
    exec(compile(example, "report.md", "exec"), {})
    assert (runs / "both.html").exists()


def test_the_commands_of_the_report_run(runs, capsys):
    (commands,) = examples(REPORT, "bash")
    for line in commands.splitlines():
        words = shlex.split(line.split(">")[0], comments=True)
        folders = [str(path) for path in sorted(Path("runs").iterdir())]
        words = [each for word in words[1:] for each in (folders if word == "runs/*" else [word])]
        assert main(words) == 1  # the committed studies bring bad news
    assert {path.name for path in runs.iterdir()} == {"runs", "report.html", "both.html", "figures"}
    assert r"\begin{table}" in capsys.readouterr().out


def test_the_small_print_repeats_the_measured_table():
    lines = [line for line in STATISTICS.splitlines() if line.startswith("| ")]
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines]
    shares: dict[int, list[float]] = {}
    for row in rows:
        if row[0] in ("equal", "unequal"):
            shares.setdefault(int(row[2]), []).append(float(row[4].rstrip(" %")))
    assert shares.keys() == MEASURED_COVERAGE.keys()
    for runs, found in shares.items():
        low, high = MEASURED_COVERAGE[runs]
        assert abs(low - min(found)) <= 0.5
        assert abs(high - max(found)) <= 0.5
