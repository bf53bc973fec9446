import json

import numpy as np
import pytest

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


def test_a_policy_that_answers_with_nan_has_no_return(capsys, tmp_path):
    layers = ((np.full((3, 1), np.nan, np.float32), np.zeros(1, np.float32)),)
    file = Policy(layers, np.full(1, -2.0), np.full(1, 2.0)).save(tmp_path / "nan")
    assert main(["rollout", "--policy", str(file), "--env", "Pendulum-v1", "--episodes", "1", "--json"]) == 2
    shown = capsys.readouterr()
    assert "some actions of the policy are not finite" in shown.err
    assert shown.out == ""


def test_a_policy_that_does_not_know_its_task_needs_one(capsys, tmp_path):
    policy = source_policy("hopper", "rung1")
    file = type(policy)(policy.layers, policy.action_low, policy.action_high, policy.head).save(tmp_path / "anonymous")
    assert main(["rollout", "--policy", str(file)]) == 2
    assert "name it with --env" in capsys.readouterr().err
