"""What docs/runs.md shows is done here, and what it lists is what a study leaves."""

import re
from dataclasses import fields
from pathlib import Path

from ilbrl.results import schema
from ilbrl.results.tables import CurveRow, ResultRow, ValueRow
from ilbrl.study.jobs import KINDS

GUIDE = (Path(__file__).parents[2] / "docs" / "runs.md").read_text()


def test_reading_a_run_folder(played):
    (text,) = re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL)
    names = {}
    exec(text.replace("runs/hopper", str(played)), names)
    assert names["run"].missing == ()


def test_every_file_and_kind_of_job_is_listed(played):
    (tree,) = re.findall(r"```\nRUN/\n(.*?)```", GUIDE, re.DOTALL)
    listed = {line.split()[0].rstrip("/") for line in tree.splitlines() if line.startswith("  ") and line[2] != " "}
    assert {path.name for path in played.iterdir()} <= listed
    assert all(kind in tree for kind in KINDS)


def test_every_field_is_named():
    files = (schema.Audit, schema.DataRecord, schema.TuningRecord, schema.Selection, schema.Scores, schema.Score)
    nested = (schema.TriedSetting, schema.TrustRecord, schema.Chosen, schema.LabelsRecord, schema.Overall)
    named = [f.name for kind in (*files, *nested) for f in fields(kind)]
    columns = [name for kind in (ResultRow, CurveRow, ValueRow) for name in kind._fields]
    assert [name for name in (*named, *columns) if not re.search(rf"\b{name}\b", GUIDE)] == []
