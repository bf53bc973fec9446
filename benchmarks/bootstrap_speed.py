"""Speed of the stratified bootstrap against rliable, and their agreement, in the same run.

    python -m benchmarks.bootstrap_speed [--peer PYTHON] [--turns 3] [--json]

10,000 resamples of the pooled IQM (the definition both share) of 4 algorithms × 6 runs × 4 tasks; `ilbrl`'s own IQM,
trimmed within tasks, beside it. The contestants take turns, and each figure is the median over turns; time is processor
time, of all threads together. rliable 1.2 does not import with pandas 3, so it may live elsewhere: --peer names the
Python of an environment made with `pip install rliable==1.2.0 "pandas<3"`. Without one only our own times are shown.
Goals: at least 40 times faster; point estimates equal to 1e-12.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from statistics import median

import numpy as np

from ilbrl.report.bootstrap import interval
from ilbrl.report.statistics import Statistic, iqm, pooled_iqm

ALGORITHMS, RUNS, TASKS, RESAMPLES = 4, 6, 4, 10_000
PEER = """
import json, sys, time, warnings
warnings.simplefilter("ignore")
import numpy as np
from rliable import library, metrics
scores = {name: np.array(matrix) for name, matrix in json.load(sys.stdin).items()}
started = time.process_time()
points, intervals = library.get_interval_estimates(
    scores, lambda matrix: np.array([metrics.aggregate_iqm(matrix)]), reps=RESAMPLES)
seconds = time.process_time() - started
print(json.dumps({"seconds": seconds, "points": {k: v[0] for k, v in points.items()},
                  "intervals": {k: v[:, 0].tolist() for k, v in intervals.items()}}))
"""


def ours(scores: dict[str, np.ndarray], statistic: Statistic) -> dict:
    rng = np.random.default_rng(0)
    started = time.process_time()
    found = {name: interval(matrix, statistic, rng, RESAMPLES) for name, matrix in scores.items()}
    seconds = time.process_time() - started
    points = {name: float(each.point) for name, each in found.items()}
    return {"seconds": seconds, "points": points, "intervals": {k: [v.low, v.high] for k, v in found.items()}}


def rliable(scores: dict[str, np.ndarray], python: str) -> dict | None:
    """What rliable says in an interpreter of its own; None where it cannot be imported."""
    matrices = json.dumps({name: matrix.tolist() for name, matrix in scores.items()})
    code = PEER.replace("RESAMPLES", str(RESAMPLES))
    done = subprocess.run([python, "-c", code], input=matrices, capture_output=True, text=True)
    return json.loads(done.stdout) if done.returncode == 0 else None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer", default=sys.executable)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    scores = {f"algorithm {i}": rng.normal(50, 20, (RUNS, TASKS)) for i in range(ALGORITHMS)}
    turns = [(ours(scores, pooled_iqm), ours(scores, iqm), rliable(scores, options.peer)) for _ in range(options.turns)]
    pooled, _, peer = turns[0]
    result = {
        "pooled_iqm_seconds": median(turn[0]["seconds"] for turn in turns),
        "iqm_seconds": median(turn[1]["seconds"] for turn in turns),
    }
    if peer is not None:
        seconds = median(turn[2]["seconds"] for turn in turns if turn[2] is not None)
        result |= {
            "rliable_seconds": seconds,
            "ratio": seconds / result["pooled_iqm_seconds"],
            "ratio_within": seconds / result["iqm_seconds"],
            "largest_point_difference": max(abs(pooled["points"][name] - peer["points"][name]) for name in scores),
            "largest_interval_difference": max(
                float(np.abs(np.subtract(pooled["intervals"][name], peer["intervals"][name])).max()) for name in scores
            ),
        }
    if options.json:
        print(json.dumps(result, indent=2))
        return
    print(f"{RESAMPLES:,} resamples of {ALGORITHMS} algorithms × {RUNS} runs × {TASKS} tasks")
    times = (f"{1e3 * result[name]:.1f} ms" for name in ("pooled_iqm_seconds", "iqm_seconds"))
    print("ilbrl    pooled IQM {}, within tasks {}".format(*times))
    if peer is None:
        print("rliable  cannot be imported by this Python: see --peer")
        return
    print(f"rliable  pooled IQM {result['rliable_seconds']:.2f} s: {result['ratio']:.0f} times as long")
    print(f"largest difference of a point estimate {result['largest_point_difference']:.1e},", end=" ")
    print(f"of an interval's end {result['largest_interval_difference']:.2f} (another random draw)")


if __name__ == "__main__":
    main()
