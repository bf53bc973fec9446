"""What docs/protocol.md shows works: its study loads, its table of presets is right, its phases exist."""

import re
import tomllib
from pathlib import Path

import pytest

from ilbrl.study import phases, toml
from ilbrl.study.search import ranges_of
from ilbrl.study.session import planned_updates
from ilbrl.study.study import Study

GUIDE = (Path(__file__).parents[2] / "docs" / "protocol.md").read_text()


def test_the_study_of_your_own_logs():
    (text,) = re.findall(r"```toml\n(.*?)```", GUIDE, re.DOTALL)
    study = toml.from_table(Study, tomllib.loads(text))
    assert study.known["operator.logs"] == "expert"
    assert ranges_of(study.search, "ilbrl")["lam"].kind == "loguniform"


@pytest.mark.parametrize("name", ["demo", "small", "paper"])
def test_planned_updates(name):
    (millions,) = re.findall(rf"\| `{name}` \|.*\| ([\d.,]+) million \|", GUIDE)
    assert float(millions.replace(",", "")) == pytest.approx(planned_updates(Study.load(name)) / 1e6, rel=0.1)


def test_the_phases_that_are_shown_exist():
    for name in re.findall(r"phases\.(\w+)\(", GUIDE):
        assert callable(getattr(phases, name))
