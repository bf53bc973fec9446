"""Learned models as a thing to keep: what an ensemble is, in memory and on disk."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import jax
import numpy as np
import safetensors
import safetensors.numpy

from ilbrl.base import records
from ilbrl.base.errors import IlbrlError
from ilbrl.base.files import require_file, written_whole
from ilbrl.learning.config import check
from ilbrl.learning.spec import Spec
from ilbrl.models import dynamics
from ilbrl.models.dynamics import Config

FORMAT = "ilbrl-models-2"
Predict = Callable[[Any, jax.Array, str], jax.Array]
"""(parameters, [B, obs_dim + act_dim] inputs, dtype) → [B, outputs]."""


@dataclass(frozen=True, eq=False)
class Scales:
    """Between the user's units and the networks', and what the logs show to be possible."""

    obs_mean: np.ndarray  # [obs_dim]
    obs_std: np.ndarray
    action_low: np.ndarray  # [act_dim]; of discrete actions [1], 0
    action_high: np.ndarray  # [act_dim]; of discrete actions [1], num_actions − 1
    change_mean: np.ndarray  # [obs_dim] of s′ − s
    change_std: np.ndarray
    state_low: np.ndarray  # [obs_dim] smallest and largest observation of the logs
    state_high: np.ndarray
    reward: np.ndarray  # [4] mean, standard deviation, smallest and largest reward that is predicted
    residual_std: np.ndarray  # [obs_dim] what predictions of the scaled change miss on held-out rows
    typical_disagreement: np.ndarray  # [] median over held-out rows
    high_disagreement: np.ndarray  # [] 99th percentile over held-out rows
    num_actions: np.ndarray = field(default_factory=lambda: np.zeros((), np.int64))  # [] 0: actions are real-valued
    levels: np.ndarray = field(default_factory=lambda: np.zeros((0, 0), np.float32))
    """[obs_dim, L] the values of observations that have few of them (one-hot, ordinal), NaN elsewhere; [0, 0]: none."""
    patterns: np.ndarray = field(default_factory=lambda: np.zeros((0, 0), np.float32))
    """[C, obs_dim] the combinations of observations that have two values, NaN for others; [0, 0]: none, or too many."""
    end_reward: np.ndarray = field(default_factory=lambda: np.array([0.0, 1.0, 0.0, 0.0], np.float32))
    """[4] as `reward`, of steps that end an episode; unused where these are like all others."""

    @property
    def spec(self) -> Spec:
        return Spec(self.obs_mean, self.obs_std, self.action_low, self.action_high, int(self.num_actions) or None)


@dataclass(frozen=True)
class Errors:
    """How right the serving members are on held-out episodes, in standard deviations of the observations."""

    held_out_loss: tuple[float, ...]  # [K] the lowest mean, which decided when to stop
    steps: tuple[int, ...]  # lengths of the logged pieces that were predicted
    many_step: tuple[tuple[float, ...], ...]  # [K][steps] root mean squared error after so many steps
    left_out: tuple[int, ...] = ()  # seeds of members that do not serve


@dataclass(frozen=True, eq=False)
class Models:
    """K serving members, ready to be rolled out."""

    layers: tuple[dict[str, np.ndarray], ...]  # leaves [K, …]
    config: Config
    scales: Scales
    horizon: int  # the logs' own time limit
    errors: Errors
    sources: tuple[str, ...] = ()
    predict: Predict = dynamics.predict  # another function of (parameters, inputs, dtype) may stand in; not saved

    @property
    def members(self) -> int:
        return len(self.layers[0]["w"])

    @property
    def obs_dim(self) -> int:
        return len(self.scales.obs_mean)

    @property
    def content_hash(self) -> str:
        """SHA-256 of parameters and scales."""
        digest = hashlib.sha256()
        for name, array in sorted(_arrays(self).items()):
            digest.update(name.encode() + np.ascontiguousarray(array).tobytes())
        return digest.hexdigest()

    def save(self, path: str | Path) -> Path:
        """One safetensors file, written whole or not at all."""
        header = {
            "format": FORMAT,
            "config": asdict(self.config),
            "horizon": self.horizon,
            "errors": asdict(self.errors),
            "sources": list(self.sources),
            "content_hash": self.content_hash,
        }
        header["checksum"] = _checksum(header)
        with written_whole(path) as partial:
            partial.write_bytes(safetensors.numpy.save(_arrays(self), {"ilbrl": json.dumps(header, sort_keys=True)}))
        return Path(path)

    @staticmethod
    def load(path: str | Path) -> Models:
        """Read what `save` wrote; a damaged file is refused by name."""
        path = Path(path)
        require_file(path, "file of models")
        try:
            with safetensors.safe_open(path, framework="numpy") as file:
                header = json.loads((file.metadata() or {}).get("ilbrl", "{}"))
                arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a mapping
            if header["format"] != FORMAT:
                raise IlbrlError(f"{path}: written in format {header['format']!r}, this version reads {FORMAT!r}")
            recorded = header.pop("checksum")
            whole = recorded == _checksum(header)
            config = records.from_json(Config, header["config"], f"{path}, config")
            errors = records.from_json(Errors, header["errors"], f"{path}, errors")
            depth = len(config.hidden) + 1
            names = ("w", "b", "scale", "shift")
            layers = tuple({n: arrays[f"{n}{i}"] for n in names if f"{n}{i}" in arrays} for i in range(depth))
            scales = Scales(**{name: arrays[name] for name in Scales.__dataclass_fields__})
            models = Models(layers, config, scales, int(header["horizon"]), errors, tuple(header["sources"]))
            whole &= models.content_hash == header["content_hash"]
            _require_fitting(models)
        except IlbrlError as error:  # of another version, or edited
            raise IlbrlError(f"{error}; train the models again") from None
        except (
            KeyError, AttributeError, safetensors.SafetensorError, ValueError, TypeError, RecursionError, OverflowError,
        ) as error:  # fmt: skip
            raise IlbrlError(f"{path}: not a file of learned models ({error}); train them again") from None
        if not whole:
            raise IlbrlError(f"{path}: damaged (its checksum does not fit); train the models again")
        return models


def _require_fitting(models: Models) -> None:
    """Refuse parts that do not fit together, or are no numbers, with a ValueError; the checksum may fit even so."""
    check([models.config])
    scales, sizes = models.scales, (models.obs_dim,)
    for name in ("obs_mean", "obs_std", "change_mean", "change_std", "state_low", "state_high", "residual_std"):
        if getattr(scales, name).shape != sizes or not np.isfinite(getattr(scales, name)).all():
            raise ValueError(f"{name}: not {models.obs_dim} finite numbers")
    if scales.end_reward.shape != (4,) or not np.isfinite(scales.end_reward).all():
        raise ValueError("end_reward: not 4 finite numbers")
    if len(scales.patterns) != models.config.patterns or (len(scales.patterns) and scales.patterns.shape[1:] != sizes):
        raise ValueError(f"patterns: not {models.config.patterns} rows of {models.obs_dim} numbers")
    if not (scales.obs_std > 0).all() or models.horizon < 1:
        raise ValueError("obs_std and horizon are above 0")
    wanted = jax.eval_shape(lambda key: dynamics.init(models.config, scales.spec, key).best, jax.random.key(0))
    for i, (layer, other) in enumerate(zip(models.layers, wanted, strict=True)):
        shapes = {name: (models.members, *leaf.shape) for name, leaf in other.items()}
        if {name: leaf.shape for name, leaf in layer.items()} != shapes or not models.members:
            raise ValueError(f"layer {i} does not fit the other parts")
        if not all(leaf.dtype == np.float32 and np.isfinite(leaf).all() for leaf in layer.values()):
            raise ValueError(f"layer {i} holds what are no finite numbers of float32")


def _checksum(header: dict[str, Any]) -> str:
    """Of everything beside the arrays, which have the content hash."""
    return hashlib.sha256(json.dumps(header, sort_keys=True).encode()).hexdigest()


def _arrays(models: Models) -> dict[str, np.ndarray]:
    layers = {f"{name}{i}": array for i, layer in enumerate(models.layers) for name, array in layer.items()}
    return layers | {name: np.asarray(value) for name, value in vars(models.scales).items()}
