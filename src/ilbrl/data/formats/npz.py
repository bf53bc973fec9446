"""NumPy npz with the Dataset's own field names (D4RL's names are understood too). Nothing is unpickled.

`observations`, `actions`, `next_observations`, `rewards`, `terminals`, `timeouts`, `log_probs`, `is_expert`,
`action_low`, `action_high`, the texts `source`, `notes`, `warnings`, `action_names`, `observation_columns` and
`action_columns`, and the behaviour policy as `policy/…` in D4RL's layout.
"""

from __future__ import annotations

import zipfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from ilbrl.base.errors import IlbrlError
from ilbrl.base.files import written_whole
from ilbrl.data.dataset import Dataset
from ilbrl.data.formats import d4rl
from ilbrl.data.formats.arrays import from_arrays, joined, names_of_columns
from ilbrl.data.formats.behaviour import policy_or_doubt, policy_to_fields
from ilbrl.data.on_disk import npz_array
from ilbrl.data.reading import Reading, homes, unused

_NAMES = ("action_names", "observation_columns", "action_columns")
_TEXTS = ("source", "notes", "warnings", *_NAMES)


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
        if twice := [name for name, times in Counter(archive.files).items() if times > 1]:
            raise IlbrlError(f"{path}: holds {twice[0]!r} twice, and only one of them would be read; write it again")
        yield archive


def read_array(archive: np.lib.npyio.NpzFile, name: str, path: Path) -> np.ndarray:
    assert archive.zip is not None  # as long as it is open
    try:
        mapped = npz_array(archive.zip, path, name)
        return archive[name] if mapped is None else mapped
    except ValueError as error:
        if "allow_pickle" not in str(error):
            raise
        raise IlbrlError(
            f"{path}: {name} is a pickled object array, and nothing is ever unpickled; store it as plain numbers"
        ) from None


def read(path: Path, reading: Reading = Reading()) -> Dataset:  # noqa: B008 - immutable
    with opened(path) as archive:
        beside = [name for name in archive.files if name in _TEXTS or name.startswith("policy/")]
        arrays = [name for name in archive.files if name not in beside]
        usual = {name: (name, field) for name, field in d4rl.FIELDS.items()} | d4rl.READ_ALSO
        found = homes(arrays, usual, reading.array_names, path)
        columns = {
            name: joined([read_array(archive, field, path) for field in fields], name, path)
            for name, fields in found.items()
        }
        texts = {name: read_array(archive, name, path) for name in beside}
    source = str(texts.pop("source", path.name))
    notes = [*_lines(texts.pop("notes", None)), *unused(arrays, found)]
    warnings, policy = _lines(texts.pop("warnings", None)), None
    names: dict[str, Any] = {name: words for name in _NAMES if (words := _lines(texts.pop(name, None)))}
    if texts:
        fields = {name.removeprefix("policy/"): value for name, value in texts.items()}
        words = {name: str(value) for name, value in fields.items() if value.dtype.kind == "U"}
        policy = policy_or_doubt({name: fields[name] for name in fields if name not in words}, words, warnings)
    return from_arrays(
        **columns,
        **(names_of_columns(found, columns) | names),
        policy=policy,
        source=source,
        notes=notes,
        warnings=warnings,
        max_episode_steps=reading.max_episode_steps,
    )


def _lines(texts: np.ndarray | None) -> list[str]:
    return [] if texts is None else [str(text) for text in np.atleast_1d(texts)]


def write(dataset: Dataset, path: Path) -> None:
    arrays = {name: getattr(dataset, name) for name in d4rl.FIELDS if getattr(dataset, name) is not None}
    arrays |= {"source": np.array(dataset.source), "notes": np.array(dataset.notes, dtype=np.str_)}
    arrays |= {"warnings": np.array(dataset.warnings, dtype=np.str_)} if dataset.warnings else {}
    arrays |= {name: np.array(words) for name in _NAMES if (words := getattr(dataset, name)) is not None}
    if dataset.policy is not None:
        numbers, words = policy_to_fields(dataset.policy)
        arrays |= {f"policy/{name}": value for name, value in numbers.items()}
        arrays |= {f"policy/{name}": np.array(word) for name, word in words.items()}
    with written_whole(path) as partial, partial.open("wb") as file:  # a path would get .npz appended
        np.savez(file, **arrays)
