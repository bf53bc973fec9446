"""The deployable policy: one file, NumPy alone, normaliser and action scaling inside.

A policy is a ReLU (or tanh) MLP from raw observations to actions within the environment's bounds:

    x = (observation − mean) / std        (identity where nothing was normalised)
    y = MLP(x)
    deterministic:   action = centre + half_range · tanh(y)
    tanh-Gaussian:   y = [μ, log σ];  action = centre + half_range · tanh(μ + σ · noise)

It is stored as safetensors: the arrays, and beside them one JSON object of metadata (where it came from).
Nothing is ever unpickled, and neither loading nor acting imports JAX.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import safetensors
import safetensors.numpy

from ilbrl.base.errors import IlbrlError
from ilbrl.base.files import require_readable, written_whole

Head = Literal["deterministic", "tanh_gaussian"]
FORMAT = "ilbrl-policy-1"
_ACTIVATIONS = {"relu": lambda x: np.maximum(x, 0, out=x), "tanh": lambda x: np.tanh(x, out=x)}


@dataclass(frozen=True, eq=False)
class Policy:
    """An acting policy. `layers` are pairs ([fan_in, fan_out] weight, [fan_out] bias), used as `x @ w + b`."""

    layers: tuple[tuple[np.ndarray, np.ndarray], ...]
    action_low: np.ndarray  # [act_dim]
    action_high: np.ndarray  # [act_dim]
    head: Head = "deterministic"
    obs_mean: np.ndarray | None = None  # [obs_dim], None: raw observations go in
    obs_std: np.ndarray | None = None
    activation: Literal["relu", "tanh"] = "relu"
    log_std_bounds: tuple[float, float] = (-5.0, 2.0)
    mean_bound: float | None = None  # |μ| of a tanh-Gaussian is clipped to it, before tanh
    metadata: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        single = tuple((np.asarray(w, np.float32), np.asarray(b, np.float32)) for w, b in self.layers)
        object.__setattr__(self, "layers", single)
        for name in ("action_low", "action_high", "obs_mean", "obs_std"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, np.asarray(getattr(self, name), np.float32))

    @property
    def obs_dim(self) -> int:
        return self.layers[0][0].shape[0]

    @property
    def act_dim(self) -> int:
        return self.action_low.shape[0]

    def act(self, observations: np.ndarray, rng: np.random.Generator | None = None) -> np.ndarray:
        """[obs_dim] or [N, obs_dim] observations → [act_dim] or [N, act_dim] float32 actions.

        Without `rng` the action is the deterministic one (the mean of a stochastic policy, before tanh);
        with it a stochastic policy samples.
        """
        mean, log_std = self._head_outputs(observations)
        if rng is not None:
            if log_std is None:
                raise IlbrlError("this policy is deterministic: act(observations) takes no random generator")
            mean = mean + np.exp(log_std) * rng.standard_normal(mean.shape, dtype=np.float32)
        centre, half_range = self._action_affine()
        return centre + half_range * np.tanh(mean)

    def log_prob(self, observations: np.ndarray, actions: np.ndarray) -> np.ndarray:
        """[N] log-densities of [N, act_dim] actions, in the units of the squashed action in [−1, 1].

        log π(a|s) = Σ_d [ log N(u_d; μ_d, σ_d) − log(1 − tanh² u_d) ],  u = artanh(a). The scaling to the
        environment's bounds adds a constant and is left out, as D4RL's stored log-probabilities do.
        """
        mean, log_std = self._head_outputs(observations)
        if log_std is None:
            raise IlbrlError("this policy is deterministic and has no action density")
        centre, half_range = self._action_affine()
        squashed = np.clip((np.asarray(actions, np.float64) - centre) / half_range, -1 + 1e-6, 1 - 1e-6)
        before = np.arctanh(squashed)
        normal = -0.5 * ((before - mean) / np.exp(log_std)) ** 2 - log_std - 0.5 * np.log(2 * np.pi)
        return (normal - np.log1p(-(squashed**2))).sum(-1)

    def with_metadata(self, **entries: Any) -> Policy:
        return replace(self, metadata={**self.metadata, **entries})

    def save(self, path: str | Path) -> Path:
        """Write one safetensors file, atomically; `path` gets the suffix `.safetensors` if it has none."""
        path = Path(path)
        path = path if path.suffix else path.with_suffix(".safetensors")
        tensors = {"action_low": self.action_low, "action_high": self.action_high}
        for i, (weight, bias) in enumerate(self.layers):
            tensors[f"w{i}"], tensors[f"b{i}"] = weight, bias
        if self.obs_mean is not None and self.obs_std is not None:
            tensors["obs_mean"], tensors["obs_std"] = self.obs_mean, self.obs_std
        header = {
            "format": FORMAT,
            "head": self.head,
            "activation": self.activation,
            "log_std_bounds": list(self.log_std_bounds),
            "mean_bound": self.mean_bound,
            "metadata": dict(self.metadata),
        }
        arrays = {name: np.ascontiguousarray(array, np.float32) for name, array in tensors.items()}
        with written_whole(path) as partial:
            partial.write_bytes(safetensors.numpy.save(arrays, {"ilbrl": json.dumps(header, sort_keys=True)}))
        return path

    @staticmethod
    def load(path: str | Path) -> Policy:
        """Read a policy written by `save`."""
        path = Path(path)
        if not path.is_file():
            raise IlbrlError(f"{path}: no such policy file")
        require_readable(path)
        try:
            with safetensors.safe_open(path, framework="numpy") as file:
                header = json.loads((file.metadata() or {}).get("ilbrl", "{}"))
                arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a mapping
            if header["format"] != FORMAT:
                raise IlbrlError(f"{path}: written in format {header['format']!r}, this version reads {FORMAT!r}")
            depth = sum(name.startswith("w") for name in arrays)
            return Policy(
                layers=tuple((arrays[f"w{i}"], arrays[f"b{i}"]) for i in range(depth)),
                action_low=arrays["action_low"],
                action_high=arrays["action_high"],
                head=header["head"],
                obs_mean=arrays.get("obs_mean"),
                obs_std=arrays.get("obs_std"),
                activation=header["activation"],
                log_std_bounds=tuple(header["log_std_bounds"]),
                mean_bound=header.get("mean_bound"),
                metadata=header["metadata"],
            )
        except KeyError as error:
            raise IlbrlError(f"{path}: not a policy file of ilbrl (it lacks {error})") from None
        except (safetensors.SafetensorError, ValueError, TypeError) as error:
            raise IlbrlError(f"{path}: not a policy file of ilbrl ({error})") from None

    def _head_outputs(self, observations: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        x = np.asarray(observations, np.float32)
        if x.shape[-1] != self.obs_dim:
            raise IlbrlError(f"this policy takes observations of {self.obs_dim} numbers, got {x.shape[-1]}")
        if self.obs_mean is not None and self.obs_std is not None:
            x = (x - self.obs_mean) / self.obs_std
        activate = _ACTIVATIONS[self.activation]
        for weight, bias in self.layers[:-1]:
            x = activate(x @ weight + bias)
        weight, bias = self.layers[-1]
        x = x @ weight + bias
        if self.head == "deterministic":
            return x, None
        mean, log_std = x[..., : self.act_dim], x[..., self.act_dim :]
        if self.mean_bound is not None:
            mean = np.clip(mean, -self.mean_bound, self.mean_bound)
        return mean, np.clip(log_std, *self.log_std_bounds)

    def _action_affine(self) -> tuple[np.ndarray, np.ndarray]:
        return (self.action_high + self.action_low) / 2, (self.action_high - self.action_low) / 2
