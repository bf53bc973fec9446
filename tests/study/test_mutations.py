"""Damaged and strange study files: refused in one sentence before any work, or read and written again as they are."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest
from tests.data.test_mutations import damaged

from ilbrl.base.errors import IlbrlError
from ilbrl.study.session import planned_policies
from ilbrl.study.study import PRESETS, Study

MUTANTS, SECONDS = 300, 120
DEEP = 100_000
VALUES = (
    "9" * 5000, "1" + "0" * 400, "-1", "0", "2_000_000_000_000_000", "1e999", "nan", "inf", "-0.0", "true", '""',
    '"\\ud800"', "'1" + "0" * 400 + "'", "'[1" + "0" * 400 + "]'", '"\\u0000"', "'''x'''", "[]", "[[]]", "{}",
    "{a = 1}", "2020-01-01", "'" + "[" * DEEP + "]" * DEEP + "'", "'" + "9" * 5000 + "'", "'../../etc'", "'module:Id'",
    "'choice(" + "1," * 5000 + ")'", "'uniform(0, 1e400)'", "'loguniform(1e-320, 1e308)'", "[true]", "['a', 1]",
    "'choice(" + "9" * 5000 + ")'", "'[" + "9" * 5000 + "]'", "'none'", "'uniform(nan, nan)'", "'choice([8], [[8]])'",
    "'" + "x" * 5000 + "'", "[9223372036854775808]", "[1e999]",
)  # fmt: skip
LINES = (
    "seed = 18446744073709551616", "[search", "[[search]]", "search.ranges.ilbrl.lam = {a = 1}", "known.x.y.z = 1",
    "known = 3", "[data.reading]\ncolumns.observations = 3", "data.reading.action_low = [nan]", "\x00", "a.b" * 3000,
    "evaluation.settings.hidden = [0]", "evaluation.settings.grid = []", "search.ranges.all = 3", "search.ranges = []",
    "training.seeds = 1000", "search.configurations = 9e29", "final.episodes = 1e6", "[training]\n[training]",
)  # fmt: skip


def mutant(seed: int) -> bytes:
    """A preset with a value replaced, a line added, or its bytes damaged."""
    rng = np.random.default_rng(seed)
    presets = sorted(PRESETS.glob("*.toml"))
    text = presets[rng.integers(len(presets))].read_text()
    kind = rng.integers(3)
    if kind == 0:
        return damaged(bytearray(text.encode()), rng)
    lines = text.splitlines()
    if kind == 1:
        lines.insert(rng.integers(len(lines) + 1), LINES[rng.integers(len(LINES))])
    else:
        at = rng.choice([i for i, line in enumerate(lines) if "=" in line])
        lines[at] = f"{lines[at].partition('=')[0]}= {VALUES[rng.integers(len(VALUES))]}"
    return "\n".join(lines).encode()


def outcome(content: bytes, folder: Path) -> str:
    """`refused`, `read`, or what went wrong."""
    (folder / "study.toml").write_bytes(content)
    try:
        study = Study.load(folder / "study.toml")
        planned_policies(study)  # checks every range and setting, as the first step of a run does
        study.save(folder / "again.toml")
        return "read" if Study.load(folder / "again.toml") == study else "not the same after writing it again"
    except IlbrlError as error:
        short = len(str(error)) < 2000 and "\n" not in str(error)
        return "refused" if short else f"no short sentence: {str(error)[:200]}"
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:200]}"


@pytest.mark.slow
def test_mutants_are_refused_or_read(tmp_path: Path) -> None:
    started, seen = time.monotonic(), dict[int, str]()
    for seed in range(MUTANTS):
        seen[seed] = outcome(mutant(seed), tmp_path)
        if time.monotonic() - started > SECONDS:
            break
    assert len(seen) >= MUTANTS // 2, "too slow: fewer than half of the mutants within the time limit"
    assert {seed: found for seed, found in seen.items() if found not in ("read", "refused")} == {}
    assert 0.05 < np.mean([found == "read" for found in seen.values()]) < 0.9, "mutants are too mild or too wild"
