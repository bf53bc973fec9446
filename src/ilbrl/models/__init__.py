"""Learned dynamics: an ensemble trained once per set of logs, and policies rolled out in it.

dynamics     the network and its loss, as a learner of THE loop
ensemble     training; errors on held-out episodes
scales       what the logs show about observations and rewards: units, flags, last rewards
file         what an ensemble is, saved and loaded
acting       policies inside a compiled program
stepping     one step: next state, flags and rewards in the units of the logs
rollouts     every policy × member × initial state × step as one program
imagination  short episodes in the models as more logs to learn from
"""

from ilbrl.models.dynamics import SIZES, Config, Size, size_for_this_machine
from ilbrl.models.ensemble import MEMBERS, train
from ilbrl.models.file import Models
from ilbrl.models.rollouts import PENALTY, STARTS, Imagined, rollout

__all__ = [
    "MEMBERS", "PENALTY", "SIZES", "STARTS", "Config", "Imagined", "Models", "Size", "rollout", "size_for_this_machine",
    "train",
]  # fmt: skip
