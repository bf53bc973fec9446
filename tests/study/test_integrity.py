"""What a run folder says stays true: changed logs, damaged files, wrong tasks and slips of the pen are one sentence."""

import json
import shutil
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest

from ilbrl import envs
from ilbrl.base.errors import IlbrlError
from ilbrl.base.records import read_json, write_json
from ilbrl.cli import main
from ilbrl.policy import Policy
from ilbrl.report import write_page
from ilbrl.results import read_run
from ilbrl.results.schema import Scores
from ilbrl.study import audit, final, logs, session
from ilbrl.study import run as phases
from ilbrl.study.estimator import estimator_of
from ilbrl.study.jobs import digest
from ilbrl.study.logs import load_logs, split
from ilbrl.study.run import reveal
from ilbrl.study.study import Data, Final, Study


@pytest.fixture
def copy(played, tmp_path):
    """The study after its environment was played, to work in."""
    return shutil.copytree(played, tmp_path / "played")


@pytest.fixture
def playing(played) -> Study:
    """The study of that folder."""
    return Study.load(played / "study.toml")


def change_audit(folder, **changes):
    """Changes: field of audit.json → what becomes of it."""
    record = json.loads((folder / "audit.json").read_text())
    record |= {name: change(record[name]) for name, change in changes.items()}
    (folder / "audit.json").write_text(json.dumps(record))


def events(run):
    return [event["what"] for event in json.loads((run / "audit.json").read_text())["events"]]


@pytest.fixture
def other_logs(monkeypatch):
    """The expert's file has lost an episode, under the same name."""

    def changed(study, quiet=False):
        found = load_logs(study, quiet)
        expert = found["expert"]
        return {**found, "expert": replace(expert.episodes(range(expert.num_episodes - 1)), source=expert.source)}

    monkeypatch.setattr(phases, "load_logs", changed)


# --- changes ----------------------------------------------------------------------------------------------------------


def test_other_logs_after_the_final_evaluation_are_refused(copy, playing, other_logs):
    with pytest.raises(IlbrlError, match=r"expert\.npz \(expert\) has changed since .* played; use another folder"):
        playing.run(copy, quiet=True)
    with pytest.raises(IlbrlError, match="has changed since"):
        reveal(copy, quiet=True)


def test_other_logs_before_it_are_recorded(run, tiny, other_logs, monkeypatch):
    def stop(*rest):
        raise KeyboardInterrupt

    monkeypatch.setattr(phases, "split_logs", stop)
    with pytest.raises(KeyboardInterrupt):
        tiny.run(run, quiet=True)
    assert any(what.startswith("data changed: the content of") for what in events(run))


def test_scores_belong_to_the_job_that_trained_the_policy(copy, playing, done):
    scores = read_json(copy / "final.json", Scores)
    others = replace(scores, scores=tuple(replace(each, job="train-of-other-logs") for each in scores.scores))
    write_json(copy / "final.json", others)
    for job in copy.glob("jobs/final-*"):
        shutil.rmtree(job)
    change_audit(copy, files=lambda known: known | {"final.json": digest(copy / "final.json")})
    with pytest.raises(IlbrlError, match="holds the scores of another selection"):
        playing.run(copy, quiet=True)
    assert done == []


@pytest.mark.parametrize("job", ["unite-of-other-seeds", None])
def test_scores_of_what_is_deployed_belong_to_the_job_that_made_it(copy, playing, done, job):
    scores = read_json(copy / "final.json", Scores)
    assert scores.committees
    others = tuple(replace(each, job=job) for each in scores.committees) if job else ()
    write_json(copy / "final.json", replace(scores, committees=others))
    for folder in copy.glob("jobs/final-*"):
        shutil.rmtree(folder)
    change_audit(copy, files=lambda known: known | {"final.json": digest(copy / "final.json")})
    with pytest.raises(IlbrlError, match="holds the scores of another selection"):
        playing.run(copy, quiet=True)
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
    first, second = (final.final_job(tiny, p, [], "final") for p in parts)
    assert first.id != second.id
    assert first.members == 2
    assert final.final_job(tiny, parts[0], [], "reveal").id == final.final_job(tiny, parts[1], [], "reveal").id


