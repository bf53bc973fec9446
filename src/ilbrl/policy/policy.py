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

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ilbrl.base.errors import IlbrlError
from ilbrl.policy.network import Activation, Head, Layer, forward, log_softmax, single_precision
from ilbrl.policy.validation import require_consistent, require_finite

if TYPE_CHECKING:
    from ilbrl.policy.guard import Guard, Outside


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
        object.__setattr__(self, "layers", tuple(single_precision(*layer) for layer in self.layers))
        for name in ("action_low", "action_high", "obs_mean", "obs_std", "obs_low", "obs_high"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, np.asarray(getattr(self, name), np.float32))
        require_consistent(self)

    def __repr__(self) -> str:
        sizes = " → ".join(map(str, (self.obs_dim, *(layer.units for layer in self.layers[:-1]))))
        normed = ", LayerNorm" if any(layer.scale is not None for layer in self.layers) else ""
        acts = f"{self.num_actions} actions" if self.head == "categorical" else _numbers(self.act_dim)
        said = {name: self.metadata.get(name) for name in ("agent", "task", "seed", "seeds")}
        texts = {name: str(value) for name, value in said.items() if value is not None}
        told = [f"{name} {text}" for name, text in texts.items() if len(text) <= 40 and text.isprintable()]
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
        return self.layers[-1].units if self.head == "categorical" else None

    @property
    def action_names(self) -> tuple[str, ...] | None:
        """What the actions of a categorical policy are called, in the order of their numbers; None: not known."""
        return self._names("action_names", self.num_actions)

    @property
    def observation_columns(self) -> tuple[str, ...] | None:
        """What the numbers of an observation are called in the logs, in the order to give them; None: not known."""
        return self._names("observation_columns", self.obs_dim)

    @property
    def action_columns(self) -> tuple[str, ...] | None:
        """The same of the numbers of an action."""
        return self._names("action_columns", self.act_dim)

    def _names(self, entry: str, count: int | None) -> tuple[str, ...] | None:
        names = self.metadata.get(entry)
        return tuple(map(str, names)) if isinstance(names, list | tuple) and len(names) == count else None

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
        return np.exp(log_softmax(self._network(x)))

    def log_prob(self, observations: np.ndarray, actions: np.ndarray) -> np.ndarray:
        """[N] log-densities of [N, act_dim] actions, in the units of the squashed action in [−1, 1].

        log π(a|s) = Σ_d [ log N(u_d; μ_d, σ_d) − log(1 − tanh² u_d) ],  u = artanh(a). The scaling to the
        environment's bounds adds a constant and is left out, as D4RL's stored log-probabilities do.
        Of a categorical policy: [N] log-probabilities of [N] integers.
        """
        y = self._network(self._checked(observations))
        if self.head == "categorical":
            return np.take_along_axis(log_softmax(y), np.asarray(actions)[..., None], -1)[..., 0]
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
        return forward(self.layers, self.activation, x)

    def _gaussian(self, y: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        """μ and log σ; of a deterministic policy its answer before tanh, and None."""
        if self.head == "deterministic":
            return y, None
        mean, log_std = y[..., : self.act_dim], y[..., self.act_dim :]
        if self.mean_bound is not None:
            mean = np.clip(mean, -self.mean_bound, self.mean_bound)
        return mean, np.clip(log_std, *self.log_std_bounds)


def _numbers(count: int) -> str:
    return "1 number" if count == 1 else f"{count} numbers"
