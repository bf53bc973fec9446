"""A policy as one C99 header without dependencies but <math.h>, for small controllers.

With NAME chosen at export, and `real` float (or double, where ILBRL_DOUBLE is defined before the header is included):

    deterministic   int NAME_act(const real *observation, real *action)
    tanh_gaussian   the same, of the mean; int NAME_sample(const real *observation, const real *noise, real *action)
                    with NAME_ACT_DIM standard normal numbers of the caller's
    categorical     int NAME_act(const real *observation, int *action)
                    int NAME_probabilities(const real *observation, real *probabilities)

All return 0, or 1 with nothing written if a number of the observation, or of the answer, is not finite.
No memory is allocated, nothing is static but the constants: calls may run side by side.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from ilbrl import __version__
from ilbrl.base.errors import IlbrlError
from ilbrl.base.files import written_whole
from ilbrl.policy.network import LAYER_NORM_EPSILON
from ilbrl.policy.policy import Policy


def export_c(policy: Policy, path: str | Path, name: str = "policy") -> Path:
    """Write the header; its functions and constants begin with `name`."""
    path = Path(path)
    text = c_header(policy, name)
    with written_whole(path) as partial:
        partial.write_text(text, encoding="utf-8")
    return path


def c_header(policy: Policy, name: str = "policy") -> str:
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]{0,30}", name):
        raise IlbrlError(f"{name!r} cannot begin names in C; take letters, digits and _, a letter first")
    return "\n".join(_lines(policy, name)) + "\n"


_PRELUDE = """\
#include <math.h>

#ifndef ILBRL_REAL
#define ILBRL_REAL
#ifdef ILBRL_DOUBLE
typedef double ilbrl_real;
#define ILBRL_TANH tanh
#define ILBRL_EXP exp
#define ILBRL_SQRT sqrt
#else
typedef float ilbrl_real;
#define ILBRL_TANH tanhf
#define ILBRL_EXP expf
#define ILBRL_SQRT sqrtf
#endif
#endif
"""

_DENSE = """\
static inline void {name}_dense(const ilbrl_real *x, int fan_in, int fan_out, const float *w, const float *b,
                                ilbrl_real *y)
{{
    for (int j = 0; j < fan_out; j++) y[j] = b[j];
    for (int i = 0; i < fan_in; i++)
        for (int j = 0; j < fan_out; j++) y[j] += x[i] * w[i * fan_out + j];
}}
"""

_NORM = """\
static inline void {name}_norm(ilbrl_real *x, int n, const float *scale, const float *shift)
{{
    ilbrl_real mean = 0, variance = 0;
    for (int i = 0; i < n; i++) mean += x[i] / (ilbrl_real)n;
    for (int i = 0; i < n; i++) variance += (x[i] - mean) * (x[i] - mean) / (ilbrl_real)n;
    for (int i = 0; i < n; i++)
        x[i] = (x[i] - mean) / ILBRL_SQRT(variance + (ilbrl_real){epsilon}) * scale[i] + shift[i];
}}
"""

_ACTIVATIONS = {"relu": "{x}[i] > 0 ? {x}[i] : 0", "tanh": "ILBRL_TANH({x}[i])"}

_SQUASH = """\
static inline void {name}_squash(const ilbrl_real *y, ilbrl_real *action)
{{
    for (int i = 0; i < {NAME}_ACT_DIM; i++)
        action[i] = {name}_centre[i] + {name}_half_range[i] * ILBRL_TANH(y[i]);
}}
"""

_CLIP = """\
static inline ilbrl_real {name}_clip(ilbrl_real x, ilbrl_real low, ilbrl_real high)
{{
    return x < low ? low : x > high ? high : x;
}}
"""

_ACT = {
    "deterministic": """\
static inline int {name}_act(const ilbrl_real *observation, ilbrl_real *action)
{{
    ilbrl_real y[{outputs}];
    if ({name}_network(observation, y)) return 1;
    {name}_squash(y, action);
    return 0;
}}
""",
    "tanh_gaussian": """\
static inline int {name}_sample(const ilbrl_real *observation, const ilbrl_real *noise, ilbrl_real *action)
{{
    ilbrl_real y[{outputs}];
    if ({name}_network(observation, y)) return 1;
    for (int i = 0; i < {NAME}_ACT_DIM; i++) {{
        ilbrl_real log_std = {name}_clip(y[{NAME}_ACT_DIM + i], {log_std_low}, {log_std_high});
        y[i] = {mean};
        if (noise) y[i] += ILBRL_EXP(log_std) * noise[i];
    }}
    {name}_squash(y, action);
    return 0;
}}

static inline int {name}_act(const ilbrl_real *observation, ilbrl_real *action)
{{
    return {name}_sample(observation, 0, action);
}}
""",
    "categorical": """\
static inline int {name}_act(const ilbrl_real *observation, int *action)
{{
    ilbrl_real y[{outputs}];
    if ({name}_network(observation, y)) return 1;
    *action = 0;
    for (int i = 1; i < {outputs}; i++)
        if (y[i] > y[*action]) *action = i;
    return 0;
}}

