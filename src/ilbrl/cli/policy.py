"""`ilbrl policy`: what a policy file is, and the same policy for programs without Python."""

from __future__ import annotations

import json as json_format
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import tyro
from tyro.conf import FlagCreatePairsOff, Positional, arg

from ilbrl.base.errors import printable
from ilbrl.base.records import to_plain
from ilbrl.cli.named import refuse_input
from ilbrl.data.benchmark import find_policy
from ilbrl.data.checks import counted
from ilbrl.policy import Policy
from ilbrl.policy.export_c import export_c
from ilbrl.policy.export_onnx import OPSET, export_onnx
from ilbrl.policy.file import stored_checksum

_ABOUT = """Look at a policy file, or write the policy for programs without Python.

examples:
  ilbrl policy show policy.safetensors
  ilbrl policy export policy.safetensors --format onnx
  ilbrl policy export policy.safetensors --format c --out controller.h --name controller"""

What = Annotated[str, arg(metavar="FILE|NAME")]
_TOLD = {"agent", "seed", "seeds", "updates", "diverged_at", "config", "expert", "logs", "study", "task"} | {
    "configuration", "offline_value", "offline_quantity", "trust", "device", "versions", "commit", "action_names",
    "observation_columns", "action_columns", "committee"
}  # fmt: skip


def main(words: list[str]) -> int:
    """Run `ilbrl policy …` and return its exit code."""
    commands = {"show": show, "export": export}
    return tyro.extras.subcommand_cli_from_dict(
        commands, prog="ilbrl policy", description=_ABOUT, args=words, config=(FlagCreatePairsOff,)
    )


def show(policy: Positional[What], /, json: bool = False) -> int:
    """Say what a policy is: its network and bounds, where it came from, what it is worth offline.

    Nothing in the file is executed. What the file says about its origin was written by whoever made it.

    Args:
        policy: A policy file (.safetensors), or a built-in policy such as hopper/expert.
        json: Print one JSON object instead of text.
    """
    found = find_policy(policy)
    sha256 = stored_checksum(Path(policy)) if Path(policy).is_file() else None
    if json:
        print(json_format.dumps(to_plain(_facts(policy, found, sha256)), indent=1))
    else:
        lines = (f"  {printable(label):<13} {printable(text)}" for label, text in _text(found, sha256))
        print("\n".join([printable(policy), *lines]))
    return 0


def export(
    policy: Positional[What],
    /,
    format: Literal["onnx", "c"],
    out: Annotated[Path | None, arg(metavar="FILE")] = None,
    name: str = "policy",
) -> int:
    """Write a policy for programs without Python: normaliser, network, head and bounds in one file.

    Args:
        policy: A policy file (.safetensors), or a built-in policy such as hopper/expert.
        format: onnx: a model for any ONNX runtime. c: one C99 header that needs only <math.h>.
        out: The file to write; by default named after the policy, in the current folder.
        name: What functions and constants of the C header begin with.
    """
    found = find_policy(policy)
    out = out or Path(Path(policy).name).with_suffix({"onnx": ".onnx", "c": ".h"}[format])
    refuse_input(out, policy)
    if format == "onnx":
        export_onnx(found, out)
        print(f"{out}: ONNX, opset {OPSET}; observation [batch, {found.obs_dim}] → action")
    else:
        export_c(found, out, name)
        print(f"{out}: C99; {name}_act(observation, action) takes {found.obs_dim} numbers and returns 0, or 1 on NaN")
    return 0


# --- what a policy is -------------------------------------------------------------------------------------------------


def _facts(name: str, policy: Policy, sha256: str | None) -> dict[str, Any]:
    def numbers(array: np.ndarray | None) -> list[float] | None:
        return None if array is None else array.tolist()

    return {
        "policy": name,
        "head": policy.head,
        "activation": policy.activation,
        "layers": [policy.obs_dim, *(layer.units for layer in policy.layers)],
        "layer_norm": [layer.scale is not None for layer in policy.layers[:-1]],
        "num_actions": policy.num_actions,
        "action_low": numbers(policy.action_low),
        "action_high": numbers(policy.action_high),
        "obs_mean": numbers(policy.obs_mean),
        "obs_std": numbers(policy.obs_std),
        "obs_low": numbers(policy.obs_low),
        "obs_high": numbers(policy.obs_high),
        "sha256": sha256,
        "metadata": dict(policy.metadata),
    }


