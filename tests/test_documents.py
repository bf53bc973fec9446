"""Every example in the documents is executed, and what the documents list is what there is.

A page is followed from top to bottom in a folder of its own, as by a reader who types along:

    python     is executed; the blocks of a page share their names
    console    `$ cat FILE` writes the file that it shows; `$ ilbrl …` must print what follows
    bash, sh   every `ilbrl …` is executed; of `make …` and `python …` the target or the file must exist
    toml       is a study, in the file that the sentence above it names

Sizes are made small first. A command is not executed if it says why, "(hours on a GPU)" or "(downloads it)", or if it
stands under a heading "Measured …"; its options must then stand in its help. "(at COMMIT)": it was one of that commit.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import fields
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from benchmarks.kills import pushed_by
from tests.test_architecture import ORDER

from ilbrl import __version__
from ilbrl.cli import main
from ilbrl.data import benchmark, load, save
from ilbrl.report.bootstrap import MEASURED_COVERAGE
from ilbrl.results import schema
from ilbrl.results.tables import CurveRow, ResultRow, ValueRow
from ilbrl.study.jobs import KINDS
from ilbrl.study.session import planned_updates
from ilbrl.study.study import Study, preset_names
from ilbrl.study.training import FEWEST_UPDATES

ROOT = Path(__file__).parents[1]
PAGES = ["README.md", "CONTRIBUTING.md", "SECURITY.md", *(f"docs/{page.name}" for page in (ROOT / "docs").glob("*.md"))]
IN_FULL = ["docs/walk.md"]  # nothing is made smaller: what it ends in is what it promises
SLOW = ["docs/evaluation.md", "docs/imagination.md", *IN_FULL]
NOT_RUN = re.compile(r"\([^()]*\b(minutes|hours?|days?|downloads?)\b[^()]*\)")
OF_ANOTHER_TIME = re.compile(r"\(at [0-9a-f]{7}\)")
NEEDS = re.compile(r"needs pip install \"ilbrl\[(\w+)\]\"")

SMALLER = (
    (r"\b\d{4,}steps\b", "4000steps"),
    (r"(updates=)[\d_]+", r"\g<1>8"),
    (r"(--episodes |episodes=)\d+", r"\g<1>2"),
    (r"(--seeds )\d+", r"\g<1>2"),
    (r"(--explain )\d+", r"\g<1>7"),
)
SMALL_OPTIONS = {
    "train": "--updates 8",  # as many as in Python: the same compiled program
    "evaluate": "--members 2 --updates 8 --hidden 8 8 --starts 2 --horizon 10",
}


class Block(NamedTuple):
    language: str
    text: str
    above: str  # the paragraph before it
    heading: str


def blocks(page: str) -> Iterator[Block]:
    text = (ROOT / page).read_text()
    for found in re.finditer(r"^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        before = text[: found.start()].rstrip()
        headings = re.findall(r"^## (.*)$", re.sub(r"```.*?```", "", before, flags=re.DOTALL), re.MULTILINE)
        yield Block(found[1], found[2], before.rpartition("\n\n")[2], headings[-1] if headings else "")


def smaller(text: str) -> str:
    for pattern, replacement in SMALLER:
        text = re.sub(pattern, replacement, text)
    return text


class Reader:
    """Somebody who types what a page shows."""

    def __init__(self, page: str, names: dict[str, Any], printed: Callable[[], str], tiny: Callable[[], Study]) -> None:
        self.page, self.names, self.printed, self.tiny = page, {"__name__": page, **names}, printed, tiny
        self.in_full = page in IN_FULL
        self.smaller = str if self.in_full else smaller
        self.seen = ""

    def follow(self, block: Block) -> None:
        if block.language == "python":
            exec(compile(self.smaller(block.text), self.page, "exec"), self.names)
            self.seen += self.printed()
        elif block.language == "console":
            self.console(block.text)
        elif block.language == "toml":
            self.study(block)
        elif block.language in ("bash", "sh"):
            for line in block.text.replace("\\\n", " ").splitlines():
                self.command(line, block)
        else:
            assert not re.search(r"^(ilbrl|python) ", block.text, re.MULTILINE), "a command in a block without language"

    def console(self, text: str) -> None:
        for entry in text.split("$ ")[1:]:
            command, _, shown = entry.partition("\n")
            program, *words = shlex.split(command)
            if program == "cat":
                Path(words[0]).write_text(shown)
            else:
                assert main(words) == 0
                assert [line.rstrip() for line in self.printed().splitlines()] == shown.splitlines(), command

    def study(self, block: Block) -> None:
        (name,) = re.findall(r"`([\w-]+\.toml)`", block.above)
        Path(name).write_text(block.text)
        Study.load(name)
        self.tiny().save(name)  # stands in for it from here on: its run is at hand

    def command(self, line: str, block: Block) -> None:
        words = shlex.split(line, comments=True)
        if not words or words[0] in ("pip", ".venv/bin/pre-commit") or OF_ANOTHER_TIME.search(line):
            return
        if words[0] == "make":
            assert f"\n{words[1]}:" in (ROOT / "Makefile").read_text(), line
        elif "python" in words[:2]:
            script_exists(words)
        elif self.is_run(line, block):
            words = expanded(shlex.split(self.smaller(line).partition(" > ")[0], comments=True))
            more = [] if self.in_full else options_absent(SMALL_OPTIONS.get(words[1], ""), words)
            assert self.run([*words[1:], *more]) in (0, 1), line  # 1: the answer is bad news
            self.seen += self.printed()
        else:
            self.look_up(words[1:])

    def run(self, words: list[str]) -> int:
        """A command; in full as users run it, not compiled in the haste of these tests."""
        if not self.in_full:
            return main(words)
        usual = {name: value for name, value in os.environ.items() if name != "XLA_FLAGS"}
        return subprocess.run([sys.executable, "-m", "ilbrl", *words], env=usual).returncode

    def is_run(self, line: str, block: Block) -> bool:
        needed = NEEDS.search(line)
        return not (
            NOT_RUN.search(line)
            or block.heading.startswith("Measured")
            or (needed is not None and find_spec(needed[1]) is None)
        )

    def look_up(self, words: list[str]) -> None:
        depth = 1 if words[1].startswith("-") else 2
        try:
            code = main([*words[:depth], "--help"])
        except SystemExit as stopped:  # tyro's way of ending --help
            code = stopped.code
        assert code == 0
        said = self.printed()
        for option in (word for word in words if word.startswith("--")):
            assert option in said, f"`ilbrl {shlex.join(words)}` uses {option}, which its help does not know"


def options_absent(text: str, words: list[str]) -> list[str]:
    """Of these options with their values, those that a command does not have."""
    options = [option.split() for option in re.findall(r"--[^-].*?(?=$| --)", text)]
    return [word for option in options if option[0] not in words for word in option]


def expanded(words: list[str]) -> list[str]:
    """As a shell does it with stars."""
    return [each for word in words for each in (sorted(map(str, Path().glob(word))) if "*" in word else [word])]


def script_exists(words: list[str]) -> None:
    words = words[words.index("python") + 1 :]
    path = ROOT / (words[1].replace(".", "/") + ".py" if words[0] == "-m" else words[0])
    source = path.read_text()
    for option in (word for word in words if word.startswith("--")):
        assert option in source or option[2:].replace("-", "_") in source, f"{path.name} does not know {option}"


@pytest.fixture(scope="module")
def cache(tmp_path_factory) -> Path:
    """Built-in data, made once for all pages."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def brought(tmp_path, request) -> Callable[[str], dict[str, Any]]:
    """`brought(page)` puts there what the page supposes that its reader has; returns such names in Python."""

    def run(name: str, folder: Path) -> None:
        shutil.copytree(folder, tmp_path / "runs" / name)

    def logs() -> None:
        files = request.getfixturevalue("files")
        shutil.copy(files / "expert.npz", tmp_path / "demos.npz")
        save(load(files / "medium.npz"), tmp_path / "logs.hdf5")
        for name, policy in (("operator", "expert"), ("controller", "medium")):
            shutil.copy(files / f"{policy}.safetensors", tmp_path / f"{name}.safetensors")
        trainee, episodes = pushed_by(1.0, 0.2, 2)
        trainee.save(tmp_path / "trainee.safetensors")
        save(episodes, tmp_path / "trainee_logs.npz")

    def bring(page: str) -> dict[str, Any]:
        for name in ("mine", "policy"):
            benchmark.source_policy("hopper", "medium").save(tmp_path / f"{name}.safetensors")
        if page == "README.md":
            logs()
            run("study", request.getfixturevalue("finished"))
        elif page == "docs/protocol.md":
            logs()
            run("warehouse", request.getfixturevalue("finished"))
            return {"observation": [0.0, 0.0, 0.0], "out": tmp_path / "runs" / "warehouse"}
        elif page == "docs/runs.md":
            run("hopper", request.getfixturevalue("played"))
        elif page == "docs/report.md":
            for task in ("hopper", "ant"):
                run(task, ROOT / "tests" / "results" / "earlier_study" / task)
        return {}

    return bring


