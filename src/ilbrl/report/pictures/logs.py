"""Pictures of the logs: how close they are to the expert, and how well they did."""

from __future__ import annotations

import numpy as np

from ilbrl.report.palette import STYLES
from ilbrl.report.pictures.picture import Picture, Series
from ilbrl.report.results import Run


def reward_histogram(run: Run) -> Picture | None:
    labels = run.data.labels
    if labels is None or len(labels.bins) < 2 or len(labels.exploratory) != len(labels.bins) - 1:
        return None
    edges = np.array(labels.bins)
    middles, series = (edges[1:] + edges[:-1]) / 2, []
    for name, counts, style in (("other logs", labels.exploratory, STYLES[0]), ("expert", labels.expert, STYLES[1])):
        total = sum(counts)
        if total and len(counts) == len(middles):
            share = 100 * np.array(counts) / total
            series.append(Series(name, style, middles, share, "bars"))
    return Picture(
        "rewards", "Closeness to the expert",
        "Intrinsic reward of every logged step: 1 on the expert's own steps, less the farther away. Mass on the right is good.",
        "intrinsic reward", "percent of steps", tuple(series),
    )  # fmt: skip


def returns_histogram(run: Run) -> Picture | None:
    logs = {name: each for name, each in run.data.datasets.items() if each.returns}
    if not logs:
        return None
    everything = np.concatenate([each.returns for each in logs.values()])
    edges = np.linspace(everything.min(), everything.max() + 1e-9, 31)
    series = []
    for name, each in logs.items():
        share = 100 * np.histogram(each.returns, edges)[0] / len(each.returns)
        style = STYLES[1] if each.role == "expert" else STYLES[0]
        label = f"{name}, {len(each.returns)} episodes"
        series.append(Series(label, style, (edges[1:] + edges[:-1]) / 2, share, "bars"))
    return Picture(
        "returns", "Returns in the logs", "How well the logged episodes did, by the logs' own rewards.",
        "return of an episode", "percent of episodes", tuple(series),
    )  # fmt: skip
