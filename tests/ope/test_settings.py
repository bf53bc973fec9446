from dataclasses import replace

import pytest

from ilbrl import ope
from ilbrl.base.errors import IlbrlError


def test_the_grids():
    assert {name: len(grid) for name, grid in ope.GRIDS.items()} == {
        "default": 18, "paper": 48, "paper-choice": 1, "small": 3,
    }  # fmt: skip
    paper = ope.GRIDS["paper"]
    assert {s.expert_fraction for s in paper} == {0.0, 0.3, 0.5, 0.8}
    assert {s.config.lr for s in paper} == {3e-6, 3e-5, 3e-4, 3e-3}
    assert {s.config.target_update_every for s in paper} == {2.0, 10.0, 16.0}
    assert not any(s.value_bounds or s.informed_start or s.config.pessimism for s in paper)
    assert ope.GRIDS["paper-choice"][0] in paper


def test_a_record_reads_back():
    setting = ope.Setting(0.3, ope.Config(lr=1e-3, hidden=(8, 8), pessimism=1.0), value_bounds=True)
    assert ope.Setting.from_dict({**setting.as_dict(), "id": 3, "hidden": [8, 8]}) == setting
    with pytest.raises(IlbrlError, match="lacks 'tau'"):
        ope.Setting.from_dict({k: v for k, v in setting.as_dict().items() if k != "tau"})


def test_what_is_asked_of_the_data_is_filled_in(finite):
    data, plain = finite.data(), ope.Setting(0.5, ope.Config(gamma=0.9))
    assert plain.resolved(data) == plain.config
    bounded = replace(plain, value_bounds=True, informed_start=True).resolved(data)
    assert bounded.value_low == 0.0
    assert bounded.value_high == pytest.approx(float(finite.log.rewards.max()) / 0.1)
    assert bounded.start == pytest.approx(float(finite.log.rewards.mean()) / 0.1)
