"""Whether an estimate has converged, is still moving, or has diverged.

The rule looks at the curve of a policy's value over updates, v(t), up to now (update T):

    diverged    the loop froze the member (a loss that is not finite, or a mean |Q| beyond `FREEZE` times what the
                rewards allow), or v(T) lies outside the values that they allow, widened by `SLACK` of their range
    converged   what is left to go is at most `TOLERANCE` of |v|, and was so at every point of the last eighth
    moving      otherwise

What is left to go is slope × pace. The slope is that between the two halves of the curve's last quarter. The pace is
the targets': an error that all states share fades as exp(−t / pace) with pace = target_update_every / (τ (1 − γ))
updates, and for such an error slope × pace is exactly what is missing. All other errors fade faster. A curve may look
flat long before that: with updates every 16 and τ = 0.005 the pace is 320,000. Noise may excuse as much again, two
standard errors' worth; a curve too noisy to tell is still moving.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

FREEZE = 10.0
SLACK = 0.1
TOLERANCE = 0.02
NEAR_ZERO = 0.001  # of the possible values' range: an estimate nearer to 0 need not be accurate to 2 % of itself
FEWEST_POINTS = 16  # of a curve, for its last quarter to have two halves

Word = Literal["converged", "moving", "diverged"]
WORDS: tuple[Word, ...] = ("converged", "moving", "diverged")  # from good to bad


class Verdict(NamedTuple):
    word: Word
    decided_at: int  # update at which it could first be given and has held since; for a moving estimate, the last


def verdict(
    updates: np.ndarray,
    values: np.ndarray,
    diverged_at: int,
    value_range: tuple[float, float],
    pace: float,
    slack: float = SLACK,
) -> Verdict:
    """The verdict on a curve: [C] update numbers and [C] values.

    diverged_at: the update at which the loop froze the member; −1: never.
    value_range: the smallest and largest value that the rewards allow.
    """
    if diverged_at >= 0:
        return Verdict("diverged", int(diverged_at))
    low, high = value_range
    margin = slack * (high - low)
    possible = (values >= low - margin) & (values <= high + margin)  # false for nan
    if not possible[-1]:
        impossible_since = len(values) - np.argmax(possible[::-1]) if possible.any() else 0
        return Verdict("diverged", int(updates[impossible_since]))
    smallest = NEAR_ZERO * (high - low)
    since = len(values)
    while since >= FEWEST_POINTS and has_settled(updates[:since], values[:since], pace, smallest):
        since -= 1
    decided = -(-8 * (since + 1) // 7) - 1  # settled from point `since` on, and for an eighth of the curve by then
    if decided >= len(values):
        return Verdict("moving", int(updates[-1]))
    return Verdict("converged", int(updates[decided]))


def has_settled(updates: np.ndarray, values: np.ndarray, pace: float, smallest: float) -> bool:
    """Whether what is left to go, slope × pace, is within tolerance of |v|, or of `smallest` where |v| is less."""
    length = len(values) // 4
    before, after = np.array_split(values[-length:], 2)
    earlier, later = np.array_split(updates[-length:], 2)
    reach = max(pace / (later.mean() - earlier.mean()), 1.0)
    left_to_go = reach * abs(after.mean() - before.mean())
    steps = np.diff(values[-2 * length :])  # differences, so that a trend is not taken for noise
    by_chance = 2 * reach * steps.std() / np.sqrt(2) * np.sqrt(1 / len(before) + 1 / len(after))
    allowed = TOLERANCE * max(abs(values[-length:].mean()), smallest)
    return bool(left_to_go <= allowed + min(by_chance, allowed))
