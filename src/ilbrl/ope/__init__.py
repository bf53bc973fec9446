"""Off-policy evaluation: what policies are worth, from logs alone, and how far that number can be trusted.

    evidence = ope.Evidence.holding_out({"expert": expert, "logs": logs})        (or .of_composition of a split)
    known = [ope.known_policy("expert", expert.policy, evidence, "expert"), …]    (or ope.clones(evidence))
    calibration = ope.calibrate(known, evidence)                                  a setting chosen, and a verdict
    found = ope.estimate(policies, evidence, config=calibration.config)           values, intervals, verdicts
    calibration.widen(found), calibration.warnings(found)

`evaluate` does all of this in one call.

estimates      the seam: Estimator, Estimates, Quantity
estimators/    models (rollouts in learned dynamics), expected_sarsa (the paper's), importance, doubly_robust
evidence       logs, held-out episodes, initial states; through which estimators read true rewards
closeness      the intrinsic reward, as a function that estimators can call inside a compiled program
policies       what can be evaluated, policies of known value, the truth about them, clones
ranking        rank error, correlations, regret, bias
calibration    known policies valued with and without their own logs; the setting that candidates are valued with
evaluation     all of it in one call, for Python and for the command line
trust          the verdict: how far to trust it, and about which policies
"""

from ilbrl.ope.calibration import Calibration, Tried, calibrate
from ilbrl.ope.closeness import Closeness
from ilbrl.ope.estimates import Choices, Estimate, Estimates, Estimator, Grade, Part, Trace
from ilbrl.ope.estimators import DEFAULT, ESTIMATORS, estimate, find
from ilbrl.ope.evaluation import Evaluated, evaluate, gather
from ilbrl.ope.evidence import Evidence, Quantity
from ilbrl.ope.policies import (
    Evaluable,
    Known,
    NextActions,
    Sampled,
    Truth,
    clone_of,
    clones,
    known_policy,
    logged_next_actions,
    logged_variant,
    truth,
)
from ilbrl.ope.ranking import Check, kendall, rank_error, regret, spearman
from ilbrl.ope.trust import SAYINGS, Trust, distance_warning, value_warning, warnings, widen

__all__ = [
    "DEFAULT",
    "ESTIMATORS",
    "SAYINGS",
    "Calibration",
    "Check",
    "Choices",
    "Closeness",
    "Estimate",
    "Estimates",
    "Estimator",
    "Evaluable",
    "Evaluated",
    "Evidence",
    "Grade",
    "Known",
    "NextActions",
    "Part",
    "Quantity",
    "Sampled",
    "Trace",
    "Tried",
    "Trust",
    "Truth",
    "calibrate",
    "clone_of",
    "clones",
    "distance_warning",
    "estimate",
    "evaluate",
    "find",
    "gather",
    "kendall",
    "known_policy",
    "logged_next_actions",
    "logged_variant",
    "rank_error",
    "regret",
    "spearman",
    "truth",
    "value_warning",
    "warnings",
    "widen",
]
