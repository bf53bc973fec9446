"""The built-in benchmark: episodes of known policies in locomotion tasks and in tasks with discrete actions, collected
once and cached.

`hopper/medium` names a dataset: a task, and the policy that logged it; `hopper/medium@7` is another one of the same
policy, collected with seed 7 instead of 0. The policies are package data (trained by
`scripts/train_source_policies.py` and its neighbours, returns measured in `returns.json`); `random` draws uniform
actions. Actions are sampled and logged with their probabilities.
Collection runs in units (see `ilbrl.envs`) that depend on the name and the seed alone, so fewer transitions are always
the first rows of more, and a collection that was killed goes on from its last finished unit.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import platform
import re
import shutil
import sys
import zipfile
import zlib
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ilbrl.base.errors import IlbrlError
from ilbrl.base.files import locked, written_whole
from ilbrl.base.progress import progress
from ilbrl.data.dataset import Dataset
from ilbrl.envs import TASKS, UniformPolicy, collect_units, collection_workers
from ilbrl.policy import Policy

LEVELS = ("expert", "medium", "random", "rung1", "rung2", "rung3")
MOST_TRANSITIONS = 1_000_000_000  # more would not fit any machine that we know
RECIPE = 1  # raise it whenever the same seed gives other transitions: old caches are then left alone
_FIELDS = ("observations", "actions", "next_observations", "rewards", "terminals", "timeouts", "log_probs")
_NAME = re.compile(f"({'|'.join(TASKS)})/({'|'.join(LEVELS)})(?:@([0-9]{{1,18}}))?")
_POLICIES = Path(__file__).parent.parent / "source_policies"


class Name(NamedTuple):
    """What the name of a dataset says."""

    task: str
    level: str
    seed: int = 0

    def __str__(self) -> str:
        return f"{self.task}/{self.level}" + (f"@{self.seed}" if self.seed else "")


def is_benchmark(name: str) -> bool:
    """Whether `name` is one of ours, such as "hopper/medium" or "hopper/medium@7"."""
    return _NAME.fullmatch(name) is not None


def find_player(name: str) -> Policy | UniformPolicy:
    """What plays by this name: a built-in policy (`hopper/expert`) or a policy file; your own file comes first."""
    if "@" not in name and is_benchmark(name) and not Path(name).is_file():
        return _player(*name.split("/"))
    return Policy.load(name)


def find_policy(name: str) -> Policy:
    """`find_player`, where only a policy with a network will do."""
    found = find_player(name)
    if isinstance(found, UniformPolicy):
        raise IlbrlError(f"{name}: draws uniform actions and has no network; it can be played, but not evaluated")
    return found


def source_policy(task: str, level: str) -> Policy:
    """The stochastic policy behind the dataset `task/level`; its metadata holds its measured returns."""
    path = _POLICIES / f"{task}-{level}.safetensors"
    if not path.is_file():
        known = ", ".join(level for level in LEVELS if level != "random")
        raise IlbrlError(f"no source policy {task}/{level}: the tasks are {', '.join(TASKS)}, the policies {known}")
    return Policy.load(path)


def _player(task: str, level: str) -> Policy | UniformPolicy:
    if level != "random":
        return source_policy(task, level)
    expert = source_policy(task, "expert")
    return UniformPolicy(expert.action_low, expert.action_high, expert.num_actions)


def measured_returns() -> dict[str, Any]:
    """Returns, scores and lengths of every source policy over its `episodes`, deterministic and stochastic."""
    return json.loads((_POLICIES / "returns.json").read_text())


def source_score(task: str, level: str) -> float:
    """Mean score of a source policy, deterministic as learned policies are."""
    return measured_returns()["policies"][f"{task}/{level}"]["deterministic"]["score_mean"]


def default_transitions(task: str, level: str) -> int:
    """One million; more of `medium`, enough for an evaluation set without expert rows beside the training set.

    A tenth of it where actions are discrete: those tasks are small.
    """
    rows = 1_300_000 if level == "medium" else 1_000_000
    return rows if TASKS[task].action_names is None else rows // 10


def load_benchmark(name: str, transitions: int | None = None, quiet: bool = False) -> Dataset:
    """The first `transitions` of a benchmark dataset, from the cache or collected now."""
    parsed = _parse(name)
    transitions = _count(parsed, transitions)
    return _read(_find(parsed, transitions) or make(name, transitions, quiet), parsed, transitions)


def make(name: str, transitions: int | None = None, quiet: bool = False) -> Path:
    """Collect a dataset into the cache, unless it is there; returns its npz file."""
    parsed = _parse(name)
    transitions = _count(parsed, transitions)
    path = _path(parsed, transitions)
    with locked(path.with_suffix(".lock")):  # another process that wants the same file waits, and then finds it done
        if not (path.is_file() and _record(path).is_file()):
            larger = _find(parsed, transitions)
            if larger is not None:
                _write(path, _read(larger, parsed, transitions), parsed.seed)
            else:
                units = path.with_suffix(".partial")
                _write(path, _collect(parsed, transitions, units, quiet), parsed.seed)
                shutil.rmtree(units)
    return path


def cache_folder() -> Path:
    """$ILBRL_CACHE, or `ilbrl` in the user's cache folder."""
    if chosen := os.environ.get("ILBRL_CACHE"):
        return Path(chosen)
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "ilbrl"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ilbrl"


# --- collecting -------------------------------------------------------------------------------------------------------


