"""Discrete actions: BC and ILBRL from very few expert episodes and mediocre logs, beside d3rlpy.

    python -m benchmarks.discrete_actions cartpole acrobot lunarlander clinic --seeds 10 11 12 --out runs/discrete
    python -m benchmarks.discrete_actions lunarlander --peer-python PEER/bin/python --out runs/discrete
    python -m benchmarks.discrete_actions --table docs/results/discrete                             (the tables in docs)

PEER is a virtual environment of its own with d3rlpy (`pip install d3rlpy`) and the task; without it only ours are
measured. All get the same rows, updates, batch size and network sizes, run one after the other on the same machine, and
are played for the same number of episodes (values in the clinic are exact). BC and DiscreteBC learn from the expert's
rows; ILBRL from all rows, without their rewards; DiscreteCQL from all rows with their rewards.

Seed s trains with seed s, and has expert episodes of its own: n of them are numbers n s to n s + n − 1 of TASK/expert,
and one is number 2 s. The logs are those of TASK/medium for all seeds. Speeds count updates after the first 1,000,
which compile; only their ratio within one run means anything. Every seed is written when it is done, and the same
command goes on after the last one.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

HIDDEN, BATCH = 64, 128
WARM_UP = 1000  # updates: some whole chunks of our loop, so that nothing is compiled later
SEEDS = 30  # that have expert episodes of their own
COLUMNS = ("observations", "actions", "rewards", "terminals", "timeouts")
NAMES = {"bc": "BC", "ilbrl": "ILBRL", "DiscreteBC": "d3rlpy BC", "DiscreteCQL": "d3rlpy CQL"}
OURS, PEERS = ("bc", "ilbrl"), ("DiscreteBC", "DiscreteCQL")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tasks", nargs="*")
    parser.add_argument("--expert-episodes", type=int, nargs="+", default=[2, 1])
    parser.add_argument("--transitions", type=int, default=50_000, help="of the mediocre logs")
    parser.add_argument("--updates", type=int, default=20_000)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--committee", type=int, default=1, help="trainings behind each policy of ours")
    parser.add_argument("--episodes", type=int, default=50, help="that each policy is played for")
    parser.add_argument("--peer-python", help="interpreter of an environment with d3rlpy")
    parser.add_argument("--methods", nargs="+", choices=NAMES, help="by default ours, and d3rlpy's where it is there")
    parser.add_argument("--out", type=Path, default=Path("runs/discrete"))
    parser.add_argument("--table", type=Path, help="print the tables of a folder")
    parser.add_argument("--as-peer", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.table:
        print("\n".join(table(options.table)))
    elif options.as_peer:
        as_peer(options.as_peer)
    else:
        options.out.mkdir(parents=True, exist_ok=True)
        for task in options.tasks:
            for count in options.expert_episodes:
                measure(task, count, options)


def measure(task: str, count: int, options: argparse.Namespace) -> None:
    """All methods with every seed, from `count` expert episodes."""
    import ilbrl
    from ilbrl.base.provenance import commit, versions

    apart = max(count, 2)
    expert = ilbrl.load(f"{task}/expert:{SEEDS * apart}ep", quiet=True)
    logs = ilbrl.load(f"{task}/medium:{options.transitions}steps", quiet=True)
    logs = logs.episodes(np.flatnonzero(logs.complete))
    file = options.out / f"{task}-{count}ep.json"
    record = json.loads(file.read_text()) if file.exists() else {"task": task, "expert_episodes": count, "seeds": {}}
    if record.get("committee", 1) != options.committee and record["seeds"]:
        raise SystemExit(f"{file}: of other committees; choose another --out")
    record |= {
        "updates": options.updates,
        "committee": options.committee,
        "episodes": options.episodes,
        "logs": {"rows": len(logs), "score": _score(task, logs.returns())},
        "expert_score": _score(task, expert.returns()),
        "versions": versions(),
        "commit": commit(),
    }
    for seed in options.seeds:
        own = expert.episodes(np.arange(apart * seed, apart * seed + count))
        found = record["seeds"].setdefault(str(seed), {"expert_rows": len(own)})
        usual = OURS + PEERS * bool(options.peer_python)
        for method in (each for each in options.methods or usual if each not in found):
            trained = ours if method in OURS else peer
            found[method] = trained(method, task, own, logs, seed, options)
            file.write_text(json.dumps(record, indent=1) + "\n")
            print(f"{task}, {count} expert episodes, seed {seed}: {method} {found[method]}", flush=True)


def _score(task: str, returns: np.ndarray) -> float:
    from ilbrl import envs

    scores = envs.normalised_score(task, returns)
    assert scores is not None
    return round(float(scores.mean()), 1)


def _true_score(task: str, policy: Any, options: argparse.Namespace) -> float:
    """Of so many episodes; the clinic's is exact, since one patient says little."""
    from ilbrl import envs
    from ilbrl.envs import clinic

    if task == "clinic":
        return _score(task, np.array([clinic.value(policy)]))
    return _score(task, envs.rollout(policy, task, options.episodes, seed=1, quiet=True).returns)


def ours(method: str, task: str, expert: Any, logs: Any, seed: int, options: argparse.Namespace) -> dict[str, float]:
    from ilbrl.agents import AGENTS
    from ilbrl.agents.fit import fit

    agent = AGENTS[method]
    config = replace(agent.presets[agent.usual_preset(discrete=True)], hidden=(HIDDEN, HIDDEN), batch_size=BATCH)
    settings: dict[str, Any] = {"config": config, "seeds": [seed], "committee": options.committee, "quiet": True}
    fit(method, expert, logs, updates=WARM_UP, **settings)
    learned = fit(method, expert, logs, updates=options.updates, **settings)
    speed = round(options.committee * options.updates / learned.fitted.seconds)
    return {"score": _true_score(task, learned.policies[0], options), "updates_per_second": speed}


