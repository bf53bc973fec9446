"""A hundred kills (SIGKILL) at random moments of a study, each continued: does it end in the same bits?

    python -m benchmarks.kills [--kills 100] [--seed 0] [--out docs/results/kills]          (half an hour on two cores)

A tiny study is valued by learned models and played in Pendulum. It is killed none, one or two times in each of its
phases (logs with the start of Python, split, tuning with the training of the models, training, evaluation by rollouts,
selection, final), at moments that are drawn from the usual length of the phase. After each kill the same command is
given again; after the last one it ends by itself. What it leaves is compared with an undisturbed study: how every
policy acts, and all tables but the seconds. Then comes a fresh study. kills.json has every moment and what was going
on: a phase can be over sooner than was drawn, above all one that an earlier kill left half done.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import json
import os
import platform
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

from ilbrl.base.files import written_whole
from ilbrl.base.provenance import commit, versions
from ilbrl.data import Dataset, save
from ilbrl.policy import Layer, Policy
from ilbrl.study.jobs import fingerprint
from ilbrl.study.session import PHASES
from ilbrl.study.study import Data, Evaluation, Final, Search, Study, Training

LENGTH, EPISODES = 20, 40
MOST_IN_A_PHASE = 2  # kills of one study
POLL = 0.003  # seconds between two looks at the log of a study
JSON_FILES = ("data.json", "tuning.json", "selection.json", "final.json")
TABLES = ("results.csv", "curves.csv", "values.csv")

# Short chunks and a checkpoint after each, so that kills also fall into the middle of training.
COMMAND = """
import sys
from ilbrl.learning import population
population.default_chunk = lambda: 4
population.fit.__kwdefaults__["save_every"] = 0.0
from ilbrl.cli import main
sys.exit(main(sys.argv[1:]))
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="a folder for kills.json")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ilbrl-kills-") as folder:
        found = kill_often(
            tiny_study(Path(folder)),
            Path(folder),
            options.kills,
            options.seed,
            say=lambda line: print(line, flush=True),
        )
    print(f"{found['kills']} kills, {found['studies']} studies, {len(found['unequal'])} unequal")
    if options.out:
        with written_whole(options.out / "kills.json") as partial:
            moments = ",\n    ".join(json.dumps(each) for each in found.pop("moments"))
            partial.write_text(json.dumps(found, indent=2)[:-2] + f',\n  "moments": [\n    {moments}\n  ]\n}}\n')
    sys.exit(bool(found["unequal"]))


def tiny_study(folder: Path) -> Study:
    """ILBRL and BC, 2 configurations × 2 seeds, on logs of a point that two policies push; sizes are Pendulum's."""
    known = {}
    for role, (policy, made) in pushed().items():
        save(made, folder / f"{role}.npz")
        known[f"{role}.policy"] = str(policy.save(folder / f"{role}.safetensors"))
    return Study(
        name="tiny",
        task="Pendulum-v1",
        data=Data(f"{folder}/expert.npz", f"{folder}/logs.npz", 2, 300, 300, 120),
        known=known,
        search=Search(("ilbrl", "bc"), 2, ranges={"all.hidden": "[8, 8]", "all.batch_size": "16"}),
        training=Training(seeds=2, updates=80),
        evaluation=Evaluation(
            "models", {"size": "small", "members": "2", "updates": "100", "hidden": "[16]", "starts": "3"}
        ),
        final=Final(episodes=2, environment_seeds=2),
    )


def pushed() -> dict[str, tuple[Policy, Dataset]]:
    """Role → a policy that pushes a point towards the origin, or slowly away from it, and its logs."""
    return {"expert": pushed_by(3.0, 0.1, 0), "logs": pushed_by(-0.2, 0.5, 1)}


def pushed_by(gain: float, noise: float, seed: int) -> tuple[Policy, Dataset]:
    """The policy u = −gain · s₀, and its logs."""
    weights = np.array([[-gain], [0.0], [0.0]], np.float32)
    policy = Policy((Layer(weights, np.zeros(1)),), action_low=np.array([-2.0]), action_high=np.array([2.0]))
    return policy, _logs(policy, noise, np.random.default_rng(seed))


def _logs(policy: Policy, noise: float, rng: np.random.Generator) -> Dataset:
    """Rewards 1 − s₀²; every episode is a time-out."""
    rows = []
    for _ in range(EPISODES):
        state = rng.uniform(-1, 1, 3).astype(np.float32)
        for _ in range(LENGTH):
            action = np.clip(policy.act(state) + noise * rng.standard_normal(1), -2, 2).astype(np.float32)
            following = (0.9 * state + 0.1 * np.array([action[0], 0, 0])).astype(np.float32)
            rows.append((state, action, following, 1 - state[0] ** 2))
            state = following
    observations, actions, following, rewards = (np.array(column) for column in zip(*rows))
    ends = np.arange(1, len(rows) + 1) % LENGTH == 0
    low, high = np.array([-2.0]), np.array([2.0])
    never = np.zeros(len(rows), bool)
    return Dataset(observations, actions, following, never, ends, rewards, action_low=low, action_high=high)


