import json

import numpy as np
import pytest

from ilbrl.cli import main
from ilbrl.data import Dataset, save


@pytest.fixture
def files(tmp_path):
    rng = np.random.default_rng(0)
    for name, rows in (("expert", 40), ("data", 200)):
        ends = np.arange(1, rows + 1) % 20 == 0
        observations = rng.standard_normal((rows, 3))
        save(
            Dataset(observations, rng.uniform(-1, 1, (rows, 2)), observations, np.zeros(rows, bool), ends),
            tmp_path / f"{name}.npz",
        )
    return tmp_path


def test_labels_are_written_expert_rows_first(files, capsys):
    words = ["label", "--expert", f"{files}/expert.npz", "--logs", f"{files}/data.npz", "--out", f"{files}/labels.npz"]
    assert main([*words, "--plot", f"{files}/rewards.png"]) == 0
    assert "d_max" in capsys.readouterr().out
    labels = np.load(files / "labels.npz", allow_pickle=False)
    assert labels["reward"].shape == labels["distance"].shape == labels["nearest"].shape == (240,)
    assert (labels["reward"][:40] == 1.0).all()
    assert labels["d_max"] == labels["distance"].max() > 0
    assert (files / "rewards.png").stat().st_size > 1000


@pytest.mark.parametrize("option", ["--out", "--plot"])
def test_what_is_read_is_not_written_over(files, capsys, option):
    (files / "expert.png").symlink_to(files / "expert.npz")
    before = (files / "expert.npz").read_bytes()
    words = ["label", "--expert", f"{files}/expert.npz:2ep", "--logs", f"{files}/data.npz", option]
    assert main([*words, f"{files}/expert.png"]) == 2
    assert "expert.png: this command reads it; choose another name" in capsys.readouterr().err
    assert (files / "expert.npz").read_bytes() == before


def test_explain_says_which_step_and_how_far(files, capsys):
    words = ["label", "--expert", f"{files}/expert.npz:2ep", "--logs", f"{files}/data.npz", "--explain", "65"]
    assert main([*words, "--json"]) == 0
    why = json.loads(capsys.readouterr().out)["explanation"]
    assert (why["episode"], why["step"]) == (1, 5)  # row 25 of the data
    np.testing.assert_allclose(np.linalg.norm(why["per_feature"]), why["distance"], rtol=1e-6)
    assert main(words) == 0
    assert "nearest expert step: episode" in capsys.readouterr().out
    assert main([*words[:-1], "240"]) == 2
    assert "no row 240" in capsys.readouterr().err


def test_a_discriminator_labels_the_same_rows(files, capsys):
    words = ["label", "--reward", "discriminator", "--expert", f"{files}/expert.npz", "--logs", f"{files}/data.npz"]
    small = ["--discriminator.passes", "2", "--discriminator.hidden", "8", "8"]
    assert main([*words, *small, "--out", f"{files}/logits.npz", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    logits = np.load(files / "logits.npz", allow_pickle=False)["logit"]
    assert logits.shape == (1, 240)
    assert shown["mean_log_odds"]["expert"] == pytest.approx(logits[0, :40].mean(), rel=1e-5)
    assert main([*words, *small]) == 0
    assert "judged to be the expert's" in capsys.readouterr().out
    assert main([*words, "--explain", "3"]) == 2


@pytest.mark.parametrize("reward", ["support", "discriminator"])
def test_labels_go_into_the_very_file_that_was_named(files, reward):
    words = ["label", "--reward", reward, "--expert", f"{files}/expert.npz", "--logs", f"{files}/data.npz"]
    small = ["--discriminator.passes", "1", "--discriminator.hidden", "4"]
    assert main([*words, *small, "--out", f"{files}/out/labels.txt"]) == 0
    assert [path.name for path in (files / "out").iterdir()] == ["labels.txt"]
    assert "expert_rows" in np.load(files / "out" / "labels.txt", allow_pickle=False)


def test_outputs_that_cannot_be_are_refused(files, capsys):
    words = ["label", "--expert", f"{files}/expert.npz", "--logs", f"{files}/data.npz"]
    assert main([*words, "--plot", f"{files}/x.foo", "--out", f"{files}/labels.npz"]) == 2
    assert "x.foo: is no figure; name a file that ends in .png, .svg, .pdf" in capsys.readouterr().err
    assert not (files / "labels.npz").exists()  # said before the work, not after it
    assert main([*words, "--out", "."]) == 2
    assert ".: is a folder; name a file" in capsys.readouterr().err


def test_discrete_actions_are_explained_by_name(tmp_path, capsys):
    expert = [f"{t},{'left' if t < 5 else 'right'},{int(t == 9)}" for t in range(10)]
    others = [f"{t},{('left', 'right', 'stay')[t % 3]},{int(t == 9)}" for t in range(10)]
    for name, rows in {"expert": expert, "logs": others}.items():
        (tmp_path / f"{name}.csv").write_text("\n".join(["obs_0,action,terminal", *rows]))
    words = ["label", "--expert", f"{tmp_path}/expert.csv", "--logs", f"{tmp_path}/logs.csv"]
    assert main([*words, "--explain", "16"]) == 0  # row 6 of the logs: left at 6, where the expert goes right
    said = capsys.readouterr().out
    assert "action: left" in said
    assert "nearest expert step: episode 0, step 4, action left" in said
    assert "\nobs_0 " in said
    assert main([*words, "--explain", "12"]) == 0
    assert "the expert never takes the action stay" in capsys.readouterr().out
    assert main([*words, "--explain", "12", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["explanation"]["distance"] is None
    assert main([*words, "--explain", "12", "--action-distance", "0.5"]) == 0
    assert "nearest expert step: episode 0, step 2, action left" in capsys.readouterr().out
    assert main([*words, "--reward", "indicator", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["mean_reward"]["logs"] == pytest.approx(0.3)
    assert main([*words, "--action-distance", "-1"]) == 2
    assert "--action-distance: must be a finite number, at least 0" in capsys.readouterr().err


def test_actions_that_only_the_logs_take_are_features_too(tmp_path, capsys):
    for name, choices in (("expert", 2), ("logs", 4)):
        observations, ends = np.arange(8.0)[:, None], np.arange(8) == 7
        actions = np.arange(8) % choices  # numbers without names
        save(Dataset(observations, actions, observations, np.zeros(8, bool), ends), tmp_path / f"{name}.npz")
    words = ["label", "--expert", f"{tmp_path}/expert.npz", "--logs", f"{tmp_path}/logs.npz", "--action-distance", "1"]
    assert main([*words, "--explain", "11"]) == 0  # row 3 of the logs: action 3
    assert "\naction 3 " in capsys.readouterr().out
    assert main([*words, "--explain", "11", "--json"]) == 0
    why = json.loads(capsys.readouterr().out)["explanation"]
    assert why["feature_names"] == ["observation 0", "action 0", "action 1", "action 2", "action 3"]
    assert len(why["per_feature"]) == 5
