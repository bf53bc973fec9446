"""`ilbrl models`: from logs to models on disk, and policies rolled out in them."""

import json

import pytest
from tests.models.conftest import linear_logs, steady

from ilbrl import models
from ilbrl.cli import main
from ilbrl.data import save
from ilbrl.models import dynamics


@pytest.fixture
def quick(monkeypatch):
    monkeypatch.setitem(models.SIZES, "small", dynamics.Config(updates=200.0, batch_size=32, hidden=(16,)))


def test_train_then_inspect(quick, tmp_path, capsys):
    save(linear_logs(), tmp_path / "logs.npz")
    file = tmp_path / "linear.models"
    words = ["train", "--logs", str(tmp_path / "logs.npz"), "--out", str(file), "--members", "2", "--quiet", "--json"]
    assert main(["models", *words]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["members"] == 2
    assert told["horizon"] == 50
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []

    policy = steady(0.3).save(tmp_path / "policy.safetensors")
    words = [str(file), "--policy", str(policy), "--starts", str(tmp_path / "logs.npz")]
    assert main(["models", "inspect", *words]) == 0
    shown = capsys.readouterr().out
    assert "2 models of" in shown
    assert "policy.safetensors: return" in shown


def test_a_policy_needs_states_to_begin_with(quick, tmp_path, capsys):
    save(linear_logs(), tmp_path / "logs.npz")
    file = tmp_path / "linear.models"
    assert main(["models", "train", "--logs", str(tmp_path / "logs.npz"), "--out", str(file), "--quiet"]) == 0
    assert main(["models", "inspect", str(file), "--policy", "x.safetensors"]) == 2
    assert "--starts LOGS" in capsys.readouterr().err
