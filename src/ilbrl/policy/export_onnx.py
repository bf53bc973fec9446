"""A policy as an ONNX model: normaliser, network, head and bounds inside, for any runtime that reads ONNX.

Input `observation` [batch, obs_dim] float32. Outputs by head:

    deterministic   `action` [batch, act_dim]
    tanh_gaussian   `action`, of the mean; and, to sample centre + half_range · tanh(μ + σ ε), `mean` and `log_std`
    categorical     `action` [batch] int64, the most probable; `probabilities` [batch, n]

Opset 17, the first with LayerNormalization, in the format version 8 that came with it. NaN in gives NaN out: checking
observations stays with the caller, as `Guard` does it in Python.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from ilbrl.base.errors import IlbrlError
from ilbrl.base.files import written_whole
from ilbrl.policy.network import LAYER_NORM_EPSILON
from ilbrl.policy.policy import Policy

OPSET = 17
_IR_VERSION = 8


def export_onnx(policy: Policy, path: str | Path) -> Path:
    """Write the model; needs the package onnx (`pip install "ilbrl[onnx]"`), reading it does not."""
    path = Path(path)
    data = onnx_model(policy).SerializeToString()
    with written_whole(path) as partial:
        partial.write_bytes(data)
    return path


def onnx_model(policy: Policy) -> Any:
    """The `onnx.ModelProto` of a policy."""
    try:
        import onnx  # pyright: ignore[reportMissingImports]
    except ModuleNotFoundError:
        raise IlbrlError('exporting to ONNX needs the package onnx: pip install "ilbrl[onnx]"') from None
    graph = _Graph(onnx)
    outputs = _head(graph, policy, _network(graph, policy))
    observation = onnx.helper.make_tensor_value_info("observation", onnx.TensorProto.FLOAT, ["batch", policy.obs_dim])
    model = onnx.helper.make_model(
        onnx.helper.make_graph(graph.nodes, "ilbrl_policy", [observation], outputs, graph.constants),
        opset_imports=[onnx.helper.make_opsetid("", OPSET)],
        ir_version=_IR_VERSION,
        producer_name="ilbrl",
    )
    onnx.helper.set_model_props(model, {"metadata": json.dumps(dict(policy.metadata), sort_keys=True)})
    onnx.checker.check_model(model, full_check=True)
    return model


class _Graph:
    """Nodes and constants, added one after the other; each method returns the name of its result."""

    def __init__(self, onnx: Any) -> None:
        self.onnx, self.nodes, self.constants = onnx, [], []

    def constant(self, name: str, values: Any, dtype: Any = np.float32) -> str:
        self.constants.append(self.onnx.numpy_helper.from_array(np.asarray(values, dtype), name))
        return name

    def node(self, kind: str, inputs: list[str], output: str, **attributes: Any) -> str:
        self.nodes.append(self.onnx.helper.make_node(kind, inputs, [output], output, **attributes))
        return output

    def declared(self, name: str, shape: list[Any], kind: str = "FLOAT") -> Any:
        return self.onnx.helper.make_tensor_value_info(name, getattr(self.onnx.TensorProto, kind), shape)


def _network(graph: _Graph, policy: Policy) -> str:
    x = "observation"
    if policy.obs_mean is not None and policy.obs_std is not None:
        x = graph.node("Sub", [x, graph.constant("obs_mean", policy.obs_mean)], "centred")
        x = graph.node("Div", [x, graph.constant("obs_std", policy.obs_std)], "normalised")
    for i, layer in enumerate(policy.layers):
        arrays = [graph.constant(f"w{i}", layer.weight), graph.constant(f"b{i}", layer.bias)]
        x = graph.node("Gemm", [x, *arrays], f"layer{i}")
        if layer.scale is not None and layer.shift is not None:
            arrays = [graph.constant(f"scale{i}", layer.scale), graph.constant(f"shift{i}", layer.shift)]
            x = graph.node("LayerNormalization", [x, *arrays], f"norm{i}", axis=-1, epsilon=LAYER_NORM_EPSILON)
        if i < len(policy.layers) - 1:
            x = graph.node({"relu": "Relu", "tanh": "Tanh"}[policy.activation], [x], f"hidden{i}")
    return x


def _head(graph: _Graph, policy: Policy, y: str) -> list[Any]:
    """Adds the head after the network's answer `y`; the outputs of the model."""
    if policy.head == "categorical":
        graph.node("ArgMax", [y], "action", axis=-1, keepdims=0)
        graph.node("Softmax", [y], "probabilities", axis=-1)
        chances = graph.declared("probabilities", ["batch", policy.num_actions])
        return [graph.declared("action", ["batch"], "INT64"), chances]
    shape = ["batch", policy.act_dim]
    outputs = [graph.declared("action", shape)]
    if policy.head == "tanh_gaussian":
        y = _gaussian(graph, policy, y)
        outputs += [graph.declared("mean", shape), graph.declared("log_std", shape)]
    squashed = graph.node("Tanh", [y], "squashed")
    centre, half_range = policy.action_affine
    scaled = graph.node("Mul", [squashed, graph.constant("half_range", half_range)], "scaled")
    graph.node("Add", [scaled, graph.constant("centre", centre)], "action")
    return outputs


def _gaussian(graph: _Graph, policy: Policy, y: str) -> str:
    """μ and log σ, clipped as the policy clips them; the name of μ."""
    axis, k = graph.constant("last_axis", [1], np.int64), policy.act_dim
    for name, start, (low, high) in (
        ("mean", 0, (-(policy.mean_bound or np.inf), policy.mean_bound or np.inf)),
        ("log_std", k, policy.log_std_bounds),
    ):
        ends = [graph.constant(f"{name}_{end}", [at], np.int64) for end, at in (("start", start), ("end", start + k))]
        part = graph.node("Slice", [y, *ends, axis], f"{name}_free")
        limits = [graph.constant(f"{name}_low", low), graph.constant(f"{name}_high", high)]
        graph.node("Clip", [part, *limits], name)
    return "mean"
