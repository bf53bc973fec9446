"""The text that names a dataset, and what comes back for it."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import ilbrl
from ilbrl.base.errors import IlbrlError
from ilbrl.data import from_arrays, save
from ilbrl.data.loading import DatasetText, parse


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """Two episodes of 3 and 2 steps: observations count 0, 1, 2, 3 and 10, 11, 12."""
    dataset = from_arrays(
        observations=[[0], [1], [2], [10], [11]],
        next_observations=[[1], [2], [3], [11], [12]],
        actions=np.zeros((5, 1)),
        rewards=[1, 1, 1, 5, 5],
        terminals=[0, 0, 1, 0, 0],
        timeouts=[0, 0, 0, 0, 1],
    )
    return save(dataset, tmp_path / "logs.npz")


@pytest.mark.parametrize(
    ("text", "spec"),
    [
        ("hopper/medium", DatasetText("hopper/medium")),
        ("hopper/medium:400_000steps", DatasetText("hopper/medium", count=400_000)),
        ("logs.hdf5:18ep", DatasetText("logs.hdf5", count=18, unit="episodes")),
        ("logs.hdf5:18steps", DatasetText("logs.hdf5", count=18)),
        ("d4rl:a/b.dat", DatasetText("a/b.dat", "d4rl")),
        ("npz:a:5steps", DatasetText("a", "npz", 5)),
        ("odd:name.npz", DatasetText("odd:name.npz")),
        ("logs.npz:five", DatasetText("logs.npz:five")),
    ],
)
def test_parse(text: str, spec: DatasetText) -> None:
    assert parse(text) == spec


@pytest.mark.parametrize("count", [":10", ":10_", ":1_0ep", ":10eps", ":10k", f":{'9' * 5000}steps", ":10steps"])
def test_a_count_without_a_unit_could_mean_either_and_is_refused(logs: Path, count: str) -> None:
    wanted = "holds 5 transitions, 10 were asked for" if count == ":10steps" else r":\d+ep for the first episodes"
    with pytest.raises(IlbrlError, match=wanted):
        ilbrl.load(f"{logs}{count}")


def test_names_that_no_file_has(tmp_path: Path) -> None:
    for name, message in (
        ("a" * 5000 + ".npz", "no file or folder has so long a name"),
        ("a\0b.npz", "cannot be read|neither"),
    ):
        with pytest.raises(IlbrlError, match=message):
            ilbrl.load(name)
    with pytest.raises(IlbrlError, match="no file or folder has so long a name"):
        save(from_arrays([[0.0]], [[0.0]], [[0.0]], terminals=[1]), tmp_path / ("a" * 300) / "b.npz")
    with pytest.raises(IlbrlError, match="at most 1,000,000,000"):
        ilbrl.load("hopper/medium:999999999999999steps")


@pytest.mark.parametrize("name", ["p.npz", "p.hdf5", "p.csv", "npz:p.npz", "d4rl:p.hdf5", "csv:p.csv", "minari:p"])
def test_pipes_are_not_waited_for(tmp_path: Path, name: str) -> None:
    prefix, _, file = name.rpartition(":")
    os.mkfifo(tmp_path / file)
    with pytest.raises(IlbrlError, match="/p"):
        ilbrl.load(f"{prefix}:{tmp_path / file}" if prefix else tmp_path / file)


def test_an_existing_file_may_be_named_like_a_count(logs: Path) -> None:
    odd = logs.rename(logs.with_name("npz:7"))
    assert len(ilbrl.load(f"npz:{odd}")) == 5


def test_load_takes_the_first_transitions_or_episodes(logs: Path) -> None:
    assert len(ilbrl.load(logs)) == 5
    assert ilbrl.load(f"{logs}:4steps").observations.ravel().tolist() == [0, 1, 2, 10]
    assert ilbrl.load(f"{logs}:1ep").observations.ravel().tolist() == [0, 1, 2]
    assert ilbrl.load(f"{logs}:1ep").returns().tolist() == [3]


@pytest.mark.parametrize(
    ("suffix", "message"),
    [
        (":6steps", r"5 transitions, 6 were asked"),
        (":3ep", r"2 episodes, 3 were asked"),
        (":0steps", r"no transitions at all"),
    ],
)
def test_more_than_there_is_is_an_error(logs: Path, suffix: str, message: str) -> None:
    with pytest.raises(IlbrlError, match=message):
        ilbrl.load(f"{logs}{suffix}")


def test_save_refuses_what_it_cannot_write(logs: Path, tmp_path: Path) -> None:
    dataset = ilbrl.load(logs)
    with pytest.raises(IlbrlError, match="exists already"):
        save(dataset, logs, overwrite=False)
    with pytest.raises(IlbrlError, match="does not tell a format"):
        save(dataset, tmp_path / "logs")
    assert [path.name for path in tmp_path.iterdir()] == ["logs.npz"]


@pytest.mark.parametrize("target", ["copy.npz", "copy.hdf5", "minari:copy-v0"])
def test_a_full_disk_is_a_sentence_and_leaves_nothing(logs: Path, tmp_path: Path, target: str) -> None:
    script = """
import resource, sys
from ilbrl.data import load, save
logs = load(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))  # bytes that a file may have
save(logs, sys.argv[2])
"""
    words = [sys.executable, "-c", script, str(logs), target]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1  # by the exception, not by a signal
    assert "IlbrlError: copy" in done.stderr.splitlines()[-1]
    assert "cannot be written (File too large)" in done.stderr.splitlines()[-1]
    assert [path.name for path in tmp_path.iterdir()] == ["logs.npz"]


def test_a_file_that_may_not_be_read(logs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(self: Path, mode: str = "r") -> None:
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr(type(logs), "open", forbidden)
    for read in (ilbrl.load, ilbrl.Policy.load):
        with pytest.raises(IlbrlError, match=r"logs\.npz: cannot be read \(Permission denied\)"):
            read(logs)


def test_of_a_built_in_dataset_no_more_is_collected_than_asked_for(logs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    benchmark = pytest.importorskip("ilbrl.data.benchmark")
    asked = []

    def load_benchmark(name: str, transitions: int | None, quiet: bool) -> ilbrl.Dataset:
        asked.append((name, transitions, quiet))
        return ilbrl.load(logs)

    monkeypatch.setattr(benchmark, "load_benchmark", load_benchmark)
    assert len(ilbrl.load("hopper/medium:2steps", quiet=True)) == 2
    assert ilbrl.load("hopper/medium:1ep", quiet=True).num_episodes == 1
    ilbrl.load("hopper/medium", quiet=True)
    assert asked == [("hopper/medium", wanted, True) for wanted in (2, 1000, None)]


def test_a_name_that_is_neither_file_nor_built_in() -> None:
    with pytest.raises(IlbrlError, match="pong/medium: neither a file nor a built-in dataset"):
        ilbrl.load("pong/medium")
