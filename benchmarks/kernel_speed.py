"""Updates per second of a population of ILBRL on a GPU, with the fused kernels and with XLA alone, and where time goes.

    python -m benchmarks.kernel_speed --out speed.json                 (two and three hidden layers, about two minutes)
    python -m benchmarks.kernel_speed --profile --out profile.json     (microseconds of each GPU kernel per update)
    python -m benchmarks.kernel_speed --tiles --out tiles.json         (each kernel alone, with other tiles)
    python -m benchmarks.kernel_speed --table profile.json             (where the time goes, as in docs/performance.md)

60 members, halfcheetah's sizes, batches of 256 drawn from 600,000 rows, critics with LayerNorm. The file is written
again after each measurement, so an interrupted run keeps what it has measured.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any
from unittest.mock import patch

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.training_speed import ACT, OBS, columns
from ilbrl.agents import AGENTS, td3bc
from ilbrl.base.provenance import commit, versions
from ilbrl.learning import kernels, nets, population
from ilbrl.learning.batches import Feed
from ilbrl.learning.kernels import weights
from ilbrl.learning.kernels.blocks import Tile
from ilbrl.learning.spec import Spec

MEMBERS, BATCH = 60, 256
TILES = {  # each kernel's candidates: rows, units, warps, stages
    "forward": [(64, 32, 8, 4), (64, 32, 8, 3), (64, 64, 8, 3), (64, 64, 8, 2), (64, 32, 4, 4), (128, 32, 8, 4)],
    "inputs": [(64, 32, 8, 4), (64, 64, 8, 3), (64, 64, 8, 2), (64, 64, 4, 3), (128, 32, 8, 4), (32, 32, 4, 4)],
    "weights": [(32, 64, 4, 3), (32, 64, 4, 4), (16, 64, 4, 4), (32, 64, 8, 4), (32, 128, 8, 3), (64, 64, 4, 3)],
}


def train(config: Any, data: dict[str, np.ndarray], updates: int, turns: int) -> list[float]:
    """Updates per second of all members together in each turn; the first turn compiles and is left out."""
    spec = Spec(np.zeros(OBS), np.ones(OBS), -np.ones(ACT), np.ones(ACT))
    rates: list[float] = []
    population.fit(
        td3bc.SOLVER.learner,
        [config] * MEMBERS, range(MEMBERS), Feed(data), spec, (turns + 1) * updates, chunk=updates, quiet=True,
        log=lambda record: rates.append(record["updates_per_second"]),
    )  # fmt: skip
    return rates[1:]


@contextmanager
def fused(wanted: bool) -> Iterator[None]:
    """With the fused kernels, or with plain bfloat16 products by XLA."""
    population._compile.cache_clear()  # pyright: ignore[reportPrivateUsage]
    jax.clear_caches()
    with patch.object(kernels, "supports", kernels.supports if wanted else lambda layers: False):
        yield


def speed(args: argparse.Namespace) -> Iterator[dict[str, Any]]:
    data = columns()
    for with_kernels in (True, False):
        for layer_norm, hidden in ((True, 2), (True, 3), (False, 2), (False, 3)):
            if not (with_kernels or layer_norm):
                continue
            config = replace(
                AGENTS["ilbrl"].presets["default"], dtype="bfloat16", layer_norm=layer_norm, hidden=(BATCH,) * hidden
            )
            started = time.perf_counter()
            with fused(with_kernels):
                rate = median(train(config, data, args.updates, args.turns))
            yield {
                "fused": with_kernels,
                "layer_norm": layer_norm,
                "hidden_layers": hidden,
                "updates_per_second": round(rate),
                "seconds": round(time.perf_counter() - started, 1),
            }


def profile(args: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Microseconds of every GPU kernel per update of all members."""
    data = columns()
    for hidden in (2, 3):
        config = replace(
            AGENTS["ilbrl"].presets["default"], dtype="bfloat16", layer_norm=True, hidden=(BATCH,) * hidden
        )
        train(config, data, args.updates, 1)  # compiles
        with tempfile.TemporaryDirectory() as folder:
            with jax.profiler.trace(folder):
                train(config, data, args.updates, 1)
            (trace,) = Path(folder).rglob("*.xplane.pb")
            spent = _kernel_times(jax.profiler.ProfileData.from_file(str(trace)))
        for name, (count, nanoseconds) in sorted(spent.items(), key=lambda item: -item[1][1]):
            per_update = 2 * args.updates
            yield {
                "hidden_layers": hidden,
                "kernel": name,
                "launches": round(count / per_update, 2),
                "microseconds": round(nanoseconds / per_update / 1000, 2),
            }


def _kernel_times(data: Any) -> dict[str, tuple[int, float]]:
    spent: dict[str, list[float]] = defaultdict(lambda: [0, 0.0])
    for plane in data.planes:
        if not plane.name.startswith("/device:GPU"):
            continue
        for line in plane.lines:
            if not line.name.startswith("Stream"):
                continue
            for event in line.events:
                spent[event.name][0] += 1
                spent[event.name][1] += event.duration_ns
    return {name: (int(count), total) for name, (count, total) in spent.items()}


