"""`ilbrl report` on the command line."""

import csv
import io
import json
import shutil
from pathlib import Path

import pytest

from ilbrl.cli import main

COMMITTED = Path(__file__).parents[1] / "results" / "earlier_study"
GOOD, BAD = COMMITTED / "halfcheetah", COMMITTED / "walker2d"  # better than the logs, and not


def test_the_page_is_written_and_the_verdict_told(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["report", str(GOOD)]) == 0
    assert (tmp_path / "report.html").read_text().startswith("<!DOCTYPE html>")
    out = capsys.readouterr().out
    assert "Deploy ORIL. True normalised score of this file 49.9 ± 0.3" in out
    assert "written  report.html" in out


def test_other_formats_are_printed(capsys):
    assert main(["report", str(GOOD), "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["unit"] == "score"
    assert main(["report", str(GOOD), "--format", "csv"]) == 0
    assert len(list(csv.reader(io.StringIO(capsys.readouterr().out)))) == 1 + 5 * 4 * 3
    assert main(["report", str(GOOD), "--format", "latex"]) == 0
    assert r"\begin{tabular}" in capsys.readouterr().out
    assert main(["report", str(GOOD), "--format", "md"]) == 0
    assert capsys.readouterr().out.startswith("# ilbrl report")


def test_a_file_is_written_where_asked(tmp_path):
    assert main(["report", str(GOOD), "--format", "md", "--out", str(tmp_path / "new" / "r.md")]) == 0
    assert (tmp_path / "new" / "r.md").read_text().startswith("# ilbrl report")


def test_bad_news_is_exit_code_1(tmp_path, capsys):
    run = shutil.copytree(BAD, tmp_path / "run")
    assert main(["report", str(run), "--out", str(tmp_path / "r.html")]) == 1
    assert "ORIL is no better than the logs" in capsys.readouterr().out
    (run / "tuning.json").unlink()
    (run / "selection.json").unlink()
    assert main(["report", str(run), "--out", str(tmp_path / "r.html")]) == 1
    assert "missing: tuning.json is not there" in capsys.readouterr().out


def test_no_run_folder_is_one_sentence_and_exit_code_2(tmp_path, capsys):
    assert main(["report", str(tmp_path / "nowhere")]) == 2
    assert "no such folder" in capsys.readouterr().err


def test_figures_go_to_their_folder(tmp_path, capsys):
    run = shutil.copytree(BAD, tmp_path / "run")
    for name in ("results.csv", "tuning.json", "selection.json"):
        (run / name).unlink()  # few pictures are enough here
    words = ["report", str(run), "--format", "md", "--figures", str(tmp_path / "figures")]
    assert main(words) == 1
    names = {path.name for path in (tmp_path / "figures").iterdir()}
    assert names == {f"{stem}.{kind}" for stem in ("rewards", "returns") for kind in ("png", "svg", "pdf")}


def test_help_teaches_by_example(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["report", "--help"])
    assert stop.value.code == 0
    assert "ilbrl report runs/hopper" in capsys.readouterr().out