static inline int {name}_probabilities(const ilbrl_real *observation, ilbrl_real *probabilities)
{{
    ilbrl_real y[{outputs}], largest, sum = 0;
    if ({name}_network(observation, y)) return 1;
    largest = y[0];
    for (int i = 1; i < {outputs}; i++) largest = y[i] > largest ? y[i] : largest;
    for (int i = 0; i < {outputs}; i++) sum += probabilities[i] = ILBRL_EXP(y[i] - largest);
    for (int i = 0; i < {outputs}; i++) probabilities[i] /= sum;
    return 0;
}}
""",
}


def _lines(policy: Policy, name: str) -> Iterator[str]:
    upper, outputs = name.upper(), policy.layers[-1].units
    yield f"/* A {policy.head} policy of {policy.obs_dim} numbers, written by ilbrl {__version__}. C99 and <math.h>. */"
    yield f"#ifndef {upper}_H\n#define {upper}_H\n\n{_PRELUDE}"
    yield f"#define {upper}_OBS_DIM {policy.obs_dim}"
    yield (
        f"#define {upper}_NUM_ACTIONS {outputs}\n"
        if policy.head == "categorical"
        else f"#define {upper}_ACT_DIM {policy.act_dim}\n"
    )
    yield from _constants(policy, name)
    yield _DENSE.format(name=name)
    if any(layer.scale is not None for layer in policy.layers):
        yield _NORM.format(name=name, epsilon=LAYER_NORM_EPSILON)
    yield from _network(policy, name)
    words = {"name": name, "NAME": upper, "outputs": outputs}
    if policy.head != "categorical":
        yield _SQUASH.format(**words)
    if policy.head == "tanh_gaussian":
        yield _CLIP.format(**words)
        low, high = map(_number, policy.log_std_bounds)
        bound = None if policy.mean_bound is None else _number(policy.mean_bound)
        mean = "y[i]" if bound is None else f"{name}_clip(y[i], -{bound}, {bound})"
        words |= {"log_std_low": low, "log_std_high": high, "mean": mean}
    yield _ACT[policy.head].format(**words)
    yield "#endif"


def _constants(policy: Policy, name: str) -> Iterator[str]:
    for i, layer in enumerate(policy.layers):
        yield _array(f"{name}_w{i}", layer.weight)
        yield _array(f"{name}_b{i}", layer.bias)
        if layer.scale is not None and layer.shift is not None:
            yield _array(f"{name}_scale{i}", layer.scale)
            yield _array(f"{name}_shift{i}", layer.shift)
    if policy.obs_mean is not None and policy.obs_std is not None:
        yield _array(f"{name}_obs_mean", policy.obs_mean)
        yield _array(f"{name}_obs_std", policy.obs_std)
    if policy.head != "categorical":
        centre, half_range = policy.action_affine
        yield _array(f"{name}_centre", centre)
        yield _array(f"{name}_half_range", half_range)


def _network(policy: Policy, name: str) -> Iterator[str]:
    """The function NAME_network: layer after layer between two buffers."""
    hidden = [layer.units for layer in policy.layers[:-1]]
    yield f"static inline int {name}_network(const ilbrl_real *observation, ilbrl_real *y)\n{{"
    yield f"    ilbrl_real a[{max([policy.obs_dim, *hidden[1::2]])}]" + (
        f", b[{max(hidden[0::2])}];" if hidden else ";"
    )
    start = (
        f"(observation[i] - {name}_obs_mean[i]) / {name}_obs_std[i]"
        if policy.obs_mean is not None
        else "observation[i]"
    )
    yield f"    for (int i = 0; i < {policy.obs_dim}; i++) {{"
    yield f"        if (!isfinite(observation[i])) return 1;\n        a[i] = {start};\n    }}"
    source, fan_in = "a", policy.obs_dim
    for i, layer in enumerate(policy.layers):
        last = i == len(policy.layers) - 1
        target, fan_out = "y" if last else "ba"[i % 2], layer.units
        yield f"    {name}_dense({source}, {fan_in}, {fan_out}, {name}_w{i}, {name}_b{i}, {target});"
        if layer.scale is not None:
            yield f"    {name}_norm({target}, {fan_out}, {name}_scale{i}, {name}_shift{i});"
        if not last:
            answer = _ACTIVATIONS[policy.activation].format(x=target)
            yield f"    for (int i = 0; i < {fan_out}; i++) {target}[i] = {answer};"
        source, fan_in = target, fan_out
    yield f"    for (int i = 0; i < {fan_in}; i++)\n        if (!isfinite(y[i])) return 1;\n    return 0;\n}}\n"


def _array(name: str, values: np.ndarray) -> str:
    numbers = [_number(value) for value in values.ravel()]
    rows = "\n".join("    " + ", ".join(numbers[i : i + 8]) + "," for i in range(0, len(numbers), 8))
    return f"static const float {name}[{len(numbers)}] = {{\n{rows}\n}};\n"


def _number(value: float | np.floating) -> str:
    """A float constant of C that reads back to the same bits."""
    text = f"{np.float32(value):.9g}"
    return f"{text}f" if any(c in text for c in ".e") else f"{text}.0f"
