"""Memory is known before training starts: what a population needs, what there is, and how to split it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import jax

from ilbrl.base.errors import IlbrlError

ACTIVATIONS = 16 * 2**20  # hidden layers and their gradients of one member at the usual sizes
COPIES = 6  # of a row while a feed is made of it: as logged, joined, in the networks' units, packed, on the device
SHARE = 0.9  # of what is free; the rest is for the compiler and everybody else


def per_member(state: Any, chunk: int, batch_size: int) -> int:
    """Bytes of one member: its state before and after an update, gradients, drawn row numbers, activations.

    state: one member's state, or its shapes (`jax.eval_shape`).
    """
    held = sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(state))
    return 4 * held + 12 * chunk * batch_size + ACTIVATIONS


def available() -> int:
    """Free bytes on the fullest local device (for a CPU: what the system and this process' container still give)."""
    stats = [device.memory_stats() for device in jax.local_devices()]
    if all(stats):
        return min(s["bytes_limit"] - s["bytes_in_use"] for s in stats if s)
    try:
        fields = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
        free = int(fields["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError):  # not Linux
        free = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
    free = min([free, *(limit.most - limit.used for limit in limits())])
    return max(free, 0) // len(jax.local_devices())  # virtual devices share one memory


class Limit(NamedTuple):
    """What a control group of Linux, such as a container, may take of the machine's memory."""

    most: int  # bytes
    used: int  # bytes in use; not counted are pages of files, which the system takes back when it needs them


def limits(root: Path = Path("/")) -> Iterator[Limit]:
    """Those of all control groups that this process is in, of either version; none where there is no such thing.

    root: under which proc and sys are found.
    """
    for line in _text(root / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if not controllers:  # version 2
            base, most, used, pages = root / "sys/fs/cgroup", "memory.max", "memory.current", "inactive_file"
        elif "memory" in controllers.split(","):
            base, most, used = root / "sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes"
            pages = "total_inactive_file"
        else:
            continue
        parts = [part for part in path.split("/") if part not in ("", "..")]
        for depth in range(len(parts) + 1):  # a container may see its own group as the first one
            folder = base.joinpath(*parts[:depth])
            if (stated := _text(folder / most)).isdecimal():  # "max": no limit
                kinds = dict(kind.split() for kind in _text(folder / "memory.stat").splitlines())
                yield Limit(int(stated), int(_text(folder / used) or 0) - int(kinds.get(pages, 0)))


def _text(path: Path) -> str:
    """The content without spaces around it; empty where the file cannot be read."""
    try:
        return path.read_text().strip()
    except (OSError, ValueError):
        return ""


def bytes_per_row(obs_dim: int, act_dim: int) -> int:
    """What a row takes in training, all its copies together (measured by benchmarks/large_logs.py)."""
    return COPIES * 4 * (2 * obs_dim + act_dim + 4)


def room_for_rows(gigabytes: float | None = None) -> int:
    """Bytes that rows may take; by default half of all memory, of this machine or a smaller container or device.

    All memory and not what is free: the same logs must be sampled alike whenever a run is continued.
    """
    if gigabytes is not None:
        if not 0 < gigabytes < float("inf"):
            raise IlbrlError(f"memory: must be a number of gigabytes above 0, got {gigabytes:g}")
        return int(gigabytes * 1e9)
    whole = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    devices = [s["bytes_limit"] for s in (device.memory_stats() for device in jax.local_devices()) if s]
    return min([whole, *(limit.most for limit in limits()), *devices]) // 2


def groups(members: int, devices: int, member_bytes: int, shared_bytes: int) -> list[slice]:
    """The members in as few equal groups as fit, one after the other; refuses, with the numbers, what never can."""
    room = int(SHARE * available()) - shared_bytes
    largest = room // member_bytes * devices
    if largest < 1:
        raise IlbrlError(
            f"this needs {(shared_bytes + member_bytes) / 1e9:.1f} GB ({shared_bytes / 1e9:.1f} GB of rows and"
            f" {member_bytes / 1e9:.2f} GB per member), but {available() / 1e9:.1f} GB are free:"
            " use fewer transitions, a smaller network or batch, or a machine with more memory"
        )
    return equal_groups(members, -(-members // largest))


def equal_groups(members: int, count: int) -> list[slice]:
    """The members in `count` groups, or in fewer where equal ones leave none for the last."""
    size = -(-members // count)
    return [slice(start, min(start + size, members)) for start in range(0, members, size)]
