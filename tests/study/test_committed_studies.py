"""The studies that docs/results.md reports: what they promise, and that they are one study of four tasks."""

from pathlib import Path

import pytest

from ilbrl.study.search import draw
from ilbrl.study.study import Study

FOLDER = Path(__file__).parents[2] / "studies"


@pytest.mark.parametrize("task", ["hopper", "halfcheetah", "walker2d", "ant"])
def test_a_study(task):
    study = Study.load(FOLDER / f"locomotion-{task}.toml")
    assert study.task == task
    assert study.data.expert_episodes == 2
    assert set(study.search.algorithms) == {"ilbrl", "ilbrl-unweighted", "bc", "smodice", "oril"}
    assert study.search.configurations >= 4
    assert study.training.seeds >= 3
    assert (study.training.updates or 0) >= 200_000
    assert study.final.episodes == 30
    first = Study.load(FOLDER / "locomotion-hopper.toml")
    assert draw(study.search, "ilbrl", study.seed) == draw(first.search, "ilbrl", first.seed)
