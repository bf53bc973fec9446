"""A study whose ILBRL learns from imagined steps: made once, seen by whom it names. Its policies are committees."""

import json
from dataclasses import replace

import pytest

from ilbrl.base.errors import IlbrlError
from ilbrl.data import load
from ilbrl.policy import Policy
from ilbrl.study.study import Study, Training

SETTINGS = {"rounds": "1", "rows": "40", "steps": "4", "teachers": "2", "models_updates": "4"}


@pytest.fixture(scope="module")
def imagining(tiny):
    asked = Training(seeds=1, committee=2, updates=10, imagine=("ilbrl",), imagination=SETTINGS)
    return replace(tiny, search=replace(tiny.search, configurations=1), training=asked)


@pytest.mark.slow
def test_imagined_steps_are_made_once_and_learned_from_by_whom_the_study_names(imagining, tmp_path, done):
    imagining.run(tmp_path / "run", quiet=True)
    kinds = [kind for kind, _ in done]
    assert kinds.count("imagine") == 1
    assert kinds.count("label") == 2  # the logs' own, for data.json, and those with imagined steps
    jobs = {path.name.partition("-")[0]: path for path in (tmp_path / "run" / "jobs").iterdir()}
    imagined = load(jobs["imagine"] / "imagined.npz", quiet=True)
    assert json.loads((jobs["imagine"] / "result.json").read_text())["rows"] == len(imagined) == 40
    upstream = {}
    for path in (tmp_path / "run" / "jobs").glob("train-*"):
        job = json.loads((path / "job.json").read_text())
        upstream[job["inputs"]["algorithm"]] = {id.partition("-")[0] for id in job["upstream"]}
    assert upstream == {"ilbrl": {"label", "imagine"}, "bc": set()}
    best = Policy.load(tmp_path / "run" / "policies" / "best.safetensors")
    assert best.metadata["committee"] == 2
    assert best.layers[0].units == 2 * best.metadata["config"]["hidden"][0]
    done.clear()
    imagining.run(tmp_path / "run", quiet=True)
    assert done == []
    assert Study.load(tmp_path / "run" / "study.toml").training.imagination["size"] in ("small", "large")  # settled


@pytest.mark.slow
def test_a_study_killed_while_it_imagines_ends_in_the_same_bits(imagining, tmp_path, monkeypatch, weights):
    from ilbrl.models import imagination

    def killed(*_, **__):
        raise KeyboardInterrupt

    imagining.run(tmp_path / "whole", quiet=True)
    with monkeypatch.context() as patched:
        patched.setattr(imagination, "imagined_steps", killed)
        with pytest.raises(KeyboardInterrupt):
            imagining.run(tmp_path / "killed", quiet=True)
    imagining.run(tmp_path / "killed", quiet=True)
    assert weights(tmp_path / "killed") == weights(tmp_path / "whole")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"imagine": ("oril",)}, "training.imagine: 'oril' is none of this study's search.algorithms"),
        ({"imagine": ("bc",)}, "training.imagine: bc learns from the expert's rows alone"),
        ({"imagination": {"teachers": "3"}}, "teachers: must be even, got 3"),
        ({"imagination": {"round": "1"}}, "training.imagination.round: there is no such setting; there are rounds"),
        ({"imagination": {"rounds": "11"}}, "training.imagination.rounds: must be a finite number, between 1 and 10"),
    ],
)
def test_what_cannot_be_imagined_is_refused_before_anything_is_written(imagining, tmp_path, change, said):
    study = replace(imagining, training=replace(imagining.training, **change))
    with pytest.raises(IlbrlError, match=said):
        study.run(tmp_path / "run", quiet=True)
    assert not (tmp_path / "run").exists()
