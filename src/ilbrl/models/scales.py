"""What the logs show about observations and rewards, and the columns that models learn from.

Most numbers of an observation change a little from step to step, and models predict the change. Where such a number has
few values (a small count), rollouts take the nearest. Flags and one-hot categories have two values each, and together
few combinations, called patterns here: models predict which pattern comes next. (Where there are more patterns than
`FEW_PATTERNS`, flags are treated as small counts are.)

A last step may earn what no other step does: a prize, or the price of a crash. Such rewards have scales of their own,
for among all others they would look like errors of measurement.
"""

from __future__ import annotations

import numpy as np

from ilbrl.data import Dataset
from ilbrl.learning.spec import Spec
from ilbrl.models.file import Scales

REWARD_TAILS = (0.01, 99.99)  # percentiles of the logged rewards that predictions are clipped to
FEW_VALUES, FEWEST_LOOKED_AT = 32, 1000  # of a one-hot or ordinal column; rows that rule most others out
FEW_PATTERNS = 256
UNLIKE = 5.0  # last rewards this many standard deviations of the others from their mean are a kind of their own


def scales_of(union: Dataset) -> Scales:
    """Everything but what held-out rows show."""
    spec = Spec.of(union)
    change = union.next_observations.astype(np.float64) - union.observations
    levels = _levels(union)
    patterns = _patterns(union, levels)
    reward, end_reward = _reward_scales(union)
    one = np.ones((), np.float32)
    seen = np.stack([union.observations.min(0), union.next_observations.min(0)]).min(0)
    most = np.stack([union.observations.max(0), union.next_observations.max(0)]).max(0)
    return Scales(
        spec.obs_mean, spec.obs_std, np.asarray(spec.action_low), np.asarray(spec.action_high),
        np.where(_in_patterns(patterns, union.obs_dim), 0.0, change.mean(0)).astype(np.float32),
        (change.std(0) + 1e-6).astype(np.float32), seen, most,
        reward.astype(np.float32), np.zeros(union.obs_dim, np.float32), one, one, np.asarray(spec.num_actions or 0),
        levels, patterns, end_reward.astype(np.float32),
    )  # fmt: skip


def columns_of(union: Dataset, scales: Scales) -> dict[str, np.ndarray]:
    """What the learner is fed. The change of state stands where a batch has its next observations, 0 for numbers in
    patterns, and behind it the number of the next pattern."""
    change = (union.next_observations - union.observations - scales.change_mean) / scales.change_std
    if len(scales.patterns):
        few = _in_patterns(scales.patterns, union.obs_dim)
        number = _numbers(scales.patterns[:, few], union.next_observations[:, few])
        change = np.column_stack([np.where(few, 0.0, change), number]).astype(np.float32)
    columns = {
        "observations": scales.spec.standardise(union.observations),
        "actions": scales.spec.encode_actions(union.actions),
        "next_observations": change,
        "continues": 1.0 - union.terminals.astype(np.float32),
    }
    if union.rewards is not None:
        columns["rewards"] = (union.rewards - scales.reward[0]) / scales.reward[1]
    if ends_are_unlike(union):
        last = (union.rewards - scales.end_reward[0]) / scales.end_reward[1]
        columns["rewards"] = np.where(union.terminals, last, columns["rewards"])
    return columns


def ends_are_unlike(union: Dataset) -> bool:
    """Whether the rewards of steps that end an episode are of another kind than all others."""
    if union.rewards is None or not union.terminals.any() or union.terminals.all():
        return False
    rewards = union.rewards.astype(np.float64)
    last, others = rewards[union.terminals], rewards[~union.terminals]
    return bool(np.median(np.abs(last - others.mean())) > UNLIKE * others.std())


def _reward_scales(union: Dataset) -> tuple[np.ndarray, np.ndarray]:
    """[4] each: mean, standard deviation, smallest and largest that is predicted; of all steps, or of those that do not
    end an episode and of those that do."""
    nothing = np.array([0.0, 1.0, 0.0, 0.0])
    if union.rewards is None:
        return nothing, nothing
    rewards, end_reward = union.rewards.astype(np.float64), nothing
    if ends_are_unlike(union):
        last, rewards = rewards[union.terminals], rewards[~union.terminals]
        end_reward = np.array([last.mean(), last.std() + 1e-6, last.min(), last.max()])
    return np.array([rewards.mean(), rewards.std() + 1e-6, *np.percentile(rewards, REWARD_TAILS)]), end_reward


def _levels(union: Dataset) -> np.ndarray:
    """[obs_dim, L] the different values of columns with at most `FEW_VALUES`, NaN elsewhere; [0, 0] where no column is.

    A column that never changes has none either: models may leave it alone.
    """
    found = []
    for before, after in zip(union.observations.T, union.next_observations.T):
        values = np.unique(before[:FEWEST_LOOKED_AT])  # most columns show here that they have more
        if len(values) <= FEW_VALUES:
            values = np.unique(np.concatenate([before, after]))
        found.append(values if 1 < len(values) <= FEW_VALUES else values[:0])
    longest = max(map(len, found))
    if not longest:
        return np.zeros((0, 0), np.float32)
    return np.stack([np.pad(values, (0, longest - len(values)), constant_values=np.nan) for values in found])


def _patterns(union: Dataset, levels: np.ndarray) -> np.ndarray:
    """[C, obs_dim] the combinations of columns that have two `levels`, NaN for others; [0, 0]: none, or too many."""
    nothing = np.zeros((0, 0), np.float32)
    if not levels.size or not (few := (~np.isnan(levels)).sum(1) == 2).any():
        return nothing
    if len(np.unique(union.observations[:FEWEST_LOOKED_AT, few], axis=0)) > FEW_PATTERNS:  # before all rows are sorted
        return nothing
    found = np.unique(np.concatenate([union.observations[:, few], union.next_observations[:, few]]), axis=0)
    if len(found) > FEW_PATTERNS:
        return nothing
    patterns = np.full((len(found), union.obs_dim), np.nan, np.float32)
    patterns[:, few] = found
    return patterns


def _in_patterns(patterns: np.ndarray, obs_dim: int) -> np.ndarray:
    """[obs_dim] bool: the numbers that patterns hold."""
    return ~np.isnan(patterns[0]) if len(patterns) else np.zeros(obs_dim, bool)


def _numbers(patterns: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """[N] which of the sorted patterns each row is; every row is one of them."""
    found, number = np.unique(np.concatenate([patterns, rows]), axis=0, return_inverse=True)
    assert len(found) == len(patterns)
    return number.reshape(-1)[len(patterns) :]
