"""`ilbrl models`: from logs to models on disk, and policies rolled out in them."""

import json
from dataclasses import replace

import numpy as np
import pytest
from tests.models.conftest import exact_models, linear_logs, steady

from ilbrl import models
from ilbrl.cli import main
from ilbrl.data import save
from ilbrl.models import dynamics
from ilbrl.policy import Policy


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
    words += ["--figure", str(tmp_path / "errors.png")]
    assert main(["models", "inspect", *words]) == 0
    shown = capsys.readouterr().out
    assert "2 models of" in shown
    assert "policy.safetensors: return" in shown
    assert (tmp_path / "errors.png").read_bytes()[:4] == b"\x89PNG"


def test_files_that_do_not_say_all_are_read_as_by_other_commands(quick, tmp_path, capsys):
    for name, actions in (("expert", ("left", "right")), ("logs", ("right", "stay", "left"))):
        rows = [f"{t % 7},{actions[t % len(actions)]},{int(t % 10 == 9)},{t % 3}" for t in range(60)]
        (tmp_path / f"{name}.csv").write_text("\n".join(["angle,turn,fell,earned", *rows]))
    file, columns = tmp_path / "turns.models", ["--columns", "observations", "angle", "actions", "turn"]
    columns += ["terminals", "fell", "rewards", "earned"]
    words = ["--expert", f"{tmp_path}/expert.csv", "--logs", f"{tmp_path}/logs.csv", "--out", str(file), "--quiet"]
    assert main(["models", "train", *words, "--members", "1", *columns]) == 0
    assert models.Models.load(file).scales.spec.act_dim == 3  # left is the same action in both

    layers = ((np.zeros((1, 3), np.float32), np.zeros(3, np.float32)),)
    policy = str(Policy(layers, np.zeros(1), np.full(1, 2.0), "categorical").save(tmp_path / "policy.safetensors"))
    words = ["inspect", str(file), "--policy", policy, "--starts", f"{tmp_path}/logs.csv"]
    capsys.readouterr()
    assert main(["models", *words, *columns, "--json"]) == 0
    assert list(json.loads(capsys.readouterr().out)["policies"]) == [policy]


def test_a_policy_needs_states_to_begin_with(quick, tmp_path, capsys):
    save(linear_logs(), tmp_path / "logs.npz")
    file = tmp_path / "linear.models"
    assert main(["models", "train", "--logs", str(tmp_path / "logs.npz"), "--out", str(file), "--quiet"]) == 0
    assert main(["models", "inspect", str(file), "--policy", "x.safetensors"]) == 2
    assert "--starts LOGS" in capsys.readouterr().err


def test_a_policy_that_is_named_twice_is_shown_once(tmp_path, capsys):
    save(linear_logs(episodes=5), tmp_path / "logs.npz")
    file = exact_models().save(tmp_path / "linear.models")
    policy = str(steady(0.3).save(tmp_path / "policy.safetensors"))
    words = [str(file), "--policy", policy, "--policy", policy, "--starts", str(tmp_path / "logs.npz"), "--json"]
    assert main(["models", "inspect", *words]) == 0
    assert list(json.loads(capsys.readouterr().out)["policies"]) == [policy]


def test_the_errors_go_into_a_figure_alone(tmp_path, capsys):
    file = exact_models().save(tmp_path / "linear.models")
    assert main(["models", "inspect", str(file), "--figure", str(tmp_path / "errors.doc")]) == 2
    assert "errors.doc: is no figure; name a file that ends in .png" in capsys.readouterr().err
    assert main(["models", "inspect", str(file), "--figure", str(tmp_path / "errors.png")]) == 2
    assert "linear.models records no errors of its models" in capsys.readouterr().err


def test_models_of_broken_logs_are_not_trained(quick, tmp_path, capsys):
    """Named by file, field and row, before any model is trained on them."""
    logs = linear_logs()
    observations = np.where(np.arange(len(logs))[:, None] == 7, np.nan, logs.observations)
    save(replace(logs, observations=observations), tmp_path / "bad.npz")
    assert main(["models", "train", "--logs", str(tmp_path / "bad.npz"), "--out", str(tmp_path / "m"), "--quiet"]) == 2
    assert "bad.npz: observations: NaN in 1 row (first: row 7" in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "m").exists()
