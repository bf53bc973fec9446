"""The studies that docs/results.md reports: what they promise, and that they are one study of four tasks."""

from pathlib import Path

import pytest

from ilbrl.study.search import configurations_of, draw
from ilbrl.study.study import Study

FOLDER = Path(__file__).parents[2] / "studies"


@pytest.mark.parametrize(
    ("episodes", "expert", "configurations", "imagine"),
    [(18, "{task}/expert:18ep", 10, ()), (2, "{task}/expert@2:2ep", 8, ("ilbrl", "ilbrl-unweighted"))],
)
@pytest.mark.parametrize("task", ["hopper", "halfcheetah", "walker2d", "ant"])
def test_a_study(task, episodes, expert, configurations, imagine):
    study = Study.load(FOLDER / f"locomotion-{episodes}-{task}.toml")
    assert study.task == task
    assert (study.data.expert_episodes, study.data.expert) == (episodes, expert)
    assert set(study.search.algorithms) == {"ilbrl", "ilbrl-unweighted", "bc", "smodice", "oril"}
    assert configurations_of(study.search, "ilbrl") == configurations
    assert all(configurations_of(study.search, name) >= 6 for name in study.search.algorithms)
    assert study.training.seeds == 5
    assert study.training.imagine == imagine
    assert study.final.episodes == 30
    first = Study.load(FOLDER / f"locomotion-{episodes}-hopper.toml")
    assert draw(study.search, "ilbrl", study.seed) == draw(first.search, "ilbrl", first.seed)


@pytest.mark.parametrize("task", ["hopper", "halfcheetah", "walker2d", "ant"])
def test_the_study_with_imagined_steps_has_the_data_of_the_one_beside_it(task):
    study, beside = (Study.load(FOLDER / f"locomotion-{name}-{task}.toml") for name in ("18-imagined", "18"))
    assert (study.data, study.seed, study.task, study.final) == (beside.data, beside.seed, task, beside.final)
    assert study.training.imagine == study.search.algorithms == ("ilbrl", "ilbrl-unweighted")
    assert (configurations_of(study.search, "ilbrl"), study.training.seeds) == (8, 5)
    assert study.evaluation.intrinsic
