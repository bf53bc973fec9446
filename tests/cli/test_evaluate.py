"""`ilbrl evaluate`: from logs to values and a verdict, and a defined answer to whatever a user may lack."""

import json
from dataclasses import replace

import numpy as np
import pytest

from ilbrl import ope
from ilbrl.cli import main
from ilbrl.cli.evaluate_text import as_text
from ilbrl.data import Dataset, save
from ilbrl.policy import Policy


def log(gain: float, seed: int, episodes: int = 30, rewards: bool = True) -> Dataset:
    """x′ = 0.9 x + 0.5 u + noise, r = 1 − x², u = −gain · x, episodes of 20 steps."""
    rng = np.random.default_rng(seed)
    x, columns = rng.uniform(-1, 1, episodes), []
    for _ in range(20):
        u = -gain * x
        following = 0.9 * x + 0.5 * u + 0.05 * rng.standard_normal(episodes)
        columns.append((x, u, 1 - x**2, following))
        x = following
    x, u, r, y = (np.stack(column, 1).reshape(-1, 1) for column in zip(*columns))
    ends = np.tile(np.arange(20) == 19, episodes)
    return Dataset(
        x, u, y, np.zeros(len(x), bool), ends, rewards=r[:, 0] if rewards else None,
        action_low=[-1.0], action_high=[1.0],
    )  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("evaluate")
    for name, gain, seed in (("expert", 0.9, 0), ("other", -0.15, 1)):
        save(log(gain, seed), path / f"{name}.npz")
        layers = ((np.array([[-gain]]), np.zeros(1)),)
        Policy(layers, -np.ones(1), np.ones(1)).save(path / f"{name}.safetensors")
    save(log(0.5, 2, rewards=False), path / "bare.npz")
    own = log(-0.15, 3)
    assert own.rewards is not None
    holed = np.where(np.arange(len(own)) == 7, np.nan, own.rewards)
    save(replace(own, rewards=holed), path / "holed.npz")
    wide = np.repeat(own.observations, 2, axis=1)
    save(replace(own, observations=wide, next_observations=wide), path / "wide.npz")
    return path


def evaluate(folder, *words, expert="expert.npz", data="other.npz"):
    logs = ["--expert", str(folder / expert), "--data", str(folder / data)]
    return main(["evaluate", *logs, "--hidden", "8", "8", "--seeds", "1", "--quiet", *words])


def known(folder, *names):
    return ",".join(f"{name}={folder / name}.safetensors" for name in names)


def test_policies_get_values_files_and_figures(folder, tmp_path, capsys):
    policies = [str(folder / "expert.safetensors"), str(folder / "other.safetensors")]
    code = evaluate(folder, "--policy", *policies, "--updates", "60", "--out", str(tmp_path), "--json")
    result = json.loads(capsys.readouterr().out)["evaluation"]
    assert code == 0
    assert list(result["policies"]) == policies
    for entry in result["policies"].values():
        assert entry["verdict"] == "moving"  # 60 updates are next to nothing, and it says so
        assert entry["interval"][0] <= entry["value"] <= entry["interval"][1]
    assert result["initial_states"] == 2 * 9
    assert {path.name for path in tmp_path.iterdir()} == {"evaluation.json", "values.png"}
    assert evaluate(folder, "--policy", policies[0], "--updates", "20", "--out", str(tmp_path)) == 0
    assert list(json.loads((tmp_path / "evaluation.json").read_text())["policies"]) == policies[:1]


def test_a_penalty_lowers_values_by_what_seeds_disagree(folder, capsys):
    words = ["--policy", str(folder / "expert.safetensors"), "--updates", "20", "--seeds", "3", "--penalty", "2"]
    assert evaluate(folder, *words, "--json") == 0
    result = json.loads(capsys.readouterr().out)["evaluation"]
    (entry,) = result["policies"].values()
    assert entry["value"] == pytest.approx(np.mean(entry["per_seed"]) - 2 * np.std(entry["per_seed"], ddof=1))
    assert any("less 2 standard deviations" in note for note in result["notes"])


