"""Run folders, whole and broken: what is there is read, what is not is said."""

import json

import numpy as np
import pytest

from ilbrl.base.errors import IlbrlError
from ilbrl.report import write_page
from ilbrl.report.results import read_run, read_runs
from ilbrl.report.verdict import verdict


def test_a_whole_folder_is_read_without_complaint(make_run):
    run = read_run(make_run(configurations=4, seeds=3, revealed=True))
    assert run.missing == ()
    assert (run.name, run.task) == ("locomotion-hopper", "hopper")
    assert run.algorithms == ("ilbrl", "ilbrl-unweighted", "bc", "smodice", "oril")
    assert len(run.candidates) == 5 * 4 * 3
    assert len(run.curves) == 60 * 3
    assert len(run.tuning_values) == 12 * 2 * 3
    assert len(run.candidate_values) == 60 * 3
    assert run.tuning.chosen == 4
    assert run.references["expert"].true_score == 110.2


def test_a_candidate_sums_up_its_evaluations(make_run):
    folder = make_run(algorithms=("bc",), configurations=1, seeds=1)
    lines = (folder / "results.csv").read_text().splitlines()
    header = lines[0].split(",")
    value, verdict = header.index("offline_value"), header.index("verdict")
    for number, (estimate, judged) in enumerate([("10", "converged"), ("14", "converged"), ("99", "moving")], start=1):
        cells = lines[number].split(",", len(header) - 4)  # the JSON cells at the end have commas
        cells[value], cells[verdict] = estimate, judged
        lines[number] = ",".join(cells)
    (folder / "results.csv").write_text("\n".join(lines))
    (candidate,) = read_run(folder).candidates
    assert candidate.offline_value == 12.0  # what still moves does not count
    assert candidate.offline_std_error == pytest.approx(2.0)
    assert candidate.unsettled_value == 99.0
    assert candidate.verdict == "moving"


def test_a_diverged_policy_has_no_value(make_run):
    run = read_run(make_run(algorithms=("ilbrl",), configurations=2, seeds=2))
    (diverged,) = [c for c in run.candidates if c.verdict == "diverged"]
    assert (diverged.configuration, diverged.policy_seed, diverged.offline_value) == (1, 1, None)


FILES = {
    "results.csv": "no candidates",
    "study.toml": "cannot be reproduced",
    "audit.json": "not recorded",
    "data.json": "logs cannot be described",
    "tuning.json": "how far to trust",
    "selection.json": "nothing has been selected",
    "curves.csv": "training curves",
    "values.csv": "offline values",
}


@pytest.mark.parametrize("name", FILES)
def test_a_missing_file_is_one_sentence(make_run, name):
    folder = make_run(algorithms=("bc",), configurations=1, seeds=1)
    (folder / name).unlink()
    (said,) = read_run(folder).missing
    assert said.startswith(f"{name} is not there")
    assert FILES[name] in said