def _collect(name: Name, transitions: int, folder: Path, quiet: bool) -> Dataset:
    """Collect unit after unit into `folder`, beginning with those already there, and join them."""
    policy = _player(name.task, name.level)
    # the name is part of the seed: else all policies of a task would start from the same states
    entropy = (name.seed, zlib.crc32(f"{name.task}/{name.level}".encode()))
    files = (folder / f"unit-{i:05}.npz" for i in itertools.count())
    finished = len(list(folder.glob("unit-*.npz")))  # units are written in order
    workers = collection_workers(transitions)
    joined: dict[str, np.ndarray] = {}
    row = 0
    with (
        progress(f"collecting {name}", transitions, "transitions", quiet) as advance,
        contextlib.closing(
            collect_units(policy, name.task, itertools.count(finished), entropy, workers=workers)
        ) as coming,
    ):
        for i, file in enumerate(files):
            if i < finished:
                part = _read_unit(file)
            else:
                part = next(coming)
                with written_whole(file) as partial:
                    np.savez(partial, **part)  # pyright: ignore[reportArgumentType]
            for field, column in part.items():
                whole = joined.setdefault(field, np.empty((transitions, *column.shape[1:]), column.dtype))
                whole[row : row + len(column)] = column[: transitions - row]
            advance(len(part["rewards"]))
            row += len(part["rewards"])
            if row >= transitions:
                break
    return _dataset(joined, name)


def _read_unit(file: Path) -> dict[str, np.ndarray]:
    try:
        with np.load(file, allow_pickle=False) as arrays:
            return {field: arrays[field] for field in _FIELDS}
    except (OSError, EOFError, ValueError, KeyError, zipfile.BadZipFile) as error:
        raise IlbrlError(f"{file}: cannot be read ({error}); delete {file.parent}, and it is collected again") from None


def _dataset(arrays: dict[str, np.ndarray], name: Name) -> Dataset:
    task, level, _ = name
    expert, names = source_policy(task, "expert"), TASKS[task].action_names
    return Dataset(
        **arrays,  # pyright: ignore[reportArgumentType]
        action_low=expert.action_low if names is None else None,
        action_high=expert.action_high if names is None else None,
        action_names=names,
        policy=None if level == "random" else source_policy(task, level),
        source=str(name),
    )


# --- the cache --------------------------------------------------------------------------------------------------------


def _parse(name: str) -> Name:
    found = _NAME.fullmatch(name)
    if found is None:
        raise IlbrlError(
            f"no benchmark dataset {name!r}: it is one of {', '.join(TASKS)} / one of {', '.join(LEVELS)}, and perhaps"
            " @ and a seed of at most 18 digits"
        )
    task, level, seed = found.groups(default="0")
    return Name(task, level, int(seed))


def _count(name: Name, transitions: int | None) -> int:
    transitions = default_transitions(name.task, name.level) if transitions is None else transitions
    if not 1 <= transitions <= MOST_TRANSITIONS:
        raise IlbrlError(f"{name}: asked for {transitions} transitions; at least one and at most {MOST_TRANSITIONS:,}")
    return transitions


def _path(name: Name, transitions: int) -> Path:
    file = f"{name.task}-{name.level}-seed{name.seed}-{transitions}.npz"
    return cache_folder() / f"benchmark-{RECIPE}" / file


def _record(path: Path) -> Path:
    """Beside the arrays: their hash and how they came to be. Written last, so it vouches for a finished file."""
    return path.with_suffix(".json")


def _find(name: Name, transitions: int) -> Path | None:
    """The smallest cached file that begins with these transitions."""
    records = _path(name, 0).parent.glob(f"{name.task}-{name.level}-seed{name.seed}-*.json")
    sizes = sorted(int(record.stem.rpartition("-")[2]) for record in records)
    fitting = (_path(name, size) for size in sizes if size >= transitions)
    return next((path for path in fitting if path.is_file()), None)


def _write(path: Path, dataset: Dataset, seed: int) -> None:
    record = {
        "dataset": dataset.source,
        "seed": seed,
        "transitions": len(dataset),
        "content_hash": dataset.content_hash,
        "recipe": RECIPE,
        **{package: _version(package) for package in ("numpy", "gymnasium", "mujoco")},
        "machine": platform.machine(),
    }
    with written_whole(path) as partial:
        np.savez(partial, **{name: getattr(dataset, name) for name in _FIELDS})
    with written_whole(_record(path)) as partial:
        partial.write_text(json.dumps(record, indent=1) + "\n")


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:  # our own environments need neither Gymnasium nor MuJoCo
        return None


def _read(path: Path, name: Name, transitions: int) -> Dataset:
    """The first rows of a cached file, whose content is checked against the recorded hash."""
    try:
        recorded = json.loads(_record(path).read_text())["content_hash"]
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as file:
            arrays = {field: file[field] for field in _FIELDS}
        whole = _dataset(arrays, name)
    except (OSError, EOFError, ValueError, KeyError, zipfile.BadZipFile, IlbrlError) as error:
        raise IlbrlError(f"{path}: cannot be read ({error}); delete it, and it is collected again") from None
    if whole.content_hash != recorded:
        raise IlbrlError(f"{path}: not what was collected (its hash has changed); delete it, and it is collected again")
    if transitions == len(whole):
        return whole
    return _dataset({field: array[:transitions].copy() for field, array in arrays.items()}, name)
