"""How far a policy leads away from the data it is evaluated on: a warning, not an estimate.

Critics are asked for Q(s′, π(s′)), and where no row of the logs is near they answer with an extrapolation; policies
outside the data are over-estimated. What the tuning on known policies vouches for are policies as near the data
as those are.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ilbrl.ope.evaluables import Evaluable, NextActions, act
from ilbrl.ope.evaluation_data import EvaluationData

QUERIES = 512  # rows asked about
ROWS = 100_000  # rows of the logs searched


def distance_from_data(name: str, policy: Evaluable, data: EvaluationData, expert_fraction: float) -> float:
    """Mean distance from (s′, π(s′)) to the nearest logged (s, a), over rows spread evenly through the subset.

    Observations are standardised and actions scaled to [−1, 1], as the critics see them; the square root of the
    number of inputs is divided out, so that tasks compare.
    """
    rows, spec, log = data.subset(expert_fraction), data.spec, data.dataset
    asked, searched = (rows[np.linspace(0, len(rows) - 1, n, dtype=int)] for n in (QUERIES, min(ROWS, len(rows))))
    if isinstance(policy, NextActions):
        actions = policy.actions[asked]
    else:
        actions = act(name, policy, log.next_observations[asked], spec.act_dim)
    queries = np.concatenate([spec.standardise(log.next_observations[asked]), spec.scale_actions(actions)], 1)
    logged = np.concatenate(
        [spec.standardise(log.observations[searched]), spec.scale_actions(log.actions[searched])], 1
    )
    nearest = np.full(len(queries), np.inf)
    for piece in np.array_split(logged, -(-len(logged) // 8192)):
        squares = (queries**2).sum(1)[:, None] + (piece**2).sum(1) - 2 * queries @ piece.T
        nearest = np.minimum(nearest, squares.min(1))
    return float(np.sqrt(np.maximum(nearest, 0.0) / queries.shape[1]).mean())


def distance_warning(distances: Mapping[str, float], limit: float) -> str | None:
    """A sentence that names the policies farther from the data than `limit`; None where there are none."""
    far = [f"{name} ({distance:.2f})" for name, distance in distances.items() if distance > limit]
    if not far:
        return None
    return (
        f"farther from the data than the known policies vouch for (limit {limit:.2f}): {', '.join(far)};"
        " their values are extrapolated, and such policies tend to be over-estimated"
    )
