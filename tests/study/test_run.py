"""A whole study, small: what it leaves behind, what it does not do twice, and what it refuses."""

import csv
import json
import shutil
import sys
from contextlib import nullcontext
from dataclasses import replace
from importlib.machinery import ModuleSpec
from types import SimpleNamespace

import pytest

from ilbrl import envs
from ilbrl.base.errors import IlbrlError
from ilbrl.base.files import locked
from ilbrl.base.records import to_plain
from ilbrl.cli import main
from ilbrl.learning import memory, population
from ilbrl.policy import Policy
from ilbrl.results.schema import ALL_SEEDS
from ilbrl.study import executors, training
from ilbrl.study.run import reveal
from ilbrl.study.study import Final


def read_json(path):
    return json.loads(path.read_text())


def read_csv(path):
    return list(csv.DictReader(path.read_text().splitlines()))


def test_what_a_study_leaves_behind(finished, tiny):
    names = {"study.toml", "audit.json", "log.txt", "data.json", "tuning.json", "results.csv", "curves.csv"}
    names |= {"values.csv", "selection.json", "policies", "jobs"}
    assert {path.name for path in finished.iterdir()} == names | {".lock"}
    results = read_csv(finished / "results.csv")
    assert len(results) == 2 * 2 * 2 * 2
    assert {row["task"] for row in results} == {"tiny"}
    assert all(float(row["distance"]) > 0 for row in results)
    assert {row["true_return"] for row in results} == {""}
    selection = read_json(finished / "selection.json")
    for row in results:
        chosen = selection["algorithms"][row["algorithm"]]["configuration"]
        assert row["selected"] == str(int(int(row["configuration"]) == chosen))
        assert set(json.loads(row["hyperparameters"])) >= {"hidden", "batch_size"}
    for name in ("ilbrl", "bc"):
        exported = sorted(path.name for path in (finished / "policies" / name).iterdir())
        assert exported == ["best.safetensors", "seed0.safetensors", "seed1.safetensors"]
    assert selection["overall"]["policy"] == "policies/best.safetensors"
    best = Policy.load(finished / "policies/best.safetensors")
    assert best.metadata["study"] == "tiny"  # tests/study/test_uniting.py has its value
    stages = {row["stage"] for row in read_csv(finished / "values.csv")}
    assert stages == {"tuning", "candidates"}
    assert {row["metric"] for row in read_csv(finished / "curves.csv") if row["algorithm"] == "bc"} == {"cloning_loss"}
    lines = (finished / "log.txt").read_text().splitlines()
    assert len(lines) == 9 + 2  # what each algorithm deploys
    assert "ahead on this machine, estimated from a short probe" in lines[2]
    audit = read_json(finished / "audit.json")
    assert audit["environment_calls"] == dict.fromkeys(audit["environment_calls"], 0)
    assert [event["what"] for event in audit["events"]] == ["started", "selected"]
    assert audit["ranges"]["ilbrl"]["actor_lr"] == {"kind": "constant", "values": [0.001]}
    assert audit["splits"]["training_expert"]["episodes"] == tiny.data.expert_episodes
    labels = read_json(finished / "data.json")["labels"]
    assert sum(labels["expert"]) == 2 * 20
    assert sum(labels["logs"]) == audit["splits"]["training_logs"]["transitions"]


def test_offline_values_are_those_of_the_evaluations(finished):
    """The value of the selected configuration is the mean of its converged rows of results.csv."""
    for name, entry in read_json(finished / "selection.json")["algorithms"].items():
        rows = [r for r in read_csv(finished / "results.csv") if r["algorithm"] == name and r["selected"] == "1"]
        values = [float(row["offline_value"]) for row in rows if row["grade"] == "sound"]
        assert entry["value"] == pytest.approx(sum(values) / len(values))


def test_nothing_is_computed_twice(run, tiny, done):
    before = read_json(run / "selection.json")
    result = tiny.run(run, quiet=True)
    assert done == []
    assert to_plain(result.selection) == before
    assert [event["what"] for event in read_json(run / "audit.json")["events"]] == ["started", "selected", "continued"]


def test_the_same_study_elsewhere_is_the_same_to_the_bit(finished, tiny, tmp_path, weights):
    tiny.run(tmp_path / "again", quiet=True)
    assert weights(tmp_path / "again") == weights(finished)
    audits = [read_json(path / "audit.json") for path in (finished, tmp_path / "again")]
    for name in ("study_hash", "data", "splits", "ranges", "seeds"):
        assert audits[0][name] == audits[1][name]
    assert read_json(tmp_path / "again" / "selection.json") == read_json(finished / "selection.json")


def test_another_study_in_the_folder_is_refused_with_the_difference(run, tiny):
    changed = replace(tiny, search=replace(tiny.search, ranges={**tiny.search.ranges, "bc.lr": "0.002"}))
    with pytest.raises(IlbrlError, match=r"another study \(search\.ranges\.bc\.lr: not set → 0\.002\).*--change"):
        changed.run(run, quiet=True)