def kill_often(
    study: Study, folder: Path, kills: int, seed: int, say: Callable[[str], None] = lambda line: None
) -> dict[str, Any]:
    """The record of so many kills; `unequal` names every study that did not end as the undisturbed one."""
    study.save(folder / "study.toml")
    run_whole(folder, folder / "first")  # compiles; what is compiled is kept
    ends = run_whole(folder, folder / "whole")
    lengths = dict(zip(ends, np.diff([0.0, *ends.values()]).tolist()))
    expected = outcome(folder / "whole")
    unequal = [] if outcome(folder / "first") == expected else ["two undisturbed studies"]
    rng, moments, number = np.random.default_rng(seed), list[dict[str, Any]](), 0
    while len(moments) < kills:
        run = folder / f"killed-{number}"
        planned = [phase for phase in PHASES for _ in range(rng.integers(0, MOST_IN_A_PHASE + 1))]
        for phase in planned[: kills - len(moments)]:
            doing = run_killed(folder, run, phase, rng.uniform(0, lengths[phase]))
            if doing is None:
                break
            moments.append({"study": number, "drawn": phase, "doing": doing})
            say(f"{len(moments):>4} of {kills}: study {number} killed in its phase {doing}")
        else:
            run_whole(folder, run)
        if differing := [name for name, what in outcome(run).items() if expected[name] != what]:
            unequal.append(f"study {number}: {', '.join(differing)}")
        number += 1
    return {
        "date": date.today().isoformat(),
        "commit": commit(),
        "versions": versions(),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "seed": seed,
        "kills": len(moments),
        "studies": number,
        "unequal": unequal,
        "seconds_of_phases": {phase: round(seconds, 2) for phase, seconds in lengths.items()},
        "kills_in": dict(Counter(moment["doing"] for moment in moments)),
        "moments": moments,
    }


def start(folder: Path, run: Path) -> subprocess.Popen[bytes]:
    cache = {"JAX_COMPILATION_CACHE_DIR": str(folder / "cache"), "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}
    words = [sys.executable, "-c", COMMAND, "tune", str(folder / "study.toml"), "--out", str(run)]
    with (folder / "errors.txt").open("w") as errors:
        return subprocess.Popen(words, env={**os.environ, **cache}, stdout=subprocess.DEVNULL, stderr=errors)


def run_whole(folder: Path, run: Path) -> dict[str, float]:
    """A study that nobody disturbs: phase → seconds from its start until the phase ended."""
    process, began, ended = start(folder, run), time.monotonic(), dict[str, float]()
    while process.poll() is None:
        for phase in finished_phases(run, 0):
            ended.setdefault(phase, time.monotonic() - began)
        time.sleep(POLL)
    _require_success(process, folder)
    return ended


def run_killed(folder: Path, run: Path, phase: str, seconds: float) -> str | None:
    """Start or continue a study and kill it so many seconds after it began `phase`; None: it ended before that.

    Otherwise the phase in which it was killed.
    """
    told = _size(run / "log.txt")
    process = start(folder, run)
    before = PHASES[: PHASES.index(phase)]
    while process.poll() is None:
        if not before or before[-1] in finished_phases(run, told):
            try:
                process.wait(timeout=seconds)
            except subprocess.TimeoutExpired:
                os.kill(process.pid, signal.SIGKILL)
                process.wait()
                done = finished_phases(run, told)
                return next((each for each in PHASES if each not in done), "the end")
            break
        time.sleep(POLL)
    _require_success(process, folder)
    return None


def finished_phases(run: Path, told: int) -> list[str]:
    """Of which log.txt says so after its first `told` bytes: `2024-05-01T12:00:00  3/7 tuning     …`."""
    if not _size(run / "log.txt"):
        return []
    lines = (run / "log.txt").read_bytes()[told:].decode().splitlines()
    return [words[2] for words in map(str.split, lines) if len(words) > 2 and words[2] in PHASES]


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _require_success(process: subprocess.Popen[bytes], folder: Path) -> None:
    if process.returncode not in (0, 1):  # 1: its verdict is bad news
        raise SystemExit(f"a study ended with {process.returncode}: {(folder / 'errors.txt').read_text()}")


def outcome(run: Path) -> dict[str, str]:
    """File → what is in it that must not depend on a kill: a hash, or for a policy how it acts."""
    found = {str(path.relative_to(run)): fingerprint(Policy.load(path)) for path in run.glob("policies/*/*")}
    for name in JSON_FILES:
        found[name] = _digest(json.loads((run / name).read_text()))
    for name in TABLES:
        rows = list(csv.DictReader((run / name).read_text().splitlines()))
        found[name] = _digest([{column: cell for column, cell in row.items() if column != "seconds"} for row in rows])
    audit = json.loads((run / "audit.json").read_text())
    found["audit.json"] = _digest([audit[name] for name in ("study_hash", "data", "splits", "environment_calls")])
    found["halves of files"] = " ".join(sorted(path.name for path in run.rglob(".*.partial*")))
    return found


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


if __name__ == "__main__":
    main()
