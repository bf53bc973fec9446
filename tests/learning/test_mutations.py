"""Damaged and forged checkpoints: refused in one sentence, or continued to the very bits of an unbroken training."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
import safetensors.numpy
from tests.data.test_mutations import damaged

from ilbrl.agents import bc
from ilbrl.base.errors import IlbrlError
from ilbrl.learning.batches import Feed
from ilbrl.learning.checkpoint import _checksum
from ilbrl.learning.population import Fitted, fit
from ilbrl.learning.spec import Spec

MUTANTS, SECONDS = 200, 120
CONFIGS = [bc.Config(hidden=(4,), batch_size=8), bc.Config(lr=1e-2, hidden=(4,), batch_size=8)]
SPEC = Spec(np.zeros(3), np.ones(3), -np.ones(2), np.ones(2))
Arrays = dict[str, np.ndarray]


def train(updates: int, file: Path | None = None) -> Fitted:
    rows = np.random.default_rng(0).uniform(-1, 1, (50, 8)).astype(np.float32)
    columns = {"observations": rows[:, :3], "actions": rows[:, 3:5], "next_observations": rows[:, 5:]}
    feed = Feed(columns | {"continues": np.ones(50, np.float32)})
    return fit(bc.SOLVER.learner, CONFIGS, [0, 1], feed, SPEC, updates, chunk=10, resume_from=file, quiet=True)


HEADERS = (
    {"done": "-1"}, {"done": "many"}, {"done": "9" * 5000}, {"done": "1e1"}, {"identity": "{"}, {"identity": "null"},
    {"identity": "[" * 200_000}, {"identity": '{"seeds": {}}'},
)  # fmt: skip
CHANGES: tuple[Callable[[np.ndarray], Any], ...] = (
    lambda array: array[:1], lambda array: array[None], lambda array: array.astype(np.float64),
    lambda array: np.zeros(array.shape, np.int8), lambda array: array.ravel(), lambda array: np.array(3.0),
    lambda array: array[..., :0],
)  # fmt: skip


def forged(arrays: Arrays, header: dict[str, str], rng: np.random.Generator) -> bytes:
    """A header or an array is another, one is missing, or there is one more; the checksum fits."""
    name, kind = str(rng.choice(list(arrays))), rng.integers(4)
    if kind == 0:
        header |= HEADERS[rng.integers(len(HEADERS))]
    elif kind == 1:
        arrays[name] = np.ascontiguousarray(CHANGES[rng.integers(len(CHANGES))](arrays[name]))
    elif kind == 2:
        del arrays[name]
    else:
        arrays[str(rng.choice(["state/999", "history/other", "else"]))] = np.zeros(2, np.float32)
    return safetensors.numpy.save(arrays, header | {"checksum": _checksum(arrays, header)})


@pytest.mark.slow
def test_mutants_are_refused_or_continued(tmp_path: Path) -> None:
    file, started, seen = tmp_path / "checkpoint.safetensors", time.monotonic(), list[str]()
    train(20, file)
    content, expected = file.read_bytes(), jax.tree.leaves(train(40).state)
    with safetensors.safe_open(file, framework="numpy") as whole:
        header = whole.metadata()
        arrays = {name: whole.get_tensor(name) for name in whole.keys()}  # noqa: SIM118 - not a mapping
    assert json.loads(header["identity"])["seeds"] == [0, 1]
    for seed in range(MUTANTS):
        rng = np.random.default_rng(seed)
        file.write_bytes(forged(dict(arrays), dict(header), rng) if seed % 3 else damaged(bytearray(content), rng))
        try:
            for found, there in zip(jax.tree.leaves(train(40, file).state), expected, strict=True):
                np.testing.assert_array_equal(found, there)
            seen.append("continued")
        except IlbrlError as error:
            seen.append("refused" if str(file) in str(error) and len(str(error)) < 1000 else str(error))
        if time.monotonic() - started > SECONDS:
            break
    assert set(seen) == {"refused", "continued"}
    assert len(seen) >= MUTANTS // 2, "too slow: fewer than half of the mutants within the time limit"
    assert 0.05 < np.mean([found == "continued" for found in seen]) < 0.5, "mutants are too mild or too wild"
