"""A study as dataclasses and as TOML: there and back, and complaints that name file and field."""

import os
from dataclasses import replace

import pytest

from ilbrl.base.errors import IlbrlError
from ilbrl.base.records import differences
from ilbrl.study.search import draw
from ilbrl.study.study import OWN, Data, Search, Study, Training, preset_names


def test_there_and_back(tmp_path, tiny):
    study = replace(tiny, known={**tiny.known, "the operator.policy": 'a "quoted" name.safetensors'})
    study.save(tmp_path / "study.toml")
    assert Study.load(tmp_path / "study.toml") == study
    Study().save(tmp_path / "default.toml")
    assert Study.load(tmp_path / "default.toml") == Study()


def test_what_a_person_writes(tmp_path):
    path = tmp_path / "study.toml"
    path.write_text(
        """
        name = "warehouse"
        known.operator.policy = "operator.safetensors"
        [data]
        expert = "demos.npz"
        [search]
        algorithms = ["bc"]
        ranges.all.hidden = [64, 64]
        [search.ranges.bc]
        lr = 0.001
        """
    )
    study = Study.load(path)
    assert study.data == Data(expert="demos.npz")
    assert study.known == {"operator.policy": "operator.safetensors"}
    assert study.search.ranges == {"all.hidden": "[64, 64]", "bc.lr": "0.001"}
    assert draw(study.search, "bc", 0)[0].config.lr == 0.001


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[data]\nexpret = 'x'", r"study.toml: data.expret: no such field; there are expert, logs"),
        ("[data]\nexploratory = 'x'", r"data.exploratory: is no longer a field; write data.logs instead"),
        ("[training]\nseeds = 'three'", "study.toml: training.seeds: must be a whole number, got 'three'"),
        ("[training]\nseeds = 0", "study.toml: training.seeds: must be between 1 and 1,000, got 0"),
        ("[training]\ndivergence_factor = nan", "divergence_factor: must be a finite number, got nan"),
        ("[training]\nseeds = true", "training.seeds: must be a whole number"),
        ("training = 3", r"training: is a table of settings, not 3; write \[training\]"),
        ("[search]\npreset = 'best'", "search.preset: must be one of default, paper, got 'best'"),
        ("[search]\nalgorithms = 'bc'", "search.algorithms: must be a list"),
        ("[search]\nalgorithms = ['bc', 'bc']", "name each algorithm once"),
        ("[final]\nepisodes = 31", "31 episodes cannot be spread evenly"),
        ("name = ", "study.toml: not a TOML file"),
        ("[search]\nconfigurations = 900000000000000000000000000000", "configurations: .*an integer of 100 bits"),
        ("[search]\nconfigurations = 9000000000", "configurations: must be between 1 and 10,000"),
        ("seed = 5_000_000", "seed: must be between 0 and 4,294,966, got 5000000"),
        ("seed = 36893488147419103232", "seed: must be a whole number of at most 64 bits"),
        ("known = " + "[" * 200_000, "study.toml: not a TOML file"),
        ("[training]\ndivergence_factor = inf", "divergence_factor: must be a finite number"),
    ],
)
def test_complaints_name_file_and_field(tmp_path, text, said):
    (tmp_path / "study.toml").write_text(text)
    with pytest.raises(IlbrlError, match=said):
        Study.load(tmp_path / "study.toml")


def test_what_is_no_file_is_one_sentence(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for name in ("nowhere.toml", "pipe", "x" * 300):
        with pytest.raises(IlbrlError, match=r"cannot be read|is not a regular file"):
            Study.load(tmp_path / name)


def test_too_many_policies_are_refused_before_work_starts(tiny, tmp_path):
    many = replace(tiny, search=replace(tiny.search, configurations=10_000), training=Training(seeds=1000))
    with pytest.raises(IlbrlError, match=r"20,000 configurations of 2 algorithms × 1,000 seeds are 20,000,000"):
        many.run(tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("name", preset_names())
def test_presets(name):
    study = Study.load(name)
    assert study.name == ("" if name in (OWN, "large") else name)  # that of the folder
    for algorithm in study.search.algorithms:
        assert len(draw(study.search, algorithm, 0)) == study.search.configurations


def test_the_papers_study():
    paper = Study.load("paper")
    assert (paper.search.configurations, paper.training.seeds) == (10, 6)
    assert len(paper.evaluation_seeds(3)) == 3
    assert paper.training.updates == 400 * 2500
    assert paper.data.expert_episodes == 18
    assert (paper.final.episodes, paper.final.environment_seeds) == (30, 10)


def test_differences_say_what_and_how(tiny):
    changed = replace(tiny, seed=3, search=replace(tiny.search, ranges={"ilbrl.actor_lr": "0.002"}))
    assert differences(tiny, changed) == [
        "seed: 0 → 3",
        "search.ranges.all.hidden: [8, 8] → not set",
        "search.ranges.all.batch_size: 16 → not set",
        "search.ranges.ilbrl.actor_lr: 0.001 → 0.002",
    ]


def test_task_in_names():
    assert Study(task="ant").named("{task}/expert", "data.expert") == "ant/expert"
    with pytest.raises(IlbrlError, match=r"data\.expert: .* needs a task"):
        Study().named("{task}/expert", "data.expert")


def test_seeds_of_different_studies_differ():
    assert set(Study(seed=0).policy_seeds).isdisjoint(Study(seed=1).policy_seeds)
    assert Study().policy_seeds == [0, 1, 2, 3, 4, 5]
    assert Search().algorithms == ("ilbrl", "bc")
