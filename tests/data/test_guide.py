"""The Python in docs/data.md runs, from top to bottom."""

import re
from pathlib import Path

import pytest


def test_the_examples_of_the_guide_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pandas")
    guide = Path(__file__).parents[2] / "docs" / "data.md"
    blocks = re.findall(r"```python\n(.*?)```", guide.read_text(), re.DOTALL)
    assert len(blocks) == 5
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, str(guide), "exec"), names)
    assert names["falls"].episode_lengths.tolist() == [2, 2]  # pyright: ignore[reportAttributeAccessIssue]
    for name, size in (("training", 1500), ("held_out", 500)):
        assert len(names[name]) == size  # pyright: ignore[reportArgumentType]