KINDS = {  # prefix of a kernel's name → what it does
    "forward_kernel": "values of networks",
    "input_kernel": "gradients down to inputs",
    "weight_kernel": "gradients of weights",
    "loop_convert_select": "Adam, targets, the mean of weights",
    "loop_select": "Adam, targets, the mean of weights",
}
REST = "casts to bfloat16, draws, noise, losses"


def table(path: Path) -> list[str]:
    """Microseconds per update of all members, by what they are spent on; a column per number of hidden layers."""
    results = json.loads(path.read_text())["results"]
    spent: dict[str, dict[int, float]] = {kind: defaultdict(float) for kind in (*KINDS.values(), REST)}
    for one in results:
        kind = next((kind for prefix, kind in KINDS.items() if one["kernel"].startswith(prefix)), REST)
        spent[kind][one["hidden_layers"]] += one["microseconds"]
    depths = sorted({one["hidden_layers"] for one in results})
    lines = ["| µs per update of all members | " + " | ".join(f"{depth} hidden layers" for depth in depths) + " |"]
    lines.append("|---|" + "---:|" * len(depths))
    lines += [f"| {kind} | " + " | ".join(f"{by[depth]:.0f}" for depth in depths) + " |" for kind, by in spent.items()]
    whole = [sum(by[depth] for by in spent.values()) for depth in depths]
    return [*lines, "| together | " + " | ".join(f"{sum_:.0f}" for sum_ in whole) + " |"]


def tiles(args: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Microseconds of twin critics of all members: values alone, gradients of inputs, gradients of layers."""
    places = {"forward": (kernels, "FORWARD"), "inputs": (kernels, "INPUTS"), "weights": (weights, "TILE")}
    for layer_norm, hidden in ((True, 2), (False, 2), (True, 3)):
        for kernel, candidates in TILES.items():
            module, name = places[kernel]
            for tile in candidates:
                found = {"kernel": kernel, "layer_norm": layer_norm, "hidden_layers": hidden, "tile": tile}
                try:
                    with patch.object(module, name, Tile(*tile)):
                        yield found | {"microseconds": round(_alone(kernel, hidden, layer_norm, args.turns), 1)}
                except Exception as error:  # a tile that does not fit is a result
                    yield found | {"error": str(error)[:200]}


def _alone(kernel: str, hidden: int, layer_norm: bool, turns: int, repeats: int = 50) -> float:
    """Microseconds per repeat: each needs what the one before it has computed, so none can be left out."""
    sizes = [OBS + ACT, *[BATCH] * hidden, 1]
    critics = jax.vmap(partial(nets.init_critics, sizes=sizes, layer_norm=layer_norm))(
        jax.random.split(jax.random.key(0), MEMBERS)
    )
    x = jax.random.normal(jax.random.key(1), (MEMBERS, BATCH, OBS + ACT))

    def values(layers: Any, x: jax.Array) -> jax.Array:
        return jax.vmap(lambda one: kernels.mlp(one, x))(layers)

    def loss(layers: Any, x: jax.Array) -> jax.Array:
        return jnp.square(values(layers, x)).mean()

    def once(_: Any, carry: Any) -> Any:
        x, last = carry
        if kernel == "forward":
            return x.at[:, :, 0].add(1e-6 * jax.vmap(values)(critics, x)[:, 0, :, 0]), last
        if kernel == "inputs":
            return x + 1e-6 * jax.vmap(jax.grad(loss, 1))(critics, x), last
        gradients = jax.vmap(jax.grad(loss))(critics, x)
        return x.at[:, 0, 0].add(1e-6 * gradients[-1]["b"][:, 0, 0]), gradients

    run: Callable[..., Any] = jax.jit(lambda carry: jax.lax.fori_loop(0, repeats, once, carry))
    carry = jax.block_until_ready(run((x, critics)))
    times = []
    for _ in range(turns):
        started = time.perf_counter()
        carry = jax.block_until_ready(run(carry))
        times.append(time.perf_counter() - started)
    return 1e6 * median(times) / repeats


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="a JSON file")
    parser.add_argument("--updates", type=int, default=1000, help="per member and turn")
    parser.add_argument("--turns", type=int, default=3)
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument("--profile", action="store_true")
    mode.add_argument("--tiles", action="store_true")
    mode.add_argument("--table", type=Path, help="print the table of a profile")
    args = parser.parse_args()
    if args.table:
        print("\n".join(table(args.table)))
        return
    measure = profile if args.profile else tiles if args.tiles else speed
    machine = {"device": jax.devices()[0].device_kind, "versions": versions(), "commit": commit(), "members": MEMBERS}
    results = []
    for result in measure(args):
        print(json.dumps(result), flush=True)
        results.append(result)
        if args.out is not None:
            args.out.write_text(json.dumps(machine | {"results": results}, indent=1))


if __name__ == "__main__":
    main()