# --- damaged files ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "content", "remedy"),
    [
        ("audit.json", '{"events": [', "restore it from a copy"),
        ("audit.json", '{"events": []}', "not there; restore it"),
        ("selection.json", '{"algorithms"', "remove it"),
        ("final.json", '{"scores": [', "restore it from a copy"),
        (
            "jobs/train-*/result.json",
            '{"algorithm": "bc"',
            "is not what its job left; remove the folder .* same ",
        ),
        ("jobs/evaluate-*/values.csv", None, "is missing; remove the folder .*jobs/evaluate-"),
        ("jobs/calibrate-*/job.json", "", "is damaged .*remove the folder .*jobs/calibrate-"),
        ("jobs/train-*/job.json", '{"files": {"result.json": 7}}', "remove the folder"),
    ],
)
def test_damaged_files_are_named_with_the_way_out(copy, playing, name, content, remedy):
    path = next(copy.glob(name))
    path.unlink() if content is None else path.write_text(content)
    with pytest.raises(IlbrlError, match=rf"{path}: .*{remedy}"):
        playing.run(copy, quiet=True)


HOSTILE = (
    "", "null", "[]", "7", '"text"', "{}", '{"scores": ', "[" * 200_000, '{"a":' * 500 + "1" + "}" * 500, "\x00", "NaN",
)  # fmt: skip
VALUES = (
    '"\\ud800"', "9" * 5000, "1" + "0" * 400, "1e999", "-Infinity", "NaN", "null", "true", '"three"', "[]", "{}", "-1",
    "[[[[[]]]]]", '{"x": [1, {"y": null}]}',
)  # fmt: skip


def mutants(text: str, rng: np.random.Generator, number: int):
    """Texts like `text`: cut off, hostile as a whole, or with one value replaced by a hostile one."""
    yield from HOSTILE
    at = [i for i, letter in enumerate(text) if letter in ":,[" and i + 2 < len(text)]
    for _ in range(number):
        start = at[rng.integers(len(at))] + 1
        end = min((text.find(mark, start) for mark in ",]}\n" if text.find(mark, start) > 0), default=len(text))
        yield text[:start] + " " + VALUES[rng.integers(len(VALUES))] + text[end:]
        yield text[: rng.integers(len(text))]


FILES = ("audit.json", "data.json", "tuning.json", "selection.json", "final.json", "reveal.json", "results.csv")


def test_no_damage_ends_in_a_traceback(played, playing, tmp_path):
    """The report reads on and says what is missing; whatever the study must refuse, it refuses in a sentence."""
    rng = np.random.default_rng(0)
    bulky = shutil.ignore_patterns("jobs", "policies", "curves.csv", "values.csv")
    folder = shutil.copytree(played, tmp_path / "run", ignore=bulky)
    whole = json.loads((folder / "audit.json").read_text())
    for name in FILES:
        original = (folder / name).read_text()
        for vouching in (True, False):  # with hashes an edited file is left out whole; without, it is read with care
            (folder / "audit.json").write_text(json.dumps(whole if vouching else whole | {"files": {}, "jobs": {}}))
            for text in mutants(original, rng, 1 if vouching else 20):
                (folder / name).write_text(text, errors="surrogatepass")
                run = read_run(folder)
                assert all(isinstance(sentence, str) for sentence in run.missing)
        write_page([folder], tmp_path / "page.html")
        (folder / name).write_text(original)
        (folder / "audit.json").write_text(json.dumps(whole))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["audit.json", "selection.json", "final.json", "jobs/calibrate-*/job.json"])
def test_no_damage_ends_a_study_in_a_traceback(copy, playing, name, monkeypatch):
    """The files that a continued study reads: it goes on, or it refuses in a sentence."""
    rng, path = np.random.default_rng(1), next(copy.glob(name))
    original = path.read_text()
    monkeypatch.setattr(phases, "train", lambda s, parts: [])  # far enough to have read them all
    monkeypatch.setattr(phases, "evaluate", lambda s, parts, trained, tuning: [])
    for text in mutants(original, rng, 2):
        path.write_text(text, errors="surrogatepass")
        with suppress(IlbrlError):
            playing.run(copy, quiet=True)
    path.write_text(original)


def test_what_stands_in_the_place_of_folders(run, tiny, tmp_path):
    """A link's target is somebody else's: the link goes, and nothing behind it."""
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "best.safetensors").write_text("somebody's")
    shutil.rmtree(run / "policies")
    (run / "policies").symlink_to(tmp_path / "elsewhere")
    tiny.run(run, quiet=True)
    assert (tmp_path / "elsewhere" / "best.safetensors").read_text() == "somebody's"
    assert Policy.load(run / "policies" / "best.safetensors").obs_dim == 3
    shutil.rmtree(run / "jobs")
    (run / "jobs").write_text("a file")
    with pytest.raises(IlbrlError, match=r"jobs: cannot be used as a folder \(there is a file of this name\)"):
        tiny.run(run, quiet=True)


