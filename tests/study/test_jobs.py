"""Jobs: addresses that depend on inputs alone, and results that are whole."""

import json

from ilbrl.study.jobs import Job, Store


def test_an_address_is_stable():
    """Written down once: another address for the same inputs would compute every study again."""
    job = Job("train", {"lr": 0.1, "seeds": [0, 1], "config": {"hidden": (8, 8)}}, upstream=("label-1",))
    assert job.id == ADDRESS
    reordered = Job("train", {"seeds": [0, 1], "config": {"hidden": [8, 8]}, "lr": 0.1}, ("label-1",), updates=7)
    assert reordered.id == job.id


ADDRESS = "train-db9fceafb31ac0ec"


def test_an_address_changes_with_every_input():
    base = Job("train", {"lr": 0.1})
    others = [Job("evaluate", {"lr": 0.1}), Job("train", {"lr": 0.2}), Job("train", {"lr": 0.1}, ("x",))]
    assert len({job.id for job in (base, *others)}) == 4


def test_a_result_appears_whole(tmp_path):
    store, job = Store(tmp_path), Job("train", {"lr": 0.1})
    place = store.workplace(job)
    (place / "result.json").write_text("1")
    (place / "checkpoint.safetensors").write_text("state")
    (place / ".result.123.partial").write_text("half")
    assert not store.has(job)
    assert store.workplace(job) == place  # what a killed job left is found again
    store.finish(job)
    assert store.has(job)
    assert not place.exists()
    assert sorted(path.name for path in store.path(job.id).iterdir()) == ["job.json", "result.json"]
    assert json.loads((store.path(job.id) / "job.json").read_text())["inputs"] == {"lr": 0.1}


def test_a_result_from_elsewhere_is_the_same(tmp_path):
    here, there = Store(tmp_path / "here"), Store(tmp_path / "there")
    job = Job("train", {"lr": 0.1})
    (there.workplace(job) / "result.json").write_text("1")
    there.finish(job)
    (here.workplace(job) / "left over.json").write_text("of a local attempt")
    here.receive(job, there.contents(job.id))
    assert here.contents(job.id) == there.contents(job.id)
