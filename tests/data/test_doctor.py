"""Every check fires on the fault it is for, on the right row, and stays silent on healthy logs."""

from dataclasses import replace

import numpy as np
import pytest

from ilbrl.base.errors import IlbrlError
from ilbrl.data import Dataset, concatenate, from_arrays
from ilbrl.data.doctor import Finding, examine, require_healthy
from ilbrl.data.rows import transition_fingerprints

N = 40
FIELDS = ("observations", "actions", "rewards", "next_observations", "terminals", "timeouts")


def healthy(seed: int = 0) -> Dataset:
    """Four time-outs of ten steps each, nothing wrong with them."""
    rng = np.random.default_rng(seed)
    path = rng.normal(size=(4, 11, 3)).astype(np.float32)
    return Dataset(
        observations=path[:, :-1].reshape(N, 3),
        next_observations=path[:, 1:].reshape(N, 3),
        actions=rng.uniform(-1, 1, (N, 2)),
        rewards=rng.normal(size=N),
        terminals=np.zeros(N),
        timeouts=np.arange(N) % 10 == 9,
    )


def changed(dataset: Dataset, field: str, row: int | slice, value: object) -> Dataset:
    array = getattr(dataset, field).copy()
    array[row] = value
    return replace(dataset, **{field: array})


def only(findings: list[Finding]) -> Finding:
    assert len(findings) == 1, findings
    return findings[0]


def test_healthy_logs_have_no_findings() -> None:
    assert examine(healthy()) == []
    assert examine(healthy(), expert=healthy(1), purpose="evaluation") == []


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("field", ["observations", "actions", "next_observations"])
def test_what_training_reads_must_be_finite(field: str, value: float) -> None:
    broken = changed(changed(healthy(), field, 19, value), field, 29, value)
    found = next(f for f in examine(broken) if f.check == "finite")
    assert (found.grade, found.field, found.row) == ("error", field, 19)
    assert "in 2 rows" in found.message
    with pytest.raises(IlbrlError, match=f"{field}: .* in 2 rows \\(first: row 19, column \\d+\\)"):
        require_healthy(broken)


def test_monstrous_numbers_are_errors_though_they_are_finite() -> None:
    found = next(f for f in examine(changed(healthy(), "actions", 4, (1, 2e18))) if f.grade == "error")
    assert (found.field, found.row) == ("actions", 4)
    assert (
        found.message
        == "actions: more than 1e+18 in 1 row (first: row 4, column 1); repair such rows or leave them out"
    )
    doubles = replace(healthy(), rewards=np.full(len(healthy()), 1e300))
    with pytest.raises(IlbrlError, match="more than float32 holds"):
        require_healthy(doubles, purpose="evaluation")


@pytest.mark.parametrize(("low", "high"), [(1.0, -1.0), (0.0, 0.0), (-np.inf, 1.0), (-1.0, np.nan), (-3e38, 3e38)])
def test_bounds_that_bound_nothing(low: float, high: float) -> None:
    found = only(examine(replace(healthy(), action_low=np.array([-9, low]), action_high=np.array([9, high]))))
    assert (found.grade, found.check) == ("error", "actions")
    assert "the lower one below the upper one" in found.message


def test_warnings_are_told_with_the_name_of_the_log() -> None:
    said: list[str] = []
    expert, logs = (replace(healthy(), source=name) for name in ("demos.npz", "logs.npz"))
    require_healthy(logs, expert, warn=said.append)
    assert [each.split(" transitions")[0] for each in said] == [f"logs.npz: {len(expert)} of {len(expert)} expert"]


def test_rewards_matter_to_evaluation_alone() -> None:
    broken = changed(healthy(), "rewards", 7, np.nan)
    assert only(examine(broken)).grade == "warning"
    assert [f.grade for f in require_healthy(broken)] == ["warning"]
    with pytest.raises(IlbrlError, match="rewards: NaN in 1 row"):
        require_healthy(broken, purpose="evaluation")
    without = replace(healthy(), rewards=None)
    assert only(examine(without)).grade == "note"
    with pytest.raises(IlbrlError, match="no rewards"):
        require_healthy(without, purpose="evaluation")


