"""Learned dynamics: an ensemble trained once per set of logs, and policies rolled out in it.

dynamics     the network and its loss, as a learner of THE loop
ensemble     training, saving, loading; errors on held-out episodes
acting       policies inside a compiled program
rollouts     every policy × member × initial state × step as one program
"""

from ilbrl.models.dynamics import SIZES, Config
from ilbrl.models.ensemble import Models, train
from ilbrl.models.rollouts import Rollouts, rollout

__all__ = ["SIZES", "Config", "Models", "Rollouts", "rollout", "train"]
