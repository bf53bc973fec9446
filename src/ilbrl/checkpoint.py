"""Training state on disk: any pytree of arrays, its progress and its identity, in one safetensors file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, TypeVar

import jax
import numpy as np
import safetensors
import safetensors.numpy

from ilbrl.errors import IlbrlError
from ilbrl.files import written_whole

T = TypeVar("T")


def write(path: Path, tree: Any, done: int, history: list[dict[str, Any]], identity: dict[str, Any]) -> None:
    """Replace `path` by the state after `done` updates, in one step."""
    arrays = {f"state/{i}": np.asarray(leaf) for i, leaf in enumerate(jax.tree.leaves(tree))}
    for name in history[0] if history else ():
        arrays[f"history/{name}"] = np.stack([np.asarray(record[name]) for record in history])
    header = {"done": str(done), "identity": json.dumps(identity, sort_keys=True)}
    with written_whole(path) as partial:
        partial.write_bytes(safetensors.numpy.save(arrays, header))


def read(path: Path, like: T, identity: dict[str, Any]) -> tuple[T, int, list[dict[str, Any]]]:
    """The state (with the structure of `like`), updates done and history; refuses another run's checkpoint."""
    try:
        with safetensors.safe_open(path, framework="numpy") as file:
            header = file.metadata() or {}
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a mapping
    except safetensors.SafetensorError as error:
        raise IlbrlError(f"{path}: not a checkpoint ({error}); remove it to start over") from None
    if header.get("identity") != json.dumps(identity, sort_keys=True):
        raise IlbrlError(
            f"{path}: a checkpoint of other settings or data; use another folder, or remove it to start over"
        )
    leaves = [arrays[f"state/{i}"] for i in range(len(jax.tree.leaves(like)))]
    names = [name.removeprefix("history/") for name in arrays if name.startswith("history/")]
    columns = {name: arrays[f"history/{name}"] for name in names}
    length = len(columns["update"]) if columns else 0
    history = [{name: columns[name][i] for name in names} for i in range(length)]
    return jax.tree.unflatten(jax.tree.structure(like), leaves), int(header["done"]), history