def test_changing_one_range_computes_only_what_depends_on_it(run, tiny, done, weights):
    untouched = weights(run / "policies" / "ilbrl")
    changed = replace(tiny, search=replace(tiny.search, ranges={**tiny.search.ranges, "bc.lr": "0.002"}))
    changed.run(run, change=True, quiet=True)
    assert done == [("train", "bc"), ("evaluate", None), ("unite", None)]
    assert weights(run / "policies" / "ilbrl") == untouched
    events = [event["what"] for event in read_json(run / "audit.json")["events"]]
    assert "study changed: search.ranges.bc.lr: not set → 0.002" in events


def test_what_others_keep_beside_the_policies_stays(run, tiny, monkeypatch):
    """Policies are replaced one by one, never absent; only those of an earlier selection go."""
    policies, save, there = run / "policies", Policy.save, []
    others = ("best.onnx", "seed0.safetensors", "bc/best.h", "bc/seed0-guarded.safetensors", "mine/best.safetensors")
    for name in (*others, "bc/seed7.safetensors"):
        (policies / name).parent.mkdir(exist_ok=True)
        (policies / name).write_text("somebody's")

    def watched(policy, path):
        there.append((policies / "best.safetensors").is_file())
        return save(policy, path)

    monkeypatch.setattr(Policy, "save", watched)
    tiny.run(run, quiet=True)
    assert there == [True] * 7  # of two algorithms: two seeds and the best; and the best of all
    assert not (policies / "bc" / "seed7.safetensors").exists()
    assert (policies / "bc" / "best.safetensors").exists()
    replace(tiny, search=replace(tiny.search, algorithms=("ilbrl",))).run(run, change=True, quiet=True)
    assert sorted(path.name for path in (policies / "bc").iterdir()) == ["best.h", "seed0-guarded.safetensors"]
    assert {(policies / name).read_text() for name in others} == {"somebody's"}


def test_an_environment_may_come_later_and_final_happens_once(run, tiny, done):
    playing = replace(tiny, task="Pendulum-v1", final=Final(episodes=2, environment_seeds=2))
    first = playing.run(run, change=True, quiet=True).final
    assert done == [("final", None)]
    assert len(first.scores) == 4
    assert all((run / "jobs" / score.job).is_dir() for score in first.scores)
    assert set(first.references) == {"expert", "logs"}
    for each in (*first.scores, *first.references.values()):  # every episode, not only means
        assert each.lengths == (200, 200)  # Pendulum's
        assert len(each.returns) == len(each.discounted_returns) == 2
    assert first.scores[0].return_mean == pytest.approx(sum(first.scores[0].returns) / 2)
    assert first.discount == 0.5  # the estimator's
    calls = read_json(run / "audit.json")["environment_calls"]
    assert calls["candidates_before_selection"] == 0
    assert {score.policy_seed for score in first.committees} == {ALL_SEEDS}
    assert calls["final"] == (4 + len(first.committees) + 2) * 2 * 200  # Pendulum's episodes last 200 steps
    played = {r["algorithm"] for r in read_csv(run / "results.csv") if r["true_return"]}
    assert played == {"ilbrl", "bc"}

    assert playing.run(run, quiet=True).final == first  # shown, not played
    assert done == [("final", None)]
    with pytest.raises(IlbrlError, match="no longer blind"):
        replace(playing, seed=1).run(run, change=True, quiet=True)

    assert playing.run(run, again=True, quiet=True).final == first  # the same seeds, so the same scores
    assert done == [("final", None)] * 2
    assert any("overwritten by name" in event["what"] for event in read_json(run / "audit.json")["events"])

    assert main(["tune", "--reveal", str(run), "--task", "hopper"]) == 2
    assert main(["tune", "--reveal", str(run), "--task", "strangers:Env-v0"]) == 2  # not imported
    others = reveal(run, episodes=1, quiet=True)
    assert [score.episodes for score in others.scores] == [1] * 4
    assert all(row["true_return"] for row in read_csv(run / "results.csv"))
    assert read_json(run / "audit.json")["environment_calls"]["reveal"] == 4 * 200
    assert read_json(run / "audit.json")["events"][-1]["what"].startswith("revealed: 4")


