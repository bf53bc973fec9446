"""`ilbrl.tune`: a study by name, changed by settings and run in one call, as `ilbrl tune` does it."""

import shlex
from dataclasses import replace

import numpy as np
import pytest

import ilbrl
from ilbrl.base.errors import IlbrlError
from ilbrl.cli.tune import parse
from ilbrl.study.study import Study
from ilbrl.study.tune import changed


def test_settings_are_changed_by_name_as_by_options():
    words = "small --task walker2d --seeds 3 --expert demos.npz --algorithms bc --ranges all.hidden [8] --out x"
    table = {"task": "walker2d", "seeds": 3, "expert": "demos.npz", "algorithms": ["bc"], "ranges": {"all.hidden": [8]}}
    assert changed(Study.load("small"), table) == parse(shlex.split(words))[1]


def test_a_table_keeps_the_entries_that_are_not_changed():
    own = Study.load("own")
    study = changed(own, {"ranges": {"ilbrl.lam": "uniform(1, 4)"}, "columns": {"actions": "torque"}})
    assert study.search.ranges == {**own.search.ranges, "ilbrl.lam": "uniform(1, 4)"}
    assert study.data.reading.columns == {"actions": "torque"}


def test_how_steps_are_imagined_is_changed_entry_by_entry(tmp_path):
    study = tmp_path / "study.toml"
    study.write_text('[training]\nimagine = ["ilbrl"]\nimagination = {rounds = 1, rows = 100}\n')
    changed_study = parse([str(study), "--imagination", "rows", "50", "steps", "3", "--out", "x"])[1]
    assert changed_study.training.imagination == {"rounds": "1", "rows": "50", "steps": "3"}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"sedes": 3}, "no setting 'sedes'; there are name, task, seed,"),
        ({"seeds": "three"}, "training.seeds: must be a whole number, got 'three'"),
        ({"seeds": 0}, "training.seeds: must be between 1 and"),
        ({"address": "auto"}, "add --executor ray"),
    ],
)
def test_what_does_not_fit_is_said(changes, said, tmp_path):
    with pytest.raises(IlbrlError, match=said):
        ilbrl.tune("small", out=tmp_path, **changes)
    assert not list(tmp_path.iterdir())


def test_a_dataset_is_saved_first(tmp_path):
    logs = ilbrl.Dataset(np.zeros((1, 1)), np.zeros((1, 1)), np.zeros((1, 1)), np.zeros(1), np.zeros(1))
    with pytest.raises(IlbrlError, match=r"save\(dataset, 'logs.npz'\) writes one"):
        ilbrl.tune(expert="demos.csv", logs=logs, out=tmp_path)


def test_the_same_call_continues_in_its_folder(tiny, run, tmp_path):
    replace(tiny, training=replace(tiny.training, seeds=1)).save(tmp_path / "study.toml")
    result = ilbrl.tune(tmp_path / "study.toml", out=run, seeds=tiny.training.seeds, quiet=True)
    assert result.folder == run
    assert result.policy.obs_dim == 3