@pytest.mark.parametrize("name", [name for name in FILES if name.endswith("json")] + ["final.json"])
def test_a_json_file_cut_in_half_is_one_sentence(make_run, name):
    folder = make_run(algorithms=("bc",), configurations=1, seeds=1)
    text = (folder / name).read_text()
    (folder / name).write_text(text[: len(text) // 2])
    (said,) = read_run(folder).missing
    assert said.startswith(f"{name} is damaged at line 1")


def test_a_table_cut_in_half_keeps_its_whole_rows(make_run):
    folder = make_run(algorithms=("bc",), configurations=1, seeds=2)
    lines = (folder / "results.csv").read_text().splitlines()
    (folder / "results.csv").write_text("\n".join([*lines[:4], lines[4][:40]]))
    run = read_run(folder)
    assert run.missing == ("results.csv: 1 unreadable row, first in line 5 (the row ends early), left out.",)
    assert len(run.candidates) == 1


@pytest.mark.parametrize(
    ("name", "row", "column"),
    [
        ("results.csv", 1, "algorithm"),
        ("results.csv", 2, "configuration"),
        ("results.csv", 3, "policy_seed"),
        ("curves.csv", 1, "algorithm"),
        ("curves.csv", 1, "metric"),
        ("curves.csv", 1, "update"),
        ("values.csv", 1, "stage"),
        ("values.csv", 1, "policy_seed"),
        ("values.csv", -1, "policy"),
    ],
)
def test_a_row_that_does_not_say_whose_it_is_is_left_out_and_noted(make_run, tmp_path, name, row, column):
    folder = make_run(algorithms=("bc",), configurations=1, seeds=1)
    lines = (folder / name).read_text().splitlines()
    at = lines[0].split(",").index(column)
    cells = lines[row].split(",")
    lines[row] = ",".join([*cells[:at], "", *cells[at + 1 :]])
    (folder / name).write_text("\n".join(lines))
    run = read_run(folder)
    assert run.missing == (f"{name}: 1 row with nothing under {column}, left out.",)
    (candidate,) = run.candidates
    assert len(candidate.verdicts) == (2 if name == "results.csv" else 3)
    assert write_page([folder], tmp_path / "report.html").exists()


@pytest.mark.parametrize(
    ("name", "column", "words"),
    [("values.csv", "stage", "tuning, candidates"), ("results.csv", "verdict", "converged, moving, diverged")],
)
def test_a_word_that_is_not_in_the_contract_is_left_out_and_noted(make_run, name, column, words):
    folder = make_run(algorithms=("bc",), configurations=1, seeds=1)
    header, first, second, *rest = (folder / name).read_text().splitlines()
    cells = second.split(",")
    cells[header.split(",").index(column)] = "afterwards"
    (folder / name).write_text("\n".join([header, first, ",".join(cells), *rest]))
    said = f"{name}: 1 unreadable row, first in line 3 ('afterwards' is none of {words}), left out."
    assert read_run(folder).missing == (said,)


def test_a_candidate_without_a_verdict_has_none(make_run, tmp_path):
    folder = make_run(algorithms=("bc",), configurations=1, seeds=1)
    text = (folder / "results.csv").read_text()
    (folder / "results.csv").write_text(text.replace(",converged,", ",,"))
    run = read_run(folder)
    (candidate,) = run.candidates
    assert (candidate.verdict, candidate.offline_value) == ("no verdict", None)
    assert "1 of 1 candidates have no verdict: results.csv does not say one." in verdict(run).what_would_change
    page = write_page([folder], tmp_path / "report.html").read_text()
    assert '<span class="state no-verdict">no verdict</span>' in page


def test_a_table_without_a_column_says_which(make_run):
    folder = make_run(algorithms=("bc",), configurations=1, seeds=1)
    text = (folder / "curves.csv").read_text()
    (folder / "curves.csv").write_text(text.replace("metric", "what", 1))
    assert read_run(folder).missing == ("curves.csv has no column metric: training curves cannot be drawn.",)


def test_a_field_of_the_wrong_kind_is_left_out_and_named(make_run):
    folder = make_run(algorithms=("bc",), configurations=1, seeds=1)
    tuning = json.loads((folder / "tuning.json").read_text())
    tuning["trust"]["spearman"] = "high"
    tuning["configurations"][3] = 7
    (folder / "tuning.json").write_text(json.dumps(tuning))
    run = read_run(folder)
    assert run.tuning.trust is not None
    assert (run.tuning.trust.spearman, run.tuning.trust.kendall) == (None, 1.0)
    assert len(run.tuning.configurations) == 11
    assert run.missing == (
        "tuning.json, configurations[3] holds a number where an object belongs; it is left out.",
        "tuning.json, trust, spearman holds text where a number belongs; it is left out.",
    )


def test_true_scores_come_from_the_played_files_too(make_run):
    folder = make_run(algorithms=("bc",), configurations=2, seeds=2)
    text = (folder / "results.csv").read_text()
    before = read_run(folder)
    played = [c.true_score for c in before.candidates if c.selected]
    rows = [line.split(",") for line in text.splitlines()]
    at = rows[0].index("true_return")
    cut = [",".join([*row[:at], "", "", "", *row[at + 3 :]]) if i else ",".join(row) for i, row in enumerate(rows)]
    (folder / "results.csv").write_text("\n".join(cut))  # the run stopped between playing and writing them here
    assert [c.true_score for c in read_run(folder).candidates if c.selected] == pytest.approx(played)


def test_curves_are_ordered_by_update(make_run):
    folder = make_run(algorithms=("bc",), configurations=1, seeds=1)
    header, *rows = (folder / "curves.csv").read_text().splitlines()
    (folder / "curves.csv").write_text("\n".join([header, *rows[::-1]]))
    curve = read_run(folder).curves["bc", 0, 0, "mean_q"]
    np.testing.assert_array_equal(curve.updates, np.arange(4_000, 200_001, 4_000))


def test_what_is_no_run_folder_is_refused(tmp_path):
    with pytest.raises(IlbrlError, match="no such folder"):
        read_run(tmp_path / "nowhere")
    with pytest.raises(IlbrlError, match="none of a study's files"):
        read_run(tmp_path)
    with pytest.raises(IlbrlError, match="at least one run folder"):
        read_runs([])


def test_runs_of_the_same_name_are_told_apart_by_their_folders(make_run):
    first, second = make_run("a", algorithms=("bc",)), make_run("b", algorithms=("bc",))
    assert [run.name for run in read_runs([first, second])] == [str(first), str(second)]
