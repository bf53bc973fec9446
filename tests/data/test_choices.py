"""Discrete actions: numbers or names, declared or not, in every format that is written."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ilbrl.base.errors import IlbrlError
from ilbrl.data import Dataset, Reading, concatenate, from_arrays, load, same_actions, same_choices, save
from ilbrl.data.doctor import Finding, examine
from ilbrl.policy import Layer, Policy

TEXTS = ["stay", "left", "left", "stay", "right", "left"]


def logs(actions: object, **more: object) -> Dataset:
    steps = np.arange(6.0)[:, None]
    ends = np.array([0, 0, 1, 0, 0, 1])
    return from_arrays(steps, actions, steps + 1, terminals=ends, timeouts=np.zeros(6), **more)


def found(dataset: Dataset, expert: Dataset | None = None) -> list[Finding]:
    return [finding for finding in examine(dataset, expert) if finding.check == "choices"]


def test_names_are_numbered_and_kept() -> None:
    dataset = logs(TEXTS)
    assert dataset.discrete
    assert dataset.actions.tolist() == [2, 0, 0, 2, 1, 0]
    assert dataset.action_names == dataset.choice_names == ("left", "right", "stay")
    assert dataset.num_actions == 3
    assert found(dataset) == []
    assert dataset.content_hash != replace(dataset, action_names=("a", "b", "c")).content_hash


def test_undeclared_numbers_are_counted_from_what_was_taken() -> None:
    dataset = logs([0, 3, 0, 1, 1, 1])
    assert dataset.num_actions == 4
    assert dataset.choice_names == ("0", "1", "2", "3")
    assert [finding.message.split(":")[0] for finding in found(dataset)] == [
        "actions are whole numbers, taken as 4 choices",
        "actions",
    ]
    assert found(dataset)[1].message == "actions: 2 is never taken"


@pytest.mark.parametrize("target", ["a.npz", "a.hdf5", "minari:a-v0"])
@pytest.mark.parametrize("actions", [TEXTS, [0, 3, 0, 1, 1, 1]])
def test_names_survive_in_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: str, actions: list) -> None:
    monkeypatch.chdir(tmp_path)
    dataset = logs(actions)
    save(dataset, target)
    again = load(target)
    assert again.action_names == dataset.action_names
    assert again.content_hash == dataset.content_hash


def test_declared_names_and_numbers(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    table = {"obs_0": np.arange(6.0), "action": TEXTS, "terminal": [0, 0, 1, 0, 0, 1]}
    pandas.DataFrame(table).to_csv(tmp_path / "a.csv", index=False)
    dataset = load(tmp_path / "a.csv", Reading(action_names=("stay", "left", "right", "jump")))
    assert dataset.actions.tolist() == [0, 1, 1, 0, 2, 1]
    assert dataset.num_actions == 4
    assert found(dataset)[0].message == "actions: jump is never taken"
    with pytest.raises(IlbrlError, match=r"a\.csv: has actions right, which are not declared"):
        load(tmp_path / "a.csv", Reading(action_names=("stay", "left")))
    (tmp_path / "m.toml").write_text('action_names = ["stay", "left", "right"]')
    assert load(tmp_path / "a.csv", Reading(mapping=str(tmp_path / "m.toml"))).actions.tolist() == [0, 1, 1, 0, 2, 1]
    save(logs([0, 3, 0, 1, 1, 1]), tmp_path / "b.npz")
    assert load(tmp_path / "b.npz", Reading(num_actions=5)).num_actions == 5
    with pytest.raises(IlbrlError, match="action 3 in row 1 is not one of the 3 that are declared"):
        load(tmp_path / "b.npz", Reading(num_actions=3))
    assert not load(tmp_path / "b.npz", Reading(action_low=(0,), action_high=(3,))).discrete  # amounts, not choices


def test_text_among_numbers_is_no_name(tmp_path: Path) -> None:
    pytest.importorskip("pandas")
    (tmp_path / "a.csv").write_text("obs_0,action\n1,2\n1,high\n")
    with pytest.raises(IlbrlError, match="column 'action' holds 'high' in row 1 and '2' in row 0: actions are"):
        load(tmp_path / "a.csv")


def test_two_logs_number_their_actions_alike_or_are_refused() -> None:
    expert, others = logs(["left"] * 6), logs(TEXTS)
    assert found(others, expert)[0].grade == "error"
    with pytest.raises(IlbrlError, match="different names"):
        concatenate([expert, others])
    expert, others = same_actions([expert, others])
    assert expert.action_names == others.action_names == ("left", "right", "stay")
    assert [finding.message for finding in found(others, expert)] == [
        "actions: the expert never takes right, stay, which the other logs do"
    ]
    assert concatenate([expert, others]).action_names == others.action_names
    nothing = found(*same_actions([others, logs(["up"] * 6)]))[0]
    assert nothing.grade == "warning"
    assert "the expert never takes any that the other logs take" in nothing.message


def test_numbers_and_names_do_not_meet_by_chance() -> None:
    named, numbers = logs(TEXTS), logs([2, 0, 0, 2, 1, 0], source="numbers.csv")
    with pytest.raises(IlbrlError, match=r"numbers\.csv: its actions are numbers.*--action-names left right stay"):
        same_actions([named, numbers])
    stated = Reading(action_names=("left", "right", "stay"))
    assert same_actions([named, stated.completed(numbers)])[1].action_names == named.action_names
    assert [part.num_actions for part in same_choices([numbers, logs([0, 3, 0, 0, 0, 0])])] == [4, 4]


def test_whole_numbers_in_a_column_of_floats_are_choices_where_they_are_declared() -> None:
    floats = logs([0.0, 1.0, 0.0, 2.0, 0.0, 0.0])
    assert not floats.discrete
    assert Reading(num_actions=3).completed(floats).actions.tolist() == [0, 1, 0, 2, 0, 0]
    with pytest.raises(IlbrlError, match=r"the action 0\.5 in row 1 is no whole number"):
        Reading(num_actions=3).completed(logs([0, 0.5, 0, 0, 0, 0]))
    with pytest.raises(IlbrlError, match="its actions are 2 real numbers each"):
        Reading(num_actions=3).completed(logs(np.zeros((6, 2))))


def test_numbers_that_are_no_choices() -> None:
    assert found(logs([0, -1, 0, 0, 0, 0]))[0].message == "actions: -1 in row 1; choices are numbered from 0"
    unlikely = logs([0, 1, 0, 0, 0, 1], log_probs=[-1, -1, 0.5, -1, -1, -1])
    assert "above 0 in row 2" in found(unlikely)[0].message
    with pytest.raises(IlbrlError, match="each once"):
        logs([0, 1, 0, 0, 0, 1], action_names=["a", "a"])


# --- propensities -----------------------------------------------------------------------------------------------------

CSV = "obs_0,action,{},terminal\n"


def csv(path: Path, columns: str, *rows: str) -> Path:
    pytest.importorskip("pandas")
    path.write_text(CSV.format(columns) + "\n".join(rows) + "\n")
    return path


@pytest.mark.parametrize("name", ["propensity", "action_prob"])
def test_logged_propensities_become_log_probabilities(tmp_path: Path, name: str) -> None:
    dataset = load(csv(tmp_path / "a.csv", name, "1,left,0.25,0", "2,right,0.5,1"))
    assert dataset.action_names == ("left", "right")
    np.testing.assert_allclose(dataset.propensities, [0.25, 0.5])
    np.testing.assert_allclose(dataset.log_probs, np.log([0.25, 0.5]))
    save(dataset, tmp_path / "a.npz")
    np.testing.assert_array_equal(load(tmp_path / "a.npz").propensities, dataset.propensities)
    assert logs(np.zeros((6, 1)), log_probs=np.zeros(6)).propensities is None  # densities of real-valued actions


def test_propensities_of_all_choices_name_them(tmp_path: Path) -> None:
    columns = "propensity_stay,propensity_left,propensity_jump"
    dataset = load(csv(tmp_path / "a.csv", columns, "1,left,.2,.5,.3,0", "2,stay,.2,.4,.4,0", "3,stay,.2,.4,.3,1"))
    assert dataset.action_names == ("stay", "left", "jump")
    assert dataset.actions.tolist() == [1, 0, 0]
    np.testing.assert_allclose(dataset.propensities, [0.5, 0.2, 0.2], rtol=1e-6)
    assert any("do not sum to one in 1 row (first: row 2, 0.9)" in str(finding) for finding in examine(dataset))
    with pytest.raises(IlbrlError, match="the action 'run' in row 0 has no propensity"):
        load(csv(tmp_path / "b.csv", columns, "1,run,.2,.5,.3,0"))
    numbers = load(csv(tmp_path / "c.csv", "propensity_0,propensity_1", "1,1,.2,.8,0", "2,0,.6,.4,1"))
    np.testing.assert_allclose(numbers.propensities, [0.8, 0.6], rtol=1e-6)


@pytest.mark.parametrize(
    ("propensities", "message"),
    [
        ([1, 1, 0, 1, 1, 1], r"propensity 0 in row 2: .*above 0 and at most 1"),
        ([1, 1, 1, 1.5, 1, 1], "propensity 1.5 in row 3"),
        ([1, np.nan, 1, 1, 1, 1], "propensity nan in row 1"),
        (np.full((6, 2), 0.5), "propensities of 2 choices, and actions are numbered from 0 to 2"),
    ],
)
def test_propensities_that_are_none_are_named(propensities: object, message: str) -> None:
    with pytest.raises(IlbrlError, match=message):
        logs([0, 1, 2, 0, 1, 2], propensities=propensities)


def test_propensities_beside_what_contradicts_them() -> None:
    with pytest.raises(IlbrlError, match="these are real-valued"):
        logs(np.zeros((6, 1)), propensities=np.ones(6))
    with pytest.raises(IlbrlError, match="which say the same"):
        logs([0, 1, 2, 0, 1, 2], propensities=np.ones(6), log_probs=np.zeros(6))


@pytest.mark.parametrize(("choices", "actions"), [(None, [0, 1, 0, 1, 0, 1]), (2, [0, 1, 0, 2, 0, 1]), (2, [0.5] * 6)])
def test_a_policy_that_cannot_have_taken_the_actions_is_left_out(choices: int | None, actions: list) -> None:
    outputs = 2  # mean and logarithm of a deviation, or two choices
    head = {"head": "tanh_gaussian"} if choices is None else {"head": "categorical"}
    policy = Policy((Layer(np.zeros((1, outputs)), np.zeros(outputs)),), [-1 if choices is None else 0], [1], **head)
    dataset = logs(actions, policy=policy, log_probs=np.zeros(6))
    assert dataset.policy is None
    assert "behaviour policy was left out: it maps 1 numbers to" in dataset.warnings[0]


def test_numbers_that_are_no_choices_take_neither_time_nor_memory() -> None:
    expert, identities = logs([0, 1, 0, 1, 0, 1]), logs([0, 1, 10**12, 1, 0, 1])
    assert any("the expert never takes 1000000000000" in each.message for each in found(identities, expert))
    with pytest.raises(IlbrlError, match=r"whole numbers up to 1,000,000,000,000, and .* state their bounds"):
        same_choices([expert, identities])
