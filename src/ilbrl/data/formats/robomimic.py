"""robomimic HDF5: `data/demo_i/{obs/<key>, next_obs/<key>, actions, rewards, dones}`, filters under `mask/<name>`.

Low-dimensional observation keys are joined in sorted order; images are left out; both are noted. A demo is an
episode: its last `done` tells a terminal from a time-out. robomimic may also raise `dones` in earlier rows, wherever
the task is already solved, without the episode ending there.
"""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np

from ilbrl.base.errors import IlbrlError
from ilbrl.data.dataset import Dataset
from ilbrl.data.formats.arrays import flags, from_arrays
from ilbrl.data.formats.hdf5 import opened, read_rows, read_texts


def read(path: Path, *, mask: str | None = None) -> Dataset:
    """All demos, or those of one filter: `mask="train"`, or `#train` after the path."""
    if mask is None and "#" in path.name and not path.exists():
        name, mask = path.name.rsplit("#", 1)
        path = path.with_name(name)
    with opened(path) as file:
        demos = _demos(file, path, mask)
        keys, images = _observation_keys(demos[0], path)
        names = [str(demo.name) for demo in demos]
        parts = [_read_demo(demo, number, keys, path) for number, demo in enumerate(demos)]
    notes = [f"observations join the keys {', '.join(keys)}, in this order; dones count as terminals at a demo's end"]
    if images:
        notes.append(f"the keys {', '.join(images)} were left out: they are not vectors (images, point clouds)")
    shared = [name for name in parts[0] if all(name in part for part in parts)]
    columns = {name: _joined([part[name] for part in parts], names, name, path) for name in shared}
    source = path.name if mask is None else f"{path.name}#{mask}"
    return from_arrays(**columns, source=source, notes=notes)  # pyright: ignore[reportArgumentType]


def _demos(file: h5py.File, path: Path, mask: str | None) -> list[h5py.Group]:
    data = file.get("data")
    if not isinstance(data, h5py.Group) or not len(data):
        raise IlbrlError(f"{path}: has no demos under 'data', so it is not a robomimic file")
    names = list(data)
    if mask is not None:
        filters = file.get("mask")
        known = sorted(filters) if isinstance(filters, h5py.Group) else []
        if mask not in known:
            raise IlbrlError(f"{path}: has no filter {mask!r} under 'mask', only {', '.join(known) or 'none'}")
        assert isinstance(filters, h5py.Group)
        names = read_texts(filters, mask)
        lost = [name for name in names if name not in data]
        if lost or not names:
            raise IlbrlError(f"{path}: mask/{mask} names {lost[0] if lost else 'no demo at all'}, which is not in data")
    demos = [data[name] for name in sorted(names, key=_number)]
    return [demo for demo in demos if isinstance(demo, h5py.Group)]


def _number(name: str) -> tuple[int, str]:
    digits = name.rpartition("_")[2]
    return (int(digits), name) if digits.isdecimal() else (-1, name)


def _observation_keys(demo: h5py.Group, path: Path) -> tuple[list[str], list[str]]:
    """(vector keys, other keys), as the first demo has them."""
    group = demo.get("obs")
    if not isinstance(group, h5py.Group):
        raise IlbrlError(f"{path}: {demo.name} has no observations under 'obs'")
    vectors = [key for key in sorted(group) if getattr(group[key], "ndim", 0) in (1, 2)]
    if not vectors:
        raise IlbrlError(f"{path}: {demo.name}/obs holds only images; extract low-dimensional observations first")
    return vectors, sorted(set(group) - set(vectors))


def _read_demo(demo: h5py.Group, number: int, keys: list[str], path: Path) -> dict[str, np.ndarray]:
    columns = {"observations": _vectors(demo, "obs", keys, path)}
    if "actions" not in demo:
        raise IlbrlError(f"{path}: {demo.name} has no field 'actions'")
    if "next_obs" in demo:
        columns["next_observations"] = _vectors(demo, "next_obs", keys, path)
    columns |= {name: read_rows(demo, name) for name in ("actions", "rewards") if name in demo}
    steps = len(columns["actions"])
    columns["terminals"], columns["episodes"] = np.zeros(steps, bool), np.full(steps, number)
    if "dones" in demo and steps:
        dones = flags("dones", read_rows(demo, "dones"), f"{path}: {demo.name}")
        if dones.ndim != 1 or not len(dones):
            raise IlbrlError(f"{path}: {demo.name} has dones of shape {dones.shape}; one number per step is needed")
        columns["terminals"][-1] = dones[-1]
    for name, column in columns.items():
        if len(column) != steps:
            raise IlbrlError(f"{path}: {demo.name} has {steps} actions but {len(column)} {name}")
    return columns


def _vectors(demo: h5py.Group, group: str, keys: list[str], path: Path) -> np.ndarray:
    lost = [key for key in keys if f"{group}/{key}" not in demo]
    if lost:
        raise IlbrlError(f"{path}: {demo.name} has no {group}/{lost[0]}, which other demos have")
    arrays = [read_rows(demo, f"{group}/{key}") for key in keys]
    if len({len(array) for array in arrays}) > 1:
        raise IlbrlError(f"{path}: the keys of {demo.name}/{group} have different numbers of rows")
    return np.concatenate([array.reshape(len(array), -1) for array in arrays], axis=1, dtype=np.float32)


def _joined(parts: list[np.ndarray], demos: list[str], name: str, path: Path) -> np.ndarray:
    for part, demo in zip(parts, demos):
        if part.shape[1:] != parts[0].shape[1:]:
            raise IlbrlError(
                f"{path}: {name} of {demo} has rows of shape {part.shape[1:]},"
                f" of {demos[0]} {parts[0].shape[1:]}; every demo must have the same"
            )
    return np.concatenate(parts)
