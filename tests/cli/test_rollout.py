import json

import pytest

from ilbrl.cli import main
from ilbrl.data.benchmark import source_policy


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
    ],
)
def test_bad_requests_are_one_sentence(capsys, words, message):
    assert main(["rollout", *words]) == 2
    assert message in capsys.readouterr().err


def test_a_policy_that_does_not_know_its_task_needs_one(capsys, tmp_path):
    policy = source_policy("hopper", "rung1")
    file = type(policy)(policy.layers, policy.action_low, policy.action_high, policy.head).save(tmp_path / "anonymous")
    assert main(["rollout", "--policy", str(file)]) == 2
    assert "name it with --env" in capsys.readouterr().err
