"""kill −9 at random moments: whatever was going on, the continued study ends in the same bits."""

import pytest
from benchmarks.kills import kill_often, tiny_study


@pytest.mark.slow
def test_ten_kills(tmp_path):
    found = kill_often(tiny_study(tmp_path), tmp_path, kills=10, seed=1)
    assert found["kills"] == 10
    assert found["unequal"] == []
