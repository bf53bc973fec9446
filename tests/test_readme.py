"""The README's example runs as printed, and its commands exist."""

import re
import shlex
from pathlib import Path

from ilbrl.cli import COMMANDS, main

README = (Path(__file__).parents[1] / "README.md").read_text()


def test_the_python_examples_run(tmp_path, monkeypatch, capsys):
    examples = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    assert all(len([line for line in example.splitlines() if line.strip()]) <= 15 for example in examples)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ILBRL_CACHE", str(tmp_path / "cache"))
    for example in examples:  # the second deploys what the first has saved
        exec(compile(example, "README.md", "exec"), {})
    said = capsys.readouterr().out
    assert "diverged: [False False]" in said
    assert "score: " in said
    assert "Policy(11 → 256 → 256 → 3 numbers" in said
    assert (tmp_path / "hopper.safetensors").exists()


def test_the_commands_exist(capsys):
    tour = re.findall(r"^ilbrl (.*?)\s*(?:#.*)?$", README, re.MULTILINE)
    assert {shlex.split(line)[0] for line in tour} <= set(COMMANDS)
    for line in tour:
        words = shlex.split(line)
        depth = 2 if words[0] in ("data", "train") else 1
        try:
            status = main([*words[:depth], "--help"])
        except SystemExit as stop:  # tyro's way of ending --help
            status = stop.code
        assert status == 0
        said = capsys.readouterr().out
        for option in (word for word in words if word.startswith("--")):
            assert option in said, f"`{line}` uses {option}, which its help does not know"


def test_documents_link_to_files_that_exist():
    root = Path(__file__).parents[1]
    for page in [root / "README.md", *(root / "docs").glob("*.md")]:
        for target in re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", page.read_text()):
            if "://" not in target:
                assert (page.parent / target).exists(), f"{page.name} links to {target}"