PRINTED = {
    "README.md": ("diverged: [False False]", "score: ", "Policy(11 → 256 → 256 → 3 numbers"),
    "docs/evaluation.md": ("mean action", "mean return of an episode of at most 10 steps"),
    "docs/data.md": ("50 [50 50 50]", "1500 500", "(array([-2.], dtype=float32), array([2.], dtype=float32))"),
    "docs/report.md": (r"\begin{table}",),
}


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=[pytest.mark.slow] * (page in SLOW) + [pytest.mark.walk] * (page in IN_FULL))
        for page in PAGES
        if any(block.language for block in blocks(page))
    ],
)
def test_the_examples_of_a_page_run(page, tmp_path, cache, brought, request, monkeypatch, capsys):
    monkeypatch.setenv("ILBRL_CACHE", str(cache))
    monkeypatch.setattr(benchmark, "default_transitions", lambda task, level: 4_000)
    monkeypatch.chdir(tmp_path)
    names = brought(page)
    reader = Reader(page, names, lambda: capsys.readouterr().out, lambda: request.getfixturevalue("tiny"))
    for block in blocks(page):
        reader.follow(block)
    for text in PRINTED.get(page, ()):
        assert text in reader.seen
    for scores in reader.names.get("scores", {}).values():  # of the walk: nearer to the expert than to the logs
        assert scores["policy"] > (scores["logs"] + scores["expert"]) / 2


