"""`ilbrl tabular` on the command line."""

import json

import pytest

from ilbrl.cli import main


def run(capsys, *words):
    code = main(["tabular", *words])
    out, err = capsys.readouterr()
    return code, out, err


def test_frozen_lake_is_drawn_as_arrows_with_its_scores(capsys):
    code, out, _ = run(capsys, "--env", "FrozenLake-v1", "--expert-steps", "500", "--logs-steps", "5000")
    assert code == 0
    rows = [line.split() for line in out.splitlines()]
    assert ["←H←H"] * 3 in rows  # expert, ILBRL and BC agree on the second row, holes in place
    table = {row[0]: row[1:] for row in rows if row and row[0] in ("expert", "ILBRL", "BC", "SMODICE", "explorer")}
    assert float(table["ILBRL"][1]) < 0.01 < float(table["explorer"][1])


def test_json_and_reproducibility(capsys):
    words = ["--env", "garnet:10x3", "--expert-steps", "50", "--logs-steps", "500", "--json", "--seed", "3"]
    first, second = (json.loads(run(capsys, *words)[1]) for _ in range(2))
    assert first == second
    assert first["scores"]["expert"] == {
        "average_reward": pytest.approx(first["scores"]["expert"]["average_reward"]),
        "regret": 0.0,
        "total_variation": 0.0,
    }
    assert len(first["imitation_policy"]) == 10
    assert 0 <= first["scores"]["ILBRL"]["total_variation"] <= 1


def test_optimism_is_a_named_choice(capsys):
    words = ["--env", "grid:6x6", "--expert-steps", "40", "--logs-steps", "50", "--json"]
    careful, bold = (json.loads(run(capsys, *words, "--unseen", u)[1]) for u in ("pessimistic", "optimistic"))
    assert careful["imitation_policy"] != bold["imitation_policy"]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--env", "Nowhere-v0"], "no environment"),
        (["--env", "CartPole-v1"], "no transition table"),
        (["--env", "grid:1x1"], "at least 2"),
        (["--env", "garnet:100000x4"], "40,000,000,000 numbers"),
        (["--env", "grid:99999x99999"], "at most 250,000,000"),
        (["--env", "garnet:20x4", "--seed", "-1"], "cannot be negative"),
        (["--expert-steps", "0"], "--expert-steps"),
        (["--logs-steps", "1000000000000"], "neither more than 10,000,000"),
        (["--gamma", "1.0"], "γ"),
        (["--restart", "1.5"], "restart"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_2(capsys, words, says):
    code, out, err = run(capsys, *words)
    assert (code, out) == (2, "")
    assert says in err


def test_help_teaches_by_example(capsys):
    with pytest.raises(SystemExit) as exit_:
        main(["tabular", "--help"])
    assert exit_.value.code == 0
    assert "ilbrl tabular --env FrozenLake-v1" in capsys.readouterr().out
