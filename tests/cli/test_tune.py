"""What `ilbrl tune` and `ilbrl demo` say, from results written down by hand."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from ilbrl.cli import main
from ilbrl.cli.tune import as_text
from ilbrl.report.verdict import Verdict
from ilbrl.results.schema import (
    Chosen,
    KnownEstimate,
    Overall,
    Reference,
    Score,
    Scores,
    Selection,
    TriedSetting,
    TrustRecord,
    TuningRecord,
)
from ilbrl.study.run import StudyResult


@pytest.fixture
def result():
    known = {"expert": KnownEstimate(271.0, truth=280.0), "logs": KnownEstimate(244.0)}
    return StudyResult(
        folder=Path("runs/x"),
        tuning=TuningRecord(
            configurations=(TriedSetting(id=0, policies=known),),
            chosen=0,
            trust=TrustRecord(verdict="care", reasons=("few episodes", "only clones"), error=4.0),
            quantity="mean return of an episode",
        ),
        selection=Selection(
            {
                "ilbrl": Chosen(
                    1, value=270.0, value_std_error=3.0, hyperparameters={"lam": 0.25, "hidden": [8, 8]}, best_seed=1
                ),
                "bc": Chosen(),
            },
            Overall("ilbrl", 1, "policies/ilbrl/best.safetensors", 270.0, "the highest offline value"),
        ),
        final=Scores(
            task="hopper",
            scores=tuple(Score("ilbrl", 1, seed, return_mean=v, score=v) for seed, v in ((0, 70.0), (1, 90.0))),
            references={"expert": Reference(true_score=110.0), "logs": Reference(true_score=60.0)},
        ),
    )


def test_what_was_selected_why_and_what_it_is_worth(result):
    lines = as_text(result).splitlines()
    assert lines[0] == "Selected: ilbrl, configuration 1 — the highest offline value."
    assert "lam 0.25, hidden [8, 8]" in lines[1]
    table = {line.split()[0]: line.split()[1:] for line in lines[4:8]}
    assert table == {
        "ilbrl": ["270.0", "±", "18.6", "90.0"],  # 1.96 · √(3² + 9²); of the file to deploy, not of both seeds
        "bc": ["–"],
        "(expert)": ["271.0", "280.0", "110.0"],
        "(logs)": ["244.0", "60.0"],
    }
    assert lines[8] == "Offline value: mean return of an episode."
    assert "not comparable with D4RL" in lines[9]
    assert lines[11:14] == ["Offline values: use with care.", "  - few episodes", "  - only clones"]


@pytest.mark.parametrize(("grade", "code"), [("good", 0), ("care", 0), ("bad", 1)])
def test_bad_news_are_exit_code_1(result, monkeypatch, capsys, grade, code):
    told = Verdict(grade, "Deploy ILBRL", "", ("A sentence.",), "", (), ())
    monkeypatch.setattr("ilbrl.cli.tune.run_study", lambda *arguments, **options: result)
    monkeypatch.setattr("ilbrl.cli.tune.read_run", lambda folder: None)
    monkeypatch.setattr("ilbrl.cli.tune.verdict", lambda run: told)
    words = ["tune", "--expert", "a.csv", "--logs", "b.csv", "--out", "runs/x"]
    assert main(words) == code
    assert capsys.readouterr().out.splitlines()[-1].startswith(f"The verdict: {told.call}. A sentence. `ilbrl report ")
    assert main([*words, "--json"]) == code
    assert json.loads(capsys.readouterr().out)["verdict"]["grade"] == grade


def test_references_are_found_by_the_logs_they_made(result):
    policies = result.tuning.configurations[0].policies
    policies["operator"] = policies.pop("expert")
    named = replace(result, roles={"operator": "expert", "logs": "logs"})
    (line,) = [line for line in as_text(named).splitlines() if line.startswith("(operator)")]
    assert line.split() == ["(operator)", "271.0", "280.0", "110.0"]


def test_usage(capsys):
    assert main(["tune"]) == 2
    assert main(["tune", "--help"]) == 0
    assert "demo, demo-hopper, large, own, paper, small" in capsys.readouterr().out
    assert main(["tune", "nowhere.toml", "--out", "x"]) == 2
    assert "nowhere.toml: cannot be read" in capsys.readouterr().err
    assert main(["tune", "--reveal"]) == 2
    assert main(["tune", "--reveal", "x", "--task"]) == 2
    assert main(["tune", "--reveal", "x", "--episodes", "many"]) == 2
    assert "--reveal takes one run folder" in capsys.readouterr().err
    assert main(["tune", "small", "--out", "x", "--address", "auto"]) == 2
    assert "add --executor ray" in capsys.readouterr().err
