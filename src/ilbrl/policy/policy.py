"""What a policy is and how it acts, with NumPy alone.

A policy is a ReLU (or tanh) MLP on raw observations, with the normaliser and the action bounds inside:

    x = (observation − mean) / std        (identity where nothing was normalised)
    y = MLP(x)                            (each hidden layer: x W + b, LayerNorm where it has one, non-linearity)
    deterministic:   action = centre + half_range · tanh(y)
    tanh_gaussian:   y = [μ, log σ];  action = centre + half_range · tanh(μ + σ · noise)
    categorical:     action ~ softmax(y), one of the integers 0 … n − 1

Observations must be finite: NaN and infinity are an error, never an action. Finite observations that training never
saw are not noticed here; `guarded` does that.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

import numpy as np

from ilbrl.base.errors import IlbrlError

if TYPE_CHECKING:
    from ilbrl.policy.guard import Guard, Outside

Head = Literal["deterministic", "tanh_gaussian", "categorical"]
Activation = Literal["relu", "tanh"]
HEADS: tuple[Head, ...] = get_args(Head)
ACTIVATIONS: tuple[Activation, ...] = get_args(Activation)
LAYER_NORM_EPSILON = 1e-5


class Layer(NamedTuple):
    """One layer, x @ weight + bias; a hidden layer with `scale` and `shift` is normalised before its non-linearity."""

    weight: np.ndarray  # [fan_in, fan_out]
    bias: np.ndarray  # [fan_out]
    scale: np.ndarray | None = None  # [fan_out], with `shift` or not at all
    shift: np.ndarray | None = None


@dataclass(frozen=True, eq=False, repr=False)
class Policy:
    """An acting policy; every array becomes float32, and what does not fit together is refused."""

    layers: tuple[Layer, ...]
    action_low: np.ndarray  # [act_dim]; of a categorical policy [0]
    action_high: np.ndarray  # [act_dim]; of a categorical policy [n − 1]
    head: Head = "deterministic"
    obs_mean: np.ndarray | None = None  # [obs_dim], None: raw observations go in
    obs_std: np.ndarray | None = None
    activation: Activation = "relu"
    log_std_bounds: tuple[float, float] = (-5.0, 2.0)
    mean_bound: float | None = None  # |μ| of a tanh-Gaussian is clipped to it, before tanh
    obs_low: np.ndarray | None = None  # [obs_dim] smallest observation in training, None: not known
    obs_high: np.ndarray | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "layers", tuple(_single(*layer) for layer in self.layers))
        for name in ("action_low", "action_high", "obs_mean", "obs_std", "obs_low", "obs_high"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, np.asarray(getattr(self, name), np.float32))
        _require_consistent(self)

    def __repr__(self) -> str:
        sizes = " → ".join(map(str, (self.obs_dim, *(len(layer.bias) for layer in self.layers[:-1]))))
        normed = ", LayerNorm" if any(layer.scale is not None for layer in self.layers) else ""
        acts = f"{self.num_actions} actions" if self.head == "categorical" else f"{self.act_dim} numbers"
        told = [f"{name} {self.metadata[name]}" for name in ("agent", "task", "seed") if name in self.metadata]
        return f"Policy({sizes} → {acts}, {self.activation}{normed}, {', '.join([self.head, *told])})"

    @property
    def obs_dim(self) -> int:
        return self.layers[0].weight.shape[0]

    @property
    def act_dim(self) -> int:
        """Numbers in an action; 1 for a categorical policy, whose action is one integer."""
        return self.action_low.shape[0]

    @property
    def num_actions(self) -> int | None:
        """How many actions a categorical policy chooses among."""
        return len(self.layers[-1].bias) if self.head == "categorical" else None

    @property
    def action_affine(self) -> tuple[np.ndarray, np.ndarray]:
        """Centre and half-range of the bounds: a squashed answer in [−1, 1] becomes centre + half_range · answer."""
        return (self.action_high + self.action_low) / 2, (self.action_high - self.action_low) / 2

    # --- acting -----------------------------------------------------------------------------------------------------

    def act(self, observations: np.ndarray, rng: np.random.Generator | None = None) -> np.ndarray:
        """[obs_dim] or [N, obs_dim] observations → [act_dim] or [N, act_dim] float32 actions.

        A categorical policy answers with one int64 or [N] of them. Without `rng` the action is the deterministic one
        (the mean of a Gaussian before tanh, the most probable of a categorical policy); with it a stochastic policy
        samples. Observations that are not finite are an error.
        """
        if rng is not None and self.head == "deterministic":
            raise IlbrlError("this policy is deterministic: act(observations) takes no random generator")
        x = self._checked(observations)
        require_finite(x)
        y = self._network(x)
        if not np.isfinite(y).all():
            raise IlbrlError(
                f"the policy has no finite answer to these observations (up to {np.abs(x).max():.3g} in size);"
                " they lie far from anything it was trained on, or its weights are broken"
            )
        if self.head == "categorical":
            if rng is not None:
                y = y + rng.gumbel(size=y.shape)  # the largest of logits + Gumbel noise is a draw from their softmax
            return np.argmax(y, -1)
        mean, log_std = self._gaussian(y)
        if rng is not None:
            assert log_std is not None
            mean = mean + np.exp(log_std) * rng.standard_normal(mean.shape, dtype=np.float32)
        centre, half_range = self.action_affine
        return centre + half_range * np.tanh(mean)

    def __call__(self, observations: np.ndarray) -> np.ndarray:
        """`act(observations)`, for code that takes any function of observations."""
        return self.act(observations)

    def predict(
        self, observation: np.ndarray, state: Any = None, episode_start: Any = None, deterministic: bool = True
    ) -> tuple[np.ndarray, None]:
        """(action, None), called as in stable-baselines3; `state` and `episode_start` are not used.

        Samples (`deterministic=False`) differ from call to call; `act(observation, rng)` repeats them.
        """
        samples = not deterministic and self.head != "deterministic"
        return self.act(observation, np.random.default_rng() if samples else None), None

    def guarded(
        self, low: np.ndarray | None = None, high: np.ndarray | None = None, outside: Outside = "clip"
    ) -> Guard:
        """This policy behind a `Guard`; by default its range is that of the observations in training."""
        from ilbrl.policy.guard import Guard

        return Guard(self, low, high, outside)

    # --- probabilities ----------------------------------------------------------------------------------------------

    def probabilities(self, observations: np.ndarray) -> np.ndarray:
        """[n] or [N, n] float64 probabilities of a categorical policy's actions."""
        if self.head != "categorical":
            raise IlbrlError(f"this policy is {self.head}: only a categorical one has probabilities of actions")
        x = self._checked(observations)
        require_finite(x)
        return np.exp(_log_softmax(self._network(x)))

    def log_prob(self, observations: np.ndarray, actions: np.ndarray) -> np.ndarray:
        """[N] log-densities of [N, act_dim] actions, in the units of the squashed action in [−1, 1].

        log π(a|s) = Σ_d [ log N(u_d; μ_d, σ_d) − log(1 − tanh² u_d) ],  u = artanh(a). The scaling to the
        environment's bounds adds a constant and is left out, as D4RL's stored log-probabilities do.
        Of a categorical policy: [N] log-probabilities of [N] integers.
        """
        y = self._network(self._checked(observations))
        if self.head == "categorical":
            return np.take_along_axis(_log_softmax(y), np.asarray(actions)[..., None], -1)[..., 0]
        mean, log_std = self._gaussian(y)
        if log_std is None:
            raise IlbrlError("this policy is deterministic and has no action density")
        centre, half_range = self.action_affine
        squashed = np.clip((np.asarray(actions, np.float64) - centre) / half_range, -1 + 1e-6, 1 - 1e-6)
        before = np.arctanh(squashed)
        normal = -0.5 * ((before - mean) / np.exp(log_std)) ** 2 - log_std - 0.5 * np.log(2 * np.pi)
        return (normal - np.log1p(-(squashed**2))).sum(-1)

    # --- files ------------------------------------------------------------------------------------------------------

    def with_metadata(self, **entries: Any) -> Policy:
        return replace(self, metadata={**self.metadata, **entries})

    def save(self, path: str | Path) -> Path:
        """Write one safetensors file, atomically; `path` gets the suffix `.safetensors` if it has none."""
        from ilbrl.policy.file import write

        return write(self, Path(path))

    @staticmethod
    def load(path: str | Path) -> Policy:
        """Read a policy written by `save`; a file that is damaged or does not make sense is an error."""
        from ilbrl.policy.file import read

        return read(Path(path))

    # --- the network ------------------------------------------------------------------------------------------------

    def _checked(self, observations: np.ndarray) -> np.ndarray:
        with np.errstate(over="ignore"):  # what float32 cannot hold becomes infinity, which is refused
            x = np.asarray(observations, np.float32)
        if x.shape[-1:] != (self.obs_dim,):
            got = x.shape[-1] if x.ndim else "a single one"
            raise IlbrlError(f"this policy takes observations of {self.obs_dim} numbers, got {got}")
        return x

    def _network(self, x: np.ndarray) -> np.ndarray:
        if self.obs_mean is not None and self.obs_std is not None:
            x = (x - self.obs_mean) / self.obs_std
        for layer in self.layers[:-1]:
            x = x @ layer.weight + layer.bias
            if layer.scale is not None and layer.shift is not None:
                x = _layer_norm(x) * layer.scale + layer.shift
            x = np.maximum(x, 0, out=x) if self.activation == "relu" else np.tanh(x, out=x)
        return x @ self.layers[-1].weight + self.layers[-1].bias

    def _gaussian(self, y: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        """μ and log σ; of a deterministic policy its answer before tanh, and None."""
        if self.head == "deterministic":
            return y, None
        mean, log_std = y[..., : self.act_dim], y[..., self.act_dim :]
        if self.mean_bound is not None:
            mean = np.clip(mean, -self.mean_bound, self.mean_bound)
        return mean, np.clip(log_std, *self.log_std_bounds)


def _single(weight: Any, bias: Any, scale: Any = None, shift: Any = None) -> Layer:
    norm = (None if part is None else np.asarray(part, np.float32) for part in (scale, shift))
    return Layer(np.asarray(weight, np.float32), np.asarray(bias, np.float32), *norm)


def require_finite(observations: np.ndarray) -> None:
    """Refuse [obs_dim] or [N, obs_dim] observations that hold NaN or infinity, and say where."""
    finite = np.isfinite(observations)
    if finite.all():
        return
    *row, column = np.argwhere(~finite)[0].tolist()
    where = f"observation {row[0]}, number {column}" if row else f"number {column} of the observation"
    value = observations[(*row, column)]
    raise IlbrlError(f"{where} is {value}: a policy has no answer to that; mend the sensor or the log it comes from")


def _layer_norm(x: np.ndarray) -> np.ndarray:
    x = x - x.mean(-1, keepdims=True)
    return x / np.sqrt(np.square(x).mean(-1, keepdims=True) + np.float32(LAYER_NORM_EPSILON))


def _log_softmax(logits: np.ndarray) -> np.ndarray:
    shifted = logits.astype(np.float64) - logits.max(-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))


