"""A committee: policies of the same kind that answer together, as one policy.

    y(x) = mean_k y_k(x)

where y_k is the answer of member k's network before it is squashed, sampled or normalised to probabilities. Members
that learned from the same rows with other seeds err in different places, and their mean errs less.

The committee is again one MLP: its hidden layers hold the members' side by side, with zeros between them. So it is a
policy like any other, which can be saved, exported, valued and deployed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ilbrl.base.errors import IlbrlError
from ilbrl.policy.network import Layer
from ilbrl.policy.policy import Policy

ALIKE = (
    "head", "activation", "action_low", "action_high", "obs_mean", "obs_std", "log_std_bounds", "mean_bound",
)  # fmt: skip


def committee_of(members: Sequence[Policy]) -> Policy:
    """One policy of several; what it does not share with its members (metadata, range) is the first one's."""
    if not members:
        raise IlbrlError("a committee needs at least one policy")
    first = members[0]
    for policy in members[1:]:
        other = [name for name in ALIKE if not _equal(getattr(policy, name), getattr(first, name))]
        if other or len(policy.layers) != len(first.layers):
            raise IlbrlError(f"a committee needs policies of one kind; these differ in {', '.join(other) or 'layers'}")
    if len(members) > 1 and any(layer.scale is not None for policy in members for layer in policy.layers):
        raise IlbrlError("a committee has no LayerNorm, which would normalise all of its members at once")
    *hidden, last = zip(*(policy.layers for policy in members))
    layers = [_side_by_side(layer, shared_input=i == 0) for i, layer in enumerate(hidden)]
    return replace(first, layers=(*layers, _mean(last, shared_input=not hidden)))


def _equal(one: Any, other: Any) -> bool:
    return one is other if one is None or other is None else bool(np.array_equal(one, other))


def _side_by_side(layers: Sequence[Layer], shared_input: bool) -> Layer:
    """Layers whose outputs follow each other; inputs are the same for all, or follow each other as well."""
    if shared_input:
        weight = np.concatenate([layer.weight for layer in layers], 1)
    else:
        weight = np.zeros(np.sum([layer.weight.shape for layer in layers], axis=0), np.float32)
        row = column = 0
        for layer in layers:
            rows, columns = layer.weight.shape
            weight[row : row + rows, column : column + columns] = layer.weight
            row, column = row + rows, column + columns
    return layers[0]._replace(weight=weight, bias=np.concatenate([layer.bias for layer in layers]))


def _mean(layers: Sequence[Layer], shared_input: bool) -> Layer:
    """The mean of the layers' outputs."""
    weights = [layer.weight / len(layers) for layer in layers]
    weight = np.sum(weights, 0) if shared_input else np.concatenate(weights, 0)
    return Layer(weight, np.mean([layer.bias for layer in layers], 0))
