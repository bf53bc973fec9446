"""Discrete actions: BC and ILBRL from 2 expert episodes and mediocre logs, beside d3rlpy's DiscreteBC and DiscreteCQL.

    python benchmarks/discrete_actions.py cartpole acrobot --peer-python PEER/bin/python --out docs/results/discrete

PEER is a virtual environment of its own with d3rlpy (`pip install d3rlpy`); without it only ours are measured. All get
the same rows, updates, batch size and network sizes, run one after the other on the same machine, and are played for
the same number of episodes. BC and DiscreteBC learn from the expert's rows; ILBRL from all rows, without their rewards;
DiscreteCQL from all rows with their rewards. Speeds count updates after the first, which compiles; only their ratio
within one run means anything.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

HIDDEN, BATCH, WARM_UP = 64, 128, 100
COLUMNS = ("observations", "actions", "rewards", "terminals", "timeouts")


def ours(task: str, expert: Any, logs: Any, updates: int, seeds: int, episodes: int) -> dict[str, Any]:
    """Scores and speeds of BC and ILBRL, and the scores of who made the logs."""
    from dataclasses import replace

    from ilbrl import envs
    from ilbrl.agents import AGENTS
    from ilbrl.agents.fit import fit

    found: dict[str, Any] = {}
    for name in ("bc", "ilbrl"):
        config = replace(AGENTS[name].presets["default"], hidden=(HIDDEN, HIDDEN), batch_size=BATCH)
        settings: dict[str, Any] = {"config": config, "quiet": True}
        fit(name, expert, logs, seeds=[0], updates=WARM_UP, **settings)
        started = time.perf_counter()
        policies = fit(name, expert, logs, seeds=list(range(seeds)), updates=updates, **settings).policies
        seconds = time.perf_counter() - started
        played = list(envs.rollout_all(policies, task, episodes, seed=1, quiet=True))
        returns = [float(each.returns.mean()) for each in played]
        found[name] = {"returns": returns, "seconds": seconds, "updates_per_second": updates * seeds / seconds}
    return found


def peers(rows: Path, gym_id: str, updates: int, seeds: int, episodes: int) -> dict[str, Any]:
    """The same of d3rlpy, in its own interpreter; rows is an npz file of the expert's and the other logs."""
    import d3rlpy  # pyright: ignore[reportMissingImports]
    import gymnasium

    with np.load(rows) as file:
        parts = {who: {name: file[f"{who}_{name}"] for name in COLUMNS} for who in ("expert", "logs")}
    both = {name: np.concatenate([parts["expert"][name], parts["logs"][name]]) for name in COLUMNS}
    network = d3rlpy.models.VectorEncoderFactory(hidden_units=[HIDDEN, HIDDEN])
    found, discrete = {}, d3rlpy.constants.ActionSpace.DISCRETE
    for name, data in (("DiscreteBC", parts["expert"]), ("DiscreteCQL", both)):
        config = getattr(d3rlpy.algos, f"{name}Config")(batch_size=BATCH, encoder_factory=network)
        dataset = d3rlpy.dataset.MDPDataset(*(data[column] for column in COLUMNS), action_space=discrete)
        returns, seconds = [], 0.0
        for seed in range(seeds):
            d3rlpy.seed(seed)
            algorithm = config.create(device="cpu:0")
            quiet = {"logger_adapter": d3rlpy.logging.NoopAdapterFactory(), "show_progress": False}
            algorithm.fit(dataset, n_steps=WARM_UP, n_steps_per_epoch=WARM_UP, **quiet)
            started = time.perf_counter()
            algorithm.fit(dataset, n_steps=updates - WARM_UP, n_steps_per_epoch=updates - WARM_UP, **quiet)
            seconds += time.perf_counter() - started
            env = gymnasium.make(gym_id)
            returns.append(float(np.mean([_episode(env, algorithm, 1000 + i) for i in range(episodes)])))
        speed = (updates - WARM_UP) * seeds / seconds
        found[name] = {"returns": returns, "seconds": seconds, "updates_per_second": speed}
    return found


def _episode(env: Any, algorithm: Any, seed: int) -> float:
    observation, _ = env.reset(seed=seed)
    earned, ended = 0.0, False
    while not ended:
        action = algorithm.predict(np.asarray(observation, np.float32)[None])[0]
        observation, reward, terminated, truncated, _ = env.step(int(action))
        earned, ended = earned + float(reward), terminated or truncated
    return earned


def measure(task: str, options: argparse.Namespace) -> dict[str, Any]:
    import ilbrl
    from ilbrl import envs
    from ilbrl.base.provenance import commit, versions
    from ilbrl.data.benchmark import measured_returns

    expert = ilbrl.load(f"{task}/expert:{options.expert_episodes}ep", quiet=True)
    logs = ilbrl.load(f"{task}/medium:{options.transitions}steps", quiet=True)
    logs = logs.episodes(np.flatnonzero(logs.complete))
    found = ours(task, expert, logs, options.updates, options.seeds, options.episodes)
    gym_id = envs.TASKS[task].gym_id
    if options.peer_python and envs.TASKS[task].own is None:
        with tempfile.TemporaryDirectory() as folder:
            rows = Path(folder) / "rows.npz"
            columns = {f"{who}_{c}": getattr(d, c) for who, d in (("expert", expert), ("logs", logs)) for c in COLUMNS}
            np.savez(rows, **columns)
            command = [options.peer_python, __file__, task, "--as-peer", str(rows), "--gym-id", gym_id]
            for name in ("updates", "seeds", "episodes"):
                command += [f"--{name}", str(getattr(options, name))]
            answer = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            found |= json.loads(answer.splitlines()[-1])
    for entry in found.values():
        entry["score"] = float(np.mean(envs.normalised_score(task, np.array(entry["returns"]))))  # pyright: ignore
    expert_score = measured_returns()["policies"][f"{task}/expert"]["deterministic"]["score_mean"]
    return {
        "task": task,
        "expert_rows": len(expert),
        "log_rows": len(logs),
        "logs_score": float(np.mean(envs.normalised_score(task, logs.returns()))),  # pyright: ignore
        "expert_score": expert_score,
        "settings": {name: getattr(options, name) for name in ("updates", "seeds", "episodes")},
        "found": found,
        "versions": versions(),
        "commit": commit(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tasks", nargs="+")
    parser.add_argument("--updates", type=int, default=5000)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--episodes", type=int, default=20)
    parser.add_argument("--expert-episodes", type=int, default=2)
    parser.add_argument("--transitions", type=int, default=20_000, help="of the mediocre logs")
    parser.add_argument("--peer-python", help="interpreter of an environment with d3rlpy")
    parser.add_argument("--out", type=Path, default=Path("runs/discrete"))
    parser.add_argument("--as-peer", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--gym-id", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.as_peer:
        print(json.dumps(peers(options.as_peer, options.gym_id, options.updates, options.seeds, options.episodes)))
        return
    for task in options.tasks:
        record = measure(task, options)
        options.out.mkdir(parents=True, exist_ok=True)
        (options.out / f"{task}.json").write_text(json.dumps(record, indent=1) + "\n")
        shown = {name: (round(e["score"], 1), round(e["updates_per_second"])) for name, e in record["found"].items()}
        print(f"{task}: score and updates/s {shown}; logs {record['logs_score']:.1f}", flush=True)


if __name__ == "__main__":
    main()
