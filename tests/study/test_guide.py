"""What docs/protocol.md shows is done here: its study loads, its table of presets is right, its phases run."""

import re
import tomllib
from pathlib import Path

import pytest

from ilbrl.base.records import from_table
from ilbrl.results.tables import Candidate
from ilbrl.study.search import ranges_of
from ilbrl.study.session import planned_updates
from ilbrl.study.study import Study

GUIDE = (Path(__file__).parents[2] / "docs" / "protocol.md").read_text()


def example(beginning: str) -> str:
    """The example whose first line begins like this."""
    (found,) = [text for text in re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL) if text.startswith(beginning)]
    return found


def test_the_study_of_your_own_logs():
    (text,) = re.findall(r"```toml\n(.*?)```", GUIDE, re.DOTALL)
    study = from_table(Study, tomllib.loads(text), "docs/protocol.md")
    assert study.known["operator.logs"] == "expert"
    assert ranges_of(study.search, "ilbrl")["lam"].kind == "loguniform"


@pytest.mark.parametrize("name", ["demo", "small", "paper"])
def test_planned_updates(name):
    (millions,) = re.findall(rf"\| `{name}` \|.*\| ([\d.,]+) million \|", GUIDE)
    assert float(millions.replace(",", "")) == pytest.approx(planned_updates(Study.load(name)) / 1e6, rel=0.1)


def test_a_study_in_python(run, tiny, monkeypatch):
    tiny.save(run.parent / "study.toml")
    monkeypatch.chdir(run.parent)
    text = example("import ilbrl").replace("runs/warehouse", str(run))
    exec(text, {"observation": [0.0, 0.0, 0.0]})


def test_phase_by_phase(run, tiny):
    names = {"study": tiny, "out": run}
    exec(example("from ilbrl.study import run"), names)
    assert all(isinstance(each, Candidate) for each in names["found"])
    assert names["selection"].overall is not None
