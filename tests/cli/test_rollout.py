import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import ilbrl
from ilbrl.cli import main
from ilbrl.data.benchmark import source_policy
from ilbrl.policy import Policy


def test_json_holds_every_episode(capsys):
    assert main(["rollout", "--policy", "hopper/rung1", "--episodes", "4", "--seed", "2", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["env"] == "hopper"
    assert facts["episodes"] == len(facts["returns"]) == len(facts["lengths"]) == 4
    assert facts["return_mean"] == pytest.approx(sum(facts["returns"]) / 4)
    assert facts["score"] == pytest.approx(100 * (facts["return_mean"] + 20.272305) / (3234.3 + 20.272305))
    assert "not comparable with D4RL" in facts["note"]


def test_text_of_a_policy_file_in_its_own_task(capsys, tmp_path):
    file = source_policy("hopper", "rung1").save(tmp_path / "mine.safetensors")
    assert main(["rollout", "--policy", str(file), "--episodes", "2", "--stochastic"]) == 0
    text = capsys.readouterr().out
    assert "2 stochastic episodes" in text
    assert "D4RL-normalised" in text
    assert "not comparable with D4RL tables" in text


def test_random_actions_in_a_task_without_a_score(capsys):
    assert main(["rollout", "--policy", "hopper/random", "--episodes", "1"]) == 0
    assert "1 stochastic episodes" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--policy", "none.safetensors"], "no such policy file"),
        (["--policy", "hopper/expert", "--env", "Pendulum-v1"], "takes observations of 11 numbers, got 3"),
        (["--policy", "hopper/expert", "--episodes", "0"], "at least one episode"),
        (["--policy", "hopper/expert", "--workers", "0"], "cannot work with 0 worker processes"),
    ],
)
def test_bad_requests_are_one_sentence(capsys, words, message):
    assert main(["rollout", *words]) == 2
    assert message in capsys.readouterr().err


def test_a_policy_that_holds_nan_has_no_return(capsys, tmp_path):
    layers = ((np.full((3, 1), np.nan, np.float32), np.zeros(1, np.float32)),)
    file = Policy(layers, np.full(1, -2.0), np.full(1, 2.0)).save(tmp_path / "nan")
    assert main(["rollout", "--policy", str(file), "--env", "Pendulum-v1", "--episodes", "1", "--json"]) == 2
    shown = capsys.readouterr()
    assert "nan.safetensors: w0 holds numbers that are not finite" in shown.err
    assert shown.out == ""


STRANGER = """
from pathlib import Path
import gymnasium
Path("it-ran").touch()
gymnasium.register("Stranger-v0", "gymnasium.envs.classic_control.pendulum:PendulumEnv", max_episode_steps=5)
"""


def test_a_task_named_by_a_file_runs_no_code_and_one_typed_by_the_user_does(tmp_path):
    """As the console script: in a process of its own, without the current folder on its path."""
    (tmp_path / "stranger.py").write_text(STRANGER)
    layers = ((np.zeros((3, 1), np.float32), np.zeros(1, np.float32)),)
    metadata = {"task": "stranger:Stranger-v0"}
    Policy(layers, np.full(1, -2.0), np.full(1, 2.0), metadata=metadata).save(tmp_path / "policy")
    script = "import sys; from ilbrl.cli import main; sys.exit(main())"
    words = ["rollout", "--policy", "policy.safetensors", "--episodes", "1"]
    command = [sys.executable, "-P", "-c", script, *words]
    how = {"cwd": tmp_path, "env": os.environ | {"PYTHONPATH": str(Path(ilbrl.__file__).parents[1])}}
    done = subprocess.run(command, **how, capture_output=True, text=True)
    assert done.returncode == 2
    assert "would run the module 'stranger'" in done.stderr
    assert not (tmp_path / "it-ran").exists()
    done = subprocess.run([*command, "--env", "stranger:Stranger-v0"], **how, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "5.0 steps" in done.stdout
    assert (tmp_path / "it-ran").exists()


def test_a_policy_that_does_not_know_its_task_needs_one(capsys, tmp_path):
    policy = source_policy("hopper", "rung1")
    file = type(policy)(policy.layers, policy.action_low, policy.action_high, policy.head).save(tmp_path / "anonymous")
    assert main(["rollout", "--policy", str(file)]) == 2
    assert "name it with --env" in capsys.readouterr().err
