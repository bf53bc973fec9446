"""What the selected policy chooses, where actions are discrete: beside the logs, and beside the expert step by step."""

from __future__ import annotations

import numpy as np

from ilbrl.data import Dataset, concatenate
from ilbrl.data.splits import Composition
from ilbrl.policy import Policy
from ilbrl.results.schema import ChoicesRecord

MOST_NAMED = 50  # choices that a picture can show
PIECE = 8192  # rows that the policy is asked about at a time


def choices_of(policy: Policy, composition: Composition) -> ChoicesRecord | None:
    """Counts of each action, and the confusion with the expert; None where actions are real-valued, or too many.

    The confusion is counted on expert episodes that the policy was not trained on, where there are any.
    """
    number = policy.num_actions
    if number is None or number > MOST_NAMED:
        return None
    expert = composition.evaluation_expert if composition.expert_held_out else composition.training_expert
    logs = composition.training_logs
    chosen, elsewhere = _chosen(policy, expert), _chosen(policy, logs)
    confusion = np.zeros((number, number), np.int64)
    np.add.at(confusion, (expert.actions, chosen), 1)
    return ChoicesRecord(
        names=concatenate([expert, logs]).choice_names,
        expert=_counts(expert.actions, number),
        logs=_counts(logs.actions, number),
        policy=_counts(np.concatenate([chosen, elsewhere]), number),
        confusion=tuple(map(tuple, confusion.tolist())),
        unseen=composition.expert_held_out,
    )


def _chosen(policy: Policy, data: Dataset) -> np.ndarray:
    """[N] the action that the policy takes at each logged observation."""
    pieces = (data.observations[i : i + PIECE] for i in range(0, len(data), PIECE))
    return np.concatenate([*(policy.act(piece) for piece in pieces), np.zeros(0, np.int64)])


def _counts(actions: np.ndarray, number: int) -> tuple[int, ...]:
    return tuple(np.bincount(actions, minlength=number).tolist())
