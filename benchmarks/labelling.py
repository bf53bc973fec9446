"""Speed and memory of exact labelling, against a bare (inexact) faiss flat search in the same run.

    python -m benchmarks.labelling [--rows 600000 --expert 18000 --features 23]
    OMP_NUM_THREADS=1 python -m benchmarks.labelling --out docs/results/speed/labelling.json      (where cores are busy)

Goal: within 1.5× of the bare search, under 500 MB above the inputs. Where other work takes the cores, the threads of
exact labelling wait for each other at each of its many small searches, so the ratio is then that of one thread.
"""

from __future__ import annotations

import argparse
import resource
import time
from pathlib import Path
from statistics import median

import faiss
import numpy as np

from benchmarks.machine import record
from ilbrl.rewards import neighbours


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=600_000)
    parser.add_argument("--expert", type=int, default=18_000)
    parser.add_argument("--features", type=int, default=23)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--out", type=Path, help="a JSON file")
    args = parser.parse_args()
    rng = np.random.default_rng(0)
    expert = rng.standard_normal((args.expert, args.features), dtype=np.float32)
    queries = rng.standard_normal((args.rows, args.features), dtype=np.float32)
    index = faiss.IndexFlatL2(args.features)
    index.add(expert)  # pyright: ignore[reportCallIssue]
    neighbours.nearest(queries[:1000], expert, quiet=True)  # imports and thread pools
    inputs = _peak_megabytes()

    exact, bare, error, wrong = [], [], 0.0, 0
    for block in np.array_split(queries, args.turns):  # the two take turns, so that a busy machine disturbs both
        started = time.perf_counter()
        distance, number = neighbours.nearest(block, expert, quiet=True)
        exact.append(time.perf_counter() - started)
        started = time.perf_counter()
        squared, found = index.search(block, 1)  # pyright: ignore[reportCallIssue]
        bare.append(time.perf_counter() - started)
        error = max(error, float(np.abs(np.sqrt(np.maximum(squared[:, 0], 0)) - distance).max()))
        wrong += int((found[:, 0] != number).sum())
    found = {
        "rows": args.rows,
        "expert_rows": args.expert,
        "threads": faiss.omp_get_max_threads(),
        "faiss": faiss.__version__,
        "seconds": sum(exact),
        "ratio": median(e / b for e, b in zip(exact, bare)),
        "megabytes": _peak_megabytes() - inputs,
        "bare_seconds": sum(bare),
        "bare_error": error,
        "bare_wrong_neighbours": wrong,
    }
    print(
        f"{args.rows:,} × {args.expert:,} rows of {args.features} features, {args.turns} turns each,"
        f" {found['threads']} thread(s)\n"
        f"bare faiss  {sum(bare):6.1f} s   largest error of a distance {error:.1e}, {wrong} wrong neighbours\n"
        f"exact       {sum(exact):6.1f} s   {found['ratio']:.2f} × bare (median of turns),"
        f" {found['megabytes']:,.0f} MB above its inputs"
    )
    if args.out:
        record(args.out, found)


def _peak_megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    main()
