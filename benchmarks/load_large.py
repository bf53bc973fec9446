"""How long two million ant transitions take to load and check, and how much memory: `python benchmarks/load_large.py`.

A synthetic file of the true shape (27 observation inputs, 8 actions) is written to a temporary folder; each
measurement runs in a fresh process, whose peak resident memory includes Python and NumPy themselves.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import h5py
import numpy as np

OBS_DIM, ACT_DIM, EPISODE = 27, 8, 1000

MEASURE = """
import json, resource, sys, time
from ilbrl.data import load
from ilbrl.data.doctor import examine
start = time.perf_counter()
dataset = load(sys.argv[1])
if sys.argv[2] == "examine":
    start = time.perf_counter()
    examine(dataset)
seconds = time.perf_counter() - start
arrays = [v for v in vars(dataset).values() if hasattr(v, "nbytes")]
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
print(json.dumps([len(dataset), seconds, peak, sum(a.nbytes for a in arrays)]))
"""


def write_d4rl(path: Path, transitions: int, dtype: str, with_next: bool) -> None:
    """A D4RL file of random walks, written in pieces so that this process stays small."""
    rng = np.random.default_rng(0)
    shapes = {"observations": (OBS_DIM,), "actions": (ACT_DIM,), "rewards": ()}
    shapes |= {"next_observations": (OBS_DIM,)} if with_next else {}
    with h5py.File(path, "w") as file:
        columns = {name: file.create_dataset(name, (transitions, *shape), dtype) for name, shape in shapes.items()}
        for start in range(0, transitions, EPISODE):
            rows = slice(start, min(start + EPISODE, transitions))
            walk = rng.normal(size=(EPISODE + 1, OBS_DIM)).cumsum(0)[: rows.stop - start + 1]
            columns["observations"][rows] = walk[:-1]
            if with_next:
                columns["next_observations"][rows] = walk[1:]
            columns["actions"][rows] = rng.uniform(-1, 1, (rows.stop - start, ACT_DIM))
            columns["rewards"][rows] = rng.normal(size=rows.stop - start)
        file["terminals"] = np.zeros(transitions, bool)
        file["timeouts"] = np.arange(1, transitions + 1) % EPISODE == 0


def measure(path: Path, task: str) -> tuple[int, float, int, int]:
    output = subprocess.run([sys.executable, "-c", MEASURE, path, task], check=True, capture_output=True, text=True)
    return json.loads(output.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--transitions", type=int, default=2_000_000)
    transitions = parser.parse_args().transitions
    print(f"{'what':<44}{'transitions':>12}{'seconds':>9}{'peak MB':>9}{'data MB':>9}")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ant.hdf5"
        for dtype, with_next in (("float32", True), ("float64", True), ("float32", False)):
            write_d4rl(path, transitions, dtype, with_next)
            kind = f"{dtype}{'' if with_next else ', without next_observations'}"
            for task in ("load", "examine") if (dtype, with_next) == ("float32", True) else ("load",):
                rows, seconds, peak, size = measure(path, task)
                print(f"{f'{task} ({kind})':<44}{rows:>12,}{seconds:>9.1f}{peak / 1e6:>9,.0f}{size / 1e6:>9,.0f}")


if __name__ == "__main__":
    main()
