import json
from dataclasses import replace

import numpy as np
import pytest

from ilbrl import Policy
from ilbrl.cli import main, train
from ilbrl.data import Dataset, doctor, load, save


@pytest.fixture
def words(tmp_path):
    rng = np.random.default_rng(0)
    for name, rows in (("expert", 40), ("data", 200)):
        ends = np.arange(1, rows + 1) % 20 == 0
        observations, actions = rng.standard_normal((rows, 3)), rng.uniform(-1, 1, (rows, 2))
        save(Dataset(observations, actions, observations, np.zeros(rows, bool), ends), tmp_path / f"{name}.npz")
    sizes = ["--updates", "20", "--hidden", "8", "8", "--batch-size", "16"]
    return ["train", "ilbrl", "--expert", f"{tmp_path}/expert.npz", "--logs", f"{tmp_path}/data.npz", *sizes]


def test_trains_saves_and_reports(words, tmp_path, capsys, monkeypatch):
    out, examined, examine = tmp_path / "run", [], doctor.examine
    monkeypatch.setattr(
        doctor, "examine", lambda data, *more, **kind: examined.append(len(data)) or examine(data, *more, **kind)
    )
    assert main([*words, "--out", str(out), "--seeds", "2", "--preset", "paper", "--gamma", "0.9", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["config"]["lam"] == 3.780707811143581
    assert result["config"]["gamma"] == 0.9
    assert sorted(examined) == [40, 200]  # once each
    assert [member["diverged_at"] for member in result["members"]] == [-1, -1]
    assert Policy.load(result["members"][1]["policy"]).metadata["seed"] == 1
    assert (out / "labels.npz").exists()
    assert json.loads((out / "metrics.jsonl").read_text().splitlines()[-1])["update"] == 20


@pytest.mark.parametrize(
    "spelling", [["--preset", "paper"], ["--preset=paper"], ["--preset", "default", "--preset=paper"]]
)
def test_a_preset_is_found_however_it_is_spelled(words, tmp_path, capsys, spelling):
    assert main([*words, "--out", str(tmp_path / "run"), "--json", *spelling]) == 0
    assert json.loads(capsys.readouterr().out)["config"]["lam"] == 3.780707811143581


def test_a_finished_training_is_said_to_be_done_and_other_settings_are_named(words, tmp_path, capsys):
    words = [*words, "--out", str(tmp_path / "run")]
    assert main(words) == 0
    assert "already done" not in capsys.readouterr().out
    assert main(words) == 0
    assert "1 policy × 20 updates, already done" in capsys.readouterr().out
    assert main([*words, "--updates", "30"]) == 0
    assert "the last 10 of them in" in capsys.readouterr().out
    assert main([*words, "--divergence-factor", "50"]) == 2
    assert "(divergence_factor: 100.0 there, 50.0 here)" in capsys.readouterr().err
    assert main([*words, "--lam", "0.5", "--seeds", "1"]) == 2
    assert "a checkpoint of other settings or data (lam: 1.0 there, 0.5 here)" in capsys.readouterr().err


def test_all_diverged_is_bad_news(words, tmp_path, capsys):
    assert main([*words, "--out", str(tmp_path / "run"), "--critic-lr", "1e30"]) == 1
    assert "diverged at update" in capsys.readouterr().out


def test_metrics_that_are_no_numbers_are_null_in_json(words, tmp_path, capsys):
    assert main([*words, "--out", str(tmp_path / "run"), "--critic-lr", "1e30", "--json"]) == 1
    (member,) = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)["members"]
    assert None in member.values()


def test_warnings_of_the_doctor_are_shown_beside_the_json(words, tmp_path, capsys):
    save(load(f"{tmp_path}/data.npz"), tmp_path / "expert.npz")
    assert main([*words, "--out", str(tmp_path / "run"), "--json"]) == 0
    shown = capsys.readouterr()
    assert f"warning: {tmp_path}/data.npz: 200 of 200 expert transitions also stand in the other logs" in shown.err
    assert json.loads(shown.out)["updates"] == 20


def test_usage(capsys):
    assert main(["train"]) == 2
    assert main(["train", "--help"]) == 0
    assert "ilbrl-unweighted" in capsys.readouterr().out
    assert main(["train", "gail"]) == 2
    assert "no agent 'gail'" in capsys.readouterr().err
    assert main(["train", "ilbrl", "--preset", "best"]) == 2
    assert "no preset 'best': there are default, discrete, paper" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("--updates", "--updates: must be between 1 and"),
        ("--seeds", "--seeds: must be between 1 and"),
        ("--batch-size", "batch_size: must be"),
    ],
)
def test_nothing_to_do_is_refused(words, tmp_path, capsys, option, said):
    assert main([*words, "--out", str(tmp_path / "run"), option, "0"]) == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_errors_name_the_file_the_field_the_row_and_the_column(words, tmp_path, capsys):
    broken = load(f"{tmp_path}/data.npz")
    observations = broken.observations.copy()
    observations[7, 2] = np.nan
    save(replace(broken, observations=observations), tmp_path / "data.npz")
    assert main([*words, "--out", str(tmp_path / "run")]) == 2
    assert "data.npz: observations: NaN in 1 row (first: row 7, column 2)" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_a_folder_that_cannot_be_written_is_one_sentence(words, tmp_path, capsys):
    (tmp_path / "run").write_text("a file where the folder should be")
    assert main([*words, "--out", str(tmp_path / "run")]) == 2
    assert "run: cannot be used as a folder (there is a file of this name)" in capsys.readouterr().err
    assert (tmp_path / "run").read_text() == "a file where the folder should be"