# --- what vouches for a folder ----------------------------------------------------------------------------------------


def test_a_whole_folder_agrees_with_its_audit(played, copy):
    found = read_run(played).vouched
    assert {each.state for each in found.values()} == {"agrees"}
    assert {"final.json", "tuning.json", "results.csv", "selection.json"} <= set(found)
    shutil.rmtree(copy / "jobs")
    assert {each.state for each in read_run(copy).vouched.values()} == {"agrees"}  # by the hashes of the audit


@pytest.mark.parametrize("hide", [False, True])
def test_an_edited_score_is_not_shown(copy, hide):
    """Not even where the hash in the audit was removed, as long as the job that played is there."""
    text = (copy / "final.json").read_text()
    score = json.loads(text)["scores"][0]["return_mean"]
    (copy / "final.json").write_text(text.replace(f'"return_mean": {score}', '"return_mean": 104.2', 1))
    if hide:
        change_audit(copy, files=lambda known: {file: known[file] for file in known.keys() - {"final.json"}})
    run = read_run(copy)
    assert run.vouched["final.json"].state == "disagrees"
    assert run.final is None
    assert 104.2 not in [c.true_return for c in run.candidates]
    assert any(what.startswith("final.json is not ") for what in run.missing)


def test_what_nothing_vouches_for_is_marked(copy):
    shutil.rmtree(copy / "jobs")
    change_audit(copy, files=lambda known: {}, study_hash=lambda known: None)
    run = read_run(copy)
    assert set(run.unchecked) == set(run.vouched)
    assert run.final is not None


@pytest.mark.parametrize("hidden", [False, True])
@pytest.mark.parametrize("name", ["selection.json", "tuning.json"])
def test_candidates_are_revealed_only_from_what_the_audit_vouches_for(copy, done, name, hidden):
    """An edited choice would be played as if the study had made it; without a hash nobody can tell."""
    record = json.loads((copy / name).read_text())
    (copy / name).write_text(json.dumps(record | {"rule": "all", "notes": ["edited"]}))
    if hidden:
        shutil.rmtree(next(copy.glob("jobs/calibrate-*")))
        change_audit(copy, files=lambda known: {file: known[file] for file in known.keys() - {name}})
    said = "cannot be checked: audit" if hidden else "is not what the study wrote: its hash differs"
    with pytest.raises(
        IlbrlError, match=rf"{copy}/{name}: {said}.*; `ilbrl tune {copy}/study\.toml --out {copy}` writes"
    ):
        reveal(copy, quiet=True)
    assert done == []


def test_a_job_whose_own_record_was_edited_is_refused(copy, playing, done):
    """Its values and their hash in job.json fit together; the audit knows better."""
    folder = next(copy.glob("jobs/evaluate-*"))
    result, record = json.loads((folder / "result.json").read_text()), json.loads((folder / "job.json").read_text())
    result["policies"][0]["valuation"]["estimates"][0]["value"] = 1e6
    (folder / "result.json").write_text(json.dumps(result))
    record["files"]["result.json"] = digest(folder / "result.json")
    (folder / "job.json").write_text(json.dumps(record))
    for go_on in (lambda: playing.run(copy, quiet=True), lambda: reveal(copy, quiet=True)):
        with pytest.raises(IlbrlError, match=rf"{folder}/job\.json: is not what the study wrote.*; remove the folder"):
            go_on()
    assert done == []


def test_a_study_does_not_go_on_with_edited_scores(copy, playing):
    """They would be printed, and written into a results.csv that the audit vouches for."""
    before = (copy / "results.csv").read_text()
    for name, way_out in (("reveal.json", "remove it"), ("final.json", "restore it from a copy")):
        text = (copy / name).read_text()
        (copy / name).write_text(text.replace('"return_mean": -', '"return_mean": ', 1))
        with pytest.raises(IlbrlError, match=rf"{name}: is not what the study wrote: .*; {way_out}"):
            playing.run(copy, quiet=True)
        (copy / name).write_text(text)
    assert (copy / "results.csv").read_text() == before


def test_a_repeated_final_evaluation_that_was_killed_can_be_continued(copy, playing, monkeypatch):
    """Its job is gone then, and final.json is not compared with the job of the others, which were revealed."""
    before = read_json(copy / "final.json", Scores)

    def kill(task):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(final, "play", kill)
        with pytest.raises(KeyboardInterrupt):
            playing.run(copy, again=True, quiet=True)
    (left,) = copy.glob("jobs/final-*/job.json")
    assert json.loads(left.read_text())["inputs"]["purpose"] == "reveal"
    assert read_run(copy).vouched["final.json"].state == "agrees"
    assert playing.run(copy, quiet=True).final == before
    assert playing.run(copy, again=True, quiet=True).final == before


