"""A whole study of discrete actions: the committed one, made tiny and played in the clinic."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from ilbrl.agents import AGENTS
from ilbrl.base.records import to_plain
from ilbrl.data.benchmark import measured_returns
from ilbrl.envs import clinic
from ilbrl.report.pictures.runs import of_run
from ilbrl.results import read_run
from ilbrl.results.schema import LabelsRecord
from ilbrl.study.final import final_job, play
from ilbrl.study.logs import describe, load_logs, split
from ilbrl.study.run import run
from ilbrl.study.study import Data, Final, Search, Study
from ilbrl.study.training import training_jobs

STUDY = Path(__file__).parents[2] / "studies" / "discrete.toml"
SMALLER = {
    'task = "cartpole"': 'task = "clinic"', ":6000steps": ":600steps", ":50000steps": ":900steps",
    "configurations = 12": "configurations = 1", "hidden = [64, 64]": "hidden = [8, 8]",
    "batch_size = 128": "batch_size = 16", "updates = 10_000": "updates = 20", "episodes = 50": "episodes = 5",
    'settings.size = "small"': "settings = {size = 'small', members = 2, updates = 20, hidden = [8, 8]}",
}  # fmt: skip


def test_a_study_of_choices_draws_from_the_ranges_for_choices(tmp_path, monkeypatch):
    monkeypatch.setenv("ILBRL_CACHE", str(tmp_path / "cache"))
    data = Data("{task}/expert:300steps", "{task}/medium:300steps", expert_episodes=2)
    study = Study(task="clinic", data=data, search=Search(("ilbrl", "bc"), configurations=3, default_first=True))
    ilbrl, *_, bc = training_jobs(study, split(study, load_logs(study, quiet=True)))
    first, *drawn = ilbrl.inputs["configurations"]
    assert first["config"] == to_plain(AGENTS["ilbrl"].presets["discrete"])
    assert all(0 < c["config"]["expert_share"] == c["hyperparameters"]["expert_share"] for c in drawn)
    assert bc.inputs["algorithm"] == "bc"


def test_the_policy_behind_the_logs_is_played_as_it_made_them(tmp_path, monkeypatch):
    monkeypatch.setenv("ILBRL_CACHE", str(tmp_path / "cache"))
    data = Data("{task}/expert:300steps", "{task}/medium:300steps", expert_episodes=2)
    study = Study(task="clinic", data=data, final=Final(episodes=4000, environment_seeds=4))
    parts = split(study, load_logs(study, quiet=True))
    job, found = final_job(study, parts, [], "final"), []
    assert job.inputs["sampled"] == ["logs"]
    play(SimpleNamespace(inputs=job.inputs, upstream={}, parts=parts, finish=found.append))
    medium, expert = (known.policy for role in ("logs", "expert") for known in parts.known if known.name == role)
    true = {"logs": clinic.value(medium, stochastic=True), "expert": clinic.value(expert)}
    for role, value in true.items():
        returns = np.array(found[0].references[role].returns)
        assert abs(returns.mean() - value) < 4 * returns.std() / np.sqrt(len(returns))
    assert true["logs"] > clinic.value(medium) + 0.05  # its most probable action alone is worse
    assert final_job(study, parts, [], "reveal").inputs["sampled"] == []


def test_the_score_of_the_policy_behind_the_logs_is_that_of_how_it_is_played(tmp_path, monkeypatch):
    monkeypatch.setenv("ILBRL_CACHE", str(tmp_path / "cache"))
    study = Study(task="clinic", data=Data("{task}/expert:300steps", "{task}/medium:300steps", expert_episodes=2))
    logs = load_logs(study, quiet=True)
    found = describe(study, logs, {"expert": [], "logs": []}, split(study, logs), LabelsRecord()).references
    measured = measured_returns()["policies"]
    assert found["expert"].true_score == measured["clinic/expert"]["deterministic"]["score_mean"]
    assert found["logs"].true_score == measured["clinic/medium"]["stochastic"]["score_mean"]


@pytest.mark.slow
def test_a_study_of_choices_ends_in_a_policy_that_chooses_and_in_its_pictures(tmp_path, monkeypatch):
    monkeypatch.setenv("ILBRL_CACHE", str(tmp_path / "cache"))
    text = STUDY.read_text()
    for large, small in SMALLER.items():
        assert large in text
        text = text.replace(large, small)
    (tmp_path / "study.toml").write_text(text)
    found = run(Study.load(tmp_path / "study.toml"), tmp_path / "run", quiet=True)
    assert found.policy.head == "categorical"
    assert found.policy.metadata["action_names"] == ["wait", "gentle", "A", "B"]
    assert found.final is not None
    assert len(found.final.scores) == 2  # ILBRL and BC
    shown = read_run(tmp_path / "run")
    assert shown.choices is not None
    assert shown.choices.names == ("wait", "gentle", "A", "B")
    assert shown.vouched["choices.json"].state == "agrees"
    assert {"actions", "confusion"} <= set(of_run(shown))
