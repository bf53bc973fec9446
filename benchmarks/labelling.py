"""Speed and memory of exact labelling, against a bare (inexact) faiss flat search in the same run.

    python -m benchmarks.labelling [--rows 600000 --expert 18000 --features 23]

Goal: within 1.5× of the bare search, under 500 MB above the inputs.
"""

from __future__ import annotations

import argparse
import resource
import time
from statistics import median

import faiss
import numpy as np

from ilbrl.rewards import neighbours


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=600_000)
    parser.add_argument("--expert", type=int, default=18_000)
    parser.add_argument("--features", type=int, default=23)
    parser.add_argument("--turns", type=int, default=5)
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
    ratio = median(e / b for e, b in zip(exact, bare))
    memory = _peak_megabytes() - inputs
    print(f"{args.rows:,} × {args.expert:,} rows of {args.features} features, {args.turns} turns each")
    print(f"bare faiss  {sum(bare):6.1f} s   largest error of a distance {error:.1e}, {wrong} wrong neighbours")
    print(f"exact       {sum(exact):6.1f} s   {ratio:.2f} × bare (median of turns), {memory:,.0f} MB above its inputs")


def _peak_megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    main()
