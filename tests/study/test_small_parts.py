"""The small parts of a study, each against an answer worked out by hand."""

from dataclasses import replace

import numpy as np
import pytest

from ilbrl import ope
from ilbrl.agents import AGENTS
from ilbrl.base.errors import IlbrlError
from ilbrl.base.records import from_json, to_plain
from ilbrl.results.schema import Chosen, Committee, KnownRecord, Selection, TrustRecord, TuningRecord, Valuation
from ilbrl.results.tables import Candidate
from ilbrl.rewards import Labels
from ilbrl.study.duration import COMPILING, seconds_of
from ilbrl.study.estimator import estimate_records, estimator_of
from ilbrl.study.jobs import counted
from ilbrl.study.outcome import warned
from ilbrl.study.study import Evaluation, Study
from ilbrl.study.training import summary


def test_coverage_is_the_share_of_expert_steps_that_are_somebodys_nearest():
    labels = Labels(
        reward=np.array([1, 1, 1, 1, 0.5, 0.25, 0.0], np.float32),
        distance=np.array([0, 0, 0, 0, 1.0, 2.25, 4.0]),
        nearest=np.array([0, 1, 2, 3, 2, 2, 0]),
        d_max=4.0,
        expert_rows=4,
    )
    found = summary(labels)
    assert found.coverage == {"covered_share": 0.5, "mean_reward": 0.25}
    assert found.expert[-1] == 4
    assert sum(found.logs) == 3
    assert found.logs[0] == found.logs[10] == found.logs[20] == 1  # bins of 1/40
    assert len(found.bins) == len(found.expert) + 1


def test_updates_of_all_members_are_counted_whatever_the_groups():
    told = []
    log = counted(told.append)
    for update, members in ((10, 3), (20, 3), (10, 2), (20, 2)):  # a population that was trained in two groups
        log({"update": update, "diverged": np.zeros(members, bool)})
    assert told == [30, 30, 20, 20]


def test_a_studys_settings_hold_in_every_configuration_that_is_tried(finished, tiny):
    from ilbrl.study.logs import load_logs, split

    settings = {"lr": "0.001", "hidden": "[8, 8]", "value_bounds": "true", "grid": "default", "updates": "100000"}
    study = replace(tiny, evaluation=Evaluation("expected_sarsa", settings))
    chosen = estimator_of(study)
    tried = chosen.estimator.choices(chosen.config, split(study, load_logs(study, quiet=True)).evidence).configs
    assert len(set(tried)) == len(tried) == 3  # expert fractions; slow targets are left out, learning rates are one
    assert {(c.lr, c.hidden, c.value_bounds) for c in tried} == {(0.001, (8, 8), True)}
    alone = replace(tiny, evaluation=Evaluation("expected_sarsa", {**settings, "grid": "none"}))
    assert estimator_of(alone).config.grid == "none"  # a word of the setting, and not nothing


def test_whether_known_policies_are_also_valued_without_their_logs(tiny):
    from ilbrl.study.evaluation import calibration_job, preparation_job
    from ilbrl.study.logs import load_logs, split

    small = {"size": "small", "members": "2", "updates": "100"}
    study = replace(tiny, evaluation=Evaluation(settings=small))
    parts = split(study, load_logs(study, quiet=True))
    without = replace(tiny, evaluation=Evaluation(settings=small, blind=False))
    both, own = (calibration_job(each, parts) for each in (study, without))
    assert (both.inputs["blind"], own.inputs["blind"]) == (True, False)  # models are checked off the logs by default
    assert both.id != own.id
    prepared = preparation_job(study, parts)
    assert prepared is not None
    assert prepared.updates == 2 * 100
    assert (both.updates, own.updates) == (2 * 2 * 100, 0)  # an ensemble more without each of the two logs


@pytest.mark.parametrize(
    ("evaluation", "said"),
    [
        (
            Evaluation("expected_sarsa", {"learning_rate": "1"}),
            r"settings\.learning_rate: .*there are updates",
        ),
        (Evaluation("expected_sarsa", {"hidden.x": "1"}), r"settings\.hidden\.x: .*there are no parts"),
        (Evaluation("guessing"), r"no estimator 'guessing': there are"),
        (Evaluation("expected_sarsa", {"seed_penalty": "2"}, 1), r"one evaluation seed has nobody to disagree with"),
    ],
)
def test_settings_that_no_estimator_has(evaluation, said):
    with pytest.raises(IlbrlError, match=said):
        estimator_of(Study(evaluation=evaluation))


