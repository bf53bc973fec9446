"""What somebody else's program does with ilbrl, every type said aloud."""

from pathlib import Path
from typing import Any, assert_type

import numpy as np

import ilbrl
from ilbrl.data import from_arrays, to_d3rlpy, to_frame


def controller(file: Path) -> np.ndarray:
    policy = ilbrl.Policy.load(file)
    assert_type(policy, ilbrl.Policy)
    action, state = policy.predict(np.zeros(3))
    assert_type(state, None)
    return policy.guarded(outside="clip").act(action)


def learn(rows: np.ndarray) -> list[ilbrl.Policy]:
    logs = from_arrays(rows[:, :3], rows[:, 3:])
    assert_type(logs, ilbrl.Dataset)
    learned = ilbrl.fit("ilbrl", logs.episodes([0]), logs, seeds=2, updates=10)
    assert_type(learned.policies, list[ilbrl.Policy])
    return learned.policies


def judge(policies: dict[str, ilbrl.Policy], logs: ilbrl.Dataset) -> tuple[float, str]:
    found = ilbrl.evaluate(policies, logs, known={"expert": "operator.safetensors"}, members=2)
    assert_type(found["a"].interval, tuple[float, float])
    return found["a"].value, "unknown" if found.trust is None else found.trust.verdict


def choose(out: Path) -> ilbrl.Policy:
    return ilbrl.tune(expert="demos.csv", logs="logs.csv", out=out, seeds=3).policy


def exchange(logs: ilbrl.Dataset) -> dict[str, Any]:
    assert_type(len(to_frame(logs)), int)
    return to_d3rlpy(ilbrl.concatenate([logs, ilbrl.load("more.npz")]))


ilbrl.fit("ilbrl", None, 3)  # pyright: ignore[reportArgumentType]  # both are wrong, and both must be told
