"""The notebooks run from top to bottom, their links lead somewhere, and what they show is stored in them, small."""

import json
import re
from pathlib import Path

import pytest
from scripts.run_notebooks import execute

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "docs" / "notebooks"
SMALL = {
    "own_logs": {"expert_days": 2, "usual_days": 12, "updates": 8, "model_updates": 8},
    "trust": {"episodes": 12, "critic_updates": 16, "model_updates": 8, "members": 2},
    "theory": {"logs_steps": 2000, "seeds": 2},
}
LARGEST = 100_000  # bytes, with outputs


def read(name: str) -> dict:
    return json.loads((FOLDER / f"{name}.ipynb").read_text())


def test_every_notebook_is_tested_and_in_the_site():
    assert {path.stem for path in FOLDER.glob("*.ipynb")} == SMALL.keys()
    contents = (ROOT / "docs" / "index.md").read_text()
    assert all(f"<notebooks/{name}>" in contents for name in SMALL)


@pytest.mark.parametrize("name", [n if n == "theory" else pytest.param(n, marks=pytest.mark.slow) for n in SMALL])
def test_it_runs(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    notebook = read(name)
    stored = [len(cell["outputs"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]
    execute(notebook, SMALL[name])
    assert [len(cell["outputs"]) for cell in notebook["cells"] if cell["cell_type"] == "code"] == stored


@pytest.mark.parametrize("name", SMALL)
def test_it_is_a_notebook_of_nbformat_4_with_all_its_outputs(name):
    notebook = read(name)
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    assert notebook["metadata"]["kernelspec"]["name"] == "python3"
    ids = [cell["id"] for cell in notebook["cells"]]
    assert len(set(ids)) == len(ids)
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in code] == list(range(1, len(code) + 1))
    assert [cell["metadata"].get("tags") for cell in code] == [["parameters"], *[None] * (len(code) - 1)]
    assert any("image/png" in output.get("data", {}) for cell in code for output in cell["outputs"])
    assert (FOLDER / f"{name}.ipynb").stat().st_size < LARGEST


@pytest.mark.parametrize("name", SMALL)
def test_links_lead_to_files_that_exist(name):
    text = "\n".join("".join(cell["source"]) for cell in read(name)["cells"] if cell["cell_type"] == "markdown")
    for target in re.findall(r"\]\(([^)#]+)\)", text):
        assert (FOLDER / target).exists(), target