def test_tuning_writes_the_setting_that_a_later_call_uses(folder, tmp_path, capsys):
    code = evaluate(
        folder, "--tune", "--known", known(folder, "expert", "other"), "--grid", "small", "--updates", "60",
        "--out", str(tmp_path),
    )  # fmt: skip
    said = capsys.readouterr().out
    assert "chose setting" in said
    assert any(verdict in said for verdict in ("trust it:", "use with care:", "do not trust it:"))
    record = json.loads((tmp_path / "tuning.json").read_text())
    assert code == int(record["trust"]["verdict"] == "distrust")
    assert len(record["configurations"]) == 3
    assert record["known"]["other"]["variant"] == "mean"
    assert record["known"]["expert"]["truth"] > record["known"]["other"]["truth"]
    assert {path.name for path in tmp_path.iterdir()} == {"tuning.json", "calibration.png", "known-values.png"}

    policy = str(folder / "expert.safetensors")
    logs = ["--expert", str(folder / "expert.npz"), "--data", str(folder / "other.npz"), "--quiet", "--seeds", "1"]
    words = ["evaluate", *logs, "--policy", policy, "--config", str(tmp_path / "tuning.json")]
    assert main([*words, "--json"]) == code
    result = json.loads(capsys.readouterr().out)["evaluation"]
    assert result["updates"] == record["updates"]
    chosen = record["configurations"][record["chosen"]]
    assert chosen["hidden"] == [8, 8]
    assert result["setting"] == {name: chosen[name] for name in result["setting"]}
    assert result["trust"]["verdict"] == record["trust"]["verdict"]

    save(log(-0.15, 5), tmp_path / "later.npz")
    words[words.index("--data") + 1] = str(tmp_path / "later.npz")
    assert main([*words, "--json"]) == 0
    result = json.loads(capsys.readouterr().out)["evaluation"]
    assert result["trust"] is None
    assert "belongs to another setting: here another --data;" in result["trust_withheld"]


@pytest.mark.parametrize(("verdict", "said", "code"), [("distrust", "do not trust it:", 1), ("care", "with care:", 0)])
def test_a_tuned_setting_brings_its_verdict(folder, tmp_path, capsys, verdict, said, code):
    setting = ope.Setting(0.5, ope.Config(hidden=(4,)))
    trust = {"verdict": verdict, "reasons": ["because of this"], "distance_limit": None}
    record = {"configurations": [setting.as_dict()], "chosen": 0, "updates": 5, "trust": trust}
    (tmp_path / "tuning.json").write_text(json.dumps(record))
    policy = str(folder / "expert.safetensors")
    words = ("--policy", policy, "--config", str(tmp_path / "tuning.json"), "--hidden", "4")
    assert evaluate(folder, *words) == code
    shown = capsys.readouterr().out
    assert said in shown
    assert "because of this" in shown
    assert "untuned" not in shown
    assert "another setting" not in shown

    del record["configurations"][0]["lr"]
    (tmp_path / "tuning.json").write_text(json.dumps(record))
    assert evaluate(folder, "--policy", policy, "--config", str(tmp_path / "tuning.json")) == 2
    shown = capsys.readouterr().err
    assert "tuning.json: not a tuning.json" in shown
    assert "lacks 'lr'" in shown


@pytest.mark.parametrize(
    ("words", "departure"),
    [
        (["--hidden", "3", "3"], "here hidden 3 3, not 4;"),
        (["--hidden", "4", "--dtype", "bfloat16"], "here dtype bfloat16, not float32;"),
        (["--hidden", "4", "--updates", "4"], "here 4 updates, not 5;"),
        (["--hidden", "4", "--updates", "6"], None),
    ],
)
def test_a_verdict_on_another_setting_is_withheld(folder, tmp_path, capsys, words, departure):
    setting = ope.Setting(0.5, ope.Config(hidden=(4,)))
    trust = {"verdict": "distrust", "reasons": ["because of this"], "distance_limit": 1e-9}
    record = {"configurations": [setting.as_dict()], "chosen": 0, "updates": 5, "trust": trust}
    (tmp_path / "tuning.json").write_text(json.dumps(record))
    words = ["--policy", str(folder / "expert.safetensors"), "--config", str(tmp_path / "tuning.json"), *words]
    assert evaluate(folder, *words) == int(departure is None)
    shown = capsys.readouterr().out
    assert ("because of this" in shown) == (departure is None)
    assert f"the tuning's verdict belongs to another setting: {departure}" in shown or departure is None
    evaluate(folder, *words, "--json")
    result = json.loads(capsys.readouterr().out)["evaluation"]
    assert result["trust"] == (trust if departure is None else None)
    assert (result["trust_withheld"] is None) == (departure is None)
    assert "farther from the data" in result["distance_warning"]  # is about the policy and the data, not the critics


