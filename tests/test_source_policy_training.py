"""The script that makes the source policies, at a size that only shows it runs, resumes and exports."""

import subprocess
import sys
from pathlib import Path

import pytest

from ilbrl.policy import Policy

SCRIPT = Path(__file__).parent.parent / "scripts" / "train_source_policies.py"


@pytest.mark.slow
def test_training_goes_on_where_it_stopped(tmp_path):
    settings = {"environments": 2, "capacity": 1000, "random-steps": 100, "evaluate-every": 200, "batch-size": 16}
    words = [word for name, value in settings.items() for word in (f"--config.{name}", str(value))]
    for steps, expected in ((200, [200]), (400, [200, 400])):
        command = [sys.executable, SCRIPT, "train", "hopper", "--out", tmp_path, "--steps", str(steps), *words]
        run = subprocess.run(command, check=True, capture_output=True, text=True)
        assert f"hopper: step {steps}" in run.stdout
        policies = [Policy.load(path) for path in sorted((tmp_path / "hopper").glob("step-*.safetensors"))]
        assert [policy.metadata["sac_step"] for policy in policies] == expected
        assert policies[-1].head == "tanh_gaussian"
        assert policies[-1].obs_dim == 11


@pytest.mark.slow
def test_policies_that_choose_are_trained_by_ppo(tmp_path):
    script = SCRIPT.with_name("train_discrete_source_policies.py")
    command = [sys.executable, script, "cartpole", "--out", tmp_path, "--steps", "128", "--rollout", "8"]
    run = subprocess.run(command, check=True, capture_output=True, text=True)
    assert "cartpole: step 128" in run.stdout
    policies = [Policy.load(path) for path in sorted((tmp_path / "cartpole").glob("step-*.safetensors"))]
    assert policies[-1].head == "categorical"
    assert policies[-1].metadata["action_names"] == ["left", "right"]
