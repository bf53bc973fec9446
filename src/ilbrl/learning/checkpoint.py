"""Training state on disk: any pytree of arrays, its history and its identity, in one safetensors file."""

from __future__ import annotations

import json
import time
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import jax
import numpy as np
import safetensors
import safetensors.numpy

from ilbrl.base.errors import IlbrlError
from ilbrl.base.files import written_whole
from ilbrl.base.records import shown

T = TypeVar("T")
SHOWN = 4  # differences that a message names
START_OVER = "remove it to start over"
LONG = 60  # characters; hashes are longer, and say nothing to a reader


class Checkpoint:
    """A file (or None: nothing is kept) that holds the latest state of one training run."""

    def __init__(self, path: Path | None, identity: dict[str, Any], save_every: float) -> None:
        self.path = path
        self.identity = json.dumps(identity, sort_keys=True, default=float)  # NumPy's numbers too
        self.save_every = save_every
        self.saved = time.monotonic()

    def write(
        self, state: Any, done: int, history: list[dict[str, Any]], last: bool, members: int | None = None
    ) -> None:
        """Replace the file by the state after `done` updates, if it is time to.

        members: how many members of a population to keep. The copies behind them only fill up this machine's devices,
        and the run may continue on a machine with other devices.
        """
        if self.path is None or not (last or time.monotonic() - self.saved > self.save_every):
            return
        arrays = {f"state/{i}": _first(leaf, members) for i, leaf in enumerate(jax.tree.leaves(state))}
        for name in history[0] if history else ():
            arrays[f"history/{name}"] = np.stack([np.asarray(record[name]) for record in history])
        header = {"done": str(done), "identity": self.identity}
        header["checksum"] = _checksum(arrays, header)
        with written_whole(self.path) as partial:
            partial.write_bytes(safetensors.numpy.save(arrays, header))
        self.saved = time.monotonic()

    def read(self, fresh: T, members: int | None = None) -> tuple[T, int, list[dict[str, Any]]]:
        """The state to go on from, the updates done and their history; `fresh`, 0 and [] where there is no file.

        members: how many members of the population `fresh` the file keeps, as it was told to `write`.
        """
        if self.path is None or not self.path.exists():
            return fresh, 0, []
        try:
            if not self.path.is_file():
                raise ValueError("it is no regular file")
            with safetensors.safe_open(self.path, framework="numpy") as file:
                header = file.metadata() or {}
                arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a mapping
            if header.get("checksum") != _checksum(arrays, header):
                raise IlbrlError(f"{self.path}: a damaged checkpoint; {START_OVER}")
            if header.get("identity") != self.identity:
                found = _differences(json.loads(header.get("identity", "{}")), json.loads(self.identity))
                raise IlbrlError(
                    f"{self.path}: a checkpoint of other settings or data ({'; '.join(found[:SHOWN])}); use another"
                    f" folder, or {START_OVER}"
                )
            done = int(header["done"])
            if done < 0:
                raise ValueError(f"{done} updates are done")
            return _state(arrays, fresh, members), done, _history(arrays)
        except (safetensors.SafetensorError, OSError, KeyError, ValueError, TypeError, RecursionError) as error:
            raise IlbrlError(f"{self.path}: not a checkpoint ({shown(error)}); {START_OVER}") from None


def _state(arrays: Mapping[str, np.ndarray], fresh: T, members: int | None) -> T:
    """The arrays in the places of those of `fresh`, whose shapes and types they must have."""
    leaves = []
    for i, leaf in enumerate(jax.tree.leaves(fresh)):
        found = arrays[f"state/{i}"]
        wanted = leaf.shape if members is None else (members, *leaf.shape[1:])
        if (found.shape, found.dtype) != (wanted, leaf.dtype):
            raise ValueError(f"state/{i} is {found.dtype} {list(found.shape)}, not {leaf.dtype} {list(wanted)}")
        leaves.append(found)
    return jax.tree.unflatten(jax.tree.structure(fresh), leaves)


def _history(arrays: Mapping[str, np.ndarray]) -> list[dict[str, Any]]:
    columns = {name.removeprefix("history/"): a for name, a in arrays.items() if name.startswith("history/")}
    if len({array.shape[:1] for array in columns.values()}) > 1 or (columns and "update" not in columns):
        raise ValueError("the columns of its history are not equally long")
    return [{name: column[i] for name, column in columns.items()} for i in range(len(columns.get("update", ())))]


def _differences(there: Any, here: Any, name: str = "") -> list[str]:
    """What two identities do not agree in, a phrase each: `lam: 0.5 there, 2 here`."""
    if isinstance(there, dict) and isinstance(here, dict):
        names = [key for key in {**here, **there} if there.get(key) != here.get(key)]
        return [phrase for key in names for phrase in _differences(there.get(key), here.get(key), key)]
    if isinstance(there, list) and isinstance(here, list) and len(there) == len(here):
        unequal = [(a, b) for a, b in zip(there, here) if a != b]
        return list(dict.fromkeys(phrase for a, b in unequal for phrase in _differences(a, b, name)))
    texts = [json.dumps(value) for value in (there, here)]
    return [f"{name}: {texts[0]} there, {texts[1]} here" if max(map(len, texts)) < LONG else f"other {name}"]


def _checksum(arrays: dict[str, np.ndarray], header: dict[str, str]) -> str:
    """CRC-32 over the header and over names and numbers: without it a disk's mistake would go unnoticed."""
    total = zlib.crc32(json.dumps([header.get("done"), header.get("identity")]).encode())
    for name in sorted(arrays):
        total = zlib.crc32(np.ascontiguousarray(arrays[name]).data, zlib.crc32(name.encode(), total))
    return str(total)


def _first(leaf: Any, members: int | None) -> np.ndarray:
    return np.asarray(leaf) if members is None else np.asarray(leaf)[:members]
