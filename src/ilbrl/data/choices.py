"""Discrete actions as logs have them: names become numbers, propensities become log-probabilities."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from ilbrl.base.errors import IlbrlError
from ilbrl.data.checks import counted

OFF_BY = 1e-3  # how far the probabilities of all choices may be from a sum of 1


def numbered(actions: ArrayLike, source: str, rows: np.ndarray | None) -> tuple[ArrayLike, tuple[str, ...] | None]:
    """(numbers, names) of actions that are texts, in alphabetical order; other actions as they are.

    rows: [N] where each row stands in the source, for messages.
    """
    try:
        array = np.asarray(actions)
    except ValueError:  # rows of different lengths: told with the other columns
        return actions, None
    if array.dtype.kind not in "UO" or not array.size or array.ndim != 1:
        return actions, None
    if not all(isinstance(each, str) and each for each in array.tolist()):
        odd = next(i for i, each in enumerate(array.tolist()) if not (isinstance(each, str) and each))
        found = array.tolist()[odd]
        raise IlbrlError(f"{source}: actions hold {found!r} in row {_row(odd, rows)}, neither a number nor a name")
    names, numbers = np.unique(array.astype(str), return_inverse=True)
    return numbers, tuple(names.tolist())


def numbered_by(names: Sequence[str], actions: Sequence[str], source: str) -> np.ndarray:
    """[N] the place of each action among these names."""
    number_of = {name: number for number, name in enumerate(names)}
    unknown = next((row for row, action in enumerate(actions) if action not in number_of), None)
    if unknown is not None:
        raise IlbrlError(
            f"{source}: the action {actions[unknown]!r} in row {unknown} has no propensity: there are columns for"
            f" {', '.join(names[:8])}"
        )
    return np.array([number_of[action] for action in actions], np.int64)


def log_propensities(
    propensities: np.ndarray, actions: np.ndarray, source: str, rows: np.ndarray | None, doubted: list[str]
) -> np.ndarray:
    """[N] log-probabilities of the logged actions, from [N] their propensities or [N, n] those of all choices."""
    if actions.dtype.kind not in "iu":
        raise IlbrlError(
            f"{source}: propensities are probabilities of discrete actions, and these are real-valued; their"
            " log-densities are read as log_probs"
        )
    taken = propensities
    if propensities.ndim == 2:
        _refuse(np.any((propensities < 0) | ~(propensities <= 1 + OFF_BY), axis=1), propensities, source, rows)
        if actions.min() < 0 or actions.max() >= propensities.shape[1]:
            raise IlbrlError(
                f"{source}: propensities of {propensities.shape[1]} choices, and actions are numbered from"
                f" {actions.min()} to {actions.max()}; every choice needs one, in the order of their numbers"
            )
        sums = propensities.sum(1, dtype=np.float64)
        off = np.abs(sums - 1) > OFF_BY
        if off.any():
            first = int(np.argmax(off))
            doubted.append(
                f"propensities do not sum to one in {counted(off.sum(), 'row')} (first: row {_row(first, rows)},"
                f" {sums[first]:.4g}): values by importance sampling will be wrong; log those of all choices"
            )
        taken = np.take_along_axis(propensities, actions.astype(np.int64)[:, None], 1)[:, 0]
    _refuse((taken <= 0) | ~(taken <= 1 + OFF_BY), taken, source, rows)
    return np.log(np.minimum(taken, 1.0))


def _refuse(wrong: np.ndarray, values: np.ndarray, source: str, rows: np.ndarray | None) -> None:
    if wrong.any():
        row = int(np.argmax(wrong))
        shown = ", ".join(f"{value:.4g}" for value in np.atleast_1d(values[row])[:8])
        raise IlbrlError(
            f"{source}: propensity {shown} in row {_row(row, rows)}: the probability of an action that was taken is"
            " above 0 and at most 1; mend it, or rename the column if it holds something else"
        )


def _row(row: int, rows: np.ndarray | None) -> int:
    return row if rows is None else int(rows[row])
