"""A dataset in numbers, and as bars of letters."""

from __future__ import annotations

from typing import Any

import numpy as np

from ilbrl.base.records import to_plain
from ilbrl.data.actions import log_prob_errors
from ilbrl.data.dataset import Dataset

_BARS = "▁▂▃▄▅▆▇█"


def summarise(dataset: Dataset) -> dict[str, Any]:
    """Everything `ilbrl data inspect` shows except its findings, as plain numbers for JSON."""
    with np.errstate(all="ignore"):  # NaN and infinity are the doctor's business
        return _facts(dataset)


def _facts(dataset: Dataset) -> dict[str, Any]:
    returns = None if dataset.rewards is None else dataset.returns()
    return {
        "source": dataset.source,
        "content_hash": dataset.content_hash,
        "transitions": len(dataset),
        "episodes": dataset.num_episodes,
        "complete_episodes": int(dataset.complete.sum()),
        "terminals": int(dataset.terminals.sum()),
        "timeouts": int(dataset.timeouts.sum()),
        "obs_dim": dataset.obs_dim,
        "act_dim": dataset.act_dim,
        "discrete_actions": dataset.discrete,
        "choices": _choices(dataset),
        "expert_transitions": None if dataset.is_expert is None else int(dataset.is_expert.sum()),
        "lengths": spread(dataset.episode_lengths),
        "returns": None if returns is None else spread(returns),
        "episode_lengths": dataset.episode_lengths.tolist(),
        "episode_returns": None if returns is None else to_plain(returns),
        "columns": {name: dataset.column_names(name) for name in ("observations", "actions")},
        "ranges": {name: _ranges(array) for name, array in columns(dataset).items()},
        "behaviour_policy": _behaviour(dataset),
    }


def columns(dataset: Dataset) -> dict[str, np.ndarray]:
    """The logged numbers, as matrices [N, k]."""
    arrays = {"observations": dataset.observations, "actions": dataset.actions, "rewards": dataset.rewards}
    return {name: array.reshape(len(array), -1) for name, array in arrays.items() if array is not None}


def spread(values: np.ndarray) -> dict[str, float | None]:
    kinds = {"min": np.min, "median": np.median, "mean": np.mean, "max": np.max}
    return {kind: to_plain(measure(values)) for kind, measure in kinds.items()} if len(values) else dict.fromkeys(kinds)


def sparkline(values: np.ndarray, width: int = 24) -> str:
    """The histogram of finite values as `width` blocks, lowest value first."""
    finite = values[np.isfinite(values)]
    if not len(finite):
        return ""
    if finite.min() == finite.max():
        return _BARS[-1]
    counts, _ = np.histogram(finite.astype(np.float64), bins=width)
    heights = np.ceil(counts / counts.max() * (len(_BARS) - 1)).astype(int)
    return "".join(_BARS[height] for height in heights)


def _ranges(matrix: np.ndarray) -> dict[str, list[float | None]]:
    """Per column, over all rows; in float64, for float32 sums lose digits over millions of rows."""
    measures = {"min": np.min, "max": np.max, "mean": np.mean, "std": np.std}
    ranges: dict[str, list[float | None]] = {name: [] for name in measures}
    for i in range(matrix.shape[1]):  # column by column, so that no second matrix is held
        column = matrix[:, i].astype(np.float64)
        for name, measure in measures.items():
            ranges[name].append(to_plain(measure(column)))
    return ranges


def _choices(dataset: Dataset) -> dict[str, int] | None:
    """How often each discrete action was taken; None: actions are real-valued, or numbered in no useful way."""
    if not dataset.discrete or not len(dataset) or dataset.actions.min() < 0 or dataset.num_actions > 10_000:
        return None
    counts = np.bincount(dataset.actions, minlength=dataset.num_actions)
    return dict(zip(dataset.choice_names, counts.tolist()))


def _behaviour(dataset: Dataset) -> dict[str, Any]:
    policy, errors = dataset.policy, log_prob_errors(dataset)
    if policy is None:
        return {"found": False}
    return {
        "found": True,
        "head": policy.head,
        "activation": policy.activation,
        "layers": [policy.obs_dim, *(len(layer.bias) for layer in policy.layers)],
        "log_prob_max_error": None if errors is None else to_plain(errors.max()),
    }
