"""Damaged and strange files of every format: an IlbrlError, or a dataset that the doctor can examine.

Mutants are made from seeds and run in a child process with limits on memory and time: a library that crashes on a
damaged file would take the tests down.
"""

from __future__ import annotations

import gzip
import json
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pytest

from ilbrl.base.errors import IlbrlError
from ilbrl.data import from_arrays, load, save
from ilbrl.data.doctor import examine
from ilbrl.data.summary import summarise

MUTANTS, PER_BATCH, SECONDS = 500, 50, 240
Arrays = dict[str, np.ndarray]
STEPS = 12
ENDS = np.arange(STEPS) % 4 == 3
TRAIL = np.random.default_rng(0).normal(size=(STEPS + 3, 2)).astype(np.float32)
PLAIN: Arrays = {
    "observations": TRAIL[:STEPS],
    "actions": np.random.default_rng(1).uniform(-1, 1, (STEPS, 1)).astype(np.float32),
    "next_observations": TRAIL[1 : STEPS + 1],
    "rewards": np.ones(STEPS, np.float32),
    "terminals": ENDS,
    "timeouts": np.zeros(STEPS, bool),
    "infos/action_log_probs": np.zeros(STEPS, np.float32),
    "metadata/policy/fc0/weight": np.ones((3, 2), np.float32),
    "metadata/policy/fc0/bias": np.ones(3, np.float32),
    "metadata/policy/last_fc/weight": np.ones((1, 3), np.float32),
    "metadata/policy/last_fc/bias": np.ones(1, np.float32),
    "metadata/policy/last_fc_log_std/weight": np.ones((1, 3), np.float32),
    "metadata/policy/last_fc_log_std/bias": np.ones(1, np.float32),
}
IMITATION: Arrays = {
    "obs": TRAIL,
    "acts": PLAIN["actions"],
    "rews": PLAIN["rewards"],
    "indices": np.array([4, 8]),
    "terminal": np.array([True, False, True]),
}
EPISODES: Arrays = {
    f"episode_{i}/{name}": array
    for i in range(2)
    for name, array in {
        "observations": TRAIL[:5],
        "actions": PLAIN["actions"][:4],
        "rewards": PLAIN["rewards"][:4],
        "terminations": ENDS[:4],
        "truncations": np.zeros(4, bool),
    }.items()
}
DEMOS: Arrays = {
    f"data/demo_{i}/{name}": array
    for i in range(2)
    for name, array in {
        "obs/joints": TRAIL[:4],
        "next_obs/joints": TRAIL[1:5],
        "actions": PLAIN["actions"][:4],
        "rewards": PLAIN["rewards"][:4],
        "dones": ENDS[:4],
    }.items()
}
TABLE: dict[str, list] = {
    "episode": [i // 4 for i in range(STEPS)],
    "step": [i % 4 for i in range(STEPS)],
    "observation_0": TRAIL[:STEPS, 0].tolist(),
    "observation_1": TRAIL[:STEPS, 1].tolist(),
    "action_0": PLAIN["actions"][:, 0].tolist(),
    "reward": [1.0] * STEPS,
    "done": ENDS.astype(int).tolist(),
}


def write_npz(arrays: Arrays, path: Path) -> None:
    with path.open("wb") as file:
        np.savez(file, **{name.removeprefix("metadata/"): array for name, array in arrays.items()})


def write_hdf5(arrays: Arrays, path: Path) -> None:
    with h5py.File(path, "w") as file:
        for name, array in arrays.items():
            file[name] = array.astype("S") if array.dtype.kind in "UO" else array


def write_csv(table: dict[str, list], path: Path) -> None:
    lines = [",".join(map(str, row)) for row in [list(table), *zip(*table.values())]]
    text = "\n".join(lines).encode(errors="replace")
    path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)


def write_parquet(table: dict[str, list], path: Path) -> None:
    import pandas

    pandas.DataFrame(table).to_parquet(path)


def write_minari(arrays: Arrays, path: Path) -> None:
    save(from_arrays(**{name: PLAIN[name] for name in list(PLAIN)[:6]}), f"minari:{path.parent.parent}")
    write_hdf5(arrays, path)


KINDS: dict[str, tuple[dict, Callable, str]] = {
    "npz": (PLAIN, write_npz, "a.npz"),
    "d4rl": (PLAIN, write_hdf5, "a.hdf5"),
    "imitation": (IMITATION, write_npz, "a.npz"),
    "robomimic": (DEMOS, write_hdf5, "a.hdf5"),
    "minari": (EPISODES, write_minari, "minari-v0/data/main_data.hdf5"),
    "csv": (TABLE, write_csv, "a.csv"),
    "csv.gz": (TABLE, write_csv, "a.csv.gz"),
    "parquet": (TABLE, write_parquet, "a.parquet"),
}
STRANGE = [np.nan, np.inf, -1, 0.5, 2.0**63, 1e300, "yes", "", None]