def test_dashboards_are_told_of_all_groups_of_a_population(run, tiny, monkeypatch):
    """Its members train two by two, one pair after the other; Weights & Biases takes no update after a later one."""
    told = []
    board = SimpleNamespace(log=lambda record, step: told.append((step, sorted(record))))
    module = SimpleNamespace(init=lambda **options: nullcontext(board), __spec__=ModuleSpec("wandb", None))
    monkeypatch.setitem(sys.modules, "wandb", module)
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setattr(memory, "available", lambda: 45_000_000)
    monkeypatch.setattr(population, "default_chunk", lambda: 20)
    (job,) = {path.parent for path in run.glob("jobs/train-*/result.json") if read_json(path)["algorithm"] == "bc"}
    shutil.rmtree(job)
    tiny.run(run, dashboards=["wandb"], quiet=True)
    assert [step for step, _ in told] == [20, 20, 40, 40]
    names = [{name.partition("/")[0] for name in record} for _, record in told]
    pairs = [{f"configuration{c}-seed{seed}" for seed in (0, 1)} for c in (0, 1)]
    assert names == pairs * 2


def test_the_second_of_two_runs_at_once_stops(run, tiny):
    with locked(run / ".lock"), pytest.raises(IlbrlError, match="another run is at work here \\(process"):
        tiny.run(run, quiet=True)


def test_a_candidate_cannot_touch_an_environment(tiny, tmp_path, monkeypatch):
    def cheat(*args, **options):
        envs.rollout(lambda observations: observations[:, :1], "Pendulum-v1", 1, quiet=True)

    monkeypatch.setattr(training, "fit", cheat)
    with pytest.raises(IlbrlError, match="environments are closed during a train job"):
        replace(tiny, search=replace(tiny.search, algorithms=("bc",))).run(tmp_path / "run", quiet=True)


def test_all_diverged_is_bad_news(run, tiny, capsys):
    hopeless = {**tiny.search.ranges, "bc.lr": "1e30"}
    diverging = replace(tiny, search=replace(tiny.search, algorithms=("bc",), ranges=hopeless))
    diverging.save(run / "diverging.toml")
    assert main(["tune", f"{run}/diverging.toml", "--out", str(run), "--change", "--quiet"]) == 1
    assert "Nothing was selected" in capsys.readouterr().out
    assert {row["diverged"] for row in read_csv(run / "results.csv")} == {"1"}
    assert read_json(run / "selection.json")["overall"] is None
    assert not (run / "policies").exists()


def test_ctrl_c_says_how_to_continue(run, tiny, capsys, monkeypatch):
    shutil.rmtree(next((run / "jobs").glob("evaluate-*")))
    tiny.save(run / "mine.toml")
    words = ["tune", f"{run}/mine.toml", "--out", str(run)]

    def interrupt(*args):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(executors, "work", interrupt)
        assert main(words) == 130
    assert f"the same command continues from here: ilbrl tune {run}/mine.toml" in capsys.readouterr().err
    assert main([*words, "--json"]) == 1  # from three held-out episodes nobody can say that it is better than the logs
    assert json.loads(capsys.readouterr().out)["selection"] == read_json(run / "selection.json")


def test_options_change_the_study(run, tiny, capsys):
    tiny.save(run / "mine.toml")
    words = ["tune", f"{run}/mine.toml", "--out", str(run), "--seeds", "3", "--ranges", "bc.lr", "uniform(1, 2)"]
    assert main(words) == 2
    said = capsys.readouterr().err
    assert "training.seeds: 2 → 3" in said
    assert "search.ranges.bc.lr: not set → uniform(1, 2)" in said
    assert "all.hidden" not in said  # pairs are added to the file's


def test_lines_per_phase_without_a_terminal(run, tiny, capsys):
    tiny.save(run / "mine.toml")
    assert main(["tune", f"{run}/mine.toml", "--out", str(run)]) == 1
    said, told = capsys.readouterr().err.splitlines(), (run / "log.txt").read_text()
    phases = [line[:3] for line in said if not line.startswith(" ")]
    assert phases[:7] == [f"{n}/7" for n in (1, 2, 3, 4, 5, 5, 6)]  # every policy, then the seeds of choices together
    assert {line.split(":")[0].strip() for line in said if ": deploys " in line} == {"ilbrl", "bc"}
    assert all(line in told for line in said)


def test_an_entry_of_a_known_policy_that_does_not_exist(tiny, tmp_path):
    with pytest.raises(IlbrlError, match=r"known\.expert\.polici: write known\.NAME\.policy"):
        replace(tiny, known={"expert.polici": "x"}).run(tmp_path / "c", quiet=True)
    assert not list(tmp_path.iterdir())


def test_what_cannot_work_is_refused_before_the_logs_are_read(tiny, tmp_path):
    elsewhere = replace(tiny, data=replace(tiny.data, logs="nowhere.npz"))
    with pytest.raises(IlbrlError, match="no dashboard 'board'"):
        elsewhere.run(tmp_path / "a", dashboards=["board"], quiet=True)
    with pytest.raises(IlbrlError, match="would run the module 'strangers'"):
        replace(elsewhere, task="strangers:Env-v0").run(tmp_path / "b", quiet=True)
    assert not list(tmp_path.iterdir())
