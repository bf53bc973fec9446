"""Tables for papers and machines."""

import csv
import io
import json
import re
import shutil
import subprocess

import pytest

from ilbrl.envs import NOT_D4RL
from ilbrl.report.formats import comma_separated, latex, machine_readable, markdown, tex
from ilbrl.report.summary import summarise
from ilbrl.report.tables import score_table, small_print


def test_the_best_and_what_cannot_be_told_apart_from_it_are_bold(summary):
    table = score_table(summary)
    assert table is not None
    assert table.columns == ("", "hopper", "ant", "IQM")
    bold = {row[0].text: [cell.bold for cell in row[1:]] for row in table.rows}
    assert bold["ILBRL"] == [True, True, True]
    assert bold["BC"] == [False, False, False]
    assert bold["policy of the expert"] == [False, False, False]  # not a competitor
    assert NOT_D4RL in table.caption


def test_markdown_tells_verdict_scores_and_small_print(summary):
    text = markdown(summary)
    assert "## hopper (hopper): Deploy ILBRL" in text
    assert re.search(r"\| ILBRL \| \*\*\d+\.\d ± \d+\.\d\*\* \|", text)
    assert "88 to 95 %" in text
    assert NOT_D4RL in text


def test_small_print_names_the_coverage_for_its_number_of_runs(make_run):
    assert any("76 to 85 %" in each for each in small_print(summarise([make_run(seeds=3)])))
    assert not any("bootstraps" in each for each in small_print(summarise([make_run("b", played=False)])))


def test_tex_is_escaped():
    assert tex(r"50 % of a_b & {c} ± ~^\ 歩") == (
        r"50 \% of a\_b \& \{c\} $\pm$ \textasciitilde{}\textasciicircum{}\textbackslash{} ?"
    )


def test_latex_has_the_structure_of_a_booktabs_table(summary):
    lines = latex(summary).splitlines()
    for opened, closed in ((r"\begin{table}", r"\end{table}"), (r"\begin{tabular}{lrrr}", r"\end{tabular}")):
        assert lines.index(opened) < lines.index(closed)
    body = [line for line in lines if line.endswith(r"\\")]
    assert len(body) == 1 + 5 + 2
    assert all(line.count("&") == 3 for line in body)
    assert lines.count(r"\midrule") == 2


def test_latex_compiles(summary, tmp_path):
    program = shutil.which("pdflatex")
    if program is None:
        pytest.skip("no pdflatex here: only the structure of the table is checked")
    table = latex(summary)
    page = rf"\documentclass{{article}}\usepackage{{booktabs}}\begin{{document}}{table}\end{{document}}"
    (tmp_path / "page.tex").write_text(page, encoding="utf-8")
    done = subprocess.run(
        [program, "-interaction=nonstopmode", "-halt-on-error", "page.tex"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-2000:]
    assert (tmp_path / "page.pdf").stat().st_size > 1_000


def test_latex_without_scores_is_a_comment(make_run):
    assert latex(summarise([make_run(played=False)])).startswith("% No selected policy")


def test_csv_has_one_row_per_trained_policy(summary):
    rows = list(csv.DictReader(io.StringIO(comma_separated(summary))))
    assert len(rows) == 2 * 5 * 4 * 6
    first, candidate = rows[0], summary.runs[0].candidates[0]
    assert first["run"] == "hopper"
    assert float(first["offline_value"]) == candidate.offline_value
    assert (first["verdict"], first["selected"]) == ("converged", str(int(candidate.selected)))
    assert json.loads(first["hyperparameters"]) == candidate.hyperparameters
    assert {row["verdict"] for row in rows} == {"converged", "moving", "diverged"}


def test_json_is_strict_and_complete(summary):
    def refuse(word):
        raise AssertionError(f"{word} is not JSON")

    found = json.loads(machine_readable(summary), parse_constant=refuse)
    assert found["unit"] == "score"
    assert [run["verdict"]["headline"] for run in found["runs"]] == ["Deploy ILBRL"] * 2
    assert set(found["aggregates"]["bc"]) == {"iqm", "pooled_iqm", "mean", "median", "optimality_gap"}
    assert found["aggregates"]["bc"]["iqm"]["low"] < found["aggregates"]["bc"]["iqm"]["high"]
    assert found["runs"][0]["verdict"]["score"]["runs"] == 6