def test_an_estimate_of_nothing_is_a_number():
    row = {"verdict": "moving", "truth": 1.0, "estimate": 0.0}
    chosen = {**ope.Setting(0.5).as_dict(), "policies": {"expert": row}}
    tuning = {"configurations": [chosen], "chosen": 0, "trust": {"verdict": "care", "reasons": []}}
    assert as_text({"tuning": tuning}).splitlines()[2].split() == ["expert", "0", "1", "moving"]


def test_one_known_policy_is_used_with_care_at_best(folder, capsys):
    evaluate(
        folder, "--tune", "--known", known(folder, "expert"), "--grid", "paper-choice", "--updates", "40", "--json"
    )
    trust = json.loads(capsys.readouterr().out)["tuning"]["trust"]
    assert trust["verdict"] in ("care", "distrust")
    assert any("only one known policy" in reason for reason in trust["reasons"])


@pytest.mark.parametrize(
    ("words", "data", "said"),
    [
        (["--policy", "{}/expert.safetensors"], "bare.npz", "no rewards: off-policy evaluation needs them"),
        (["--policy", "{}/expert.safetensors"], "holed.npz", "rewards: NaN in 1 row (first: row 7)"),
        (["--tune", "--known", "m={0}/other.safetensors@{0}/holed.npz"], "other.npz", "holed.npz: rewards: NaN in 1"),
        (["--tune", "--known", "m={0}/other.safetensors@{0}/wide.npz"], "other.npz", "wide.npz: the expert data does"),
        (["--policy", "{}/expert.safetensors", "--updates", "0"], "other.npz", "--updates 0: an estimate needs"),
        (["--policy", "{}/expert.safetensors", "--hidden", "8", "0"], "other.npz", "--hidden 8 0: a layer needs"),
        (["--policy", "{}/expert.safetensors", "--seed", "-2"], "other.npz", "--seed -2: a seed cannot be negative"),
        (["--policy", "{}/expert.safetensors", "--penalty", "-1"], "other.npz", "--penalty -1.0: values are lowered"),
        (
            ["--policy", "{}/expert.safetensors", "--penalty", "2", "--seeds", "1"],
            "other.npz",
            "nobody to disagree with",
        ),
        ([], "other.npz", "nothing to evaluate"),
        (["--tune"], "other.npz", "--tune needs policies of known value"),
        (["--tune", "--known", "expert"], "other.npz", "'expert' is not NAME=POLICY"),
        (["--tune", "--known", "a={0}/other.safetensors,b={0}/other.safetensors"], "other.npz", "cannot both be"),
        (["--policy", "{}/none.safetensors"], "other.npz", "no such policy file"),
        (["--policy", "{}/expert.safetensors", "--config", "{}/none.json"], "other.npz", "none.json: no such file"),
        (["--policy", "{}/expert.safetensors", "--grid", "vast"], "other.npz", "no grid 'vast'"),
        (["--policy", "logged:{}/other.npz"], "other.npz", "carries no behaviour policy"),
    ],
)
def test_what_is_missing_is_said(folder, capsys, words, data, said):
    assert evaluate(folder, *(word.format(folder) for word in words), data=data) == 2
    assert said in capsys.readouterr().err


def test_too_few_episodes(folder, tmp_path, capsys):
    save(log(0.9, 3, episodes=1), tmp_path / "one.npz")
    assert evaluate(folder, "--policy", str(folder / "expert.safetensors"), expert=tmp_path / "one.npz") == 2
    assert "1 complete episodes; evaluation needs at least two" in capsys.readouterr().err
