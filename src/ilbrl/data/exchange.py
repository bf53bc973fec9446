"""Datasets to and from the objects of other libraries: pandas, Minari, d3rlpy. None is imported before it is asked for.

to_frame(logs)                       a pandas frame that `from_frame` reads back
to_minari(logs, folder)              a `minari.MinariDataset`, stored in that folder
from_minari(minari_dataset)
MDPDataset(**to_d3rlpy(logs))        arrays in the layout of `d3rlpy.dataset.MDPDataset`
from_d3rlpy(mdp_dataset)             or any other d3rlpy replay buffer
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ilbrl.base.errors import IlbrlError
from ilbrl.data.dataset import Dataset
from ilbrl.data.formats import minari as minari_files
from ilbrl.data.formats.arrays import from_arrays

if TYPE_CHECKING:
    import pandas as pd

_COLUMNS = {
    "rewards": "reward",
    "terminals": "terminal",
    "timeouts": "timeout",
    "log_probs": "log_prob",
    "is_expert": "is_expert",
}


def to_frame(dataset: Dataset) -> pd.DataFrame:
    """A row per step, with the column names that `from_frame` knows.

    Bounds of actions and the behaviour policy have no place in a table; an episode that was cut by the end of the file
    comes back as one that timed out. Discrete actions are written by their names, where they have any.
    """
    try:
        import pandas
    except ImportError:
        raise IlbrlError("a frame needs pandas: pip install 'ilbrl[frames]'") from None
    columns: dict[str, np.ndarray] = {"episode": dataset.episode_of, "step": dataset.step_of}
    columns |= _numbered("observation", dataset.observations)
    if dataset.discrete:
        names = dataset.action_names
        columns["action"] = dataset.actions if names is None else np.array(names, object)[dataset.actions]
    else:
        columns |= _numbered("action", dataset.actions)
    columns |= _numbered("next_observation", dataset.next_observations)
    stored = {name: getattr(dataset, field) for field, name in _COLUMNS.items()}
    return pandas.DataFrame(columns | {name: column for name, column in stored.items() if column is not None})


def _numbered(name: str, matrix: np.ndarray) -> dict[str, np.ndarray]:
    return {f"{name}_{i}": matrix[:, i] for i in range(matrix.shape[1])}


def to_minari(dataset: Dataset, folder: str | Path) -> Any:
    """Write the dataset into `folder` and open it there: a `minari.MinariDataset`."""
    try:
        import minari
    except ImportError:
        raise IlbrlError("a Minari dataset needs minari: pip install 'ilbrl[minari]'") from None
    minari_files.write(dataset, Path(folder))
    return minari.MinariDataset(Path(folder) / "data")


def from_minari(dataset: Any) -> Dataset:
    """A `minari.MinariDataset`, whole or filtered: its episodes are read from where it is stored."""
    whole = minari_files.read(Path(dataset.storage.data_path))
    return whole.episodes(np.asarray(dataset.episode_indices))


def to_d3rlpy(dataset: Dataset, rewards: np.ndarray | None = None) -> dict[str, Any]:
    """Arguments of `d3rlpy.dataset.MDPDataset`.

    rewards: [N] in place of the logged ones, such as the labels of ILBRL; needed where the logs carry none.

    d3rlpy keeps no next observations: it takes them from the following row, and so the last step before a time-out is
    no transition to it. An episode that is cut by the end of the file ends there by a time-out.
    """
    rewards = dataset.rewards if rewards is None else np.asarray(rewards, np.float32)
    if rewards is None:
        raise IlbrlError(f"{dataset.source}: d3rlpy needs rewards, and these logs carry none; give rewards=…")
    if rewards.shape != (len(dataset),):
        raise IlbrlError(f"rewards: one number for each of the {len(dataset):,} rows is needed, got {rewards.shape}")
    timeouts = dataset.timeouts & ~dataset.terminals
    timeouts[-1:] |= ~dataset.terminals[-1:]
    return {
        "observations": dataset.observations,
        "actions": dataset.actions.reshape(len(dataset), -1),
        "rewards": rewards[:, None],
        "terminals": dataset.terminals.astype(np.float32),
        "timeouts": timeouts.astype(np.float32),
        "action_size": dataset.num_actions if dataset.discrete else dataset.act_dim,
    }


def from_d3rlpy(buffer: Any, source: str = "d3rlpy") -> Dataset:
    """The episodes of an `MDPDataset` or another replay buffer; each next observation is the following row's."""
    episodes = list(buffer.episodes)
    if not episodes:
        raise IlbrlError(f"{source}: holds no episodes")
    lengths = [len(episode.actions) for episode in episodes]
    ends = np.cumsum(lengths) - 1
    terminals, timeouts = np.zeros((2, sum(lengths)), bool)
    terminals[ends] = [episode.terminated for episode in episodes]
    timeouts[ends] = ~terminals[ends]
    observations, actions, rewards = (
        np.concatenate([getattr(episode, name) for episode in episodes])
        for name in ("observations", "actions", "rewards")
    )
    return from_arrays(observations, actions, rewards=rewards, terminals=terminals, timeouts=timeouts, source=source)