# --- d3rlpy -----------------------------------------------------------------------------------------------------------


def peer(method: str, task: str, expert: Any, logs: Any, seed: int, options: argparse.Namespace) -> dict[str, float]:
    """The same of d3rlpy: trained by its own interpreter, on standardised observations as ours, and played by us."""
    from ilbrl.data import concatenate
    from ilbrl.learning.batches import Spec
    from ilbrl.policy import Layer, Policy

    rows = expert if method == "DiscreteBC" else concatenate([expert, logs])
    spec = Spec.of(rows)
    given: dict[str, Any] = {name: getattr(rows, name) for name in COLUMNS}
    given |= {"observations": spec.standardise(rows.observations), "method": method, "seed": seed}
    given |= {"updates": options.updates, "size": rows.num_actions}
    with tempfile.TemporaryDirectory() as folder:
        asked = Path(folder) / "asked.npz"
        np.savez(asked, **given)
        subprocess.run([options.peer_python, __file__, "--as-peer", asked], check=True, capture_output=True, text=True)
        with np.load(asked.with_name("answer.npz")) as answer:
            layers = tuple(Layer(answer[f"weight{i}"], answer[f"bias{i}"]) for i in range(3))
            speed = round(float(answer["updates_per_second"]))
    bounds = np.zeros(1), np.full(1, rows.num_actions - 1.0)
    policy = Policy(layers, *bounds, "categorical", spec.obs_mean, spec.obs_std)
    return {"score": _true_score(task, policy, options), "updates_per_second": speed}


def as_peer(asked: Path) -> None:
    """In d3rlpy's interpreter: train with its own defaults, and leave the network's layers beside the question."""
    import d3rlpy  # pyright: ignore[reportMissingImports]
    import torch  # pyright: ignore[reportMissingImports]

    with np.load(asked) as file:
        given = {name: file[name] for name in file.files}
    dataset = d3rlpy.dataset.MDPDataset(
        *(given[column] for column in COLUMNS),
        action_space=d3rlpy.constants.ActionSpace.DISCRETE,
        action_size=int(given["size"]),
    )
    network = d3rlpy.models.VectorEncoderFactory(hidden_units=[HIDDEN, HIDDEN])
    d3rlpy.seed(int(given["seed"]))
    config = getattr(d3rlpy.algos, f"{given['method']}Config")(batch_size=BATCH, encoder_factory=network)
    algorithm = config.create(device="cpu:0")
    quiet = {"logger_adapter": d3rlpy.logging.NoopAdapterFactory(), "show_progress": False}
    algorithm.fit(dataset, n_steps=WARM_UP, n_steps_per_epoch=WARM_UP, **quiet)
    updates, started = int(given["updates"]) - WARM_UP, time.perf_counter()
    algorithm.fit(dataset, n_steps=updates, n_steps_per_epoch=updates, **quiet)
    answer: dict[str, Any] = {"updates_per_second": updates / (time.perf_counter() - started)}
    modules = algorithm.impl.modules
    acting = modules.imitator if given["method"] == "DiscreteBC" else modules.q_funcs[0]
    linear = [module for module in acting.modules() if isinstance(module, torch.nn.Linear)]
    for i, layer in enumerate(linear):
        answer[f"weight{i}"], answer[f"bias{i}"] = layer.weight.detach().numpy().T, layer.bias.detach().numpy()
    np.savez(asked.with_name("answer.npz"), **answer)


# --- tables -----------------------------------------------------------------------------------------------------------


def table(folder: Path) -> Iterator[str]:
    """Mean scores, with those of every seed, and speeds."""
    records = [json.loads(file.read_text()) for file in sorted(folder.glob("*-*ep.json"))]
    records.sort(key=lambda record: (-record["expert_episodes"], record["task"]))
    yield "| task | expert episodes | rows | updates | the logs | " + " | ".join(NAMES.values()) + " |"
    yield "|---|---:|---:|---:|---:|" + "---:|" * len(NAMES)
    for record in records:
        seeds = list(record["seeds"].values())
        counts = [seed["expert_rows"] for seed in seeds]
        rows = "–".join(f"{count:,}" for count in sorted({min(counts), max(counts)}))
        scores = [_cell([seed[name]["score"] for seed in seeds if name in seed]) for name in NAMES]
        cells = [f"`{record['task']}`", str(record["expert_episodes"]), rows, f"{record['updates']:,}"]
        yield "| " + " | ".join([*cells, f"{record['logs']['score']:.0f}", *scores]) + " |"
    yield ""
    yield "| updates per second | " + " | ".join(NAMES.values()) + " |"
    yield "|---|" + "---:|" * len(NAMES)
    for record in records:
        seeds = list(record["seeds"].values())
        speeds = [[seed[name]["updates_per_second"] for seed in seeds if name in seed] for name in NAMES]
        cells = [f"{np.median(each):,.0f}" if each else "" for each in speeds]
        yield f"| `{record['task']}`, {record['expert_episodes']} | " + " | ".join(cells) + " |"


def _cell(scores: Sequence[float]) -> str:
    """The mean, and what it is of."""
    if not scores:
        return ""
    return f"**{np.mean(scores):.0f}** ({', '.join(f'{score:.0f}' for score in scores)})".replace("-", "−")


if __name__ == "__main__":
    main()
