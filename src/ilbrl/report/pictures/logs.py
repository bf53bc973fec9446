"""Pictures of the logs: how close they are to the expert, and how well they did."""

from __future__ import annotations

import numpy as np

from ilbrl.report.palette import STYLES
from ilbrl.report.pictures.picture import Line, Picture, Series
from ilbrl.results.folder import Run


def reward_histogram(run: Run) -> Picture | None:
    labels = run.data.labels
    if labels is None or len(labels.bins) < 2 or len(labels.logs) != len(labels.bins) - 1:
        return None
    edges, counts = np.array(labels.bins), np.array(labels.logs)
    share = 100 * counts / max(1, counts.sum())
    return Picture(
        "rewards", "Closeness to the expert",
        "Intrinsic reward of each logged step, less the farther from the expert's. Mass on the right is good.",
        "intrinsic reward", "percent of steps", (Series("other logs", STYLES[0], _middles(edges), share, "bars"),),
        (Line("x", 1.0, "expert's own steps"),),
    )  # fmt: skip


def returns_histogram(run: Run) -> Picture | None:
    """Bars for the logs, a line for the expert, who has few episodes."""
    logs = {name: each for name, each in run.data.datasets.items() if each.returns and each.role != "expert"}
    experts = {name: each for name, each in run.data.datasets.items() if each.returns and each.role == "expert"}
    if not logs:
        return None
    everything = np.concatenate([each.returns for each in logs.values()])
    edges = np.linspace(everything.min(), everything.max() + 1e-9, 31)
    series = tuple(
        Series(
            f"{name}, {len(each.returns)} episodes", STYLES[i % len(STYLES)], _middles(edges),
            100 * np.histogram(each.returns, edges)[0] / len(each.returns), "bars",
        )
        for i, (name, each) in enumerate(logs.items())
    )  # fmt: skip
    return Picture(
        "returns", "Returns in the logs", "How well the logged episodes did, by the logs' own rewards.",
        "return of an episode", "percent of episodes", series,
        tuple(Line("x", float(np.mean(each.returns)), f"{name}, mean") for name, each in experts.items()),
    )  # fmt: skip


def _middles(edges: np.ndarray) -> np.ndarray:
    return (edges[1:] + edges[:-1]) / 2
