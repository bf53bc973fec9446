"""Flat npz of the `imitation` library: trajectories end to end, with one observation more than actions in each.

`obs` [Σ(T_i + 1), …], `acts` [ΣT_i, …], `indices` [E − 1] (the row of `acts` where each further trajectory begins),
`terminal` [E] (false: the trajectory was cut, which we take as a time-out), `rews` [ΣT_i] optional. `infos` is a
pickled object array and is never opened.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ilbrl.base.errors import IlbrlError
from ilbrl.data.dataset import Dataset
from ilbrl.data.formats.arrays import flags, from_arrays
from ilbrl.data.formats.npz import opened, read_array


def read(path: Path) -> Dataset:
    with opened(path) as archive:
        stored = set(archive.files)
        missing = sorted({"obs", "acts", "indices", "terminal"} - stored)
        if missing:
            raise IlbrlError(f"{path}: has no field {missing[0]!r}, which the flat format of `imitation` needs")
        wanted = [name for name in ("obs", "acts", "indices", "terminal", "rews") if name in stored]
        fields = {name: np.atleast_1d(read_array(archive, name, path)) for name in wanted}
    observations, actions = fields["obs"], fields["acts"]
    terminal = flags("terminal", fields["terminal"], str(path))
    starts = _starts(fields["indices"], path)
    lengths = np.diff(np.append(starts, len(actions)))
    _check(path, lengths, observations, actions, terminal)
    before_last = np.ones(len(observations), bool)
    before_last[starts[1:] + np.arange(1, len(starts)) - 1] = False
    before_last[-1] = False
    last = starts + lengths - 1
    terminals, timeouts = np.zeros(len(actions), bool), np.zeros(len(actions), bool)
    terminals[last], timeouts[last] = terminal, ~terminal
    return from_arrays(
        observations=observations[before_last],
        next_observations=observations[1:][before_last[:-1]],
        actions=actions,
        rewards=fields.get("rews"),
        terminals=terminals,
        timeouts=timeouts,
        source=path.name,
        notes=["infos was skipped: it is a pickled object array, and nothing is ever unpickled"] * ("infos" in stored),
    )


def _starts(indices: np.ndarray, path: Path) -> np.ndarray:
    """[E] row of `acts` where each trajectory begins."""
    if indices.size and (indices.dtype.kind not in "iu" or indices.ndim != 1):
        raise IlbrlError(
            f"{path}: indices has {indices.dtype} values of shape {indices.shape}; it must be a list of rows"
        )
    return np.append(0, indices).astype(np.int64)


def _check(
    path: Path, lengths: np.ndarray, observations: np.ndarray, actions: np.ndarray, terminal: np.ndarray
) -> None:
    if (lengths < 1).any():
        raise IlbrlError(f"{path}: indices give trajectory {np.argmax(lengths < 1)} no steps; they must increase")
    if terminal.shape != lengths.shape:
        raise IlbrlError(
            f"{path}: terminal has shape {terminal.shape} for {len(lengths)} trajectories; it needs one for each"
        )
    if len(observations) != len(actions) + len(lengths):
        raise IlbrlError(
            f"{path}: obs has {len(observations):,} rows; {len(actions):,} acts in {len(lengths):,} trajectories"
            f" need {len(actions) + len(lengths):,}, one more than steps in each"
        )
