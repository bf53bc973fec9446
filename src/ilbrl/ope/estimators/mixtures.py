"""Which rows the critics of Expected SARSA learn from: mixtures of the expert's log and the other logs, and how far a
policy leads away from them.

Algorithm 2 tunes the share of expert rows in the evaluation data. Mixtures are prefixes of the same two pools, so all
rows are held once, and a setting is a subset of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ilbrl.base.errors import IlbrlError
from ilbrl.data import Dataset, concatenate
from ilbrl.data.splits import episodes_of_each
from ilbrl.learning.spec import Spec
from ilbrl.ope.evidence import Evidence, Quantity
from ilbrl.ope.policies import Evaluable, NextActions, act
from ilbrl.rewards.neighbours import nearest

NOTED, REFUSED = 0.05, 0.2  # how far an expert fraction may miss before it is noted, and before it is refused
QUERIES, SEARCHED = 512, 100_000  # rows asked about, and rows searched, for the distance


@dataclass(frozen=True, eq=False)
class Mixtures:
    """The rows of all logs, each once, and which of them a setting draws from."""

    rows: Dataset
    subsets: Mapping[float | None, np.ndarray]  # expert fraction → row numbers; None: a single log, taken whole
    notes: tuple[str, ...] = ()  # mixtures that missed their expert fraction

    @staticmethod
    def of(evidence: Evidence, fractions: Sequence[float]) -> Mixtures:
        """A mixture takes the first episodes of the expert's log and of all other logs."""
        logs = [data for name, data in evidence.logs.items() if name != "expert"]
        if "expert" not in evidence.logs or not logs:
            return Mixtures(evidence.union, {None: np.arange(len(evidence.union))})
        pools = evidence.logs["expert"], concatenate(logs)
        rows, subsets, notes = concatenate(pools), {}, []
        for fraction in sorted(set(fractions)):
            counts = episodes_of_each(pools, fraction)
            expert, rest = (int(pool.episode_lengths[:count].sum()) for pool, count in zip(pools, counts))
            subsets[fraction] = np.concatenate([np.arange(expert), len(pools[0]) + np.arange(rest)])
            notes += _missed(pools[0], fraction, expert / (expert + rest))
        return Mixtures(rows, subsets, tuple(notes))

    def arriving(self, evidence: Evidence, quantity: Quantity) -> Mixtures:
        """The same, whose terminals also earn what follows them (`Evidence.arriving`)."""
        return replace(self, rows=evidence.arriving(self.rows, quantity))

    def subset(self, expert_fraction: float) -> np.ndarray:
        return self.subsets[None] if None in self.subsets else self.subsets[expert_fraction]

    def mean_value(self, expert_fraction: float, gamma: float) -> float:
        """What the logs are worth on average, were every row alike: r̄ / (1 − γ (1 − share of terminals))."""
        rows = self.subset(expert_fraction)
        assert self.rows.rewards is not None
        ends = float(self.rows.terminals[rows].mean())
        return float(self.rows.rewards[rows].mean(dtype=np.float64)) / (1 - gamma * (1 - ends))


def _missed(expert: Dataset, fraction: float, came_out: float) -> list[str]:
    """What to say about a mixture that whole episodes cannot give; too far off is an error."""
    if abs(came_out - fraction) > REFUSED:
        raise IlbrlError(
            f"{expert.source}: {expert.num_episodes} expert episodes cannot make evaluation data with expert fraction"
            f" {fraction:g} (it came out as {came_out:.2f}); bring more expert episodes, train on fewer of them,"
            " or leave this fraction out"
        )
    few = f"expert fraction {fraction:g} came out as {came_out:.2f}: {expert.num_episodes} expert episodes are few"
    return [few] if abs(came_out - fraction) > NOTED else []


def distances_from_data(
    policies: Mapping[str, Evaluable], data: Mixtures, expert_fraction: float, spec: Spec
) -> dict[str, float]:
    """Name → mean distance from (s′, π(s′)) to the nearest logged (s, a), over rows spread evenly through the subset.

    Observations are standardised and actions scaled to [−1, 1], as the critics see them; the square root of the
    number of inputs is divided out, so that tasks compare. Discrete actions are one-hot rows: two different ones are √2
    apart, as are two observations that differ by √2 standard deviations.
    """
    rows, log = data.subset(expert_fraction), data.rows
    asked, searched = (rows[np.linspace(0, len(rows) - 1, n, dtype=int)] for n in (QUERIES, min(SEARCHED, len(rows))))
    states, queries = log.next_observations[asked], []
    for name, policy in policies.items():
        known = isinstance(policy, NextActions)
        queries.append(_inputs(spec, states, policy.actions[asked] if known else act(name, policy, states, spec)))
    distance, _ = nearest(
        np.concatenate(queries), _inputs(spec, log.observations[searched], log.actions[searched]), True
    )
    means = distance.reshape(len(queries), QUERIES).mean(1) / np.sqrt(spec.obs_dim + spec.act_dim)
    return dict(zip(policies, map(float, means)))


def _inputs(spec: Spec, observations: np.ndarray, actions: np.ndarray) -> np.ndarray:
    return np.concatenate([spec.standardise(observations), spec.encode_actions(actions)], 1)