# --- what fits together -----------------------------------------------------------------------------------------------


def _require_consistent(policy: Policy) -> None:
    """Refuse shapes that do not fit, unknown kinds, and bounds or a normaliser that make no sense."""
    if policy.head not in HEADS:
        raise IlbrlError(f"a policy with the head {policy.head!r} is not known: there are {', '.join(HEADS)}")
    if policy.activation not in ACTIVATIONS:
        raise IlbrlError(f"the activation {policy.activation!r} is not known: there are {', '.join(ACTIVATIONS)}")
    _require_layers_fit(policy.layers)
    outputs = len(policy.layers[-1].bias)
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
    if not (np.isfinite([low, high]).all() and low <= high):
        raise IlbrlError(f"log_std_bounds ({low}, {high}) are not two finite numbers in order")
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
                f" {len(layer.bias)} units"
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
        finite = np.isfinite(one) & np.isfinite(other) & np.isfinite(other - one)
    if not finite.all():
        i = int(np.argmin(finite))
        raise IlbrlError(f"{first}[{i}] and {second}[{i}] are {one[i]} and {other[i]}: not finite, or too far apart")
    if ordered and (one > other).any():
        i = int(np.argmax(one > other))
        raise IlbrlError(f"{first}[{i}] is {one[i]}, above {second}[{i}], {other[i]}")
