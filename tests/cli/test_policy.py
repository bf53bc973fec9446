import json
import sys
from pathlib import Path

import numpy as np
import pytest

from ilbrl.cli import main
from ilbrl.policy import Layer, Policy


@pytest.fixture
def file(tmp_path) -> Path:
    return Policy(
        (Layer(np.eye(2), np.zeros(2), np.ones(2), np.zeros(2)), Layer(np.eye(2), np.zeros(2))),
        [-1.0, -1.0], [1.0, 1.0], obs_mean=np.zeros(2), obs_std=np.ones(2), obs_low=-np.ones(2), obs_high=np.ones(2),
        metadata={
            "agent": "ilbrl", "seed": 3, "updates": 250_000, "diverged_at": -1, "config": {"lam": 1.25, "tau": 0.005},
            "expert": {"source": "demos.npz", "content_hash": "12ab"}, "logs": {"source": "logs.csv"},
            "study": "mine", "task": "hopper", "configuration": 2, "offline_value": 231.4567,
            "offline_quantity": "return of an episode", "trust": "usable",
            "versions": {"ilbrl": "0.1.0"}, "commit": "abc123",
            "observation_columns": ["angle", "speed"], "remark": "\x1b[2Jgone\nnew line",
        },
    ).save(tmp_path / "mine")  # fmt: skip


def test_show_tells_what_a_file_is(file, capsys):
    assert main(["policy", "show", str(file)]) == 0
    said = capsys.readouterr().out
    for line in (
        "policy        Policy(2 → 2 → 2 numbers, relu, LayerNorm, deterministic, agent ilbrl, task hopper, seed 3),"
        " 16 weights",
        "observations  2 numbers (angle, speed), standardised inside; the range in training is in the file",
        "actions       2 numbers, each from -1 to 1",
        "made by       ilbrl, seed 3, updates 250000",
        "settings      lam 1.25, tau 0.005",
        "expert        demos.npz, content 12ab",
        "logs          logs.csv, content None",
        "from          study mine, task hopper, configuration 2",
        "offline value 231.457 (return of an episode)",
        "verdict       usable",
        r"remark        \x1b[2Jgone\nnew line",  # what a stranger wrote cannot move the cursor
        "code          ilbrl 0.1.0, commit abc123",
    ):
        assert f"\n  {line}\n" in said
    assert "and the file fits it" in said.splitlines()[-1]
    assert "DIVERGED" not in said


def test_show_for_machines(file, capsys):
    assert main(["policy", "show", str(file), "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert (facts["layers"], facts["layer_norm"], facts["obs_high"]) == ([2, 2, 2], [True], [1.0, 1.0])
    assert facts["metadata"]["offline_value"] == 231.4567
    assert len(facts["sha256"]) == 64
    Policy.load(file).with_metadata(offline_value=float("nan")).save(file)
    assert main(["policy", "show", str(file), "--json"]) == 0
    assert "NaN" not in capsys.readouterr().out


def test_a_built_in_policy_and_one_that_diverged(tmp_path, capsys):
    assert main(["policy", "show", "hopper/expert"]) == 0
    assert "checksum      none" in capsys.readouterr().out
    layers = (Layer(np.eye(2), np.zeros(2)),)
    categorical = Policy(layers, [0], [1], head="categorical", metadata={"diverged_at": 50}).save(tmp_path / "bad")
    assert main(["policy", "show", str(categorical)]) == 0
    said = capsys.readouterr().out
    assert "one of 0 … 1" in said
    assert "DIVERGED      at update 50" in said


def test_export_to_c(file, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["policy", "export", str(file), "--format", "c"]) == 0
    assert "mine.h: C99; policy_act(observation, action) takes 2 numbers" in capsys.readouterr().out
    assert main(["policy", "export", str(file), "--format", "c", "--out", "other.h", "--name", "arm"]) == 0
    assert "static inline int arm_act(" in Path("other.h").read_text()
    assert main(["policy", "export", str(file), "--format", "c", "--name", "not a name"]) == 2
    assert "cannot begin names in C" in capsys.readouterr().err


def test_export_to_onnx_needs_its_package(file, tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    assert main(["policy", "export", str(file), "--format", "onnx", "--out", str(tmp_path / "a.onnx")]) == 2
    assert 'pip install "ilbrl[onnx]"' in capsys.readouterr().err
    assert not (tmp_path / "a.onnx").exists()
