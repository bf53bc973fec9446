"""`ilbrl.evaluate`: policies, logs and known policies to values and a verdict in one call."""

import numpy as np
import pytest

import ilbrl
from ilbrl import ope
from ilbrl.base.errors import IlbrlError
from ilbrl.data import Dataset, save
from ilbrl.policy import Policy

SMALL = {"members": 2, "updates": 60, "hidden": (8, 8), "starts": 4}


def log(gain: float, seed: int, episodes: int = 20) -> Dataset:
    """x′ = 0.9 x + 0.5 u, r = 1 − x², u = −gain · x, episodes of 10 steps."""
    x, columns = np.random.default_rng(seed).uniform(-1, 1, episodes), []
    for _ in range(10):
        u = -gain * x
        columns.append((x, u, 1 - x**2, x := 0.9 * x + 0.5 * u))
    x, u, r, y = (np.stack(column, 1).reshape(-1, 1) for column in zip(*columns))
    ends = np.tile(np.arange(10) == 9, episodes)
    return Dataset(
        x, u, y, np.zeros(len(x), bool), ends, rewards=r[:, 0], action_low=[-1.0], action_high=[1.0], source=f"{gain:g}"
    )


def policy(gain: float) -> Policy:
    return Policy(((np.array([[-gain]]), np.zeros(1)),), -np.ones(1), np.ones(1))


@pytest.fixture(scope="module")
def logs():
    return log(-0.15, 1)


@pytest.fixture(scope="module")
def expert():
    return log(0.9, 0)


def test_files_and_objects_give_the_same_values(logs, expert, tmp_path):
    save(logs, tmp_path / "logs.npz")
    save(expert, tmp_path / "expert.npz")
    file = policy(0.9).save(tmp_path / "mine")
    read = ilbrl.evaluate(
        [file], tmp_path / "logs.npz", str(tmp_path / "expert.npz"), out=tmp_path, quiet=True, **SMALL
    )
    held = ilbrl.evaluate({"a": policy(0.9)}, logs, expert, out=tmp_path, quiet=True, **SMALL)
    assert read[str(file)] == held["a"]
    assert held["a"].interval[0] < held["a"].value < held["a"].interval[1]
    assert held.trust is None


def test_known_policies_calibrate(logs, expert):
    known = {"expert": policy(0.9), "operator": (policy(-0.15), "logs"), "other": (policy(0.3), log(0.3, 2))}
    found = ilbrl.evaluate(policy(0.5), logs, expert, known=known, quiet=True, **SMALL)
    assert found.calibration is not None
    assert [k.log for k in found.calibration.known] == ["expert", "logs", None]
    assert found.trust is not None
    assert found.trust.verdict in ope.SAYINGS
    assert found["policy"].std_error >= found.trust.error  # no surer than it was on the known policies


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "nothing to evaluate"),
        ({"policies": policy(1), "updats": 8}, "models has no setting 'updats'"),
        ({"known": {"a": policy(1)}, "use_clones": True}, "either known policies or use_clones"),
        ({"known": {"a": policy(1), "b": policy(2)}}, "a and b cannot both be the one policy behind the logs"),
        ({"known": {"a": (policy(1), "yesterday")}}, "Name one of the logs: expert, logs"),
        ({"policies": policy(1), "logs": {}}, "at least one log"),
    ],
)
def test_what_does_not_fit_is_said(logs, expert, options, said):
    with pytest.raises(IlbrlError, match=said):
        ilbrl.evaluate(**({"policies": None, "logs": logs, "expert": expert} | options))