# --- what the pages list ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_to_files_that_exist(page):
    for target in re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", (ROOT / page).read_text()):
        if "://" not in target:
            assert ((ROOT / page).parent / target).exists(), target


@pytest.mark.parametrize("page", PAGES)
def test_benchmarks_that_are_named_exist(page):
    for name in re.findall(r"benchmarks[./](\w+)", (ROOT / page).read_text()):
        assert (ROOT / "benchmarks" / f"{name}.py").exists(), name


@pytest.mark.parametrize("page", PAGES)
def test_files_and_what_is_in_them_exist(page):
    """`a/b.py` exists, from the package or from the root; `NAME` in `a/b.py` is there."""
    text = (ROOT / page).read_text()
    for name in re.findall(r"`([a-z_0-9]+/[a-z_0-9/]*\.(?:py|html|md))`", text):
        assert home(name).is_file(), name
    for symbol, name in re.findall(r"`(\w+)` in `([\w/.]+)`", text):
        assert re.search(rf"\b{symbol}\b", home(name).read_text()), f"no {symbol} in {name}"


def home(name: str) -> Path:
    return ROOT / name if (ROOT / name).exists() else ROOT / "src" / "ilbrl" / name


@pytest.mark.parametrize("page", ["docs/data.md", "docs/evaluation.md"])
def test_options_that_a_table_explains_exist(page, capsys):
    rows = re.findall(r"^\| `(--.*?)` \|", (ROOT / page).read_text(), re.MULTILINE)
    with pytest.raises(SystemExit):
        main(["evaluate", "--estimator", "expected_sarsa", "--help"])
    known = capsys.readouterr().out.split()
    listed = [word for row in rows for word in row.split() if word.startswith("--")]
    assert listed
    assert [option for option in listed if option not in known] == []