def test_what_is_kept_of_an_ensembles_estimates():
    """Two seeds with two models each; a policy whose value is void has no number by any of them."""
    parts = tuple(ope.Part(seed, member) for seed in (1000, 1001) for member in (0, 1))
    made = {"good": ope.Estimate(2.5, 1.0, "fine", (1.0, 2.0, 3.0, 4.0)), "bad": ope.Estimate(np.nan, np.nan, "broken")}
    found = ope.Estimates("models", None, ope.Quantity(), made, {"fine": "sound", "broken": "void"}, 0.0, parts)
    good, bad = (estimate_records(found, name) for name in made)
    assert [(e.evaluation_seed, e.member, e.value) for e in good] == [
        (1000, 0, 1.0), (1000, 1, 2.0), (1001, 0, 3.0), (1001, 1, 4.0)
    ]  # fmt: skip
    assert [(e.evaluation_seed, e.member, e.value, e.grade) for e in bad][1] == (1000, 1, None, "void")
    assert len(bad) == 4


@pytest.mark.parametrize("name", AGENTS)
def test_every_agents_configuration_goes_through_json(name):
    for config in AGENTS[name].presets.values():
        assert from_json(type(config), to_plain(config), name) == config


def test_labels_are_searched_once_and_read_again(finished):
    (folder,) = finished.glob("jobs/label-*")
    labels = Labels.load(folder / "labels.npz")
    assert labels.reward.max() == 1
    assert labels.expert_rows == 2 * 20
    assert len(labels.reward) == len(labels.nearest)


def test_the_time_ahead_is_in_proportion_to_updates_and_to_the_machine(tiny):
    from ilbrl.study.logs import load_logs, split
    from ilbrl.study.training import training_jobs

    parts = split(tiny, load_logs(tiny, quiet=True))
    longer = replace(tiny, training=replace(tiny.training, updates=80))
    (_, bc), (_, twice) = (training_jobs(study, parts) for study in (tiny, longer))
    bare = replace(tiny, evaluation=Evaluation("importance"))  # costs no update
    fixed = 2 * COMPILING
    spec = parts.evidence.spec
    once = seconds_of(bc, bare, spec, 1e6) - fixed
    # 4 members × 40 updates of batches of 16; networks 3 → 8 → 8 → 1 with biases, kept four times: see State
    assert once == pytest.approx(4 * 40 * 2 * 16 * 4 * (4 * 8 + 9 * 8 + 9) / 1e6, rel=0.02)
    assert seconds_of(twice, bare, spec, 1e6) - fixed == pytest.approx(2 * once)
    assert seconds_of(bc, bare, spec, 2e6) - fixed == pytest.approx(once / 2)


def test_warnings_are_about_the_policies_that_were_selected():
    """Of two configurations with the same best seed, the selected one is far from the logs and valued highly."""
    found = [Candidate("bc", number, 0, {}, distance=distance) for number, distance in ((0, 9.0), (1, 1.0))]
    selection = Selection({"bc": Chosen(configuration=0, best_seed=0, value=12.0)})
    tuning = TuningRecord(trust=TrustRecord(distance_limit=2.0, error=1.0), known={"expert": KnownRecord(truth=10.0)})
    trust = to_plain(warned(tuning, found, selection).trust)
    assert "bc (9.00)" in trust["distance_warning"]
    assert "above the best known policy (10), where nothing was checked: bc (12)" in trust["value_warning"]
    near = to_plain(warned(tuning, found, Selection({"bc": Chosen(configuration=1, best_seed=0, value=10.5)})).trust)
    assert near["distance_warning"] is near["value_warning"] is None
    all_seeds = Committee(valuation=Valuation(distance=3.0), value=50.0, deployed=True)
    together = Chosen(configuration=1, best_seed=0, value=9.0, committee=all_seeds)
    whole = to_plain(warned(tuning, found, Selection({"bc": together})).trust)
    assert "bc (3.00)" in whole["distance_warning"]
    assert "bc (50)" in whole["value_warning"]
