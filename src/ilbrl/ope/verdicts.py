"""Whether an estimate has converged, is still moving, or has diverged.

The rule looks at the curve of a policy's value over updates, v(t), up to now (update T):

    diverged    the loop froze the member (a loss that is not finite, or a mean |Q| beyond `FREEZE` times what the
                rewards allow), or v(T) lies outside the values that they allow, widened by `SLACK` of their range
    converged   the drift |mean v over (7T/8, T] − mean v over (3T/4, 7T/8]| is at most `TOLERANCE` of |v|, beyond
                what noise alone makes of such a difference (two standard errors, but no more than 2 `TOLERANCE`)
    moving      otherwise

The windows grow with T. So a curve that approaches its limit like 1 − e^(−t/c) is called converged when about 2 % are
missing, whatever its time constant c: the drift is then an eighth of T/c times what is missing, with T/c near 4.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

FREEZE = 10.0
SLACK = 0.1
TOLERANCE = 0.01
FEWEST_POINTS = 16  # of a curve, for its last quarter to have two halves

Word = Literal["converged", "moving", "diverged"]
WORDS: tuple[Word, ...] = ("converged", "moving", "diverged")  # from good to bad


class Verdict(NamedTuple):
    word: Word
    decided_at: int  # update from which it held; for a moving estimate, the last


def verdict(
    updates: np.ndarray, values: np.ndarray, diverged_at: int, value_range: tuple[float, float], slack: float = SLACK
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
    since = len(values)
    while since >= FEWEST_POINTS and has_settled(values[:since], high - low):
        since -= 1
    if since == len(values):
        return Verdict("moving", int(updates[-1]))
    return Verdict("converged", int(updates[since]))


def has_settled(values: np.ndarray, value_width: float) -> bool:
    """Whether a curve's drift over its last quarter is within tolerance; |v| is at least a percent of the range."""
    window = values[-(len(values) // 4) :]
    before, after = window[: len(window) // 2], window[len(window) // 2 :]
    drift = abs(after.mean() - before.mean())
    scale = max(abs(window.mean()), 0.01 * value_width)
    steps = np.diff(values[-2 * len(window) :])  # differences, so that a trend is not taken for noise
    noise = steps.std() / np.sqrt(2)
    by_chance = 2 * noise * np.sqrt(1 / len(before) + 1 / len(after))
    return bool(drift <= TOLERANCE * scale + min(by_chance, 2 * TOLERANCE * scale))
