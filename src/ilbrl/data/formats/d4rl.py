"""D4RL HDF5: flat arrays at the root of the file, behaviour policy under `metadata/policy`.

`observations`, `actions`, `rewards`, `terminals`, `timeouts`, `next_observations`, `infos/action_log_probs`; old
files lack some of them (see `arrays.py` for what happens then). We add `infos/is_expert` and
`metadata/action_low`, `metadata/action_high`, so that writing and reading back loses nothing.
"""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np

from ilbrl.base.errors import IlbrlError
from ilbrl.base.files import written_whole
from ilbrl.data.dataset import Dataset
from ilbrl.data.formats.arrays import from_arrays
from ilbrl.data.formats.behaviour import policy_from_fields, policy_to_fields
from ilbrl.data.formats.hdf5 import composed, opened, read_array, read_text
from ilbrl.policy import Policy

# The field of a Dataset → where the file keeps it.
FIELDS = {
    "observations": "observations",
    "actions": "actions",
    "next_observations": "next_observations",
    "rewards": "rewards",
    "terminals": "terminals",
    "timeouts": "timeouts",
    "log_probs": "infos/action_log_probs",
    "is_expert": "infos/is_expert",
    "action_low": "metadata/action_low",
    "action_high": "metadata/action_high",
}


def read(path: Path, *, max_episode_steps: int | None = None) -> Dataset:
    with opened(path) as file:
        for name in ("observations", "actions"):
            if name not in file:
                fields = ", ".join(sorted(file)) or "nothing"
                raise IlbrlError(f"{path}: has no field {name!r}, only {fields}; is it a D4RL file?")
        columns = {name: read_array(file, field) for name, field in FIELDS.items() if field in file}
        notes: list[str] = []
        policy = _read_policy(file, notes)
    return from_arrays(**columns, policy=policy, source=path.name, notes=notes, max_episode_steps=max_episode_steps)


def write(dataset: Dataset, path: Path) -> None:
    with written_whole(path) as partial, composed(partial) as file:
        for name, field in FIELDS.items():
            array = getattr(dataset, name)
            if array is not None:
                file[field] = array
        if dataset.policy is not None:
            arrays, texts = policy_to_fields(dataset.policy)
            for name, value in arrays.items():
                file[f"metadata/policy/{name}"] = value
            for name, text in texts.items():
                file[f"metadata/policy/{name}"] = np.bytes_(text.encode())


def _read_policy(file: h5py.File, notes: list[str]) -> Policy | None:
    group = file.get("metadata/policy")
    if not isinstance(group, h5py.Group):
        return None
    names: list[str] = []
    group.visititems(lambda name, item: names.append(name) if isinstance(item, h5py.Dataset) else None)
    textual = [name for name in names if group[name].dtype.kind in "SO"]  # pyright: ignore[reportAttributeAccessIssue]
    try:
        texts = {name: read_text(group, name) for name in textual}
        arrays = {name: read_array(group, name) for name in names if name not in textual}
        return policy_from_fields(arrays, texts)
    except (IlbrlError, ValueError) as error:  # the data is usable without it
        notes.append(f"the behaviour policy in metadata/policy was left out: {error}")
        return None
