import json
import sys
from pathlib import Path

import numpy as np
import pytest

import ilbrl
from ilbrl import envs
from ilbrl.base.errors import IlbrlError
from ilbrl.data import benchmark
from ilbrl.envs import rollouts


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    """An empty cache, and units of a few episodes."""
    monkeypatch.setenv("ILBRL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(rollouts, "COLLECTION_STEPS", 50)


def collected() -> int:
    return envs.environment_calls("collection").steps


def load(transitions: int, seed: int = 0, name: str = "hopper/random"):
    return benchmark.load_benchmark(f"{name}@{seed}", transitions, quiet=True)


def test_names():
    assert benchmark.is_benchmark("hopper/medium")
    assert benchmark.is_benchmark("ant/rung3")
    assert benchmark.is_benchmark("ant/rung3@7")
    others = ["hopper", "hopper/", "hopper/best", "swimmer/medium", "a/b/c", "", "hopper/medium@", "hopper/medium@-1"]
    assert not any(map(benchmark.is_benchmark, [*others, "hopper/medium@1.5", f"hopper/medium@{10**18}"]))
    with pytest.raises(IlbrlError, match="no benchmark dataset 'hopper/best'"):
        benchmark.make("hopper/best")
    with pytest.raises(IlbrlError, match="at least one"):
        benchmark.make("hopper/medium", transitions=0)
    with pytest.raises(IlbrlError, match="and perhaps @ and a seed"):
        benchmark.make("hopper/medium@-1")
    with pytest.raises(IlbrlError, match="hopper/expert@1"):
        benchmark.find_player("hopper/expert@1")


def test_a_dataset_knows_where_it_comes_from():
    data = load(1000, name="hopper/rung1")
    assert len(data) == 1000
    assert data.source == "hopper/rung1"
    assert data.policy is not None
    assert data.policy.metadata["name"] == "rung1"
    assert data.action_low is not None
    assert data.action_low.tolist() == [-1, -1, -1]
    assert data.log_probs is not None
    np.testing.assert_allclose(data.log_probs, data.policy.log_prob(data.observations, data.actions), atol=1e-3)
    assert data.complete[:-1].all()
    assert not data.complete[-1], "the last episode is cut by the end, which is neither a terminal nor a time-out"
    measured = benchmark.measured_returns()["policies"]["hopper/rung1"]["stochastic"]["return_mean"]
    assert data.returns()[data.complete].mean() == pytest.approx(measured, rel=0.15)


def test_random_actions_are_uniform_and_have_no_policy():
    data = load(2000)
    assert data.policy is None
    assert data.log_probs is not None
    assert set(data.log_probs.tolist()) == {np.float32(-3 * np.log(2))}
    counts, _ = np.histogram(data.actions, bins=10, range=(-1, 1))
    assert counts.sum() == 6000
    assert np.abs(counts - 600).max() < 120  # five standard deviations


def test_the_second_time_it_comes_from_the_cache():
    first, steps = load(1500), collected()
    again = load(1500)
    assert collected() == steps
    assert again.content_hash == first.content_hash


def test_fewer_transitions_are_the_first_of_more_collected_or_cut():
    few, steps = load(500), collected()
    more = load(3000)
    assert collected() > steps
    assert more.transitions(0, 500).content_hash == few.content_hash
    steps = collected()
    middle = load(1200)
    assert collected() == steps, "a larger file is there: nothing to collect"
    assert middle.content_hash == more.transitions(0, 1200).content_hash
    assert middle.actions.base is not None
    assert middle.actions.base.nbytes == middle.actions.nbytes, "the rest of the file is not kept alive"
    path = benchmark.make("hopper/random", 1300)
    assert collected() == steps
    assert json.loads(path.with_suffix(".json").read_text())["transitions"] == 1300


def test_seeds_and_policies_have_their_own_episodes():
    starts = [load(600, seed=0), load(600, seed=1), load(600, seed=0, name="hopper/rung1")]
    first = {data.initial_observations[0].tobytes() for data in starts}
    assert len(first) == 3
    assert load(600, seed=1).content_hash == starts[1].content_hash
    assert [data.source for data in starts] == ["hopper/random", "hopper/random@1", "hopper/rung1"]
    assert ilbrl.load("hopper/random@1:600steps", quiet=True).content_hash == starts[1].content_hash


def test_a_killed_collection_goes_on_where_it_stopped(monkeypatch):
    whole = load(4000)
    steps_of_whole = collected()

    def dies(*args, **kwargs):
        for i, part in enumerate(envs.collect_units(*args, **kwargs)):
            if i == 2:
                raise KeyboardInterrupt
            yield part

    monkeypatch.setenv("ILBRL_CACHE", str(benchmark.cache_folder().with_name("another")))
    with monkeypatch.context() as patch:
        patch.setattr(benchmark, "collect_units", dies)
        with pytest.raises(KeyboardInterrupt):
            load(4000)
    folder = benchmark.cache_folder() / f"benchmark-{benchmark.RECIPE}"
    assert len(list(folder.glob("*.partial/unit-*.npz"))) == 2
    steps = collected()
    assert load(4000).content_hash == whole.content_hash
    assert collected() - steps < steps_of_whole
    assert not list(folder.glob("*.partial")), "units are gone once they are joined"


def test_a_damaged_file_is_named_and_collected_again_once_deleted():
    intact = load(800).content_hash
    path = benchmark.make("hopper/random", 800)
    with np.load(path) as arrays:
        changed = dict(arrays)
    changed["rewards"][5] += 1
    whole = path.read_bytes()
    np.savez(path, **changed)  # a good archive, other content
    for damaged in (path.read_bytes(), whole[: len(whole) // 2], b"not an archive", b""):
        path.write_bytes(damaged)
        with pytest.raises(IlbrlError, match=r"hopper-random-seed0-800\.npz.*delete it"):
            load(800)
    path.unlink()
    assert load(800).content_hash == intact


def test_the_cache_folder_follows_the_user(monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.delenv("ILBRL_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert benchmark.cache_folder() == tmp_path / "ilbrl"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert benchmark.cache_folder() == tmp_path / ".cache" / "ilbrl"
    monkeypatch.setattr(sys, "platform", "darwin")
    assert benchmark.cache_folder() == tmp_path / "Library" / "Caches" / "ilbrl"


def test_default_sizes():
    assert benchmark.default_transitions("hopper", "medium") == 1_300_000
    assert {benchmark.default_transitions("hopper", level) for level in ("expert", "random")} == {1_000_000}
    assert benchmark.default_transitions("cartpole", "medium") == 130_000


@pytest.mark.parametrize("task", list(envs.TASKS))
def test_all_source_policies_are_there_and_ordered_by_return(task):
    table = benchmark.measured_returns()["policies"]
    scores = {}
    for level in ("expert", "medium", "rung1", "rung2", "rung3"):
        policy = benchmark.source_policy(task, level)
        assert policy.head == ("tanh_gaussian" if envs.TASKS[task].action_names is None else "categorical")
        measured = table[f"{task}/{level}"]
        assert policy.metadata["measured"] == {mode: measured[mode] for mode in ("deterministic", "stochastic")}
        mode = measured["deterministic"]
        assert envs.normalised_score(task, mode["return_mean"]) == pytest.approx(mode["score_mean"], abs=0.06)
        scores[level] = mode["score_mean"]
    assert scores["rung1"] < scores["rung2"] < scores["rung3"] < scores["expert"]
    assert scores["rung1"] < scores["medium"] < scores["expert"]


@pytest.mark.parametrize(("task", "level"), [("hopper", "expert"), ("halfcheetah", "medium")])
def test_measured_returns_are_reproduced(task, level):
    measured = benchmark.measured_returns()["policies"][f"{task}/{level}"]["deterministic"]
    played = envs.rollout(benchmark.source_policy(task, level), task, episodes=2, seed=11, quiet=True)
    assert played.returns.mean() == pytest.approx(measured["return_mean"], rel=0.05)
    assert played.discounted_returns.mean() == pytest.approx(measured["discounted_return_mean"], rel=0.05)


def test_a_policy_is_found_by_its_file_or_its_built_in_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    built_in = benchmark.find_policy("hopper/expert")
    assert built_in.metadata["name"] == "expert"
    file = tmp_path / "hopper" / "expert"
    file.parent.mkdir()
    benchmark.source_policy("hopper", "medium").save(tmp_path / "other").rename(file)
    assert benchmark.find_policy("hopper/expert").metadata["name"] == "medium"  # your own file comes first
    assert isinstance(benchmark.find_player("hopper/random"), envs.UniformPolicy)
    with pytest.raises(IlbrlError, match="hopper/random: draws uniform actions"):
        benchmark.find_policy("hopper/random")
    with pytest.raises(IlbrlError, match="hopper/best: no such policy file"):
        benchmark.find_policy("hopper/best")


def test_an_unknown_source_policy_is_refused():
    with pytest.raises(IlbrlError, match="no source policy hopper/random"):
        benchmark.source_policy("hopper", "random")


def test_the_guide_shows_the_recorded_returns():
    guide = (Path(__file__).parents[2] / "docs" / "benchmark.md").read_text()
    rows = {row.split("`")[1]: row for row in guide.splitlines() if row.startswith("| `") and "/" in row}
    table = benchmark.measured_returns()["policies"]
    assert set(rows) == set(table)
    for name, measured in table.items():
        cells = [cell.strip() for cell in rows[name].split("|")[2:-1]]
        steps = measured.get("sac_step") or measured.get("ppo_step")
        expected = ["–" if steps is None else f"{steps:,}"]
        for mode in (measured["deterministic"], measured["stochastic"]):
            expected.append(f"{mode['return_mean']:,} ± {mode['return_std']}")
            expected += [str(mode[column]) for column in ("score_mean", "discounted_return_mean", "length_mean")]
        assert cells == expected, name
