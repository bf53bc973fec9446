"""What a run folder says stays true: changed logs, damaged files, wrong tasks and slips of the pen are one sentence."""

import shutil
from dataclasses import replace

import pytest

from ilbrl import envs
from ilbrl.base.errors import IlbrlError
from ilbrl.cli import main
from ilbrl.policy import Policy
from ilbrl.study import audit, folder, logs, phases
from ilbrl.study.__main__ import main as protocol_main
from ilbrl.study.folder import read_csv, read_json, write_json
from ilbrl.study.kinds import final
from ilbrl.study.logs import load_logs, split
from ilbrl.study.run import reveal
from ilbrl.study.study import Final


def events(run):
    return [event["what"] for event in read_json(run / "audit.json")["events"]]


@pytest.fixture
def other_logs(monkeypatch):
    """The expert's file has lost an episode, under the same name."""

    def changed(study, quiet=False):
        found = load_logs(study, quiet)
        expert = replace(found.expert.episodes(range(found.expert.num_episodes - 1)), source=found.expert.source)
        return replace(found, expert=expert)

    monkeypatch.setattr(phases, "load_logs", changed)


def recorded(run, tiny, **more):
    """final.json as if the selected policies had been played in Pendulum; the study that did."""
    chosen = read_json(run / "selection.json")["algorithms"]
    scores = [
        {"algorithm": name, "configuration": entry["configuration"], "policy_seed": seed, "return_mean": -1.0,
         "return_std": 0.0, "score": None, "episodes": 2, **more}
        for name, entry in chosen.items() for seed in (0, 1)
    ]  # fmt: skip
    record = {"episodes": 2, "environment_seeds": 2, "environment_calls": {"steps": 1}, "task": "Pendulum-v1"}
    write_json(run / "final.json", {**record, "scores": scores, "references": {}})
    study = replace(tiny, task="Pendulum-v1", final=Final(episodes=2, environment_seeds=2))
    study.save(run / "study.toml")
    return study


def test_other_logs_after_the_final_evaluation_are_refused(run, tiny, other_logs):
    study = recorded(run, tiny)
    with pytest.raises(IlbrlError, match=r"expert\.npz \(expert\) has changed since .* played; use another folder"):
        study.run(run, quiet=True)
    with pytest.raises(IlbrlError, match="has changed since"):
        reveal(run, quiet=True)


def test_other_logs_before_it_are_recorded(run, tiny, other_logs, monkeypatch):
    def stop(*rest):
        raise KeyboardInterrupt

    monkeypatch.setattr(phases, "split_logs", stop)
    with pytest.raises(KeyboardInterrupt):
        tiny.run(run, quiet=True)
    assert any(what.startswith("data changed: the content of") for what in events(run))


def test_scores_belong_to_the_job_that_trained_the_policy(run, tiny, done):
    study = recorded(run, tiny)  # from before scores named their job: taken by number
    assert study.run(run, quiet=True).final["scores"][0]["return_mean"] == -1
    assert {r["true_return"] for r in read_csv(run / "results.csv") if r["selected"] == "1"} == {"-1.0"}
    recorded(run, tiny, job="train-of-other-logs")
    with pytest.raises(IlbrlError, match="holds the scores of another selection"):
        study.run(run, quiet=True)
    assert {r["true_return"] for r in read_csv(run / "results.csv")} == {""}
    assert done == []


def test_scores_without_a_study_are_refused(tiny, tmp_path):
    write_json(tmp_path / "final.json", {"scores": []})
    with pytest.raises(IlbrlError, match=r"no study\.toml"):
        tiny.run(tmp_path, quiet=True)


