"""NumPy npz with the Dataset's own field names (D4RL's names are understood too). Nothing is unpickled.

`observations`, `actions`, `next_observations`, `rewards`, `terminals`, `timeouts`, `log_probs`, `is_expert`,
`action_low`, `action_high`, the texts `source` and `notes`, and the behaviour policy as `policy/…` in D4RL's layout.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from ilbrl.base.errors import IlbrlError
from ilbrl.base.files import written_whole
from ilbrl.data.dataset import Dataset
from ilbrl.data.formats import d4rl
from ilbrl.data.formats.arrays import from_arrays
from ilbrl.data.formats.behaviour import policy_from_fields, policy_to_fields


@contextmanager
def opened(path: Path) -> Iterator[np.lib.npyio.NpzFile]:
    """The archive, open for reading, with pickles locked out."""
    if path.is_dir():
        raise IlbrlError(f"{path}: is a folder; name the file inside it")
    if not path.is_file():
        raise IlbrlError(f"{path}: no such file")
    if not zipfile.is_zipfile(path):
        raise IlbrlError(f"{path}: is not an npz archive, or only part of one; write it with numpy.savez")
    with np.load(path, allow_pickle=False) as archive:
        yield archive


def read_array(archive: np.lib.npyio.NpzFile, name: str, path: Path) -> np.ndarray:
    try:
        return archive[name]
    except ValueError as error:
        if "allow_pickle" not in str(error):
            raise
        raise IlbrlError(
            f"{path}: {name} is a pickled object array, and nothing is ever unpickled; store it as plain numbers"
        ) from None


def read(path: Path, *, max_episode_steps: int | None = None) -> Dataset:
    with opened(path) as archive:
        stored = set(archive.files)
        homes = {
            name: next((n for n in (name, d4rl_name) if n in stored), None) for name, d4rl_name in d4rl.FIELDS.items()
        }
        for name in ("observations", "actions"):
            if homes[name] is None:
                raise IlbrlError(f"{path}: has no field {name!r}, only {', '.join(sorted(stored)) or 'nothing'}")
        columns = {name: read_array(archive, home, path) for name, home in homes.items() if home is not None}
        texts = {n: read_array(archive, n, path) for n in stored if n in ("source", "notes") or n.startswith("policy/")}
    source = str(texts.pop("source", path.name))
    notes = [str(note) for note in texts.pop("notes", ())]
    policy = None
    if texts:
        fields = {name.removeprefix("policy/"): value for name, value in texts.items()}
        words = {name: str(value) for name, value in fields.items() if value.dtype.kind == "U"}
        numbers = {name: value for name, value in fields.items() if name not in words}
        policy = policy_from_fields(numbers, words)
    return from_arrays(**columns, policy=policy, source=source, notes=notes, max_episode_steps=max_episode_steps)


def write(dataset: Dataset, path: Path) -> None:
    arrays = {name: getattr(dataset, name) for name in d4rl.FIELDS if getattr(dataset, name) is not None}
    arrays |= {"source": np.array(dataset.source), "notes": np.array(dataset.notes, dtype=np.str_)}
    if dataset.policy is not None:
        numbers, words = policy_to_fields(dataset.policy)
        arrays |= {f"policy/{name}": value for name, value in numbers.items()}
        arrays |= {f"policy/{name}": np.array(word) for name, word in words.items()}
    with written_whole(path) as partial, partial.open("wb") as file:  # a path would get .npz appended
        np.savez(file, **arrays)
