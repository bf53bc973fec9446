"""The network inside a policy: layers with or without LayerNorm, run with NumPy."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, get_args

import numpy as np

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

    @property
    def units(self) -> int:
        return len(self.bias)


def single_precision(weight: Any, bias: Any, scale: Any = None, shift: Any = None) -> Layer:
    """A layer of float32 arrays."""
    norm = (None if part is None else np.asarray(part, np.float32) for part in (scale, shift))
    return Layer(np.asarray(weight, np.float32), np.asarray(bias, np.float32), *norm)


def forward(layers: tuple[Layer, ...], activation: Activation, x: np.ndarray) -> np.ndarray:
    """[…, fan_in] → […, fan_out]; no non-linearity after the last layer."""
    for layer in layers[:-1]:
        x = x @ layer.weight + layer.bias
        if layer.scale is not None and layer.shift is not None:
            x = _layer_norm(x) * layer.scale + layer.shift
        x = np.maximum(x, 0, out=x) if activation == "relu" else np.tanh(x, out=x)
    return x @ layers[-1].weight + layers[-1].bias


def _layer_norm(x: np.ndarray) -> np.ndarray:
    x = x - x.mean(-1, keepdims=True)
    return x / np.sqrt(np.square(x).mean(-1, keepdims=True) + np.float32(LAYER_NORM_EPSILON))


def log_softmax(logits: np.ndarray) -> np.ndarray:
    shifted = logits.astype(np.float64) - logits.max(-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))
