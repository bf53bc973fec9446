"""Speed of collecting benchmark data, against the bare environment loop in the same run.

    python -m benchmarks.collection_speed [--task hopper] [--transitions 1000000] [--out collection.json]

Two processes of one thread each take turns, unit after unit of about 16,000 transitions:
  collected  a unit as `ilbrl` collects it: policy, log-probabilities, everything stored
  bare       the same episodes again, in a plain loop over `gymnasium.make`: the logged actions, nothing stored
The bare loop must earn the same rewards, so both do the same physics. Time is processor time, and the ratio is the
median over turns: a busy machine disturbs single turns. Goal: at least 0.85.
"""

from __future__ import annotations

import argparse
import itertools
import multiprocessing
import os
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np

from benchmarks.machine import record
from ilbrl import envs
from ilbrl.base.processes import LINEAR_ALGEBRA
from ilbrl.data.benchmark import source_policy
from ilbrl.envs.playing import Play, unit_randomness
from ilbrl.envs.rollouts import COLLECTION, COLLECTION_LANES, COLLECTION_STEPS, log_unit

Log = dict[str, np.ndarray]


def collected(play: Play, unit: int) -> tuple[Log, float]:
    started = time.process_time()
    log, _ = log_unit(play, unit)
    return log, time.process_time() - started


def bare(play: Play, unit: int, log: Log) -> float:
    """Replay each lane of the unit from its seed; processor seconds spent in the loop."""
    env = envs.make(play.task)
    seeds, _ = unit_randomness(play, unit)
    ended = log["terminals"] | log["timeouts"]
    earned = np.zeros(len(ended))
    started = time.process_time()
    row = 0
    for seed in seeds:
        env.reset(seed=seed)
        steps = 0
        while True:
            _, earned[row], terminated, truncated, _ = env.step(log["actions"][row])
            row += 1
            steps += 1
            if terminated or truncated:
                if steps >= play.min_steps:
                    break
                env.reset()
    seconds = time.process_time() - started
    assert row == len(ended), "the bare loop ended its episodes elsewhere"
    np.testing.assert_array_equal(earned.astype(np.float32), log["rewards"])
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", default="hopper", choices=list(envs.TASKS))
    parser.add_argument("--level", default="medium")
    parser.add_argument("--transitions", type=int, default=1_000_000)
    parser.add_argument("--out", type=Path, help="a JSON file")
    options = parser.parse_args()
    policy = source_policy(options.task, options.level)
    play = Play(policy, options.task, 0, COLLECTION, True, COLLECTION_LANES, COLLECTION_STEPS)
    os.environ.update(LINEAR_ALGEBRA)  # both processes get what workers get
    spawn = multiprocessing.get_context("spawn")
    turns: list[tuple[int, float, float]] = []  # transitions, and the seconds of either process
    with ProcessPoolExecutor(1, spawn) as collector, ProcessPoolExecutor(1, spawn) as replayer:
        for unit in itertools.count():
            log, used = collector.submit(collected, play, unit).result()
            again = replayer.submit(bare, play, unit, log).result()
            if unit == 0:  # imports and first calls
                continue
            turns.append((len(log["rewards"]), used, again))
            if sum(rows for rows, _, _ in turns) >= options.transitions:
                break
    rows, ours, theirs = np.array(turns).T
    result = {
        "task": f"{options.task}/{options.level}",
        "transitions": int(rows.sum()),
        "collected_steps_per_second": rows.sum() / ours.sum(),
        "bare_steps_per_second": rows.sum() / theirs.sum(),
        "ratio": float(np.median(theirs / ours)),
    }
    print(
        f"{result['task']}: {result['transitions']:,} transitions,"
        f" collected {result['collected_steps_per_second']:,.0f} steps/s per core,"
        f" bare loop {result['bare_steps_per_second']:,.0f} steps/s, ratio {result['ratio']:.2f} (median of turns)"
    )
    if options.out:
        record(options.out, result)


if __name__ == "__main__":
    main()
