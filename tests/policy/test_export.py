"""Exported policies answer as NumPy does: ONNX by its runtime, C by the compiler of this machine."""

import shutil
import subprocess
import sys

import numpy as np
import pytest

from ilbrl.base.errors import IlbrlError
from ilbrl.policy.export_c import c_header, export_c
from ilbrl.policy.export_onnx import export_onnx

HEADS = ("deterministic", "tanh_gaussian", "categorical")
DEPTHS = ((), (16,), (32, 24), (16, 16, 16), (24, 8, 16, 12))
KINDS = [{}, {"layer_norm": True, "activation": "tanh"}, {"normalised": False, "mean_bound": 0.5}]


def squashed(policy, actions):
    """In units of the bounds: −1 to 1."""
    centre, half_range = policy.action_affine
    return (actions - centre) / half_range


@pytest.mark.parametrize("options", KINDS, ids=lambda kind: ",".join(kind) or "plain")
@pytest.mark.parametrize("hidden", DEPTHS, ids=len)
@pytest.mark.parametrize("head", HEADS)
def test_onnx_answers_as_numpy_does(make_policy, tmp_path, head, hidden, options):
    pytest.importorskip("onnx")
    runtime = pytest.importorskip("onnxruntime")
    policy = make_policy(head, hidden, metadata={"agent": "ilbrl"}, **options)
    session = runtime.InferenceSession(export_onnx(policy, tmp_path / "p.onnx"), providers=["CPUExecutionProvider"])
    assert session.get_modelmeta().custom_metadata_map == {"metadata": '{"agent": "ilbrl"}'}
    observations = np.random.default_rng(0).normal(size=(10_000, 5)).astype(np.float32)
    answers = dict(zip((o.name for o in session.get_outputs()), session.run(None, {"observation": observations})))
    if head == "categorical":
        probabilities = policy.probabilities(observations)
        np.testing.assert_allclose(answers["probabilities"], probabilities, atol=1e-6)
        best_two = np.sort(probabilities)[:, -2:]
        clear = best_two[:, 1] - best_two[:, 0] > 1e-6  # of two equally good actions either is right
        assert clear.mean() > 0.999
        np.testing.assert_array_equal(answers["action"][clear], policy.act(observations)[clear])
        return
    # float32 itself: NumPy with four layers of LayerNorm is 1.2e-6 from the same network in float64
    atol = 2e-6 if options.get("layer_norm") and len(hidden) == 4 else 1e-6
    np.testing.assert_allclose(
        squashed(policy, answers["action"]), squashed(policy, policy.act(observations)), atol=atol
    )
    if head == "tanh_gaussian":
        noise = np.random.default_rng(1).standard_normal((10_000, 3), dtype=np.float32)
        sampled = np.tanh(answers["mean"] + np.exp(answers["log_std"]) * noise)
        expected = squashed(policy, policy.act(observations, np.random.default_rng(1)))
        np.testing.assert_allclose(sampled, expected, atol=2e-6)


def test_without_onnx_the_message_says_what_to_install(make_policy, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(IlbrlError, match=r'pip install "ilbrl\[onnx\]"'):
        export_onnx(make_policy(), tmp_path / "p.onnx")


# --- C ---

DRIVERS = {  # what is asked of each observation; the noise of samples is the observation itself
    "deterministic": "code = p_act(observation, out);",
    "tanh_gaussian": "code = p_act(observation, out); code |= p_sample(observation, observation, out + 3);",
    "categorical": "int best = 0; code = p_act(observation, &best); out[4] = (ilbrl_real)best;"
    " code |= p_probabilities(observation, out);",
}
DRIVER = """
#include <stdio.h>
#include "p.h"
int main(void)
{
    ilbrl_real observation[P_OBS_DIM];
    while (fread(observation, sizeof(ilbrl_real), P_OBS_DIM, stdin) == P_OBS_DIM) {
        ilbrl_real out[6] = {0};
        int code = 0;
        %s
        ilbrl_real first = (ilbrl_real)code;
        fwrite(&first, sizeof(ilbrl_real), 1, stdout);
        fwrite(out, sizeof(ilbrl_real), 6, stdout);
    }
    return 0;
}
"""
STRICT = ["-std=c99", "-Wall", "-Wextra", "-Wconversion", "-Wno-float-conversion", "-pedantic", "-Werror"]


def run_c(policy, folder, observations, double):
    """[N, 7] exit code and answers of the compiled header."""
    export_c(policy, folder / "p.h", name="p")
    (folder / "main.c").write_text(DRIVER % DRIVERS[policy.head])
    define = ["-DILBRL_DOUBLE"] if double else []
    command = ["cc", *STRICT, *define, "-O1", str(folder / "main.c"), "-o", str(folder / "main"), "-lm"]
    compiled = subprocess.run(command, capture_output=True, text=True)
    assert compiled.returncode == 0, compiled.stderr
    real = np.float64 if double else np.float32
    done = subprocess.run([folder / "main"], input=observations.astype(real).tobytes(), capture_output=True, check=True)
    return np.frombuffer(done.stdout, real).reshape(len(observations), 7)


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler here")
@pytest.mark.parametrize("double", [False, True], ids=["float", "double"])
@pytest.mark.parametrize("options", KINDS, ids=lambda kind: ",".join(kind) or "plain")
@pytest.mark.parametrize(("head", "hidden"), list(zip(HEADS, ((24, 8, 16, 12), (32, 24), ()))))
def test_the_c_header_answers_as_numpy_does(make_policy, tmp_path, head, hidden, options, double):
    policy = make_policy(head, hidden, **options)
    observations = np.random.default_rng(0).normal(size=(1_000, 5)).astype(np.float32)
    observations[7, 2] = np.nan
    answers = run_c(policy, tmp_path, observations, double)
    assert np.flatnonzero(answers[:, 0]).tolist() == [7]
    fine = np.arange(1_000) != 7
    observations, answers = observations[fine], answers[fine, 1:]
    if head == "categorical":
        np.testing.assert_allclose(answers[:, :4], policy.probabilities(observations), atol=1e-6)
        assert (answers[:, 4] == policy.act(observations)).mean() > 0.999
        return
    expected = squashed(policy, policy.act(observations))
    np.testing.assert_allclose(squashed(policy, answers[:, :3]), expected, atol=3e-6)
    if head == "tanh_gaussian":

        class Noise:
            def standard_normal(self, shape, dtype):
                return observations[:, :3]

        expected = squashed(policy, policy.act(observations, Noise()))
        np.testing.assert_allclose(squashed(policy, answers[:, 3:]), expected, atol=5e-6)


def test_names_that_c_cannot_have(make_policy):
    for name in ("9lives", "a-b", "", "int main(void){}", "é"):
        with pytest.raises(IlbrlError, match="cannot begin names in C"):
            c_header(make_policy(), name)
