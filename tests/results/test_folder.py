"""Run folders that a real study wrote, whole and broken: what is there is read, what is not is said."""

import csv
import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from ilbrl.base.errors import IlbrlError
from ilbrl.results import read_run, read_runs

COMMITTED = [
    *(Path(__file__).parents[2] / "docs" / "results").glob("*/*/audit.json"),
    *(Path(__file__).parent / "earlier_study").glob("*/audit.json"),
]


@pytest.fixture
def copy(played, tmp_path):
    """The folder without its jobs, and with an audit that vouches for nothing: an edited file is read as it is."""
    folder = shutil.copytree(played, tmp_path / "copy", ignore=shutil.ignore_patterns("jobs"))
    audit = json.loads((folder / "audit.json").read_text())
    (folder / "audit.json").write_text(json.dumps(audit | {"files": {}}))
    return folder


def edit(path: Path, change) -> None:
    """Rewrite a CSV file, row by row as dicts."""
    rows = list(csv.DictReader(path.read_text().splitlines()))
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(row for number, row in enumerate(rows) if change(number, row) is not False)


def test_a_whole_folder_is_read_without_complaint(played, tiny):
    run = read_run(played)
    assert run.missing == ()
    assert (run.name, run.task) == ("tiny", "Pendulum-v1")
    assert run.algorithms == ("ilbrl", "bc")
    assert len(run.candidates) == 2 * 2 * 2
    assert all(c.true_return is not None for c in run.candidates)  # played or revealed
    assert {key[:3] for key in run.curves} == {c.key for c in run.candidates}
    assert len(run.candidate_values) == len(run.candidates) * tiny.evaluation.evaluation_seeds
    assert {c for _, c, _ in run.tuning_values} == {str(tried.id) for tried in run.tuning.configurations}
    assert set(run.references) == set(run.data.datasets) == {"expert", "logs"}
    assert run.tuning.chosen_evaluator is not None
    assert run.tuning.chosen_evaluator.settings["lr"] == 0.01
    assert run.played


@pytest.mark.parametrize("folder", sorted(COMMITTED), ids=lambda path: str(path.parent)[-20:])
def test_committed_folders_stay_readable(folder):
    run = read_run(folder.parent)
    assert all("is not there" in what for what in run.missing)  # large tables are not committed everywhere
    assert set(run.data.datasets) == set(run.references) == {"expert", "logs"}
    assert run.data.labels is not None
    assert len(run.data.labels.logs) == len(run.data.labels.bins) - 1
    assert all(c.true_score is not None for c in run.candidates if c.selected)


def test_a_candidate_sums_up_its_evaluations(copy):
    values = iter([("10", "converged", "sound"), ("14", "converged", "sound"), ("99", "moving", "doubtful")])

    def change(number, row):
        row["offline_value"], row["verdict"], row["grade"] = next(values, ("", "", ""))
        row["std_error"] = ""
        row.update(algorithm="bc", configuration="0", policy_seed="0")
        return number < 3

    edit(copy / "results.csv", change)
    (candidate,) = read_run(copy).candidates
    assert candidate.offline_value == 12.0  # what still moves does not count
    assert candidate.offline_std_error == pytest.approx(2.0)
    assert candidate.unsettled_value == 99.0
    assert candidate.verdict == "moving"


@pytest.mark.parametrize("told", ["", "2.5"])
def test_models_are_rivals_whose_spread_is_not_divided(copy, told):
    """told: what the estimator says, with the initial states in it; older runs have not recorded it."""
    values = iter([("10", "0"), ("14", "1"), ("12", "2")])

    def change(number, row):
        row["offline_value"], row["member"] = next(values, ("", ""))
        row["std_error"] = told
        row.update(algorithm="bc", configuration="0", policy_seed="0", verdict="fine", grade="sound")
        return number < 3

    edit(copy / "results.csv", change)
    (candidate,) = read_run(copy).candidates
    assert candidate.offline_value == 12.0
    assert candidate.offline_std_error == pytest.approx(float(told or 2.0))  # and not 2 / √3


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
def test_a_missing_file_is_one_sentence(copy, name):
    (copy / name).unlink()
    (said,) = read_run(copy).missing
    assert said.startswith(f"{name} is not there: ")
    assert FILES[name] in said


def test_a_table_cut_in_half_keeps_its_whole_rows(copy):
    lines = (copy / "results.csv").read_text().splitlines()
    (copy / "results.csv").write_text("\n".join([*lines[:4], lines[4][:20]]))
    run = read_run(copy)
    assert run.missing == ("results.csv: 1 unreadable row, first in line 5 (the row ends early), left out.",)
    assert len(run.candidates) == 2


@pytest.mark.parametrize(
    ("name", "row", "column"),
    [
        ("results.csv", 0, "algorithm"), ("results.csv", 1, "configuration"), ("curves.csv", 0, "metric"),
        ("curves.csv", 0, "update"), ("values.csv", 0, "stage"), ("values.csv", 0, "policy"),
        ("values.csv", -1, "policy_seed"),
    ],
)  # fmt: skip
def test_a_row_that_does_not_say_whose_it_is_is_left_out_and_noted(copy, name, row, column):
    last = len((copy / name).read_text().splitlines()) - 2
    edit(
        copy / name, lambda number, cells: cells.update({column: ""}) if number == (row if row >= 0 else last) else None
    )
    (said,) = read_run(copy).missing
    assert said.startswith(f"{name}: 1 ")
    assert column in said
    assert said.endswith("left out.")


@pytest.mark.parametrize(
    ("name", "column", "words"),
    [("values.csv", "stage", "tuning, candidates"), ("results.csv", "grade", "sound, doubtful, void")],
)
def test_a_word_that_is_not_in_the_contract_is_left_out_and_noted(copy, name, column, words):
    edit(copy / name, lambda number, cells: cells.update({column: "afterwards"}) if number == 1 else None)
    said = f"{name}: 1 unreadable row, first in line 3 ('afterwards' is none of {words}), left out."
    assert read_run(copy).missing == (said,)


def test_a_field_of_the_wrong_kind_is_left_out_and_named(copy):
    tuning = json.loads((copy / "tuning.json").read_text())
    tuning["trust"]["spearman"] = "high"
    tuning["configurations"][1] = 7
    (copy / "tuning.json").write_text(json.dumps(tuning))
    run = read_run(copy)
    assert run.tuning.trust is not None
    assert run.tuning.trust.spearman is None
    assert run.tuning.trust.verdict is not None
    assert len(run.tuning.configurations) == len(tuning["configurations"]) - 1
    assert run.missing == (
        "tuning.json: configurations[1]: must be an object, got 7; it is left out.",
        "tuning.json: trust.spearman: must be a number, got 'high'; it is left out.",
    )


def test_curves_are_ordered_by_update(copy):
    header, *rows = (copy / "curves.csv").read_text().splitlines()
    (copy / "curves.csv").write_text("\n".join([header, *rows[::-1]]))
    for curve in read_run(copy).curves.values():
        assert (np.diff(curve.updates) > 0).all()


def test_what_is_no_run_folder_is_refused(tmp_path):
    for folder in (tmp_path / "nowhere", tmp_path / ("x" * 300)):
        with pytest.raises(IlbrlError, match="no such folder"):
            read_run(folder)
    with pytest.raises(IlbrlError, match="none of a study's files"):
        read_run(tmp_path)
    with pytest.raises(IlbrlError, match="at least one run folder"):
        read_runs([])


def test_runs_of_the_same_name_are_told_apart_by_their_folders(played, copy):
    assert [run.name for run in read_runs([played, copy])] == [str(played), str(copy)]