def _text(policy: Policy, sha256: str | None) -> Iterator[tuple[str, str]]:
    told = policy.metadata
    weights = sum(part.size for layer in policy.layers for part in layer if part is not None)
    yield "policy", f"{policy!r}, {weights:,} weights"
    yield "observations", _observations(policy)
    yield "actions", _actions(policy)
    yield from _origin(told)
    yield from _worth(told)
    for name in sorted(set(told) - _TOLD):
        yield name, _words(told[name])
    versions = _words(told.get("versions", {}))
    commit = f"commit {told['commit']}" if told.get("commit") else ""
    if versions or commit:
        yield "code", ", ".join(filter(None, (versions, commit)))
    yield "checksum", f"sha256 {sha256}, and the file fits it" if sha256 else "none: written before files had one"


def _observations(policy: Policy) -> str:
    standardised = "standardised inside" if policy.obs_mean is not None else "taken as they are"
    known = policy.obs_low is not None and policy.obs_high is not None
    seen = "; the range in training is in the file" if known else "; the range in training is not known"
    return f"{counted(policy.obs_dim, 'number')}{_called(policy.observation_columns)}, {standardised}{seen}"


def _called(names: Sequence[str] | None) -> str:
    """In brackets, the first of many."""
    return "" if names is None else f" ({', '.join(names[:20])}{' …' * (len(names) > 20)})"


def _actions(policy: Policy) -> str:
    if policy.head == "categorical":
        names = policy.action_names or ()
        called = ", ".join(f"{number} {name}" for number, name in enumerate(names[:20]) if name != str(number))
        return f"one of 0 … {policy.layers[-1].units - 1}" + (f": {called}" + " …" * (len(names) > 20)) * bool(called)
    bounds = sorted({(float(low), float(high)) for low, high in zip(policy.action_low, policy.action_high)})
    if len(bounds) == 1:
        each = f"{bounds[0][0]:g} to {bounds[0][1]:g}"
        return f"{counted(policy.act_dim, 'number')}{_called(policy.action_columns)}, each from {each}"
    names = policy.action_columns or [""] * policy.act_dim
    ranges = zip(names, policy.action_low, policy.action_high)
    return ", ".join(f"{name} {low:g} to {high:g}".strip() for name, low, high in ranges)


def _origin(told: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    made = [str(told["agent"])] if "agent" in told else []
    made += [f"{name} {told[name]}" for name in ("seed", "seeds", "committee", "updates", "device") if name in told]
    if made:
        yield "made by", ", ".join(made)
    if told.get("diverged_at", -1) not in (-1, None):
        yield "DIVERGED", f"at update {told['diverged_at']}: it is what was left then"
    if config := told.get("config"):
        yield "settings", _words(config)
    for role in ("expert", "logs"):
        if isinstance(told.get(role), Mapping):
            yield role, f"{told[role].get('source')}, content {told[role].get('content_hash')}"
    study = [f"{name} {told[name]}" for name in ("study", "task", "configuration") if told.get(name) is not None]
    if study:
        yield "from", ", ".join(study)


def _worth(told: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    if "offline_value" in told:
        quantity = f" ({told['offline_quantity']})" if told.get("offline_quantity") else ""
        yield "offline value", f"{_words(told['offline_value'])}{quantity}"
    if "trust" in told:
        yield "verdict", _words(told["trust"])


def _words(value: Any) -> str:
    """Any value that JSON can hold, in one line."""
    if isinstance(value, Mapping):
        inner = {name: f"({_words(e)})" if isinstance(e, Mapping) else _words(e) for name, e in value.items()}
        return ", ".join(f"{name} {words}" for name, words in inner.items())
    if isinstance(value, list):
        return " to ".join(map(_words, value)) if len(value) == 2 else " ".join(map(_words, value))
    return f"{value:.6g}" if isinstance(value, float) else str(value)
