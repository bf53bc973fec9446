"""Reports are tested on folders that real studies wrote: the small one that all tests share, and the committed ones."""

import csv
import json
import shutil
from pathlib import Path

import pytest

from ilbrl.report import summarise

COMMITTED = Path(__file__).parents[1] / "results" / "earlier_study"


@pytest.fixture(scope="session")
def committed():
    """Task → a folder with five algorithms × four configurations × three seeds, played and revealed, without curves."""
    return {task: COMMITTED / task for task in ("hopper", "halfcheetah", "walker2d", "ant")}


@pytest.fixture(scope="session")
def summary(committed):
    return summarise(list(committed.values()))


@pytest.fixture
def copy(tmp_path):
    """`copy(folder, name)`: a copy to work in, without its jobs, whose audit vouches for nothing: it may be edited."""

    def made(folder: Path, name: str = "run") -> Path:
        place = shutil.copytree(folder, tmp_path / name, ignore=shutil.ignore_patterns("jobs", "policies"))
        audit = json.loads((place / "audit.json").read_text())
        (place / "audit.json").write_text(json.dumps(audit | {"files": {}}))
        return place

    return made


@pytest.fixture
def edit():
    """`edit(path, change)` rewrites a JSON file by a function of its content, or a CSV file by one of its rows."""

    def rewrite(path: Path, change) -> None:
        if path.suffix == ".json":
            content = json.loads(path.read_text())
            change(content)
            path.write_text(json.dumps(content))
            return
        with path.open(newline="") as file:
            rows = list(csv.DictReader(file))
        for row in rows:
            change(row)
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)

    return rewrite


@pytest.fixture
def hostile(played, copy, edit):
    """`hostile(evil)`: the small study with this name for itself, its task, an algorithm, a metric, a known policy."""

    def renamed(value, names: dict):
        if isinstance(value, dict):
            return {names.get(key, key): renamed(each, names) for key, each in value.items()}
        if isinstance(value, list):
            return [renamed(each, names) for each in value]
        return names.get(value, value) if isinstance(value, str) else value

    def written(evil: str) -> Path:
        folder = copy(played, "evil")
        everywhere = dict.fromkeys(("bc", "actor_loss", "Pendulum-v1", "tiny"), evil)
        for path in (*folder.glob("*.json"), *folder.glob("*.csv")):
            names = everywhere | ({"expert": evil} if path.stem in ("tuning", "values") else {})  # elsewhere a role
            if path.suffix == ".json":
                path.write_text(json.dumps(renamed(json.loads(path.read_text()), names)))
            else:
                edit(path, lambda row, names=names: row.update(renamed(dict(row), names)))
        return folder

    return written
