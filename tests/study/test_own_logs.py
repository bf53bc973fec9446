"""A study of logs that come alone: no rewards, no policies, no sizes, odd column names; valued by learned models."""

import json
import re
import shutil
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
from benchmarks import own_logs

from ilbrl.base.errors import IlbrlError
from ilbrl.cli import main
from ilbrl.cli.tune import parse
from ilbrl.data import load, save
from ilbrl.models import Models
from ilbrl.report.pictures.runs import of_run
from ilbrl.results.folder import read_run
from ilbrl.study.run import prepare, say_time_ahead
from ilbrl.study.session import open_session
from ilbrl.study.study import Data, Study

SETTINGS = {"size": "small", "members": "2", "updates": "100", "hidden": "[16]", "starts": "3"}
OPTIONS = {
    "columns": "observations a,b,c actions force episodes trial", "action-low": "-2", "action-high": "2",
    "algorithms": "bc", "configurations": "1", "seeds": "2", "updates": "40",
    "ranges": "all.hidden [8,8] all.batch_size 16", "settings": " ".join(map(" ".join, SETTINGS.items())),
}  # fmt: skip


def read_json(path):
    return json.loads(path.read_text())


def write_csv(data, path):
    """Columns a, b, c, force and trial, with semicolons."""
    trial = np.repeat(np.arange(data.num_episodes), data.episode_lengths)
    rows = ["a;b;c;force;trial"]
    rows += [";".join(map(str, (*o, *a, t))) for o, a, t in zip(data.observations, data.actions, trial)]
    path.write_text("\n".join(rows))


@pytest.fixture(scope="module")
def words(files, tmp_path_factory):
    """`ilbrl tune` without a study, of 6 expert episodes and 40 others."""
    folder = tmp_path_factory.mktemp("own")
    write_csv(load(f"{files}/expert.npz:6ep"), folder / "demos.csv")
    write_csv(load(files / "medium.npz"), folder / "logs.csv")
    options = [word for name, text in OPTIONS.items() for word in (f"--{name}", *text.split())]
    return ["tune", "--expert", f"{folder}/demos.csv", "--logs", f"{folder}/logs.csv", *options]


