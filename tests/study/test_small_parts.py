"""The small parts of the protocol, each against an answer worked out by hand."""

import numpy as np
import pytest

from ilbrl import ope
from ilbrl.base.errors import IlbrlError
from ilbrl.rewards import Labels
from ilbrl.study.evaluator import settings_of
from ilbrl.study.folder import read_csv, write_csv
from ilbrl.study.kinds.describe import summary
from ilbrl.study.narration import duration
from ilbrl.study.study import Evaluation
from ilbrl.study.tables import join
from ilbrl.study.updates import counted


def test_coverage_is_the_share_of_expert_steps_that_are_somebodys_nearest():
    labels = Labels(
        reward=np.array([1, 1, 1, 1, 0.5, 0.25, 0.0], np.float32),
        distance=np.array([0, 0, 0, 0, 1.0, 2.25, 4.0]),
        nearest=np.array([0, 1, 2, 3, 2, 2, 0]),
        d_max=4.0,
        expert_rows=4,
    )
    found = summary(labels)
    assert found["coverage"] == {"covered_share": 0.5, "mean_reward": 0.25}
    assert found["expert"][-1] == 4
    assert sum(found["exploratory"]) == 3
    assert found["exploratory"][0] == found["exploratory"][10] == found["exploratory"][20] == 1  # bins of 1/40
    assert len(found["bins"]) == len(found["expert"]) + 1


def test_updates_of_all_members_are_counted_whatever_the_groups():
    told = []
    log = counted(told.append)
    for update, members in ((10, 3), (20, 3), (10, 2), (20, 2)):  # a population that was trained in two groups
        log({"update": update, "diverged": np.zeros(members, bool)})
    assert told == [30, 30, 20, 20]


def test_the_grid_with_a_studys_changes():
    assert settings_of(Evaluation(grid="paper")) == ope.GRIDS["paper"]
    assert len(ope.GRIDS["paper"]) == 48
    changed = settings_of(
        Evaluation(grid="default", evaluator={"lr": "0.001", "hidden": "[8, 8]", "value_bounds": "true"})
    )
    assert len(changed) == 6  # of 3 fractions × 3 learning rates × 2 rhythms, the rates are now one
    assert {(s.config.lr, s.config.hidden, s.value_bounds) for s in changed} == {(0.001, (8, 8), True)}
    with pytest.raises(IlbrlError, match=r"evaluation\.evaluator\.learning_rate: .*it has expert_fraction, lr"):
        settings_of(Evaluation(evaluator={"learning_rate": "1"}))
    with pytest.raises(IlbrlError, match=r"evaluation\.grid: no grid 'huge'; there are default"):
        settings_of(Evaluation(grid="huge"))


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.4, "0 s"), (59.4, "59 s"), (60, "1 min 0 s"), (185, "3 min 5 s"), (7800, "2 h 10 min")]
)
def test_durations(seconds, text):
    assert duration(seconds) == text


def test_tables_are_joined_and_filled(tmp_path):
    for name, rows in {"a": [["1", ""]], "b": [["2", ""], ["3", "x"]]}.items():
        write_csv(tmp_path / f"{name}.csv", ("n", "task"), rows)
    join(tmp_path / "all.csv", ("n", "task"), [tmp_path / "a.csv", tmp_path / "b.csv"], task="hopper")
    assert [(row["n"], row["task"]) for row in read_csv(tmp_path / "all.csv")] == [(n, "hopper") for n in "123"]
