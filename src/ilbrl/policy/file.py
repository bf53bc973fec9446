"""Policies on disk: safetensors with one JSON header, and a checksum over both.

Nothing is unpickled, imported or executed from a file. The arrays are `w0, b0, w1, …`, with `scale0, shift0` where a
layer has LayerNorm, the bounds, and in pairs where there are any: `obs_mean, obs_std` and `obs_low, obs_high`.
Format 1 is the same without LayerNorm, categorical heads, observation ranges and checksum; it is still read.
The checksum finds damage. It is no signature: who changes a file on purpose can write a new one.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
import safetensors.numpy

from ilbrl.base.errors import IlbrlError
from ilbrl.base.files import require_file, written_whole
from ilbrl.policy.network import Layer
from ilbrl.policy.policy import Policy

FORMAT = "ilbrl-policy-2"
CHECKSUM = "sha256"
_READABLE = ("ilbrl-policy-1", FORMAT)
_PAIRS = (("obs_mean", "obs_std"), ("obs_low", "obs_high"))
_LAYER_PARTS = {"w": "weight", "b": "bias", "scale": "scale", "shift": "shift"}  # name in the file: field of Layer


def write(policy: Policy, path: Path) -> Path:
    path = path if path.suffix else path.with_suffix(".safetensors")
    arrays = {name: np.ascontiguousarray(array, np.float32) for name, array in _arrays(policy).items()}
    header = {
        "format": FORMAT,
        "head": policy.head,
        "activation": policy.activation,
        "log_std_bounds": list(policy.log_std_bounds),
        "mean_bound": policy.mean_bound,
        "metadata": dict(policy.metadata),
    }
    text = json.dumps(header, sort_keys=True)
    with written_whole(path) as partial:
        partial.write_bytes(safetensors.numpy.save(arrays | {CHECKSUM: checksum(text, arrays)}, {"ilbrl": text}))
    return path


def read(path: Path) -> Policy:
    require_file(path, "policy file")
    try:
        with safetensors.safe_open(path, framework="numpy") as file:
            text = (file.metadata() or {}).get("ilbrl", "{}")
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a mapping
        header = _header(text)
        if header["format"] == FORMAT and not np.array_equal(arrays.pop(CHECKSUM), checksum(text, arrays)):
            raise IlbrlError("its checksum does not fit: it was changed or damaged after it was written; copy it again")
        _require_numbers(arrays)
        return _policy(header, arrays)
    except IlbrlError as error:
        raise IlbrlError(f"{path}: {error}") from None
    except KeyError as error:
        raise IlbrlError(f"{path}: not a policy file of ilbrl (it lacks {error})") from None
    except RecursionError:
        raise IlbrlError(f"{path}: not a policy file of ilbrl (its header is nested too deeply)") from None
    except (safetensors.SafetensorError, ValueError, TypeError, AttributeError, OverflowError, OSError) as error:
        raise IlbrlError(f"{path}: not a policy file of ilbrl ({error})") from None


def stored_checksum(path: Path) -> str | None:
    """The checksum of a policy file that `read` accepts, in hexadecimal; None in files of format 1."""
    with safetensors.safe_open(path, framework="numpy") as file:
        return file.get_tensor(CHECKSUM).tobytes().hex() if CHECKSUM in file.keys() else None  # noqa: SIM118


def checksum(header: str, arrays: Mapping[str, np.ndarray]) -> np.ndarray:
    """[32] bytes: SHA-256 over the header and, in the order of their names, each array's name, type, shape and bytes.

    An array like the others: safetensors writes several texts in any order, and equal policies must be equal files.
    """
    digest = hashlib.sha256(header.encode())
    for name, array in sorted(arrays.items()):
        digest.update(f"\n{name} {array.dtype} {array.shape}\n".encode())
        digest.update(array.tobytes())
    return np.frombuffer(digest.digest(), np.uint8)


def _arrays(policy: Policy) -> dict[str, np.ndarray]:
    """Name in the file → array."""
    found = {"action_low": policy.action_low, "action_high": policy.action_high}
    for i, layer in enumerate(policy.layers):
        found |= {f"{name}{i}": getattr(layer, part) for name, part in _LAYER_PARTS.items()}
    found |= {name: getattr(policy, name) for pair in _PAIRS for name in pair}
    return {name: array for name, array in found.items() if array is not None}


def _header(text: str) -> dict[str, Any]:
    header = json.loads(text)
    if not isinstance(header, dict):
        raise IlbrlError("not a policy file of ilbrl (its header is no object)")
    if header["format"] not in _READABLE:
        raise IlbrlError(f"written in format {header['format']!r}, this version reads {' and '.join(_READABLE)}")
    json.dumps(header, ensure_ascii=False).encode()  # half a character (a lone surrogate) could not be printed later
    return header


def _policy(header: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> Policy:
    depth = max(1, sum(name.startswith("w") for name in arrays))
    layers = tuple(
        Layer(arrays[f"w{i}"], arrays[f"b{i}"], arrays.get(f"scale{i}"), arrays.get(f"shift{i}")) for i in range(depth)
    )
    (least, most), metadata = header["log_std_bounds"], header["metadata"]
    if not isinstance(metadata, dict):
        raise IlbrlError("not a policy file of ilbrl (its metadata is no object)")
    policy = Policy(
        layers=layers,
        action_low=arrays["action_low"],
        action_high=arrays["action_high"],
        head=header["head"],
        activation=header["activation"],
        log_std_bounds=(float(least), float(most)),
        mean_bound=None if header.get("mean_bound") is None else float(header["mean_bound"]),
        metadata=metadata,
        **{name: arrays.get(name) for pair in _PAIRS for name in pair},
    )
    if unused := sorted(set(arrays) - set(_arrays(policy))):
        raise IlbrlError(f"not a policy file of ilbrl (it holds {unused[0]!r}, which no policy has)")
    return policy


def _require_numbers(arrays: Mapping[str, np.ndarray]) -> None:
    for name, array in arrays.items():
        if array.dtype != np.float32:
            raise IlbrlError(f"{name} holds {array.dtype}, and a policy's numbers are float32")
        if not np.isfinite(array).all():
            raise IlbrlError(f"{name} holds numbers that are not finite: this policy cannot act")