def test_the_demo_installs_no_tools_of_developers():
    demo, tools = re.findall(r"^\$\((?:DEMO_)?READY\):.*\n(?:\t.*\n)*?.*--editable (.*)$", _makefile(), re.MULTILINE)
    assert (demo, tools) == ('".[benchmark]"', '".[dev]"')


def test_every_dependency_has_its_reason():
    (listed,) = re.findall(r"^dependencies = \[\n((?: .*\n)*)\]", (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert len(listed.splitlines()) == 11  # as CONTRIBUTING.md says
    assert [line for line in listed.splitlines() if not re.search(r",\s+# \w", line)] == []


def _makefile() -> str:
    return (ROOT / "Makefile").read_text()


@pytest.mark.parametrize("page", ["README.md", "docs/start.md", "docs/deployment.md"])
def test_the_wheel_is_named_by_the_version(page):
    assert set(re.findall(r"ilbrl-([\d.]+)-py3-none-any\.whl", (ROOT / page).read_text())) == {__version__}


def test_the_picture_of_the_rooms_has_all_of_them_in_import_order():
    picture = (ROOT / "docs/figures/architecture.svg").read_text()
    rooms = re.findall(r'class="name"[^>]*>(\w+)</text>\s*<text class="number"[^>]*>(\d+)<', picture)
    assert [name for name, _ in sorted(rooms, key=lambda room: int(room[1]))] == [
        part for part in ORDER if part != "__main__"
    ]


@pytest.mark.parametrize("name", preset_names())
def test_the_planned_updates_of_the_presets(name):
    (millions,) = re.findall(rf"\| `{name}` \|.*\| ([\d.,]+) million", (ROOT / "docs/protocol.md").read_text())
    study = Study.load(name)
    planned = planned_updates(study, study.training.updates or FEWEST_UPDATES)
    assert float(millions.replace(",", "")) == pytest.approx(planned / 1e6, rel=0.1)


def test_every_file_and_kind_of_job_in_a_run_folder_is_listed(played):
    (tree,) = [block.text for block in blocks("docs/runs.md") if block.text.startswith("RUN/")]
    listed = {line.split()[0].rstrip("/") for line in tree.splitlines() if line.startswith("  ") and line[2] != " "}
    assert {path.name for path in played.iterdir()} <= listed
    assert all(kind in tree for kind in KINDS)


def test_every_field_of_a_run_folder_is_named():
    files = (schema.Audit, schema.DataRecord, schema.TuningRecord, schema.Selection, schema.Scores, schema.Score)
    nested = (schema.TriedSetting, schema.TrustRecord, schema.Chosen, schema.LabelsRecord, schema.Overall)
    nested += (schema.ErrorsRecord,)
    named = [f.name for kind in (*files, *nested) for f in fields(kind)]
    columns = [name for kind in (ResultRow, CurveRow, ValueRow) for name in kind._fields]
    page = (ROOT / "docs/runs.md").read_text()
    assert [name for name in (*named, *columns) if not re.search(rf"\b{name}\b", page)] == []


def test_the_small_print_repeats_the_measured_coverage():
    lines = [line for line in (ROOT / "docs/statistics.md").read_text().splitlines() if line.startswith("| ")]
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines]
    shares: dict[int, list[float]] = {}
    for row in rows:
        if row[0] in ("equal", "unequal"):
            shares.setdefault(int(row[2]), []).append(float(row[4].rstrip(" %")))
    assert shares.keys() == MEASURED_COVERAGE.keys()
    for runs, found in shares.items():
        low, high = MEASURED_COVERAGE[runs]
        assert abs(low - min(found)) <= 0.5
        assert abs(high - max(found)) <= 0.5
