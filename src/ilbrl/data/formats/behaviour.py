"""A behaviour policy stored beside its data, in the layout of D4RL's `metadata/policy`.

`fc0/weight` [fan_out, fan_in], `fc0/bias`, `fc1/…`, then `last_fc/…` (the mean) and `last_fc_log_std/…`, with
`nonlinearity` and `output_distribution` as text. Some of D4RL's files (adroit) store [fan_in, fan_out] instead; the
biases tell which. Log standard deviations are clipped to [−20, 2], as in rlkit, which trained D4RL's policies.

What that layout cannot say of our policies (bounds, normaliser, other limits, LayerNorm's `fc0/scale` and `fc0/shift`)
is written as further fields, which other readers ignore; a policy that chooses among actions has the output
`categorical`.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping

import numpy as np

from ilbrl.base.errors import IlbrlError
from ilbrl.policy import Layer, Policy
from ilbrl.policy.network import ACTIVATIONS, HEADS

RLKIT_LOG_STD_BOUNDS = (-20.0, 2.0)
_ABOUT_OBSERVATIONS = ("obs_mean", "obs_std", "obs_low", "obs_high")


def policy_or_doubt(arrays: Mapping[str, np.ndarray], texts: Mapping[str, str], warnings: list[str]) -> Policy | None:
    """The policy, or None and a warning that says why: the data is usable without it."""
    try:
        return policy_from_fields(arrays, texts)
    except (IlbrlError, ValueError, TypeError, IndexError, RecursionError) as error:
        reason = str(error).partition("\n")[0] or type(error).__name__
        warnings.append(f"the behaviour policy stored beside the data was left out: {reason}")
        return None


def policy_from_fields(arrays: Mapping[str, np.ndarray], texts: Mapping[str, str]) -> Policy:
    """The policy; an IlbrlError says what about it is not understood."""
    head, activation = texts.get("output_distribution", "tanh_gaussian"), texts.get("nonlinearity", "relu")
    if head not in HEADS or activation not in ACTIVATIONS:
        raise IlbrlError(f"a policy with output {head!r} and nonlinearity {activation!r} is not supported")
    depth = sum(name.startswith("fc") and name.endswith("/weight") for name in arrays)
    wanted = [*(f"fc{i}" for i in range(depth)), "last_fc", *(["last_fc_log_std"] if head == "tanh_gaussian" else [])]
    layers = _layers(arrays, wanted)
    answers = len(layers[depth][1])
    if head == "tanh_gaussian":
        (mean, mean_bias), (log_std, log_std_bias) = layers.pop(-2), layers.pop()
        if mean.shape != log_std.shape:
            raise IlbrlError("last_fc and last_fc_log_std have different shapes")
        layers.append((np.concatenate([mean, log_std], 1), np.concatenate([mean_bias, log_std_bias])))
    if any(after[0].shape[0] != before[0].shape[1] for before, after in itertools.pairwise(layers)):
        raise IlbrlError("its layers do not fit together")
    metadata = json.loads(texts.get("metadata", "{}"))
    if not isinstance(metadata, dict):
        raise IlbrlError("its metadata is not a table of names and values")
    low, high = ([0], [answers - 1]) if head == "categorical" else (np.full(answers, -1), np.full(answers, 1))
    return Policy(
        layers=tuple(Layer(*layer, *_norm(arrays, f"fc{i}")) for i, layer in enumerate(layers)),
        action_low=np.asarray(arrays.get("action_low", low), np.float32),
        action_high=np.asarray(arrays.get("action_high", high), np.float32),
        head=head,
        activation=activation,
        **{name: arrays.get(name) for name in _ABOUT_OBSERVATIONS},
        log_std_bounds=_pair(arrays.get("log_std_bounds", np.array(RLKIT_LOG_STD_BOUNDS))),
        mean_bound=float(arrays["mean_bound"]) if "mean_bound" in arrays else None,
        metadata=metadata,
    )


def _layers(arrays: Mapping[str, np.ndarray], names: list[str]) -> list[tuple[np.ndarray, np.ndarray]]:
    """([fan_in, fan_out] weight, [fan_out] bias) of each layer, whichever way round the file stores weights."""
    missing = [f"{n}/{part}" for n in names for part in ("weight", "bias") if f"{n}/{part}" not in arrays]
    if missing:
        raise IlbrlError(f"{', '.join(missing)} missing")
    stored = [(arrays[f"{name}/weight"], arrays[f"{name}/bias"]) for name in names]
    for name, (weight, bias) in zip(names, stored):
        if weight.ndim != 2 or bias.ndim != 1 or len(bias) not in weight.shape:
            raise IlbrlError(f"{name} has weights of shape {weight.shape} for a bias of shape {bias.shape}")
        if not (np.isfinite(weight).all() and np.isfinite(bias).all()):
            raise IlbrlError(f"{name} holds numbers that are not finite")
    out_first = [len(weight) == len(bias) for weight, bias in stored if weight.shape[0] != weight.shape[1]]
    if any(out_first) and not all(out_first):
        raise IlbrlError("some weights are [fan_out, fan_in] and others [fan_in, fan_out]")
    transposed = all(out_first)  # also where every layer is square: D4RL's usual order
    return [
        (np.ascontiguousarray(weight.T if transposed else weight, np.float32), np.asarray(bias, np.float32))
        for weight, bias in stored
    ]


def _norm(arrays: Mapping[str, np.ndarray], layer: str) -> list[np.ndarray | None]:
    """LayerNorm's scale and shift of a hidden layer, where it has them."""
    found = [arrays.get(f"{layer}/{part}") for part in ("scale", "shift")]
    if not all(part is None or np.isfinite(part).all() for part in found):
        raise IlbrlError(f"{layer} holds numbers that are not finite")
    return found


def policy_to_fields(policy: Policy) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """(arrays, texts) such that `policy_from_fields` gives the same policy back."""
    arrays: dict[str, np.ndarray] = {}
    for i, layer in enumerate(policy.layers[:-1]):
        arrays[f"fc{i}/weight"], arrays[f"fc{i}/bias"] = layer.weight.T, layer.bias
        if layer.scale is not None and layer.shift is not None:
            arrays[f"fc{i}/scale"], arrays[f"fc{i}/shift"] = layer.scale, layer.shift
    weight, bias, *_ = policy.layers[-1]
    k = policy.num_actions or policy.act_dim
    arrays["last_fc/weight"], arrays["last_fc/bias"] = weight[:, :k].T, bias[:k]
    if policy.head == "tanh_gaussian":
        arrays["last_fc_log_std/weight"], arrays["last_fc_log_std/bias"] = weight[:, k:].T, bias[k:]
    arrays |= {"action_low": policy.action_low, "action_high": policy.action_high}
    arrays["log_std_bounds"] = np.array(policy.log_std_bounds)
    if policy.mean_bound is not None:
        arrays["mean_bound"] = np.array(policy.mean_bound)
    known = {name: getattr(policy, name) for name in _ABOUT_OBSERVATIONS}
    arrays |= {name: array for name, array in known.items() if array is not None}
    texts = {"nonlinearity": policy.activation, "output_distribution": policy.head}
    return arrays, texts | {"metadata": json.dumps(dict(policy.metadata), sort_keys=True)}


def _pair(bounds: np.ndarray) -> tuple[float, float]:
    if bounds.shape != (2,):
        raise IlbrlError(f"log_std_bounds has shape {bounds.shape}; two numbers are needed")
    low, high = bounds.tolist()
    return low, high