def test_actions_outside_their_bounds() -> None:
    wide = changed(healthy(), "actions", 12, (0, 1.5))
    found = only(examine(wide))
    assert (found.grade, found.check, found.row) == ("warning", "actions", 12)
    stated = replace(wide, action_low=np.full(2, -2.0), action_high=np.full(2, 2.0))
    assert examine(stated) == []
    assert "outside their stated bounds" in only(examine(changed(stated, "actions", 3, -2.1))).message
    on_the_bound = changed(healthy(), "actions", 0, np.float32(1) + np.float32(1e-7))
    assert examine(on_the_bound) == []


def test_without_stated_bounds_policies_act_within_the_range_of_the_logs() -> None:
    wide = changed(healthy(), "actions", 12, (0, 40))
    low, high = wide.action_range
    assert low.tolist() == [-1, healthy().actions[:, 1].min()]
    assert high.tolist() == [1, 40]
    assert "policies will act within the range of the logs, [-1, " in only(examine(wide)).message
    still = changed(healthy(), "actions", slice(None), (0, 40))
    assert [bound.tolist() for bound in still.action_range] == [[-1, 39], [1, 41]]
    assert [bound.tolist() for bound in healthy().action_range] == [[-1, -1], [1, 1]]


def test_bounds_far_wider_than_the_actions_flatten_them() -> None:
    found = only(examine(replace(healthy(), action_low=np.array([-1, -1e5]), action_high=np.array([1, 1e5]))))
    assert (found.grade, found.check) == ("warning", "actions")
    assert "actions: column 1 within less than 0.1% of the stated bounds" in found.message


def test_one_outlier_flattens_a_column() -> None:
    spike = changed(healthy(), "observations", 10, (0, 5e6, 0))  # a first row: nothing leads to it
    found = only(examine(spike))
    assert (found.grade, found.check, found.row) == ("warning", "outliers", 10)
    assert "column 1 is 5e+06 in row 10" in found.message
    heavy_tailed = np.random.default_rng(0).standard_t(3, (N, 3))
    assert not [f for f in examine(replace(healthy(), observations=heavy_tailed)) if f.check == "outliers"]


def test_constant_and_repeated_columns() -> None:
    flat = healthy().observations.copy()
    flat[:, 1] = 4
    findings = examine(replace(healthy(), observations=flat, next_observations=np.roll(flat, -1, axis=0)))
    assert "observations: column 1 constant" in findings[0].message
    twin = healthy().actions.copy()
    twin[:, 1] = twin[:, 0]
    assert only(examine(replace(healthy(), actions=twin))).message == "actions: equal columns 0 = 1"


def test_time_limits_marked_as_terminals() -> None:
    confused = replace(healthy(), terminals=healthy().timeouts, timeouts=np.zeros(N))
    found = only(examine(confused))
    assert (found.grade, found.check, found.row) == ("warning", "ends", 9)
    assert "4 episodes ended by a terminal after exactly 10 steps" in found.message


def test_terminals_of_many_lengths_are_not_suspected() -> None:
    terminals = np.zeros(N, bool)
    terminals[[8, 18, 27, 39]] = True  # lengths 9, 10, 9, 12
    dataset = replace(healthy(), terminals=terminals, timeouts=np.zeros(N))
    assert not [f for f in examine(dataset) if f.check == "ends"]


def test_an_unmarked_end_inside_an_episode() -> None:
    found = only(examine(changed(healthy(), "timeouts", 9, False)))
    assert (found.grade, found.check, found.row) == ("warning", "continuity", 9)


def test_other_ends() -> None:
    both = changed(healthy(), "terminals", 9, True)
    assert only(examine(both)).message == "1 row marked terminal and timed out at once, and taken as terminal"
    assert "cut by the end" in only(examine(healthy().transitions(0, 35))).message
    single = changed(healthy(), "timeouts", 10, True)
    assert (only(examine(single)).check, only(examine(single)).row) == ("lengths", 10)
    assert only(examine(healthy().transitions(0, 0))).grade == "error"


def test_a_demonstration_that_ends_at_once() -> None:
    lengths = [100, 5, 100, 60]
    rows, last = sum(lengths), np.cumsum(lengths) - 1
    observations = np.random.default_rng(0).normal(size=(rows + 1, 2))
    terminals, timeouts = np.zeros(rows, bool), np.zeros(rows, bool)
    terminals[last[[1, 3]]], timeouts[last[[0, 2]]] = True, True
    expert = from_arrays(
        observations=observations[:-1], actions=np.zeros((rows, 1)), next_observations=observations[1:],
        terminals=terminals, timeouts=timeouts,
    )  # fmt: skip
    found = [f for f in examine(expert, demonstrations=True) if f.check == "demonstrations"]
    assert [(f.grade, f.row) for f in found] == [("warning", 104)]
    assert "1 demonstration of 4 ended by a terminal after less than a tenth of the usual 80 steps" in found[0].message
    assert "demonstrations" not in {f.check for f in examine(expert)}  # other logs may well hold failures