def test_a_result_of_an_earlier_version_may_lack_a_field(copy):
    """Its copy, which today's version wrote, has null there."""
    (folder,) = copy.glob("jobs/calibrate-*")
    result, record = json.loads((folder / "result.json").read_text()), json.loads((folder / "job.json").read_text())
    assert result.pop("horizon", "none") is None
    (folder / "result.json").write_text(json.dumps(result))
    record["files"]["result.json"] = digest(folder / "result.json")
    (folder / "job.json").write_text(json.dumps(record))
    change_audit(copy, jobs=lambda known: known | {folder.name: digest(folder / "job.json")})
    assert read_run(copy).vouched["tuning.json"].because == "is the result of a job in this folder"


def test_an_edited_study_is_noticed(copy, run, tiny):
    """Where nothing was played yet, it is one more change that has to be said; its layout may differ."""
    for folder in (copy, run):
        path = folder / "study.toml"
        path.write_text(path.read_text().replace("updates = 40", "updates = 41"))
        assert read_run(folder).vouched["study.toml"].state == "disagrees"
        assert read_run(folder).study is None
    with pytest.raises(IlbrlError, match=r"no longer blind \(study\.toml is not the one that ran here"):
        reveal(copy, quiet=True)
    with pytest.raises(IlbrlError, match=r"study\.toml is not the one .* or say --change"):
        Study.load(run / "study.toml").run(run, quiet=True)
    tiny.save(run / "study.toml")
    (run / "study.toml").write_text("# a remark\n" + (run / "study.toml").read_text())
    _, changed = session.claim(run, tiny, change=False, audit=audit.Auditor(run).record)
    assert changed == []


# --- whose folder it is -----------------------------------------------------------------------------------------------


def test_a_run_without_a_finished_job_claims_nothing(tiny, tmp_path):
    missing = replace(tiny, data=replace(tiny.data, expert="nowhere.npz"))
    with pytest.raises(IlbrlError, match="nowhere"):
        missing.run(tmp_path / "run", quiet=True)
    _, changed = session.claim(tmp_path / "run", tiny, change=False)
    assert changed[0].startswith("data.expert: nowhere.npz")
    (tmp_path / "run" / "jobs" / "train-1").mkdir()
    with pytest.raises(IlbrlError, match="belongs to another study"):
        session.claim(tmp_path / "run", missing, change=False)


def test_what_began_on_a_gpu_goes_on_elsewhere_with_the_same_models(tmp_path, monkeypatch):
    study = Study(data=Data("demos.npz", "logs.npz"))
    monkeypatch.setattr("jax.default_backend", lambda: "gpu")
    begun, _ = session.claim(tmp_path, study, change=False)
    monkeypatch.setattr("jax.default_backend", lambda: "cpu")
    assert estimator_of(study).config.size == "small"  # what it would be in a folder of its own
    continued, changed = session.claim(tmp_path, study, change=False)
    assert continued == begun == Study.load(tmp_path / "study.toml")
    assert changed == []
    assert estimator_of(continued).config.size == "large"


@pytest.mark.parametrize("recipe", [None, 1])
def test_a_folder_that_another_version_has_played_is_refused_at_once(copy, playing, done, recipe):
    """Its jobs would be done anew, for a final evaluation that happens once."""
    change_audit(copy, recipe=lambda own: recipe)
    with pytest.raises(IlbrlError, match=r"of another version of ilbrl \(audit\.json names its commit\)"):
        playing.run(copy, quiet=True)
    assert done == []


def test_a_folder_of_an_earlier_version_gets_a_way_out(tmp_path):
    (tmp_path / "study.toml").write_text('[data]\nexploratory = "logs.npz"\n')
    with pytest.raises(IlbrlError, match=r"write data\.logs instead.*continue it with that one .* another folder"):
        session.claim(tmp_path, Study(), change=False)


def test_somebodys_own_study_file_is_not_replaced(tiny, tmp_path):
    tiny.save(tmp_path / "study.toml")
    with pytest.raises(IlbrlError, match="belongs to another study"):
        session.claim(tmp_path, replace(tiny, seed=1), change=False)


