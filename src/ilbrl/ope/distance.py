"""How far a policy leads away from the data it is evaluated on: a warning, not an estimate.

Critics are asked for Q(s′, π(s′)), and where no row of the logs is near they answer with an extrapolation; policies
outside the data are over-estimated. What the tuning on known policies vouches for are policies as near the data
as those are.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ilbrl.learning.batches import Spec
from ilbrl.ope.evaluables import Evaluable, NextActions, act
from ilbrl.ope.evaluation_data import EvaluationData
from ilbrl.rewards.neighbours import nearest

QUERIES = 512  # rows asked about
ROWS = 100_000  # rows of the logs searched


def distances_from_data(
    policies: Mapping[str, Evaluable], data: EvaluationData, expert_fraction: float
) -> dict[str, float]:
    """Name → mean distance from (s′, π(s′)) to the nearest logged (s, a), over rows spread evenly through the subset.

    Observations are standardised and actions scaled to [−1, 1], as the critics see them; the square root of the
    number of inputs is divided out, so that tasks compare.
    """
    rows, spec, log = data.subset(expert_fraction), data.spec, data.dataset
    asked, searched = (rows[np.linspace(0, len(rows) - 1, n, dtype=int)] for n in (QUERIES, min(ROWS, len(rows))))
    states, queries = log.next_observations[asked], []
    for name, policy in policies.items():
        known = isinstance(policy, NextActions)
        actions = policy.actions[asked] if known else act(name, policy, states, spec.act_dim)
        queries.append(_inputs(spec, states, actions))
    logged = _inputs(spec, log.observations[searched], log.actions[searched])
    distance, _ = nearest(np.concatenate(queries), logged, quiet=True)
    means = distance.reshape(len(queries), QUERIES).mean(1) / np.sqrt(spec.obs_dim + spec.act_dim)
    return dict(zip(policies, map(float, means)))


def _inputs(spec: Spec, observations: np.ndarray, actions: np.ndarray) -> np.ndarray:
    return np.concatenate([spec.standardise(observations), spec.scale_actions(actions)], 1)


def distance_warning(distances: Mapping[str, float], limit: float) -> str | None:
    """A sentence that names the policies farther from the data than `limit`; None where there are none."""
    far = [f"{name} ({distance:.2f})" for name, distance in distances.items() if distance > limit]
    if not far:
        return None
    return (
        f"farther from the data than the known policies vouch for (limit {limit:.2f}): {', '.join(far)};"
        " their values are extrapolated, and such policies tend to be over-estimated"
    )
