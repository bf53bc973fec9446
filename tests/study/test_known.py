"""Known policies with episodes of their own: any number of them, several per log; what they are worth is computed."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
from benchmarks.kills import LENGTH, pushed_by

from ilbrl.base.errors import IlbrlError
from ilbrl.cli.tune import parse
from ilbrl.data import Dataset, load, save
from ilbrl.data.joining import with_action_names
from ilbrl.report.pictures.runs import returns_histogram
from ilbrl.results.folder import read_run
from ilbrl.study import final
from ilbrl.study.evaluation import calibration_job
from ilbrl.study.known import load_episodes, named_by
from ilbrl.study.logs import examine, load_logs, split
from ilbrl.study.study import Data, Study
from ilbrl.study.training import training_jobs
from ilbrl.study.tune import changed

GAINS = {"rung1": 0.5, "rung2": 1.2, "rung3": 2.0}  # between the two that made the logs, −0.2 and 3


@pytest.fixture(scope="module")
def rungs(tmp_path_factory):
    """RUNG.safetensors and RUNG.npz, without noise, for each of `GAINS`."""
    folder = tmp_path_factory.mktemp("rungs")
    for seed, (name, gain) in enumerate(GAINS.items(), 2):
        policy, episodes = pushed_by(gain, 0.0, seed)
        policy.save(folder / f"{name}.safetensors")
        save(episodes, folder / f"{name}.npz")
    return folder


@pytest.fixture(scope="module")
def ladder(tiny, rungs):
    """Five known policies: two made the logs, three bring their own episodes."""
    own = {f"{name}.{entry}": f"{rungs}/{name}{end}"
           for name in GAINS for entry, end in (("policy", ".safetensors"), ("episodes", ".npz"))}  # fmt: skip
    return replace(tiny, known=tiny.known | own, evaluation=replace(tiny.evaluation, blind=True))


@pytest.fixture(scope="module")
def climbed(ladder, tmp_path_factory):
    out = tmp_path_factory.mktemp("ladder") / "run"
    assert ladder.run(out, quiet=True).nothing is None
    return out


def read_json(path):
    return json.loads(path.read_text())


def discounted(gain, episodes, gamma):
    """Mean of Σ γ^t (1 − s₀²) over the episodes, where s₀ ← 0.9 s₀ + 0.1 · 2 tanh(−gain · s₀), in float64."""
    s, total = episodes.initial_observations[:, 0].astype(np.float64), 0.0
    for t in range(LENGTH):
        total, s = total + gamma**t * (1 - s**2), 0.9 * s + 0.2 * np.tanh(-gain * s)
    return float(np.mean(total))


# --- a whole study ----------------------------------------------------------------------------------------------------


def test_the_truth_of_each_is_what_its_own_episodes_earned(climbed, rungs):
    tuning = read_json(climbed / "tuning.json")
    assert list(tuning["known"]) == ["expert", "logs", *GAINS]
    for name, gain in GAINS.items():
        known = tuning["known"][name]
        assert known["truth"] == pytest.approx(discounted(gain, load(rungs / f"{name}.npz"), 0.5), rel=1e-5)
        assert known["source"] == f"{rungs}/{name}.npz"
        assert (known["episodes"], known["log"], known["variant"]) == (40, None, "mean")


def test_each_is_valued_like_the_others_and_again_without_the_logs_it_made(climbed):
    for tried in read_json(climbed / "tuning.json")["configurations"]:
        assert set(tried["policies"]) == set(tried["unseen"]) == {"expert", "logs", *GAINS}
        for name in ("expert", "logs"):
            assert tried["unseen"][name]["estimate"] != tried["policies"][name]["estimate"]
        for name in GAINS:  # they made none of the logs: all that models learn from is unseen evidence for them
            assert tried["unseen"][name]["estimate"] == tried["policies"][name]["estimate"]


def test_nobody_learns_from_their_episodes(climbed, finished):
    jobs = [{path.name for path in (run / "jobs").glob("train-*")} for run in (climbed, finished)]
    assert jobs[0] == jobs[1]
    assert read_json(climbed / "audit.json")["splits"] == read_json(finished / "audit.json")["splits"]


def test_audit_and_description_have_them(climbed, rungs):
    read = load(rungs / "rung2.npz")
    kept = read_json(climbed / "audit.json")["data"]
    assert set(kept) == {"expert", "logs", "known.rung1", "known.rung2", "known.rung3"}
    assert kept["known.rung2"]["content_hash"] == read.content_hash
    described = read_json(climbed / "data.json")["datasets"]["known.rung2"]
    assert described["return_mean"] == pytest.approx(read.returns().mean())
    assert "findings" in described
    assert "3 files of known policies' episodes" in (climbed / "log.txt").read_text()
    picture = returns_histogram(read_run(climbed))
    assert picture is not None
    assert len(picture.series) == 1  # the other logs
    assert {line.label for line in picture.lines} == {f"{name}, mean" for name in kept if name != "logs"}


def test_the_same_study_goes_on_and_does_nothing_again(climbed, ladder, tmp_path, done):
    ladder.run(shutil.copytree(climbed, tmp_path / "run"), quiet=True)
    assert done == []


# --- files that change ------------------------------------------------------------------------------------------------


@pytest.fixture
def moved(climbed, ladder, rungs, tmp_path):
    """The run and its study, with files that may be changed."""
    run, own = shutil.copytree(climbed, tmp_path / "run"), shutil.copytree(rungs, tmp_path / "own")
    known = {key: text.replace(str(rungs), str(own)) for key, text in ladder.known.items()}
    return run, replace(ladder, known=known), own


def lose_an_episode(file):
    episodes = load(file)
    save(episodes.episodes(range(episodes.num_episodes - 1)), file)


def test_other_episodes_are_another_calibration_and_no_other_training(moved):
    _, study, own = moved
    before = split(study, load_logs(study))
    lose_an_episode(own / "rung2.npz")
    after = split(study, load_logs(study))
    assert calibration_job(study, before).id != calibration_job(study, after).id
    assert [job.id for job in training_jobs(study, before)] == [job.id for job in training_jobs(study, after)]


def test_a_study_goes_on_with_other_episodes_only_before_it_was_played(moved, done):
    run, study, own = moved
    study.run(run, change=True, quiet=True)
    assert done == []  # the same content under another name
    lose_an_episode(own / "rung2.npz")
    study.run(run, quiet=True)
    assert [kind for kind, _ in done] == ["calibrate"]
    events = [event["what"] for event in read_json(run / "audit.json")["events"]]
    assert f"data changed: the content of {own}/rung2.npz (known.rung2)" in events
    (run / "final.json").write_text("{}")
    lose_an_episode(own / "rung2.npz")
    with pytest.raises(IlbrlError, match=r"rung2\.npz \(known\.rung2\) has changed since .* played; use another"):
        study.run(run, quiet=True)


# --- several per log --------------------------------------------------------------------------------------------------


def test_several_may_have_made_one_log_if_each_brings_its_episodes(tiny, files, tmp_path):
    """The first half of the logs is one policy's, the second another's."""
    logs, known = load(files / "medium.npz"), {}
    for name, part in {"early": range(20), "late": range(20, 40)}.items():
        save(logs.episodes(part), tmp_path / f"{name}.npz")
        entries = {"policy": f"{files}/medium.safetensors", "episodes": f"{tmp_path}/{name}.npz", "logs": "logs"}
        known |= {f"{name}.{entry}": text for entry, text in entries.items()}
    known["expert.policy"] = f"{files}/expert.safetensors"
    study = replace(tiny, known=known)
    parts = split(study, load_logs(study))
    assert [(each.name, each.log) for each in parts.known] == [
        ("early", "logs"),
        ("late", "logs"),
        ("expert", "expert"),
    ]
    early, late, _ = parts.known
    assert (early.episodes.num_episodes, late.episodes.num_episodes) == (20, 20)
    assert list(parts.behind) == ["expert"]  # played for comparison; the logs have no one policy behind them
    job = final.final_job(study, parts, [], "final")
    assert (list(job.inputs["references"]), job.members) == (["expert"], 1)


def test_a_policy_called_as_a_role_has_made_that_log_unless_it_says_otherwise(ladder, rungs):
    named = named_by(
        replace(ladder, known={"expert.episodes": "e.npz", "logs.logs": "expert", "logs.episodes": "l.npz"})
    )
    assert [(each.name, each.log) for each in named] == [("expert", "expert"), ("logs", "expert")]


# --- what is refused --------------------------------------------------------------------------------------------------


def test_entries_that_make_no_sense(tiny):
    def said(known):
        with pytest.raises(IlbrlError) as caught:
            load_logs(replace(tiny, known=known))
        return str(caught.value)

    assert said({"rung.policy": "x"}).startswith("known.rung: whose episodes are its own? Say known.rung.logs (expert")
    assert said({"rung.logs": "nobody"}).startswith("known.rung.logs: 'nobody' is neither expert nor logs")
    assert said({"rung.episodes": "x", "rung.variant": "median"}).startswith("known.rung.variant: 'median' is neither")
    assert said({"rung.file": "x"}).startswith("known.rung.file: write known.NAME.policy, known.NAME.logs, known.NAME.")
    both = said({"a.logs": "logs", "a.episodes": "x", "b.logs": "logs"})
    assert both.startswith("known: several policies are said to have made the logs data (a, b)")
    assert both.endswith("bring a file of its own episodes for each (known.b.episodes)")


def test_names_that_lead_nowhere(tiny, files, tmp_path):
    policy = {"rung.policy": f"{files}/expert.safetensors"}
    for known, said in (
        ({**policy, "rung.episodes": f"{tmp_path}/none.npz"}, r"none\.npz"),
        ({**policy, "rung.episodes": "{task}/rung1"}, r"known\.rung\.episodes: '\{task\}/rung1' needs a task"),
        (
            {"rung.episodes": f"{files}/medium.npz"},
            r"medium\.npz: carries no policy; name a file under known\.rung\.pol",
        ),
    ):
        study = replace(tiny, known=known)
        with pytest.raises(IlbrlError, match=said):
            split(study, load_logs(study))


def longer(episodes):
    """The second and the third episode as one, which times out after 40 steps."""
    return replace(episodes, timeouts=episodes.timeouts & (np.arange(len(episodes)) != 39))


def wider(episodes):
    wide = {name: np.repeat(getattr(episodes, name), 2, axis=1) for name in ("observations", "next_observations")}
    return replace(episodes, **wide)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (longer, r"known\.rung1\.episodes: .*own\.npz: episode 1 \(from row 20\) has 40 steps, and those of the logs"
                 r" time out after 20"),
        (wider, r"own\.npz: the expert data does not fit"),
        (lambda e: replace(e, rewards=None), r"own\.npz: no rewards: off-policy evaluation needs them"),
        (lambda e: replace(e, rewards=np.where(np.arange(len(e)) == 7, np.nan, e.rewards)),
         r"own\.npz: rewards: NaN in 1 row \(first: row 7\)"),
        (lambda e: e.transitions(0, 15), r"known policy rung1: .*own\.npz holds no complete episode of it"),
        (lambda e: replace(e, observation_columns=("c", "b", "a")),
         r"own\.npz: column 0 of the expert's observations is a, that of the other logs c: the same names in another"),
        (lambda e: replace(e, actions=np.zeros(len(e), int), action_low=None, action_high=None),
         r"own\.npz: the expert data does not fit"),
    ],
)  # fmt: skip
def test_episodes_that_do_not_fit(ladder, rungs, tmp_path, change, said):
    own = str(tmp_path / "own.npz")
    study = replace(ladder, known=ladder.known | {"rung1.episodes": own})
    logs = dict(load_logs(ladder))
    logs["expert"], logs["logs"] = (
        replace(logs[role], observation_columns=("a", "b", "c")) for role in ("expert", "logs")
    )
    logs["known.rung1"] = replace(change(logs["known.rung1"]), source=own)
    with pytest.raises(IlbrlError, match=said):
        _ = examine(logs), split(study, logs)


def test_logs_that_never_time_out_have_no_limit(ladder):
    logs = {name: replace(data, terminals=data.timeouts) for name, data in load_logs(ladder).items()}
    logs["known.rung1"] = replace(longer(logs["known.rung1"]), terminals=longer(logs["known.rung1"]).timeouts)
    assert split(ladder, logs).known[2].episodes.episode_lengths.max() == 40


def test_a_policy_of_another_task_is_refused_before_anything_is_trained(ladder, tmp_path):
    policy, _ = pushed_by(1.0, 0.0, 0)
    five = policy.layers[0]._replace(weight=np.zeros((5, 1), np.float32))
    replace(policy, layers=(five,)).save(tmp_path / "other.safetensors")
    study = replace(ladder, known=ladder.known | {"rung1.policy": str(tmp_path / "other.safetensors")})
    with pytest.raises(IlbrlError, match=r"policy known\.rung1: takes observations of 5 numbers"):
        split(study, load_logs(study))


def test_episodes_that_stand_in_a_log_say_so(ladder, files):
    """Or the policy would be taken for one that models have not seen."""
    known = ladder.known | {"rung1.episodes": f"{files}/medium.npz"}
    study = replace(ladder, known=known)
    said = (
        r"known\.rung1\.episodes: 800 of 800 transitions of .*medium\.npz \(first: row 0\) also stand in .*medium\.npz,"
        r" from which models learn: if the policy made some of it, say known\.rung1\.logs = 'logs'"
    )
    with pytest.raises(IlbrlError, match=said):
        split(study, load_logs(study))
    own = {"rung1.logs": "logs", "logs.episodes": f"{files}/medium.npz"}
    study = replace(study, known=known | own)
    assert [known.log for known in split(study, load_logs(study)).known[1:3]] == ["logs", "logs"]


# --- discrete actions, built-in names, other ways to name them --------------------------------------------------------


def choices(names, actions):
    rows = np.arange(len(actions), dtype=np.float32)[:, None]
    ends = rows[:, 0] == len(actions) - 1
    found = Dataset(rows, np.array(actions), rows + 1, ~ends & False, ends, rewards=rows[:, 0], source="own.npz")
    return with_action_names(found, names)


def test_a_discrete_action_has_the_number_that_it_has_in_the_logs(tmp_path):
    log = choices(["left", "stay", "right"], [0, 1, 2])
    study = Study(known={"walker.episodes": str(tmp_path / "own.npz")})
    save(choices(["right", "left"], [0, 1, 0]), tmp_path / "own.npz")
    found = load_episodes(study, named_by(study), log)["known.walker"]
    assert found.action_names == log.action_names
    assert found.actions.tolist() == [2, 0, 2]
    save(choices(["right", "jump"], [0, 1, 0]), tmp_path / "own.npz")
    with pytest.raises(
        IlbrlError, match=r"known\.walker\.episodes: .*own\.npz has the actions jump, which the logs do not"
    ):
        load_episodes(study, named_by(study), log)


def test_built_in_episodes_bring_their_policy():
    study = Study(
        task="hopper",
        data=Data("{task}/expert:4ep", "{task}/medium:4000steps"),
        known={"rung2.episodes": "{task}/rung2:2000steps", "expert.logs": "expert"},
    )
    logs = load_logs(study, quiet=True)
    examine(logs)
    rung, expert = split(study, logs).known
    assert (rung.name, rung.log, rung.variant, expert.log) == ("rung2", None, "sampled", "expert")
    assert rung.policy is logs["known.rung2"].policy
    assert rung.episodes.source == "hopper/rung2:2000steps"


def test_options_and_calls_name_them_too(ladder, rungs, tmp_path):
    ladder.save(tmp_path / "study.toml")
    entries = {"new.policy": f"{rungs}/rung1.safetensors", "new.episodes": f"{rungs}/rung1.npz"}
    words = [word for pair in entries.items() for word in pair]
    _, study = parse([str(tmp_path / "study.toml"), "--known", *words, "--out", "x"])
    assert study.known == ladder.known | entries
    nested = {"new": {"policy": entries["new.policy"], "episodes": entries["new.episodes"]}}
    assert changed(ladder, {"known": nested}).known == study.known
    assert Study.load(tmp_path / "study.toml").known == ladder.known
