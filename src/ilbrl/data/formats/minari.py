"""Minari: a folder with `data/main_data.hdf5` (one group per episode) and `data/metadata.json`.

`episode_i/{observations [T + 1, …], actions, rewards, terminations, truncations, infos/…}`. Read and written with
h5py alone; the `minari` package is only needed to download. A Dict observation space of vectors is joined in sorted
key order, with a note. `infos/log_probs`, `infos/is_expert` and a `policy.safetensors` beside the data are ours.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from ilbrl.base.errors import IlbrlError
from ilbrl.base.files import partial_path
from ilbrl.data.checks import LARGEST, counted
from ilbrl.data.dataset import Dataset
from ilbrl.data.formats.arrays import flags, from_arrays
from ilbrl.data.formats.hdf5 import composed, opened, read_rows
from ilbrl.policy import Policy

MAIN_FILE = "main_data.hdf5"
LAYOUT_VERSION = "0.5.0"  # the Minari release whose layout is written; later ones read it
_FLAGS = {"terminals": "terminations", "timeouts": "truncations"}
_INFOS = ("log_probs", "is_expert")


def datasets_root() -> Path:
    """Where the `minari` package keeps its downloads."""
    return Path(os.environ.get("MINARI_DATASETS_PATH") or Path.home() / ".minari" / "datasets")


def folder_of(path: Path) -> Path:
    """The `data` folder of a dataset folder, of that folder itself, of its main file, or of a Minari id."""
    for base in (path, datasets_root() / path):
        for folder in (base / "data", base, base.parent if base.name == MAIN_FILE else base):
            if (folder / MAIN_FILE).is_file():
                return folder
            if (folder / "metadata.json").is_file():
                raise IlbrlError(f"{folder}: is a Minari dataset in another format than HDF5, which alone can be read")
    raise IlbrlError(f"{path}: neither a Minari folder nor a downloaded id; try `minari download {path}` first")


def read(path: Path) -> Dataset:
    folder = folder_of(path)
    with opened(folder / MAIN_FILE) as file:
        described = folder / "metadata.json"
        metadata = json.loads(described.read_text()) if described.is_file() else dict(file.attrs)
        _refuse_images(metadata, path)
        groups = [file[name] for name in sorted(file, key=_number)]
        notes: list[str] = []
        parts = [_read_episode(group, path, notes) for group in groups if isinstance(group, h5py.Group)]
    if not parts:
        raise IlbrlError(f"{path}: holds no episodes")
    columns: dict[str, Any] = {name: _joined(parts, name, path) for name in parts[0] if all(name in p for p in parts)}
    lasts = np.cumsum([len(part["terminals"]) for part in parts]) - 1
    unmarked = lasts[:-1][~(columns["terminals"] | columns["timeouts"])[lasts[:-1]]]
    if len(unmarked):
        columns["timeouts"][unmarked] = True
        notes.append(
            f"{counted(len(unmarked), 'episode')} ended in neither termination nor truncation: taken as time-outs"
        )
    if metadata.get("ilbrl_no_rewards"):
        del columns["rewards"]
    stored = folder / "policy.safetensors"
    policy, warnings = None, []
    if stored.is_file():
        try:
            policy = Policy.load(stored)
        except IlbrlError as error:
            warnings.append(f"the behaviour policy beside the data was left out: {error}")
    source = str(metadata.get("dataset_id", path.name))
    about = _bounds(metadata) | _names(metadata)
    return from_arrays(**columns, **about, policy=policy, source=source, notes=notes, warnings=warnings)


def _number(name: object) -> int:
    return int(str(name).rpartition("_")[2])


def _read_episode(group: h5py.Group, path: Path, notes: list[str]) -> dict[str, np.ndarray]:
    for name in ("observations", "actions", *_FLAGS.values()):
        if name not in group:
            raise IlbrlError(f"{path}: {group.name} has no field {name!r}")
    observations = _observations(group, path, notes)
    episode = {"observations": observations[:-1], "next_observations": observations[1:]}
    if isinstance(group["actions"], h5py.Group):
        raise IlbrlError(f"{path}: {group.name}/actions has several parts; only vectors and integers can be read")
    episode |= {name: read_rows(group, name) for name in ("actions", "rewards") if name in group}
    for ours, theirs in _FLAGS.items():
        episode[ours] = flags(theirs, read_rows(group, theirs), f"{path}: {group.name}")
    episode |= {
        name: read_rows(group, f"infos/{name}") for name in (*_INFOS, "propensities") if f"infos/{name}" in group
    }
    for name, column in episode.items():
        if len(column) != len(episode["actions"]):
            raise IlbrlError(
                f"{path}: {group.name} has {len(episode['actions'])} actions and {len(column)} {name};"
                " Minari stores one observation more than actions"
            )
    return episode


def _observations(group: h5py.Group, path: Path, notes: list[str]) -> np.ndarray:
    stored = group["observations"]
    keys = sorted(stored) if isinstance(stored, h5py.Group) else None
    if keys is None:
        return _vectors(read_rows(group, "observations"), group, path)
    note = f"observations join the keys {', '.join(keys)}, in this order"
    if note not in notes:
        notes.append(note)
    parts = [_vectors(read_rows(group, f"observations/{key}"), group, path) for key in keys]
    return np.concatenate(parts, axis=1, dtype=np.float32)


def _vectors(array: np.ndarray, group: h5py.Group, path: Path) -> np.ndarray:
    if array.ndim > 2:
        raise IlbrlError(f"{path}: {group.name} has observations of shape {array.shape[1:]}; only vectors can be read")
    return array[:, None] if array.ndim == 1 else array


def _refuse_images(metadata: dict[str, Any], path: Path) -> None:
    """Minari stores images as compressed bytes, which would pass for vectors."""
    space = json.loads(metadata.get("observation_space", "{}"))
    for name, part in {"observations": space, **_subspaces(space)}.items():
        if len(part.get("shape", ())) > 1:
            raise IlbrlError(f"{path}: {name} has shape {part['shape']}; only vectors can be read, not images")


def _subspaces(space: dict[str, Any]) -> dict[str, Any]:
    parts = space.get("subspaces", {})
    return parts if isinstance(parts, dict) else {f"observations {i}": part for i, part in enumerate(parts)}


def _joined(parts: list[dict[str, np.ndarray]], name: str, path: Path) -> np.ndarray:
    width = parts[0][name].shape[1:]
    for episode, part in enumerate(parts):
        if part[name].shape[1:] != width:
            raise IlbrlError(
                f"{path}: {name} has rows of shape {part[name].shape[1:]} in episode {episode}, {width} before"
            )
    return np.concatenate([part[name] for part in parts])


def _bounds(metadata: dict[str, Any]) -> dict[str, Any]:
    space = json.loads(metadata.get("action_space", "{}"))
    if space.get("type") != "Box":
        return {}
    bounds = {"action_low": np.array(space["low"], float), "action_high": np.array(space["high"], float)}
    bounded = all((np.abs(bound) < LARGEST).all() for bound in bounds.values())
    return bounds if bounded else {}  # an unbounded space says nothing: infinities, or the largest float32


def _names(metadata: dict[str, Any]) -> dict[str, Any]:
    """Of discrete actions: ours, or the numbers that the space declares."""
    space = json.loads(metadata.get("action_space", "{}"))
    if space.get("type") != "Discrete" or space.get("start", 0) != 0:
        return {}
    declared = list(map(str, range(min(int(space["n"]), 100_000))))
    names = metadata.get("ilbrl_action_names", declared)  # null: we wrote it, and nothing was declared
    return {} if names is None else {"action_names": [str(name) for name in names]}


def write(dataset: Dataset, path: Path) -> None:
    """Write a folder that `minari.MinariDataset(path / "data")` opens.

    Minari keeps T + 1 observations per episode, so every next observation must be the following observation.
    """
    inside = ~(dataset.terminals | dataset.timeouts)[:-1]
    broken = inside & (dataset.next_observations[:-1] != dataset.observations[1:]).any(1)
    if broken.any():
        row = dataset.source_row(np.argmax(broken))
        raise IlbrlError(
            f"{dataset.source}: the next observation of row {row} is not the observation of the row after it,"
            " which Minari cannot store; write npz or D4RL HDF5 instead"
        )
    if path.exists() and not (path / "data" / MAIN_FILE).is_file():
        raise IlbrlError(f"{path}: exists and is not a Minari dataset; it is left alone")
    partial = partial_path(path)
    try:
        (partial / "data").mkdir(parents=True)
        with composed(partial / "data" / MAIN_FILE, track_order=True) as file:
            for number in range(dataset.num_episodes):
                _write_episode(file.create_group(f"episode_{number}"), number, dataset)
        (partial / "data" / "metadata.json").write_text(json.dumps(_metadata(dataset, path)))
        if dataset.policy is not None:
            dataset.policy.save(partial / "data" / "policy.safetensors")
        _put_in_place(partial, path)
    except OSError as error:
        raise IlbrlError(f"{path}: cannot be written ({error.strerror or error})") from None
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _put_in_place(partial: Path, path: Path) -> None:
    """Rename the new folder; the old one is moved aside first, comes back if that fails, and is removed last."""
    old = path.with_name(f".{path.name}.{os.getpid()}.old")
    if path.exists():
        path.rename(old)
    try:
        partial.rename(path)
    except OSError:
        if old.exists():
            old.rename(path)
        raise
    shutil.rmtree(old, ignore_errors=True)


def _write_episode(group: h5py.Group, number: int, dataset: Dataset) -> None:
    start, steps = int(dataset.episode_starts[number]), int(dataset.episode_lengths[number])
    rows = slice(start, start + steps)
    group.attrs.update({"id": number, "total_steps": steps})
    group["observations"] = np.concatenate([dataset.observations[rows], dataset.next_observations[rows][-1:]])
    group["actions"] = dataset.actions[rows]
    group["rewards"] = np.full(steps, np.nan, np.float32) if dataset.rewards is None else dataset.rewards[rows]
    for ours, theirs in _FLAGS.items():
        group[theirs] = getattr(dataset, ours)[rows]
    infos = group.create_group("infos")
    for name in _INFOS:
        column = getattr(dataset, name)
        if column is not None:
            infos[name] = column[rows]


def _metadata(dataset: Dataset, path: Path) -> dict[str, Any]:
    name = re.sub(r"[^-_\w]", "-", path.name)
    if dataset.discrete:
        start, stop = min(0, int(dataset.actions.min())), dataset.num_actions
        actions: dict[str, Any] = {"type": "Discrete", "dtype": "int64", "start": start, "n": stop - start}
    else:
        actions = _box(dataset.act_dim, dataset.action_low, dataset.action_high)
    return {
        "dataset_id": name if re.search(r"-v\d+$", name) else f"{name}-v0",
        "minari_version": LAYOUT_VERSION,
        "data_format": "hdf5",
        "total_episodes": dataset.num_episodes,
        "total_steps": len(dataset),
        "observation_space": json.dumps(_box(dataset.obs_dim)),
        "action_space": json.dumps(actions),
        "description": f"written by ilbrl from {dataset.source}",
        "ilbrl_no_rewards": dataset.rewards is None,
        "ilbrl_action_names": dataset.action_names,
    }


def _box(size: int, low: np.ndarray | None = None, high: np.ndarray | None = None) -> dict[str, Any]:
    lowest = [-np.inf] * size if low is None else low.tolist()
    highest = [np.inf] * size if high is None else high.tolist()
    return {"type": "Box", "dtype": "float32", "shape": [size], "low": lowest, "high": highest}
