"""Off-policy evaluation: what a policy is worth, from logs of others, and how far that number can be trusted.

expected_sarsa     the estimator, one file
settings           what is tuned about it, and the grids
evaluables         what can be evaluated: policies, functions, logged next actions
evaluation_data    rows, mixtures, initial states; the only home of the true rewards
evaluation         policies × settings × seeds as one population → estimates with verdicts (`verdicts`)
known              policies of known value and the truth about them
ranking            rank error, correlations, regret
tuning             choose the setting that orders the known policies best
trust, distance    how far to trust it, and for which policies
importance         per-decision weighted importance sampling, where action probabilities are logged
"""

from ilbrl.ope import expected_sarsa
from ilbrl.ope.calibration import Calibration, Tried, calibrate
from ilbrl.ope.distance import distance_warning, distances_from_data
from ilbrl.ope.estimates import Estimate, Estimates, Estimator, Quantity, Trace
from ilbrl.ope.estimators import DEFAULT, ESTIMATORS, estimate, find
from ilbrl.ope.evaluables import Evaluable, NextActions, Sampled, logged_next_actions
from ilbrl.ope.evaluation import Combined, Evaluation, combine, evaluate
from ilbrl.ope.evaluation_data import EvaluationData, held_out
from ilbrl.ope.evidence import Closeness, Evidence
from ilbrl.ope.expected_sarsa import Config
from ilbrl.ope.judgement import Trust
from ilbrl.ope.known import Known, Truth, known_of_composition, truth
from ilbrl.ope.ranking import kendall, rank_error, regret, spearman
from ilbrl.ope.settings import GRIDS, Setting, grid
from ilbrl.ope.trust import trust_report
from ilbrl.ope.tuning import Row, Tuning, tune

__all__ = [
    "DEFAULT",
    "ESTIMATORS",
    "GRIDS",
    "Calibration",
    "Closeness",
    "Combined",
    "Config",
    "Estimate",
    "Estimates",
    "Estimator",
    "Evaluable",
    "Evaluation",
    "EvaluationData",
    "Evidence",
    "Known",
    "NextActions",
    "Quantity",
    "Row",
    "Sampled",
    "Setting",
    "Trace",
    "Tried",
    "Trust",
    "Truth",
    "Tuning",
    "calibrate",
    "combine",
    "distance_warning",
    "distances_from_data",
    "estimate",
    "evaluate",
    "expected_sarsa",
    "find",
    "grid",
    "held_out",
    "kendall",
    "known_of_composition",
    "logged_next_actions",
    "rank_error",
    "regret",
    "spearman",
    "trust_report",
    "truth",
    "tune",
]
