"""kill −9 at ten random moments: whatever was going on, the continued study ends in the same bits."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

# Short chunks and a checkpoint after each, so that kills also fall into the middle of training.
SCRIPT = """
import sys, ilbrl.learning.population as t, ilbrl.learning.checkpoint as c
t.default_chunk = lambda: 4
c.time.monotonic = iter(range(10**9)).__next__
from ilbrl.cli import main
sys.exit(main(sys.argv[1:]))
"""
KILLS = 10


def read_json(path):
    return json.loads(path.read_text())


@pytest.mark.slow
def test_ten_kills(tiny, tmp_path, weights):
    def outcome(run):
        audit = read_json(run / "audit.json")
        return weights(run / "policies"), *(audit[k] for k in ("study_hash", "data", "splits")), selected(run)

    def selected(run):
        return read_json(run / "selection.json")

    tiny.save(tmp_path / "study.toml")
    cache = {"JAX_COMPILATION_CACHE_DIR": str(tmp_path / "cache"), "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}

    def start(run):
        words = [sys.executable, "-c", SCRIPT, "tune", str(tmp_path / "study.toml"), "--out", str(run)]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        return subprocess.Popen(words, env={**os.environ, **cache}, **quiet)

    assert start(tmp_path / "whole").wait() == 0
    began = time.monotonic()
    assert start(tmp_path / "again").wait() == 0  # with a warm cache: as long as an unkilled run takes
    seconds = time.monotonic() - began
    expected = outcome(tmp_path / "whole")
    assert outcome(tmp_path / "again") == expected

    rng, kills, attempt = np.random.default_rng(0), 0, 0
    run = tmp_path / "killed-0"
    while kills < KILLS:
        process = start(run)
        try:
            process.wait(timeout=rng.uniform(0.2, 0.9) * seconds)
        except subprocess.TimeoutExpired:
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
            kills += 1
        else:
            assert process.returncode == 0
            assert outcome(run) == expected
            attempt += 1
            run = tmp_path / f"killed-{attempt}"
    assert start(run).wait() == 0
    assert outcome(run) == expected
