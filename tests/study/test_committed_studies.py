"""The studies that docs/results.md reports: what they promise, and that they are one study of four tasks."""

from pathlib import Path

import pytest

from ilbrl.study.search import configurations_of, draw
from ilbrl.study.study import Study

FOLDER = Path(__file__).parents[2] / "studies"


@pytest.mark.parametrize("episodes", [2, 18])
@pytest.mark.parametrize("task", ["hopper", "halfcheetah", "walker2d", "ant"])
def test_a_study(task, episodes):
    study = Study.load(FOLDER / f"locomotion-{episodes}-{task}.toml")
    assert study.task == task
    assert (study.data.expert_episodes, study.data.expert) == (episodes, f"{{task}}/expert:{episodes}ep")
    assert set(study.search.algorithms) == {"ilbrl", "ilbrl-unweighted", "bc", "smodice", "oril"}
    assert configurations_of(study.search, "ilbrl") == 10
    assert all(configurations_of(study.search, name) >= 6 for name in study.search.algorithms)
    assert study.training.seeds == 5
    assert study.final.episodes == 30
    first = Study.load(FOLDER / f"locomotion-{episodes}-hopper.toml")
    assert draw(study.search, "ilbrl", study.seed) == draw(first.search, "ilbrl", first.seed)