@pytest.fixture(scope="module")
def own(words, tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "mine"
    assert main([*words, "--out", str(out), "--quiet"]) in (0, 1)
    return out


def test_it_ends_in_a_policy_and_an_honest_verdict(own):
    tuning, selection = read_json(own / "tuning.json"), read_json(own / "selection.json")
    assert (own / selection["overall"]["policy"]).is_file()
    assert tuning["estimator"] == "models"
    assert tuning["reward"] == "intrinsic"
    assert tuning["quantity"].endswith(f" of at most {tuning['horizon']} steps")
    assert {name: (each["log"], each["clone"]) for name, each in tuning["known"].items()} == {
        "clone of expert": ("expert", True),
        "clone of logs": ("logs", True),
    }
    assert tuning["trust"]["verdict"] in ("care", "distrust")
    reasons = " ".join(tuning["trust"]["reasons"])
    assert "a clone is not the policy that made the logs" in reasons
    assert "closeness to the expert" in reasons
    assert "the log expert is too small to be split" in reasons
    assert all(each["unseen"] for each in tuning["configurations"])  # valued without their own logs too


def test_the_report_misses_nothing(own):
    """Models have no values over updates: an empty values.csv is no fault."""
    assert read_run(own).missing == ()


def test_it_is_called_as_its_folder_and_keeps_that_name(own, words, tmp_path, done, capsys):
    assert read_run(own).title == "mine"
    moved = shutil.copytree(own, tmp_path / "elsewhere")
    assert main([*words, "--out", str(moved), "--quiet"]) in (0, 1)
    assert not done
    assert read_run(moved).title == "mine"


def test_policy_and_logs_are_compared_from_the_same_beginnings(own, tmp_path, capsys):
    chosen = read_json(own / "selection.json")
    assert chosen["algorithms"][chosen["overall"]["algorithm"]]["gain"]["std_error"] > 0
    assert main(["report", str(own), "--out", str(tmp_path / "report.html")]) in (0, 1)
    assert "than the logs earned from the same first observations" in capsys.readouterr().out
    page = (tmp_path / "report.html").read_text()
    assert '<th scope="col" class="long">Its log&#39;s own mean closeness' in page  # not the clone's truth
    assert (
        page.count("<li>Few episodes behind the true value of clone of expert (6).</li>") == 2
    )  # on the card, and below


def test_how_right_the_models_are_is_kept_and_drawn(own):
    (file,) = own.glob("jobs/prepare-*/models-*.safetensors")
    run = read_run(own)
    assert [asdict(each) for each in run.tuning.model_errors] == [asdict(Models.load(file).errors)]
    picture = of_run(run)["model-errors"]
    assert [series.name for series in picture.series] == ["model 0", "model 1"]
    assert picture.says.startswith("After 10 steps the models are wrong by ")


def test_what_was_done_with_how_much_is_told(own):
    told = (own / "log.txt").read_text()
    assert "Policies learn from 6 episodes (114 transitions) of the expert and 24 episodes" in told
    assert "clones of the logs, for no policy behind them is known" in told
    assert re.search(r"evaluation 4 offline values of 2 policies: \d \w+( \(doubtful\))?", told)  # of 2 models each
    study = Study.load(own / "study.toml")
    assert study.data.reading.columns == {"observations": "a,b,c", "actions": "force", "episodes": "trial"}
    assert study.data.reading.action_high == (2.0,)
    assert study.data.expert_episodes is None


def test_what_the_doctor_warns_of_is_told_before_anything_is_trained(words, tmp_path, capsys):
    logs = Path(words[words.index("--logs") + 1]).read_text().splitlines()
    (tmp_path / "cut.csv").write_text("\n".join(logs[:-7]) + "\n")
    options, study = parse(["own", *words[1:], "--logs", str(tmp_path / "cut.csv"), "--out", str(tmp_path / "run")])
    with open_session(study, options.out) as session:
        say_time_ahead(session, prepare(session))
    said = capsys.readouterr().err
    assert " transitions, 1 warning of the doctor (" in said
    assert f"\n    warning: {tmp_path}/cut.csv: the last episode (13 rows, from row 780) is the only one of " in said
    assert re.search(
        r"\n    about .* ahead on this machine, estimated from a short probe: 2 trainings of 40 updates", said
    )
    assert "\n    note: expert: 6 episodes (114 transitions) cannot be divided into parts of whole episodes" in said


def test_the_same_command_repeats_only_what_is_missing(own, words, tmp_path, done, capsys):
    run = shutil.copytree(own, tmp_path / "run")
    for kind in ("calibrate", "prepare"):
        shutil.rmtree(next((run / "jobs").glob(f"{kind}-*")))
    code = main([*words, "--out", str(run), "--quiet", "--json"])
    assert [kind for kind, _ in done] == ["prepare", "calibrate"]
    assert read_json(run / "tuning.json") == read_json(own / "tuning.json")  # to the bit
    assert read_json(run / "selection.json") == read_json(own / "selection.json")
    found = json.loads(capsys.readouterr().out)["verdict"]
    assert code == (found["grade"] == "bad")


def test_a_study_in_a_file_reads_its_logs_alike(tmp_path):
    data = Data("demos.csv", "logs.csv")
    study = Study(data=replace(data, reading=replace(data.reading, columns={"actions": "u"}, action_low=(-1.0, -2.0))))
    study.save(tmp_path / "study.toml")
    assert Study.load(tmp_path / "study.toml") == study


@pytest.mark.slow
def test_closeness_may_count_although_the_logs_have_rewards(files, tmp_path):
    """Asked for later in the same folder, it values again and trains nothing again."""
    logs = ["--expert", f"{files}/expert.npz", "--logs", f"{files}/medium.npz"]
    options = [word for name in ("algorithms", "configurations", "seeds", "updates", "ranges", "settings")
               for word in (f"--{name}", *OPTIONS[name].split())]  # fmt: skip
    found = {}
    for asked in ([], ["--intrinsic", "--change"]):
        assert main(["tune", *logs, *options, *asked, "--out", str(tmp_path), "--quiet"]) in (0, 1)
        tuning, jobs = read_json(tmp_path / "tuning.json"), {path.name for path in (tmp_path / "jobs").iterdir()}
        found[tuning["reward"]] = tuning["quantity"], {job for job in jobs if job.startswith(("label", "train"))}
        beside = [c.task_return for c in read_run(tmp_path).candidates if not c.diverged]
        assert all(value is None for value in beside) == (not asked)
    (of_rewards, trained), (of_closeness, trained_then) = found["logged"], found["intrinsic"]
    assert of_rewards == "mean return of an episode of at most 20 steps"
    assert of_closeness.startswith("mean closeness to the expert, summed over the steps of an episode")
    assert trained_then == trained


def test_rewards_that_nobody_reads_may_be_broken(files, tmp_path):
    logs = load(files / "medium.npz")
    assert logs.rewards is not None
    save(replace(logs, rewards=np.where(np.arange(len(logs)) == 3, np.nan, logs.rewards)), tmp_path / "nan.npz")
    words = ["own", "--expert", f"{files}/expert.npz", "--logs", f"{tmp_path}/nan.npz", "--out", str(tmp_path / "run")]
    options, study = parse(words)
    with open_session(study, options.out) as session, pytest.raises(IlbrlError, match="rewards: NaN in 1 row"):
        prepare(session)
    _, study = parse([*words, "--intrinsic"])
    with open_session(study, tmp_path / "closeness") as session:
        assert prepare(session).evidence.reward == "intrinsic"


@pytest.mark.parametrize("name", own_logs.TASKS)
def test_logs_of_gymnasium_that_are_measured_can_be_read(name, tmp_path, capsys):
    task = own_logs.TASKS[name]._replace(logged=12)
    (_, expert, _, logs), earned = own_logs.make_logs(task, 3, tmp_path)
    assert main(["data", "inspect", logs, "--expert", expert, *task.options.split()]) == 0
    shown = capsys.readouterr().out
    assert "in 12 episodes" in shown
    assert f"in {task.demonstrations} episodes" in shown[shown.index("expert: ") :]
    assert "warning" not in shown
    assert own_logs.mean_return(own_logs.play(task.environment, task.good, range(12))) > earned + 250