@pytest.mark.parametrize(
    ("task", "said"),
    [
        ("Pendulum-v99", "no environment 'Pendulum-v99'"),
        ("MountainCarContinuous-v0", "task: .* of 2 numbers and actions of 1, .* of 3 numbers and actions of 1"),
    ],
)
def test_a_wrong_task_shows_at_the_start(tiny, tmp_path, task, said):
    before = envs.environment_calls()
    with pytest.raises(IlbrlError, match=said):
        replace(tiny, task=task).run(tmp_path / "run", quiet=True)
    assert not any((tmp_path / "run" / "jobs").iterdir())
    assert envs.environment_calls() == before


def test_what_cannot_be_revealed(run, copy, tiny, tmp_path, monkeypatch):
    for where, said in ((tmp_path / "nowhere", "is no run folder"), (run, "names no task")):
        with pytest.raises(IlbrlError, match=said):
            reveal(where)
    replace(tiny, task="Pendulum-v1", final=Final(2, 2)).save(run / "study.toml")
    with pytest.raises(IlbrlError, match=r"has no final\.json"):
        reveal(run)
    monkeypatch.setattr(final, "chosen_candidates", lambda found, selection: found)
    with pytest.raises(IlbrlError, match="nothing is left to reveal"):
        reveal(copy, quiet=True)


def test_the_audit_keeps_the_first_command_and_names_another_commit(run, tiny, monkeypatch):
    first = json.loads((run / "audit.json").read_text())
    monkeypatch.setattr(audit, "commit", lambda: "abc1234")
    audit.Auditor(run).begin(tiny, "local", "ilbrl tune --reveal")
    after = json.loads((run / "audit.json").read_text())
    assert (after["command"], after["commit"]) == (first["command"], first["commit"])
    assert events(run)[-1] == "continued with commit abc1234"


@pytest.mark.parametrize(
    ("known", "said"),
    [
        ({"other.policy": "x", "other.logs": "expert"}, "several policies are said to have made the expert data"),
        ({"expert.variant": "sampled"}, r"known\.expert\.variant: the policy is deterministic"),
        ({"expert.variant": "median"}, r"known\.expert\.variant: 'median' is neither"),
    ],
)
def test_known_policies_that_make_no_sense(tiny, known, said):
    study = replace(tiny, known={**tiny.known, **known})
    with pytest.raises(IlbrlError, match=said):
        logs.split(study, load_logs(study))


def test_only_a_held_lock_means_another_run(tmp_path, tiny, monkeypatch):
    import fcntl

    def unsupported(*rest):
        raise OSError(37, "No locks available")

    monkeypatch.setattr(fcntl, "flock", unsupported)
    with session.open_session(tiny, tmp_path / "run", quiet=True):
        assert "process" in (tmp_path / "run" / ".lock").read_text()


def test_names_of_studies_and_folders(tmp_path, tiny, capsys):
    assert main(["tune", "smal", "--out", str(tmp_path)]) == 2
    assert "smal: cannot be read (No such file or directory), nor is it a preset" in capsys.readouterr().err
    assert main(["tune", "--out", str(tmp_path)]) == 2
    said = capsys.readouterr().err
    assert "name the study first" in said
    assert "usage: ilbrl tune --expert FILE --logs FILE" in said
    with pytest.raises(IlbrlError, match="cannot be used as a folder"):
        tiny.run(tmp_path / ("x" * 300))


def test_the_system_refuses_in_one_sentence(tiny, tmp_path, capsys, monkeypatch):
    tiny.save(tmp_path / "study.toml")

    def full(*rest, **options):
        raise OSError(28, "No space left on device", "log.txt")

    monkeypatch.setattr(phases, "prepare", full)
    assert main(["tune", str(tmp_path / "study.toml"), "--out", str(tmp_path / "run")]) == 2
    assert "ilbrl tune: log.txt: No space left on device" in capsys.readouterr().err


def test_demos_of_other_tasks_and_seeds_have_other_folders(monkeypatch):
    from ilbrl.cli import demo

    asked = []

    def interrupt(study, *, out, **options):
        asked.append((study.task, study.seed, str(out)))
        raise KeyboardInterrupt

    monkeypatch.setattr(demo, "tune", interrupt)
    for words in ([], ["--seed", "1"], ["--seed", "1", "--out", "x"], ["--task", "hopper"]):
        assert main(["demo", *words]) == 130
    assert asked == [
        ("clinic", 0, "runs/demo-clinic"),
        ("clinic", 1, "runs/demo-clinic-seed1"),
        ("clinic", 1, "x"),
        ("hopper", 0, "runs/demo-hopper"),
    ]
