"""D4RL HDF5: flat arrays at the root of the file, behaviour policy under `metadata/policy`.

`observations`, `actions`, `rewards`, `terminals`, `timeouts`, `next_observations`, `infos/action_log_probs`; old
files lack some of them (see `arrays.py` for what happens then). We add `infos/is_expert` and
`metadata/action_low`, `metadata/action_high`, and names as `metadata/action_names`, `metadata/observation_columns` and
`metadata/action_columns`, so that writing and reading back loses nothing.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np

from ilbrl.base.errors import IlbrlError
from ilbrl.base.files import written_whole
from ilbrl.data.dataset import Dataset
from ilbrl.data.formats.arrays import from_arrays, joined, names_of_columns
from ilbrl.data.formats.behaviour import policy_or_doubt, policy_to_fields
from ilbrl.data.formats.hdf5 import composed, leaves, opened, read_array, read_text, read_texts
from ilbrl.data.reading import Reading, homes, unused
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
READ_ALSO = {"episodes": ("episodes",), "propensities": ("propensities",)}  # where other people's files have them
_NAMES = {name: f"metadata/{name}" for name in ("action_names", "observation_columns", "action_columns")}


def read(path: Path, reading: Reading = Reading()) -> Dataset:  # noqa: B008 - immutable
    warnings: list[str] = []
    with opened(path) as file:
        stored = [str(name) for name in file if isinstance(file.get(name), h5py.Dataset)]
        usual = {name: (field,) for name, field in FIELDS.items()} | READ_ALSO
        inner = [field for field in FIELDS.values() if "/" in field and field in file]
        found = homes([*stored, *inner], usual, reading.array_names, path)
        columns = {
            name: joined([read_array(file, field) for field in fields], name, path) for name, fields in found.items()
        }
        policy = _read_policy(file, warnings)
        names: dict[str, Any] = {name: read_texts(file, field) for name, field in _NAMES.items() if field in file}
    return from_arrays(
        **columns,
        **(names_of_columns(found, columns) | names),
        policy=policy,
        source=path.name,
        notes=unused(stored, found),
        warnings=warnings,
        max_episode_steps=reading.max_episode_steps,
    )


def write(dataset: Dataset, path: Path) -> None:
    with written_whole(path) as partial, composed(partial) as file:
        for name, field in FIELDS.items():
            array = getattr(dataset, name)
            if array is not None:
                file[field] = array
        for name, field in _NAMES.items():
            if (words := getattr(dataset, name)) is not None:
                file[field] = np.array([word.encode() for word in words])
        if dataset.policy is not None:
            arrays, texts = policy_to_fields(dataset.policy)
            for name, value in arrays.items():
                file[f"metadata/policy/{name}"] = value
            for name, text in texts.items():
                file[f"metadata/policy/{name}"] = np.bytes_(text.encode())


def _read_policy(file: h5py.File, warnings: list[str]) -> Policy | None:
    group = file.get("metadata/policy")
    if not isinstance(group, h5py.Group):
        return None
    stored = leaves(group)
    textual = [name for name, field in stored.items() if field.dtype.kind in "SO"]
    try:
        texts = {name: read_text(group, name) for name in textual}
        arrays = {name: read_array(group, name) for name in stored if name not in textual}
    except (IlbrlError, ValueError) as error:
        warnings.append(f"the behaviour policy in metadata/policy was left out: {error}")
        return None
    return policy_or_doubt(arrays, texts, warnings)