TABLE = "trial;angle;speed;torque\n" + "".join(f"{i // 20};{i % 7},5;{i % 3};{(i % 5 - 2) / 2}\n" for i in range(100))
NAMES = ["--columns", "observations", "angle,speed", "actions", "torque", "episodes", "trial"]


def test_a_table_with_names_and_bounds_of_its_own(tmp_path, capsys):
    pytest.importorskip("pandas")
    (tmp_path / "logs.csv").write_text(TABLE.replace(".", ","))
    data = ["--expert", f"{tmp_path}/logs.csv:2ep", "--logs", f"{tmp_path}/logs.csv", *NAMES]
    sizes = ["--updates", "5", "--hidden", "8", "8", "--batch-size", "16", "--out", str(tmp_path / "run"), "--json"]
    assert main(["train", "bc", *data, *sizes, "--action-low", "-3", "--action-high", "3"]) == 0
    policy = Policy.load(json.loads(capsys.readouterr().out)["members"][0]["policy"])
    assert (policy.obs_dim, policy.action_low.tolist(), policy.action_high.tolist()) == (2, [-3], [3])


@pytest.mark.parametrize(("option", "value"), [("--updates", "0"), ("--updates", str(2**31)), ("--seeds", "9" * 12)])
def test_absurd_numbers_are_refused_before_anything_is_read(option, value, capsys):
    assert main(["train", "bc", "--expert", "nowhere.npz", "--logs", "nowhere.npz", "--out", "x", option, value]) == 2
    assert f"{option}: must be between 1 and " in capsys.readouterr().err


def test_a_file_in_place_of_the_folder_is_refused_before_training(words, tmp_path, capsys):
    (tmp_path / "taken").write_text("mine")
    assert main([*words, "--out", str(tmp_path / "taken")]) == 2
    assert "taken: cannot be used as a folder (there is a file of this name)" in capsys.readouterr().err
    assert (tmp_path / "taken").read_text() == "mine"


def test_a_table_of_named_actions_becomes_a_policy_that_chooses_among_them(tmp_path, capsys):
    pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    for name, choices in (("expert", ["go", "stop"]), ("logs", ["go", "stop", "turn"])):
        rows = [f"{x:.4f},{rng.choice(choices)},{i // 20}" for i, x in enumerate(rng.standard_normal(60))]
        (tmp_path / f"{name}.csv").write_text("\n".join(["obs_x,action,episode", *rows]) + "\n")
    words = ["train", "ilbrl", "--expert", f"{tmp_path}/expert.csv", "--logs", f"{tmp_path}/logs.csv", "--quiet"]
    assert main([*words, "--out", f"{tmp_path}/run", "--updates", "4", "--hidden", "8", "--batch-size", "16"]) == 0
    file = tmp_path / "run" / "policy-config0-seed0.safetensors"
    policy = Policy.load(file)
    assert policy.action_names == ("go", "stop", "turn")
    assert policy.probabilities([0.5]).shape == (3,)
    capsys.readouterr()
    assert main(["policy", "show", str(file)]) == 0
    assert "one of 0 … 2: 0 go, 1 stop, 2 turn" in capsys.readouterr().out


def test_a_committee_says_how_many_trainings_it_is(words, tmp_path, capsys):
    assert main([*words, "--out", str(tmp_path / "run"), "--committee", "2"]) == 0
    assert "ilbrl: 1 policy of 2 trainings × 20 updates in" in capsys.readouterr().out
    assert main(["policy", "show", str(tmp_path / "run" / "policy-config0-seed0.safetensors")]) == 0
    assert "ilbrl, seed 0, committee 2, updates 20" in " ".join(capsys.readouterr().out.split())


def test_imagined_steps_are_learned_from_after_the_logs(words, tmp_path, capsys, monkeypatch):
    asked = {}

    def imagine(expert, logs, **options):
        asked.update(options, rows=(len(expert), len(logs)))
        return logs.episodes([0])

    monkeypatch.setattr(train, "imagine", imagine)
    assert main([*words, "--out", str(tmp_path / "run"), "--imagine", "--json"]) == 0
    assert asked["rows"] == (40, 200)
    assert (asked["updates"], asked["config"].hidden, asked["workplace"]) == (20, (8, 8), tmp_path / "run")
    assert len(np.load(tmp_path / "run" / "labels.npz")["reward"]) == 40 + 200 + 20
    capsys.readouterr()
    assert main([*words, "--out", str(tmp_path / "run"), "--imagine"]) == 0
    said = capsys.readouterr().out
    assert "already done" in said
    assert "more --updates continue" not in said  # its teachers, and so its rows, would be others
    for agent, why in (("bc", "the expert's rows alone"), ("td3bc", "imagined steps have none")):
        assert main(["train", agent, *words[2:], "--out", str(tmp_path / agent), "--imagine"]) == 2
        assert why in capsys.readouterr().err