def mutant(seed: int, folder: Path) -> str:
    """Write one damaged or strange file and return what to load."""
    rng = np.random.default_rng(seed)
    kind = list(KINDS)[seed % len(KINDS)]
    content, write, name = KINDS[kind]
    path = folder / name
    if rng.random() < 0.5:
        change = strange_table if content is TABLE else strange_arrays
        write(change(dict(content), rng), path)
    else:
        write(content, path)
        victim = path.with_name("metadata.json") if kind == "minari" and rng.random() < 0.5 else path
        victim.write_bytes(damaged(bytearray(victim.read_bytes()), rng))
    return f"minari:{folder}/minari-v0" if kind == "minari" else str(path)


def strange_arrays(arrays: Arrays, rng: np.random.Generator) -> Arrays:
    name = str(rng.choice(list(arrays)))
    array = arrays[name]
    wide = array.astype(np.float64)
    wide.flat[rng.integers(wide.size)] = rng.choice([np.nan, np.inf, -1, 0.5, 1e300])
    changes = [
        array[:-1], array[None], array.ravel(), array[..., :0], array[::-1], np.array(3), wide, array.astype(str),
        array.astype(np.uint64) - np.uint64(1), array.astype(complex),
    ]  # fmt: skip
    arrays[name] = changes[rng.integers(len(changes))]
    if rng.random() < 0.2:
        del arrays[str(rng.choice(list(arrays)))]
    return arrays


def strange_table(table: dict[str, list], rng: np.random.Generator) -> dict[str, list]:
    name = str(rng.choice(list(table)))
    column = list(table[name])
    for row in rng.integers(0, len(column), rng.integers(1, 4)):
        column[row] = STRANGE[rng.integers(len(STRANGE))]
    if rng.random() < 0.3:
        del table[name]
        name = rng.choice(["", "observation_9", "obs_a", name.upper(), name + ";"])
    if len({type(each) for each in column}) > 1:  # Parquet has one type per column
        numeric = [each if isinstance(each, int | float) else np.nan for each in column]
        column = [str(each) for each in column] if rng.random() < 0.5 else numeric
    return {**table, str(name): column}


def damaged(content: bytearray, rng: np.random.Generator) -> bytes:
    kind = rng.integers(4)
    at = int(rng.integers(len(content)))
    if kind == 0:
        return bytes(content[:at])
    if kind == 1:
        return bytes(content[:at] + rng.bytes(int(rng.integers(1, 200))) + content[at:])
    if kind == 2:
        return bytes(content[:at] + content[at + int(rng.integers(1, 200)) :])
    for position in rng.integers(0, len(content), rng.integers(1, 30)):
        content[position] = rng.integers(256)
    return bytes(content)


def outcome(seed: int) -> str:
    """`refused`, `read`, or what went wrong."""
    with tempfile.TemporaryDirectory() as folder:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            what = mutant(seed, Path(folder))
        started = time.monotonic()
        try:
            dataset = load(what)
            examine(dataset)
            json.dumps(summarise(dataset), allow_nan=False)
            found = "read"
        except IlbrlError as error:
            found = "refused" if str(error).count("\n") == 0 else f"more than one line: {error}"
        except BaseException as error:
            found = f"{type(error).__name__}: {error}"
        seconds = time.monotonic() - started
        return found if seconds < 10 else f"took {seconds:.0f} s"


def batch(first: int, stop: int) -> None:
    """In a child: one JSON line per mutant."""
    resource.setrlimit(resource.RLIMIT_AS, (8 * 2**30, 8 * 2**30))
    warnings.simplefilter("error")
    for seed in range(first, stop):
        print(json.dumps([seed, outcome(seed)]), flush=True)


@pytest.mark.slow
def test_mutants_are_refused_or_read() -> None:
    """500 mutants within a time limit; a child that dies or hangs names the mutant after its last line."""
    pytest.importorskip("pandas")
    started, seen = time.monotonic(), dict[int, str]()
    for first in range(0, MUTANTS, PER_BATCH):
        words = [sys.executable, __file__, str(first), str(min(first + PER_BATCH, MUTANTS))]
        done = subprocess.run(words, capture_output=True, text=True, timeout=SECONDS, check=False)
        seen |= dict(map(json.loads, done.stdout.splitlines()))
        if done.returncode:
            last = max((seed for seed in seen if seed >= first), default=first - 1)
            pytest.fail(f"mutant {last + 1} ended its process ({done.returncode}): {done.stderr[-2000:]}")
        if time.monotonic() - started > SECONDS:
            break
    assert len(seen) >= MUTANTS // 2, "too slow: fewer than half of the mutants within the time limit"
    wrong = {seed: found for seed, found in seen.items() if found not in ("read", "refused")}
    assert not wrong
    assert 0.1 < np.mean([found == "read" for found in seen.values()]) < 0.9, "mutants are too mild or too wild"


if __name__ == "__main__":
    batch(int(sys.argv[1]), int(sys.argv[2]))
