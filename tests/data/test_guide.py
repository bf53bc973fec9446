"""docs/data.md, from top to bottom: its Python runs, and its commands print what the page shows."""

import re
import shlex
from pathlib import Path

import pytest

from ilbrl.cli import main

GUIDE = Path(__file__).parents[2] / "docs" / "data.md"


def test_the_examples_of_the_guide_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("pandas")
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    blocks = re.findall(r"```(python|console)\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    assert [kind for kind, _ in blocks].count("python") == 5
    for kind, block in blocks:
        if kind == "python":
            exec(compile(block, str(GUIDE), "exec"), names)
            capsys.readouterr()
        else:
            run_console(block, capsys)
    assert names["own"].episode_lengths.tolist() == [4, 3]  # pyright: ignore[reportAttributeAccessIssue]
    assert names["falls"].episode_lengths.tolist() == [2, 2]  # pyright: ignore[reportAttributeAccessIssue]
    for name, size in (("training", 1500), ("held_out", 500)):
        assert len(names[name]) == size  # pyright: ignore[reportArgumentType]


def run_console(block: str, capsys: pytest.CaptureFixture[str]) -> None:
    """`$ cat FILE` writes the file that it shows; `$ ilbrl …` must print what follows."""
    for entry in block.split("$ ")[1:]:
        command, _, shown = entry.partition("\n")
        program, *words = shlex.split(command)
        if program == "cat":
            Path(words[0]).write_text(shown)
            continue
        assert main(words) == 0
        printed = capsys.readouterr().out
        assert [line.rstrip() for line in printed.splitlines()] == shown.splitlines()
