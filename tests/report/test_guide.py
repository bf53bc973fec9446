"""The example of docs/statistics.md runs as printed, and its table stands behind the small print."""

import re
from pathlib import Path

from ilbrl.report.bootstrap import MEASURED_COVERAGE

GUIDE = (Path(__file__).parents[2] / "docs" / "statistics.md").read_text()


def test_the_example_runs():
    (example,) = re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL)
    names: dict = {}
    exec(compile(example, "statistics.md", "exec"), names)
    assert names["ours"].shape == (6, 4)


def test_the_small_print_repeats_the_measured_table():
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in GUIDE.splitlines() if line.startswith("| ")]
    shares: dict[int, list[float]] = {}
    for row in rows:
        if row[0] in ("equal", "unequal"):
            shares.setdefault(int(row[2]), []).append(float(row[4].rstrip(" %")))
    assert shares.keys() == MEASURED_COVERAGE.keys()
    for runs, found in shares.items():
        low, high = MEASURED_COVERAGE[runs]
        assert abs(low - min(found)) <= 0.5
        assert abs(high - max(found)) <= 0.5
