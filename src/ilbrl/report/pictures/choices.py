"""Pictures of discrete actions: how often each is taken, and where the policy differs from the expert."""

from __future__ import annotations

import numpy as np

from ilbrl.report.pictures import NEUTRAL, STYLES, Picture, Series, Style
from ilbrl.results.folder import Run

MOST_SHOWN = 12  # actions in the confusion: more would be a thicket


def action_frequencies(run: Run) -> Picture | None:
    """Shares of each action in the expert's steps, in the logs, and as the selected policy chooses in both."""
    choices = run.choices
    if choices is None:
        return None
    rows = {"expert": choices.expert, "logs": choices.logs, "selected policy": choices.policy}
    if any(len(counts) != len(choices.names) for counts in rows.values()):  # damaged
        return None
    series = [
        _beside(name, i, len(rows), 100 * np.array(counts) / max(1, sum(counts)), STYLES[i])
        for i, (name, counts) in enumerate(rows.items())
    ]
    return Picture(
        "actions", "How often each action is taken",
        "Shares of the expert's steps, of the logs' steps, and of what the selected policy would do at all of them.",
        "", "percent of steps", tuple(series), x_names=choices.names, y_range=(0, 105),
    )  # fmt: skip


def confusion(run: Run) -> Picture | None:
    """Where the expert took an action: what the selected policy takes there."""
    choices = run.choices
    if choices is None or len(choices.names) > MOST_SHOWN:
        return None
    if [len(row) for row in choices.confusion] != [len(choices.names)] * len(choices.names):  # damaged
        return None
    table = np.array(choices.confusion, float)
    shares = 100 * table / np.maximum(table.sum(1, keepdims=True), 1)
    styles = [*STYLES, NEUTRAL]
    series = [
        _beside(f"policy: {name}", i, len(choices.names), shares[:, i], styles[i % len(styles)])
        for i, name in enumerate(choices.names)
    ]
    agreed = 100 * np.trace(table) / max(1.0, table.sum())
    where = "expert steps that it was not trained on" if choices.unseen else "the expert steps that it was trained on"
    return Picture(
        "confusion", "The policy's choice where the expert chose",
        f"At {agreed:.0f} % of {where}, the selected policy takes the expert's action.",
        "the expert's action", "percent of these steps", tuple(series), x_names=choices.names, y_range=(0, 105),
    )  # fmt: skip


def _beside(name: str, place: int, of: int, shares: np.ndarray, style: Style) -> Series:
    """Points for each action, moved a little so that no series hides another."""
    return Series(name, style, np.arange(len(shares)) + 0.5 * (place - (of - 1) / 2) / max(of, 1), shares, "points")