def test_duplicates_are_counted_beyond_the_first() -> None:
    twice = concatenate([healthy(), healthy().episodes([2])])
    found = only(examine(twice))
    assert (found.grade, found.check, found.row) == ("warning", "duplicates", 40)
    assert found.message.startswith("10 transitions")


def test_expert_rows_among_the_other_logs() -> None:
    expert = concatenate([healthy(1).episodes([0]), healthy().episodes([3])])
    found = only(examine(healthy(), expert))
    assert "10 of 20 expert transitions" in found.message
    assert found.row == 10
    narrow = replace(expert, actions=expert.actions[:, :1])
    with pytest.raises(IlbrlError, match="the expert data does not fit"):
        require_healthy(healthy(), narrow)
    with pytest.raises(IlbrlError, match="actions: NaN in 1 row"):
        require_healthy(healthy(), changed(expert, "actions", 3, np.nan))


def test_where_steps_recur_equal_transitions_are_no_copies() -> None:
    corners = np.random.default_rng(0).integers(0, 2, (4, 101, 2)).astype(np.float32)  # four states, 400 steps
    walk = Dataset(
        observations=corners[:, :-1].reshape(-1, 2),
        next_observations=corners[:, 1:].reshape(-1, 2),
        actions=np.arange(400)[:, None] % 3 / 3,
        timeouts=np.arange(400) % 100 == 99,
        terminals=np.zeros(400),
    )
    found = [f for f in examine(walk, walk.episodes([1])) if f.check in ("duplicates", "expert")]
    assert [f.grade for f in found] == ["note", "note"]
    assert all("so that this is to be expected" in f.message for f in found)
    noisy = replace(walk, actions=np.random.default_rng(1).uniform(-1, 1, (400, 1)))
    copied = concatenate([noisy, noisy])  # equal numbers in their actions: copies
    assert [f.grade for f in examine(copied) if f.check == "duplicates"] == ["warning"]


def test_an_expert_without_rows_is_an_error() -> None:
    nobody = replace(healthy().episodes([0]), **{name: getattr(healthy(), name)[:0] for name in FIELDS})
    with pytest.raises(IlbrlError, match="not a single transition"):
        require_healthy(healthy(), nobody)


def test_a_policy_that_did_not_log_these_actions(full: Dataset) -> None:
    assert full.policy is not None
    actions = full.policy.act(full.observations, np.random.default_rng(0))
    log_probs = full.policy.log_prob(full.observations, actions)
    for shift, grades in ((0, []), (1, ["warning"])):
        findings = examine(replace(full, actions=actions, log_probs=log_probs + shift))
        assert [finding.grade for finding in findings if finding.check == "policy"] == grades


def test_the_readers_decisions_are_findings() -> None:
    assert only(examine(replace(healthy(), notes=("guessed",)))).message == "guessed"
    assert only(examine(replace(healthy(), warnings=("doubted",)))).grade == "warning"


def test_fingerprints_tell_rows_apart_by_any_bit() -> None:
    base = healthy()
    marks = transition_fingerprints(base)
    assert len(set(marks.tolist())) == N
    for field in ("observations", "actions", "next_observations"):
        value = getattr(base, field)[5]
        other = transition_fingerprints(changed(base, field, 5, np.nextafter(value, np.inf)))
        assert np.flatnonzero(marks != other).tolist() == [5]
    zero, minus_zero = (replace(base, observations=sign * np.zeros((N, 3))) for sign in (1, -1))
    assert np.array_equal(transition_fingerprints(zero), transition_fingerprints(minus_zero))


def test_fingerprints_of_small_whole_numbers_do_not_collide() -> None:
    """Floats of small integers end in many zero bits, which weak hashes confuse."""
    grid = np.stack(np.meshgrid(*[np.arange(20.0)] * 3), -1).reshape(-1, 3)
    rows = len(grid)
    dataset = Dataset(grid, np.zeros((rows, 1)), grid, np.zeros(rows), np.zeros(rows))
    assert len(np.unique(transition_fingerprints(dataset))) == rows
