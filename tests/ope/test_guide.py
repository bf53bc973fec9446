"""The Python in docs/evaluation.md runs."""

import re
from pathlib import Path

import pytest


@pytest.mark.slow
def test_the_example_of_the_guide_runs(tmp_path, monkeypatch, capsys):
    guide = Path(__file__).parents[2] / "docs" / "evaluation.md"
    (example,) = re.findall(r"```python\n(.*?)```", guide.read_text(), re.DOTALL)
    monkeypatch.setenv("ILBRL_CACHE", str(tmp_path / "cache"))
    exec(compile(example, str(guide), "exec"), {})
    said = capsys.readouterr().out
    assert "mean action" in said
    assert "mean return of an episode of at most 10 steps" in said
