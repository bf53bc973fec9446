"""The doctor's checks of actions: their bounds, discrete choices, and the policy that is said to have taken them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ilbrl.data.checks import LARGEST, Finding, counted, listed
from ilbrl.data.dataset import Dataset

UNUSED_RANGE = 1e-3  # share of their stated range that actions must use at least
RARE = 1e-3  # share of rows below which a choice counts as rare


def check_bounds(dataset: Dataset) -> Iterator[Finding]:
    """Bounds that are no bounds, and actions that no policy within them could take."""
    if dataset.discrete:
        return
    low, high = dataset.action_low, dataset.action_high
    if low is None or high is None:
        yield from _outside(dataset, np.full(dataset.act_dim, -1.0), np.full(dataset.act_dim, 1.0), stated=False)
        return
    if not ((np.abs(low) < LARGEST) & (np.abs(high) < LARGEST) & (low < high)).all():
        message = (
            f"action bounds {_short(low)} … {_short(high)}: each must be finite and below {LARGEST:g}, and the lower"
            " one below the upper one; state true bounds (--action-low, --action-high)"
        )
        yield Finding("error", "actions", "actions", None, message)
        return
    yield from _outside(dataset, low, high, stated=True)
    spread = np.ptp(dataset.actions, axis=0)
    narrow = (spread > 0) & (spread < UNUSED_RANGE * (high - low))
    if narrow.any():
        message = (
            f"actions: {listed(dataset, 'actions', narrow)} within less than {UNUSED_RANGE:.1%} of the stated bounds"
            f" {_short(low)} … {_short(high)}: scaled by them, all actions are nearly the same; state true bounds"
        )
        yield Finding("warning", "actions", "actions", None, message)


def _outside(dataset: Dataset, low: np.ndarray, high: np.ndarray, stated: bool) -> Iterator[Finding]:
    slack = 1e-6 * (high - low)  # float32 rounding of an action on the bound
    outside = ((dataset.actions < low - slack) | (dataset.actions > high + slack)).any(1)
    if not outside.any():
        return
    row, shown = dataset.source_row(np.argmax(outside)), _short(dataset.actions[np.argmax(outside)])
    message = f"{counted(outside.sum(), 'action')} outside their stated bounds (first: row {row}, {shown})"
    if not stated:
        reach = " … ".join(map(_short, dataset.action_range))
        message = (
            f"{counted(outside.sum(), 'action')} outside [-1, 1], and no bounds are stated (first: row {row}, {shown}):"
            f" policies will act within the range of the logs, {reach}; if more is allowed, state it"
            " (--action-low, --action-high)"
        )
    yield Finding("warning", "actions", "actions", row, message)


def check_choices(dataset: Dataset) -> Iterator[Finding]:
    """Discrete actions: numbers that are no choices, choices that are never or rarely taken."""
    if not dataset.discrete:
        return
    if dataset.actions.min() < 0:
        row = dataset.source_row(np.argmin(dataset.actions))
        message = f"actions: {dataset.actions.min()} in row {row}; choices are numbered from 0"
        yield Finding("error", "choices", "actions", row, message)
        return
    if dataset.action_names is None:
        message = (
            f"actions are whole numbers, taken as {counted(dataset.num_actions, 'choice')}: if there are more, say how"
            " many (--num-actions); if they are amounts, state their bounds (--action-low, --action-high)"
        )
        yield Finding("note", "choices", "actions", None, message)
    if dataset.num_actions > 100_000:
        return
    counts, names = np.bincount(dataset.actions, minlength=dataset.num_actions), dataset.choice_names
    for kind, which in {"never": counts == 0, "rarely": (counts > 0) & (counts < RARE * len(dataset))}.items():
        if which.any():
            found = _some([names[i] for i in np.flatnonzero(which)])
            message = f"actions: {found} {'is' if which.sum() == 1 else 'are'} {kind} taken"
            yield Finding("note", "choices", "actions", None, message)
    if dataset.log_probs is not None and (dataset.log_probs > 1e-6).any():
        row = dataset.source_row(np.argmax(dataset.log_probs > 1e-6))
        message = f"log_probs: above 0 in row {row}, but a choice has at most probability 1"
        yield Finding("warning", "choices", "log_probs", row, message)


def check_choices_of_expert(dataset: Dataset, expert: Dataset) -> Iterator[Finding]:
    """Names that differ between the two logs, and choices that the expert never takes."""
    if dataset.action_names != expert.action_names and None not in (dataset.action_names, expert.action_names):
        message = (
            f"the expert's actions are named {', '.join(expert.choice_names)}, those of the other logs"
            f" {', '.join(dataset.choice_names)}: the same number would mean different actions; state all names"
            " (--action-names)"
        )
        yield Finding("error", "choices", "actions", None, message)
        return
    taken = np.unique(dataset.actions)
    unseen = np.setdiff1d(taken, expert.actions)
    if len(unseen) == len(taken) and len(expert):
        message = (
            "actions: the expert never takes any that the other logs take, so that none of their steps is close to its"
            " own; are the same actions called differently?"
        )
        yield Finding("warning", "choices", "actions", None, message)
    elif len(unseen):
        names = dataset.action_names
        found = _some([str(number) if names is None else names[number] for number in unseen])
        message = f"actions: the expert never takes {found}, which the other logs do"
        yield Finding("note", "choices", "actions", None, message)


def check_policy(dataset: Dataset) -> Iterator[Finding]:
    """A behaviour policy that does not explain the actions it is said to have taken."""
    errors = log_prob_errors(dataset)
    # Where tanh saturates a float32 action has lost its noise, so a few rows may be far off.
    if errors is not None and not np.quantile(errors, 0.95) < 0.01:
        message = f"the behaviour policy does not reproduce the stored log-probabilities (off by {errors.max():.3g})"
        yield Finding("warning", "policy", "log_probs", None, message)


def log_prob_errors(dataset: Dataset) -> np.ndarray | None:
    """|log π(a|s) − stored log-probability| of the first 100,000 rows; None where either is missing."""
    policy = dataset.policy
    if policy is None or dataset.log_probs is None or policy.head == "deterministic" or not len(dataset):
        return None
    rows = slice(0, 100_000)
    computed = policy.log_prob(dataset.observations[rows], dataset.actions[rows])
    return np.abs(computed - dataset.log_probs[rows])


def _some(names: list[str]) -> str:
    return ", ".join(names[:8]) + f" … ({len(names):,} in all)" * (len(names) > 8)


def _short(row: np.ndarray) -> str:
    return "[" + ", ".join(f"{value:.3g}" for value in row[:6]) + (", …]" if len(row) > 6 else "]")
