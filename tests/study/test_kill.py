"""kill −9 at random moments: whatever was going on, the continued study ends in the same bits."""

import json
from collections import Counter
from pathlib import Path

import pytest
from benchmarks.kills import PHASES, kill_often, tiny_study


@pytest.mark.slow
def test_ten_kills(tmp_path):
    found = kill_often(tiny_study(tmp_path), tmp_path, kills=10, seed=1)
    assert found["kills"] == 10
    assert found["unequal"] == []


def test_the_record_of_a_hundred_kills_says_what_the_page_says():
    docs = Path(__file__).parents[2] / "docs"
    found = json.loads((docs / "results" / "kills" / "kills.json").read_text())
    assert (found["kills"], found["unequal"]) == (100, [])
    assert len(found["moments"]) == 100
    assert found["kills_in"] == Counter(moment["doing"] for moment in found["moments"])
    assert set(PHASES) <= set(found["kills_in"])
    said = " ".join((docs / "protocol.md").read_text().split())
    assert f"killed (SIGKILL) {found['kills']} times" in said
    assert f"in {found['studies']} folders" in said
    assert found["commit"] in said
