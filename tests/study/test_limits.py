"""Values that a setting cannot have are refused, by name, before anything is written."""

import math
from dataclasses import replace

import pytest

from ilbrl.agents import AGENTS
from ilbrl.base.errors import IlbrlError
from ilbrl.study.estimator import estimator_of
from ilbrl.study.search import RANGES, ranges_of
from ilbrl.study.study import Evaluation, Search, Study, Training


@pytest.mark.parametrize(
    ("setting", "text", "said"),
    [
        ("lam", "abc", "must be a number, got 'abc'"),
        ("lam", "choice(0.1, b)", "must be a number, got 'b'"),
        ("lam", "loguniform(0.1, 4", "a bracket .* is missing"),
        ("lam", "uniform(0, Infinity)", "must be a finite number"),
        ("lam", "true", "must be a number, got True"),
        ("actor_lr", "-1", "must be a finite number, above 0, got -1"),
        ("actor_lr", "uniform(0, 1)", "above 0, got 0"),
        ("gamma", "1", "at least 0 and below 1, got 1"),
        ("tau", "0", "above 0 and at most 1, got 0"),
        ("batch_size", "16.5", "must be a whole number, got 16.5"),
        ("batch_size", "0", "at least 1, got 0"),
        ("hidden", '["a"]', "must be a list of numbers, each a whole number"),
        ("hidden", "8", "must be a list"),
        ("hidden", str([8] * 10_000), r"must be a list of at most 32 numbers, got \[8, 8, .*, …\]"),
        ("policy_delay", "1000000", "between 1 and 100, got 1000000"),
        ("layer_norm", "maybe", "must be true or false, got 'maybe'"),
        ("dtype", "float99", "must be one of float32, bfloat16, got 'float99'"),
        ("reward_bounds", "[0]", "must be a list of 2 numbers"),
    ],
)
def test_ranges(setting, text, said):
    with pytest.raises(IlbrlError, match=rf"search\.ranges\.ilbrl\.{setting}: .*{said}"):
        ranges_of(Search(ranges={f"ilbrl.{setting}": text}), "ilbrl")


def test_what_a_setting_can_be():
    for preset in RANGES:
        for algorithm in AGENTS:
            ranges_of(Search(preset=preset), algorithm)
    fine = {"lam": "1", "reward_bounds": "none", "hidden": "choice([8], [8, 8])", "dtype": "bfloat16", "gamma": "0"}
    ranges_of(Search(ranges={f"ilbrl.{name}": text for name, text in fine.items()}), "ilbrl")
    with pytest.raises(IlbrlError, match=r"smodice\.divergence: must be one of kl, chi2"):
        ranges_of(Search(ranges={"smodice.divergence": "choice(kl, js)"}), "smodice")


@pytest.mark.parametrize(
    ("setting", "text", "said"),
    [
        ("lr", "fast", "must be a number, got 'fast'"),
        ("lr", "uniform(1, 2)", "takes one value"),
        ("hidden", "8", "must be a list"),
        ("gamma", "1", "below 1"),
        ("expert_fraction", "1.5", "between 0 and 1"),
        ("value_bounds", "1", "true or false"),
    ],
)
def test_the_estimator(setting, text, said):
    with pytest.raises(IlbrlError, match=rf"evaluation\.settings\.{setting}: .*{said}"):
        estimator_of(Study(evaluation=Evaluation("expected_sarsa", {setting: text})))


def test_refused_before_anything_is_written(tiny, tmp_path):
    wrong = replace(tiny, search=replace(tiny.search, ranges={**tiny.search.ranges, "ilbrl.lam": "abc"}))
    with pytest.raises(IlbrlError, match="got 'abc'"):
        wrong.run(tmp_path / "run", quiet=True)
    assert not (tmp_path / "run").exists()


def test_numbers_of_a_study():
    with pytest.raises(IlbrlError, match="task: must name an environment; leave it out where there is none"):
        Study(task="")
    with pytest.raises(IlbrlError, match=r"training\.divergence_factor: must be between"):
        Study(training=Training(divergence_factor=math.inf))
    with pytest.raises(IlbrlError, match=r"data\.validation_transitions: must be between 1 and"):
        Study(data=replace(Study().data, validation_transitions=0))
