"""`ilbrl evaluate`: from logs to values and a verdict, and a defined answer to whatever a user may lack."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest

from ilbrl import ope
from ilbrl.base.errors import IlbrlError
from ilbrl.cli import main
from ilbrl.data import Dataset, save
from ilbrl.policy import Policy
from ilbrl.report.text import percent


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
        save(log(gain, seed, rewards=False), path / f"bare-{name}.npz")
        layers = ((np.array([[-gain]]), np.zeros(1)),)
        Policy(layers, -np.ones(1), np.ones(1)).save(path / f"{name}.safetensors")
    own = log(-0.15, 3)
    assert own.rewards is not None
    holed = np.where(np.arange(len(own)) == 7, np.nan, own.rewards)
    save(replace(own, rewards=holed), path / "holed.npz")
    wide = np.repeat(own.observations, 2, axis=1)
    save(replace(own, observations=wide, next_observations=wide), path / "wide.npz")
    return path


SETTINGS = {
    "models": ["--members", "2", "--updates", "60", "--hidden", "8", "8", "--starts", "4", "--size", "small"],
    "expected_sarsa": ["--updates", "60", "--hidden", "8", "8", "--grid", "small"],
}


def evaluate(folder, *words, estimator="models", expert="expert.npz", logs="other.npz"):
    read = ["--expert", str(folder / expert), "--logs", str(folder / logs)]
    return main(["evaluate", *read, "--estimator", estimator, *SETTINGS[estimator], "--seeds", "1", "--quiet", *words])


def known(folder, *names):
    return ["--known", *(f"{name}={folder / name}.safetensors" for name in names)]


def policies(folder):
    return [str(folder / "expert.safetensors"), str(folder / "other.safetensors")]


@pytest.mark.parametrize("estimator", SETTINGS)
def test_policies_get_values_files_and_a_quantity(folder, tmp_path, capsys, estimator):
    words = ["--policy", *policies(folder), "--out", str(tmp_path), "--json"]
    assert evaluate(folder, *words, estimator=estimator) == 0
    result = json.loads(capsys.readouterr().out)["evaluation"]
    assert list(result["policies"]) == policies(folder)
    for entry in result["policies"].values():
        assert entry["verdict"] in ope.ESTIMATORS[estimator].verdicts
        assert entry["interval"][0] <= entry["value"] <= entry["interval"][1]
    assert (
        result["quantity"]
        == {
            "models": "mean return of an episode of at most 20 steps",
            "expected_sarsa": "discounted return at γ = 0.99",
        }[estimator]
    )
    assert result["trust"] is None
    left = {path.name.split("-")[0] for path in tmp_path.iterdir()}
    assert left == {"evaluation.json", "workplace" if estimator == "models" else "values.png"}


@pytest.mark.parametrize("check", [[], ["--clones"]])
def test_the_time_ahead_is_said_before_anything_is_trained(folder, capsys, monkeypatch, check):
    def stop(*arguments, **options):
        raise IlbrlError("as far as that")

    monkeypatch.setattr(ope, "evaluate", stop)
    words = ["evaluate", "--expert", f"{folder}/expert.npz", "--logs", f"{folder}/other.npz", "--policy"]
    assert main([*words, *policies(folder), *SETTINGS["models"], *check]) == 2
    said = capsys.readouterr().err.splitlines()
    assert re.match(r"about [\d min]+ s ahead on this machine, estimated from a short probe", said[0])
    assert said[-1] == "ilbrl evaluate: as far as that"
    assert main([*words, *policies(folder), *SETTINGS["models"], "--json"]) == 2
    assert "ahead" not in capsys.readouterr().err


def test_only_its_own_checkpoints_are_removed(folder, tmp_path):
    own = [tmp_path / "critics-of-mine.safetensors", tmp_path / "training-log.safetensors"]
    for file in own:
        file.write_text("the user's")
    assert evaluate(folder, "--policy", *policies(folder), "--out", str(tmp_path), estimator="expected_sarsa") == 0
    assert all(file.exists() for file in own)
    assert not (tmp_path / "workplace").exists()


def test_logs_alone_are_not_taken_for_the_experts(folder, capsys):
    words = ["--logs", str(folder / "other.npz"), *SETTINGS["models"], "--policy", policies(folder)[0], "--quiet"]
    assert main(["evaluate", *words]) == 0
    assert "expert" not in capsys.readouterr().err


def test_known_policies_calibrate_and_a_later_call_uses_it(folder, tmp_path, capsys):
    code = evaluate(folder, *known(folder, "expert", "other"), "--out", str(tmp_path))
    said = capsys.readouterr().out
    assert "without its logs" in said
    assert any(f"{saying}:" in said for saying in ope.SAYINGS.values())
    assert (tmp_path / "calibration.png").stat().st_size > 1000
    record = json.loads((tmp_path / "tuning.json").read_text())
    assert code == int(record["trust"]["verdict"] == "distrust")
    assert len(record["configurations"]) == 3  # penalties
    assert record["known"]["other"]["variant"] == "mean"
    assert record["known"]["expert"]["truth"] > record["known"]["other"]["truth"]
    chosen = record["configurations"][record["chosen"]]
    assert set(chosen["unseen"]) == {"expert", "other"}
    for check, view, where in (
        (record["trust"], "policies", "with their own logs"),
        (record["trust"]["unseen"], "unseen", "without them"),
    ):
        missed = [entry["estimate"] - entry["truth"] for entry in chosen[view].values()]
        spread = np.ptp([entry["truth"] for entry in chosen[view].values()])
        assert check["bias"] == pytest.approx(np.mean(missed) / spread)
        assert check["relative_value_error"] == pytest.approx(np.mean(np.abs(missed)) / spread)
        (line,) = (line for line in said.splitlines() if line.strip().startswith(f"{where}  "))
        assert f"mean error {percent(check['relative_value_error'])}, bias {percent(check['bias'])}, regret" in line

    again = ["--policy", policies(folder)[0], "--calibration", str(tmp_path / "tuning.json"), "--out", str(tmp_path)]
    assert evaluate(folder, *again, "--json") == code
    result = json.loads(capsys.readouterr().out)["evaluation"]
    assert result["config"] == record["config"]
    assert result["trust"]["verdict"] == record["trust"]["verdict"]
    (entry,) = result["policies"].values()
    half_width = (entry["interval"][1] - entry["interval"][0]) / 2
    assert half_width >= 1.96 * record["trust"]["error"]  # no surer than it was on the known policies

    save(log(-0.15, 5), folder / "later.npz")
    assert evaluate(folder, *again, "--json", logs="later.npz") == 0
    result = json.loads(capsys.readouterr().out)["evaluation"]
    assert result["trust"] is None
    assert "about other estimates: here another log logs;" in result["trust_withheld"]
    more = record | {"evidence": record["evidence"] | {"night": "0" * 64}}  # calibrated with one log more
    (tmp_path / "tuning.json").write_text(json.dumps(more))
    assert evaluate(folder, *again, "--json") == 0
    result = json.loads(capsys.readouterr().out)["evaluation"]
    assert result["trust"] is None
    assert "about other estimates: here no log night;" in result["trust_withheld"]
    (tmp_path / "tuning.json").write_text(json.dumps(record))
    assert evaluate(folder, *again, "--json", "--penalty", "7") == 0
    assert "here penalty 7.0, not" in json.loads(capsys.readouterr().out)["evaluation"]["trust_withheld"]
    default = ope.ESTIMATORS["models"].Config().penalty
    (tmp_path / "tuning.json").write_text(json.dumps(record | {"config": record["config"] | {"penalty": 0.25}}))
    assert evaluate(folder, *again, "--json", f"--penalty={default}") == 0  # typed, so it counts
    assert f"here penalty {default}, not 0.25" in json.loads(capsys.readouterr().out)["evaluation"]["trust_withheld"]
    for change, said in ({"verdict": "great"}, "trust.verdict: must be one of"), ({"reasons": ["\33[2Jfine"]}, ""):
        (tmp_path / "tuning.json").write_text(json.dumps(record | {"known": {}, "trust": record["trust"] | change}))
        assert evaluate(folder, *again) == (2 if said else code)
        told = capsys.readouterr()
        assert said in told.err
        assert "\33" not in told.out
    assert evaluate(folder, *again, estimator="expected_sarsa") == 2
    assert "tuning.json: calibrates models; say --estimator models" in capsys.readouterr().err


def test_a_switch_turned_off_departs_from_the_calibration(folder, tmp_path, capsys):
    assert evaluate(folder, *known(folder, "expert"), "--out", str(tmp_path), estimator="expected_sarsa") in (0, 1)
    capsys.readouterr()
    again = ["--policy", policies(folder)[0], "--calibration", str(tmp_path / "tuning.json"), "--no-informed-start"]
    assert evaluate(folder, *again, "--json", estimator="expected_sarsa") == 0
    result = json.loads(capsys.readouterr().out)["evaluation"]
    assert result["config"]["informed_start"] is False
    assert "here informed_start False, not True;" in result["trust_withheld"]


def test_logs_without_rewards_are_valued_by_closeness(folder, tmp_path, capsys):
    words = ["--policy", *policies(folder), "--out", str(tmp_path)]
    assert evaluate(folder, *words, expert="bare-expert.npz", logs="bare-other.npz") == 0
    said = capsys.readouterr().out
    assert "closeness to the expert, summed over the steps" in said
    assert "not of a task's reward" in said
    assert "not calibrated" in said


def test_clones_are_called_clones_and_end_in_care_at_best(folder, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(ope.clones, "__defaults__", (50, 0, None, True))
    evaluate(folder, "--clones", "--json", "--out", str(tmp_path), expert="bare-expert.npz", logs="bare-other.npz")
    found = json.loads(capsys.readouterr().out)["calibration"]
    assert set(found["known"]) == {"clone of expert", "clone of logs"}
    assert found["trust"]["verdict"] in ("care", "distrust")
    assert any("a clone is not the policy that made the logs" in reason for reason in found["trust"]["reasons"])


def test_two_demonstrations_are_enough(folder, tmp_path, capsys):
    save(log(0.9, 3, episodes=2), tmp_path / "two.npz")
    assert evaluate(folder, "--policy", policies(folder)[0], expert=tmp_path / "two.npz") == 0
    assert "the log expert has 2 complete episodes, too few to hold any out" in capsys.readouterr().out


def test_several_logs_have_their_own_names(folder, capsys):
    logs = [str(folder / name) for name in ("other.npz", "expert.npz")]
    who = [f"{name}={folder / name}.safetensors@{folder / name}.npz" for name in ("other", "expert")]
    words = ["evaluate", "--logs", *logs, "--known", *who, *SETTINGS["models"], "--quiet", "--json"]
    assert main(words) in (0, 1)
    found = json.loads(capsys.readouterr().out)["calibration"]
    assert set(found["configurations"][0]["unseen"]) == {"other", "expert"}
    assert set(found["evidence"]) == set(logs)


@pytest.mark.parametrize(
    ("words", "logs", "said"),
    [
        (["--policy", "{}/expert.safetensors"], "holed.npz", "rewards: NaN in 1 row (first: row 7)"),
        (["--known", "m={0}/other.safetensors@{0}/holed.npz"], "other.npz", "holed.npz: rewards: NaN in 1"),
        (["--known", "m={0}/other.safetensors@{0}/wide.npz"], "other.npz", "wide.npz: the expert data does"),
        (["--policy", "{}/expert.safetensors", "--seed", "-2"], "other.npz", "--seed -2: a seed cannot be negative"),
        (["--policy", "{}/expert.safetensors", "--seeds", "0"], "other.npz", "--seeds 0: an estimate needs"),
        ([], "other.npz", "nothing to evaluate"),
        (["--known", "expert"], "other.npz", "'expert' is not NAME=POLICY"),
        (["--known", "a={0}/other.safetensors", "b={0}/other.safetensors"], "other.npz", "cannot both be"),
        (["--policy", "{}/none.safetensors"], "other.npz", "none.safetensors"),
        (
            ["--policy", "{}/expert.safetensors", "--calibration", "{}/none.json"],
            "other.npz",
            "none.json: no such file",
        ),
        (["--policy", "{}/expert.safetensors", "--updates", "0"], "other.npz", "updates: must be a finite number, at"),
        (["--policy", "{}/expert.safetensors", "--gamma", "2"], "other.npz", "gamma: must be a finite number, between"),
        (["--clones", "--calibration", "{}/none.json"], "other.npz", "give one"),
        (["--policy", "logged:{}/other.npz"], "other.npz", "carries no behaviour policy"),
        (["--policy", "{}/expert.safetensors", "--estimator", "oracle"], "other.npz", "no estimator 'oracle'"),
    ],
)
def test_what_is_missing_is_said(folder, capsys, words, logs, said):
    assert evaluate(folder, *(word.format(folder) for word in words), logs=logs) == 2
    assert said in capsys.readouterr().err