def test_the_final_job_depends_on_the_policies_behind_the_logs(tiny, files, tmp_path):
    policy = Policy.load(files / "expert.safetensors")
    other = replace(policy, layers=tuple((2 * w, b) for w, b, *_ in policy.layers))
    other.save(tmp_path / "other.safetensors")
    changed = replace(tiny, known={**tiny.known, "expert.policy": str(tmp_path / "other.safetensors")})
    parts = [split(study, load_logs(study)) for study in (tiny, changed)]
    first, second = (final.job(tiny, p, [], "final") for p in parts)
    assert first.id != second.id
    assert first.members == 2
    assert final.job(tiny, parts[0], [], "reveal").id == final.job(tiny, parts[1], [], "reveal").id


@pytest.mark.parametrize(
    ("name", "content", "remedy"),
    [
        ("audit.json", '{"events": [', "restore it from a copy"),
        ("audit.json", '{"events": []}', "it lacks command, started.*restore it"),
        ("audit.json", "[]", "no JSON object.*restore it"),
        ("selection.json", '{"algorithms"', "remove it"),
        (
            "jobs/train-*/result.json",
            '{"algorithm": "bc"',
            "is not what its job left; remove the folder .* same command",
        ),
        ("jobs/evaluate-*/values.csv", None, "is missing; remove the folder .*jobs/evaluate-"),
        ("jobs/tune-ope-*/job.json", "", "is damaged .*remove the folder .*jobs/tune-ope-"),
    ],
)
def test_damaged_files_are_named_with_the_way_out(run, tiny, name, content, remedy):
    path = next(run.glob(name))
    path.unlink() if content is None else path.write_text(content)
    with pytest.raises(IlbrlError, match=rf"{path}: .*{remedy}"):
        tiny.run(run, quiet=True)


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("jobs/train-*/result.json", "{}", "it lacks device.*remove the folder"),
        ("jobs/evaluate-*/result.json", "", "is damaged .*remove the folder .*jobs/evaluate-"),
        ("jobs/train-*/curves.csv", None, "cannot be read .*remove the folder .*jobs/train-"),
        ("jobs/train-*/curves.csv", "algorithm\nbc\n", "lacks the column configuration.*remove the folder"),
    ],
)
def test_damaged_jobs_from_before_their_files_were_recorded(run, tiny, name, content, said):
    for record in run.glob("jobs/*/job.json"):
        write_json(record, {k: v for k, v in read_json(record).items() if k != "files"})
    path = next(run.glob(name))
    path.unlink() if content is None else path.write_text(content)
    with pytest.raises(IlbrlError, match=rf"{path}: .*{said}"):
        tiny.run(run, quiet=True)


def test_a_damaged_record_of_scores(run, tiny):
    study = recorded(run, tiny)
    (run / "final.json").write_text('{"scores": [')
    with pytest.raises(IlbrlError, match=r"final\.json: is damaged .*restore it from a copy"):
        study.run(run, quiet=True)


def test_a_run_without_a_finished_job_claims_nothing(tiny, tmp_path):
    missing = replace(tiny, data=replace(tiny.data, expert="nowhere.npz"))
    with pytest.raises(IlbrlError, match="nowhere"):
        missing.run(tmp_path / "run", quiet=True)
    assert folder.claim(tmp_path / "run", tiny, change=False)[0].startswith("data.expert: nowhere.npz")
    (tmp_path / "run" / "jobs" / "train-1").mkdir()
    with pytest.raises(IlbrlError, match="belongs to another study"):
        folder.claim(tmp_path / "run", missing, change=False)


def test_somebodys_own_study_file_is_not_replaced(tiny, tmp_path):
    tiny.save(tmp_path / "study.toml")
    with pytest.raises(IlbrlError, match="belongs to another study"):
        folder.claim(tmp_path, replace(tiny, seed=1), change=False)


@pytest.mark.parametrize(
    ("task", "said"),
    [
        ("Pendulum-v99", "no environment 'Pendulum-v99'"),
        ("MountainCarContinuous-v0", "task: .* of 2 numbers and actions of 1, .* 3 and 1"),
    ],
)
def test_a_wrong_task_shows_at_the_start(tiny, tmp_path, task, said):
    before = envs.environment_calls()
    with pytest.raises(IlbrlError, match=said):
        replace(tiny, task=task).run(tmp_path / "run", quiet=True)
    assert not any((tmp_path / "run" / "jobs").iterdir())
    assert envs.environment_calls() == before


