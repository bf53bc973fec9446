"""What a policy must be to act: parts that fit together, and observations that are numbers."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np

from ilbrl.base.errors import IlbrlError
from ilbrl.policy.network import ACTIVATIONS, HEADS, Layer

if TYPE_CHECKING:
    from ilbrl.policy.policy import Policy

MOST_LOG_STD = 80  # e to the power of it is a number of float32, and so is its inverse


def require_finite(observations: np.ndarray) -> None:
    """Refuse [obs_dim] or [N, obs_dim] observations that hold NaN or infinity, and say where."""
    finite = np.isfinite(observations)
    if finite.all():
        return
    *row, column = np.argwhere(~finite)[0].tolist()
    where = f"observation {row[0]}, number {column}" if row else f"number {column} of the observation"
    value = observations[(*row, column)]
    raise IlbrlError(f"{where} is {value}: a policy has no answer to that; mend the sensor or the log it comes from")


def require_consistent(policy: Policy) -> None:
    """Refuse shapes that do not fit, unknown kinds, and bounds or a normaliser that make no sense."""
    if policy.head not in HEADS:
        raise IlbrlError(f"a policy with the head {policy.head!r} is not known: there are {', '.join(HEADS)}")
    if policy.activation not in ACTIVATIONS:
        raise IlbrlError(f"the activation {policy.activation!r} is not known: there are {', '.join(ACTIVATIONS)}")
    _require_layers_fit(policy.layers)
    outputs = policy.layers[-1].units
    _require_pair(policy, "action_low", "action_high", None)
    if policy.head == "categorical":
        if policy.action_low.tolist() != [0] or policy.action_high.tolist() != [outputs - 1]:
            raise IlbrlError(
                f"a categorical policy of {outputs} actions has the bounds [0] and [{outputs - 1}],"
                f" not {policy.action_low.tolist()} and {policy.action_high.tolist()}"
            )
    else:
        wanted = policy.act_dim * (2 if policy.head == "tanh_gaussian" else 1)
        if outputs != wanted:
            raise IlbrlError(
                f"the last layer gives {outputs} numbers, and a {policy.head} policy with bounds of"
                f" {policy.act_dim} needs {wanted}"
            )
    _require_pair(policy, "obs_low", "obs_high", policy.obs_dim)
    _require_pair(policy, "obs_mean", "obs_std", policy.obs_dim, ordered=False)
    if policy.obs_std is not None and not (policy.obs_std > 0).all():
        raise IlbrlError(f"obs_std[{np.argmin(policy.obs_std > 0)}] is not above zero: observations are divided by it")
    low, high = policy.log_std_bounds
    if not -MOST_LOG_STD <= low <= high <= MOST_LOG_STD:
        raise IlbrlError(
            f"log_std_bounds ({low}, {high}) are not two numbers in order, between -{MOST_LOG_STD} and {MOST_LOG_STD}"
        )
    if policy.mean_bound is not None and not 0 < policy.mean_bound < np.inf:
        raise IlbrlError(f"mean_bound {policy.mean_bound} is not a number above zero")


def _require_layers_fit(layers: tuple[Layer, ...]) -> None:
    if not layers:
        raise IlbrlError("a policy needs at least one layer")
    for i, layer in enumerate(layers):
        if layer.weight.ndim != 2 or 0 in layer.weight.shape or layer.bias.shape != layer.weight.shape[1:]:
            raise IlbrlError(
                f"layer {i}: a weight of shape {layer.weight.shape} and a bias of shape {layer.bias.shape} do not fit"
                " (they are [fan_in, fan_out] and [fan_out])"
            )
        if (layer.scale is None) != (layer.shift is None):
            raise IlbrlError(f"layer {i}: LayerNorm has a scale and a shift, or neither")
        if layer.scale is None or layer.shift is None:
            continue
        if i == len(layers) - 1:
            raise IlbrlError(f"layer {i}: the last layer has no LayerNorm")
        if not layer.scale.shape == layer.shift.shape == layer.bias.shape:
            raise IlbrlError(
                f"layer {i}: a LayerNorm of shapes {layer.scale.shape} and {layer.shift.shape} does not fit"
                f" {layer.units} units"
            )
    for i, (before, after) in enumerate(itertools.pairwise(layers)):
        if before.weight.shape[1] != after.weight.shape[0]:
            raise IlbrlError(
                f"layer {i} gives {before.weight.shape[1]} numbers and layer {i + 1} takes {after.weight.shape[0]}"
            )


def _require_pair(policy: Policy, first: str, second: str, size: int | None, ordered: bool = True) -> None:
    """Two finite vectors of one length, the first nowhere above the second; or neither of the two."""
    one, other = getattr(policy, first), getattr(policy, second)
    if one is None and other is None:
        return
    if one is None or other is None:
        raise IlbrlError(f"there is {second if one is None else first} but no {first if one is None else second}")
    shape = (len(one),) if size is None and one.ndim == 1 and len(one) else (size,)
    if not one.shape == other.shape == shape:
        raise IlbrlError(f"{first} and {second} have the shapes {one.shape} and {other.shape}, expected {shape}")
    with np.errstate(over="ignore", invalid="ignore"):
        finite = np.isfinite(one) & np.isfinite(other) & np.isfinite(other - one) & np.isfinite(other + one)
    if not finite.all():
        i = int(np.argmin(finite))
        raise IlbrlError(f"{first}[{i}] and {second}[{i}] are {one[i]} and {other[i]}: not finite, or too large")
    if ordered and (one > other).any():
        i = int(np.argmax(one > other))
        raise IlbrlError(f"{first}[{i}] is {one[i]}, above {second}[{i}], {other[i]}")
