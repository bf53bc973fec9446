"""What each picture shows, before anybody draws it.

A picture is data. `figures.py` draws it for paper, the page's script on screen; neither computes anything.
"""

from __future__ import annotations

import numpy as np

from ilbrl.report.bootstrap import Interval
from ilbrl.report.pictures.candidates import estimated_against_true, offline_values, regret_picture
from ilbrl.report.pictures.evaluator import calibration, value_curves
from ilbrl.report.pictures.logs import returns_histogram, reward_histogram
from ilbrl.report.pictures.picture import Line, Picture, Series
from ilbrl.report.pictures.scores import improvement, iqm_intervals, per_task, performance_profiles
from ilbrl.report.pictures.training import candidate_values, learning_curves, metrics
from ilbrl.report.scoreboard import Scoreboard
from ilbrl.results.folder import Run

__all__ = ["Line", "Picture", "Series", "of_run", "of_scores"]

ABLATION = ("ilbrl", "ilbrl-unweighted")


def of_run(run: Run) -> dict[str, Picture]:
    """Every picture of one run that its folder has the data for, by name."""
    drawn = [
        reward_histogram(run), returns_histogram(run), calibration(run), value_curves(run), candidate_values(run),
        offline_values(run), estimated_against_true(run), regret_picture(run),
        *(learning_curves(run, metric) for metric in metrics(run)),
    ]  # fmt: skip
    if set(ABLATION) <= set(run.algorithms):
        drawn.append(offline_values(run, ABLATION))
    return {picture.name: picture for picture in drawn if picture is not None and picture.series}


def of_scores(board: Scoreboard, found: dict[str, dict[str, Interval]], rng: np.random.Generator) -> dict[str, Picture]:
    """Every picture of the true scores over all runs, by name."""
    drawn = [iqm_intervals(board, found), performance_profiles(board, rng), per_task(board), improvement(board, rng)]
    if set(ABLATION) <= set(board.matrices):
        drawn += [iqm_intervals(board, found, ABLATION), performance_profiles(board, rng, ABLATION)]
    return {picture.name: picture for picture in drawn if picture is not None}