def test_what_cannot_be_revealed(run, tiny, tmp_path, capsys):
    for where, said in ((tmp_path / "nowhere", "is no run folder"), (run, "names no task")):
        with pytest.raises(IlbrlError, match=said):
            reveal(where)
    study = replace(tiny, task="Pendulum-v1")
    study.save(run / "study.toml")
    with pytest.raises(IlbrlError, match=r"has no final\.json"):
        reveal(run)


def test_nothing_left_to_reveal(run, tiny, monkeypatch):
    recorded(run, tiny)
    monkeypatch.setattr(phases, "chosen_candidates", lambda found, selection: found)
    with pytest.raises(IlbrlError, match="nothing is left to reveal"):
        reveal(run, quiet=True)


def test_the_audit_keeps_the_first_command_and_names_another_commit(run, tiny, monkeypatch):
    first = read_json(run / "audit.json")
    monkeypatch.setattr(audit, "commit", lambda: "abc1234")
    record = audit.Audit(run)
    record.begin(tiny, "local", "ilbrl tune --reveal")
    after = read_json(run / "audit.json")
    assert (after["command"], after["commit"]) == (first["command"], first["commit"])
    assert events(run)[-1] == "continued with commit abc1234"


@pytest.mark.parametrize(
    ("known", "said"),
    [
        ({"other.policy": "x", "other.logs": "expert"}, "several policies are said to have made the expert logs"),
        ({"expert.variant": "sampled"}, r"known\.expert\.variant: the policy is deterministic"),
        ({"expert.variant": "median"}, r"known\.expert\.variant: 'median' is neither"),
    ],
)
def test_known_policies_that_make_no_sense(tiny, known, said):
    study = replace(tiny, known={**tiny.known, **known})
    with pytest.raises(IlbrlError, match=said):
        logs.split(study, load_logs(study))


def test_only_a_held_lock_means_another_run(tmp_path, monkeypatch):
    import fcntl

    def unsupported(*rest):
        raise OSError(37, "No locks available")

    monkeypatch.setattr(fcntl, "flock", unsupported)
    with folder.alone(tmp_path):
        assert "process" in (tmp_path / ".lock").read_text()


def test_names_of_studies(tmp_path, capsys):
    assert main(["tune", "smal", "--out", str(tmp_path)]) == 2
    assert "smal: cannot be read (no such file), nor is it a preset: demo, paper, small" in capsys.readouterr().err
    assert main(["tune", "--out", str(tmp_path)]) == 2
    said = capsys.readouterr().err
    assert "name the study first" in said
    assert "usage: ilbrl tune STUDY" in said


def test_the_system_refuses_in_one_sentence(tiny, tmp_path, capsys, monkeypatch):
    tiny.save(tmp_path / "study.toml")

    def full(*rest, **options):
        raise OSError(28, "No space left on device", "log.txt")

    monkeypatch.setattr(phases, "prepare", full)
    assert protocol_main([str(tmp_path / "study.toml"), str(tmp_path / "run")]) == 2
    assert "ilbrl.study: log.txt: No space left on device" in capsys.readouterr().err
    shutil.rmtree(tmp_path / "run")


def test_demos_of_other_seeds_have_other_folders(monkeypatch):
    from ilbrl.cli import demo

    asked = []

    def interrupt(study, out, **options):
        asked.append((study.seed, str(out)))
        raise KeyboardInterrupt

    monkeypatch.setattr(demo.Study, "run", interrupt)
    for words in ([], ["--seed", "1"], ["--seed", "1", "--out", "x"]):
        assert demo.main(words) == 130
    assert asked == [(0, "runs/demo"), (1, "runs/demo-seed1"), (1, "x")]
