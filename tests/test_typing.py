"""Other people's programs can be type-checked against this package: `py.typed` is true."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
COMPLETE = 0.98  # share of all names, private rooms included, whose types are known without guessing


def checked(folder: Path, *options: str) -> dict:
    """What basedpyright says, with the package found as an installed one is: on the path of the interpreter."""
    settings = {"typeCheckingMode": "strict", "pythonVersion": "3.11", "reportUnnecessaryTypeIgnoreComment": "error"}
    (folder / "pyrightconfig.json").write_text(json.dumps(settings))
    command = [sys.executable, "-m", "basedpyright", "--pythonpath", sys.executable, "--outputjson", *options]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    return json.loads(done.stdout)


@pytest.mark.slow
def test_a_program_that_uses_the_package_passes_in_strict_mode(tmp_path):
    shutil.copy(ROOT / "tests" / "consumer" / "controller.py", tmp_path)
    found = checked(tmp_path, ".")
    assert found["summary"]["filesAnalyzed"] == 1
    assert [finding["message"] for finding in found["generalDiagnostics"]] == []


@pytest.mark.slow
def test_types_are_complete(tmp_path):
    found = checked(tmp_path, "--verifytypes", "ilbrl", "--ignoreexternal")["typeCompleteness"]
    assert found["pyTypedPath"] == str(ROOT / "src" / "ilbrl" / "py.typed")
    assert found["completenessScore"] >= COMPLETE
