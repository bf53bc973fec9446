"""A run folder as docs/runs.md describes it, made up in milliseconds: whole, or broken on purpose."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from ilbrl.report.summary import summarise

LEVELS = {"ilbrl": 78.0, "ilbrl-unweighted": 70.0, "bc": 45.0, "smodice": 58.0, "oril": 63.0}
RANGES = {"actor_lr": "loguniform(1e-05, 0.0001)", "lam": "loguniform(0.1, 4)"}
VERSIONS = {"ilbrl": "0.1.0", "jax": "0.7.2", "numpy": "2.3.4"}


def write_run(
    folder: Path,
    task: str = "hopper",
    study: str = "locomotion-hopper",
    seed: int = 0,
    algorithms: tuple[str, ...] = tuple(LEVELS),
    configurations: int = 4,
    seeds: int = 3,
    played: bool = True,
    revealed: bool = False,
    scored: bool = True,
    trust: str = "care",
) -> Path:
    """A complete study. Worse configurations have lower values; the last one of ILBRL diverges with its last seed."""
    rng = np.random.default_rng(seed)
    folder.mkdir(parents=True, exist_ok=True)
    candidates = [
        _candidate(rng, algorithm, configuration, policy_seed, configurations, seeds, scored)
        for algorithm in algorithms
        for configuration in range(configurations)
        for policy_seed in range(seeds)
    ]
    selected = {name: _selection(folder, name, candidates, configurations, seeds) for name in algorithms}
    for each in candidates:
        each["selected"] = int(selected[each["algorithm"]]["configuration"] == each["configuration"])
    best = max(selected, key=lambda name: selected[name]["value"])
    overall = {"algorithm": best, "configuration": selected[best]["configuration"], "value": selected[best]["value"]}
    overall |= {"policy": f"policies/{best}/best.safetensors"}
    overall |= {"reason": f"highest offline value of {len(algorithms)} algorithms"}
    _json(folder / "selection.json", {"algorithms": selected, "overall": overall})
    _tables(folder, rng, task, study, candidates, played, revealed)
    logged = {
        "expert": {"logged_return": 3487.9, "logged_score": 107.8 if scored else None},
        "logs": {"logged_return": 1815.1, "logged_score": 56.4 if scored else None},
    }
    measured = {
        "expert": {"true_return": 3561.5, "true_score": 110.2 if scored else None},
        "logs": {"true_return": 1904.0, "true_score": 59.2 if scored else None},
    }
    if played:
        final = _scores(task, [c for c in candidates if c["selected"]])
        _json(folder / "final.json", final | {"references": measured})
    if revealed:
        _json(folder / "reveal.json", _scores(task, [c for c in candidates if not c["selected"]]))
    _json(folder / "data.json", _data(rng, logged))
    _json(folder / "tuning.json", _tuning(rng, trust))
    _json(folder / "audit.json", _audit(study, task, seeds, len(algorithms), played, revealed))
    (folder / "study.toml").write_text(
        f'name = "{study}"\ntask = "{task}"\nexpert = "{task}/expert:2ep"\nexploratory = "{task}/medium:400000steps"\n'
        f"seeds = {seeds}\nconfigurations = {configurations}\nupdates = 200_000\n"
    )
    return folder


def _candidate(rng, algorithm, configuration, policy_seed, configurations, seeds, scored) -> dict:
    true_score = LEVELS[algorithm] - 6 * configuration + rng.normal(0, 5)
    diverged = algorithm == "ilbrl" and configuration == configurations - 1 and policy_seed == seeds - 1
    value = 150 + 1.4 * true_score + rng.normal(0, 4)
    return {
        "algorithm": algorithm,
        "configuration": configuration,
        "policy_seed": policy_seed,
        "values": [None if diverged else value + rng.normal(0, 2) for _ in range(3)],
        "verdicts": ["diverged"] * 3
        if diverged
        else ["converged", "converged", "moving" if configuration == 2 else "converged"],
        "diverged": int(diverged),
        "true_score": float(true_score) if scored else None,
        "true_return": float(true_score * 32.5 - 20),
        "hyperparameters": {"actor_lr": float(10 ** rng.uniform(-5, -4)), "lam": float(10 ** rng.uniform(-1, 0.6))},
    }


def _selection(folder, name, candidates, configurations, seeds) -> dict:
    table = []
    for configuration in range(configurations):
        own = [c for c in candidates if (c["algorithm"], c["configuration"]) == (name, configuration)]
        values = [v for c in own for v, w in zip(c["values"], c["verdicts"]) if w == "converged"]
        share = sum("converged" in c["verdicts"] for c in own) / len(own)
        table.append({"configuration": configuration, "value": float(np.mean(values)), "converged_share": share})
        table[-1]["eligible"] = share >= 0.5
    best = max((row for row in table if row["eligible"]), key=lambda row: row["value"])
    (folder / "policies" / name).mkdir(parents=True, exist_ok=True)
    own = [c for c in candidates if (c["algorithm"], c["configuration"]) == (name, best["configuration"])]
    return best | {
        "eligible": sum(row["eligible"] for row in table),
        "hyperparameters": own[0]["hyperparameters"],
        "value_std_error": 1.7,
        "best_seed": 1,
        "policies": [f"policies/{name}/seed{s}.safetensors" for s in range(seeds)],
        "table": table,
        "reason": f"highest mean offline value of {configurations} configurations",
    }


def _tables(folder, rng, task, study, candidates, played, revealed) -> None:
    results, curves, values = [], [], []
    for c in candidates:
        shown = (played and c["selected"]) or revealed
        for evaluation_seed, (value, verdict) in enumerate(zip(c["values"], c["verdicts"])):
            results.append(
                {
                    "study": study, "task": task, "algorithm": c["algorithm"], "configuration": c["configuration"],
                    "policy_seed": c["policy_seed"], "evaluation_seed": evaluation_seed,
                    "offline_value": "" if value is None else value, "verdict": verdict, "decided_at": 80_000,
                    "distance": 0.1 + 0.01 * c["configuration"], "diverged": c["diverged"], "selected": c["selected"],
                    "true_return": c["true_return"] if shown else "",
                    "true_score": c["true_score"] if shown and c["true_score"] is not None else "",
                    "true_episodes": 30 if shown else "", "updates": 200_000, "seconds": 41.5,
                    "hyperparameters": json.dumps(c["hyperparameters"]), "device": "NVIDIA H200",
                    "versions": json.dumps(VERSIONS),
                }
            )  # fmt: skip
            for update in range(5_000, 100_001, 5_000):
                target = 400.0 * update / 5_000 if value is None else value * (1 - np.exp(-update / 20_000))
                own = [c["algorithm"], c["configuration"], c["policy_seed"]]
                values.append(["candidates", "", task, *own, 4, evaluation_seed, update, target])
        for update in range(4_000, 200_001, 4_000):
            level = np.exp(-update / 60_000) * (1 + 0.1 * c["configuration"])
            own = [c["algorithm"], c["configuration"], c["policy_seed"], update]
            curves.append([*own, "actor_loss", level + rng.normal(0, 0.02)])
            curves.append([*own, "critic_loss", 0.5 * level + rng.normal(0, 0.01)])
            curves.append([*own, "mean_q", 60 * (1 - level) + rng.normal(0, 0.5)])
    for identity, (fraction, _, _) in enumerate(_grid()):
        for policy, truth in (("expert", 270.0), ("medium", 243.0)):
            for evaluation_seed in range(3):
                for update in range(5_000, 100_001, 5_000):
                    off = 1 + 0.3 * abs(fraction - 0.5) + rng.normal(0, 0.02)
                    value = truth * off * (1 - np.exp(-update / 20_000))
                    values.append(["tuning", policy, task, "", "", "", identity, evaluation_seed, update, value])
    with (folder / "results.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(results[0]))
        writer.writeheader()
        writer.writerows(results)
    _csv(folder / "curves.csv", "algorithm,configuration,policy_seed,update,metric,value", curves)
    header = "stage,policy,task,algorithm,configuration,policy_seed,ope_configuration,evaluation_seed,update,value"
    _csv(folder / "values.csv", header, values)


def _grid() -> list[tuple[float, float, int]]:
    return [(fraction, lr, every) for fraction in (0.3, 0.5, 0.8) for lr in (3e-5, 3e-4) for every in (2, 10)]


def _scores(task, candidates) -> dict:
    return {
        "episodes": 30, "environment_seeds": 10, "environment_calls": {"steps": 30_000 * len(candidates)}, "task": task,
        "scores": [
            {"algorithm": c["algorithm"], "configuration": c["configuration"], "policy_seed": c["policy_seed"],
             "return_mean": c["true_return"], "return_std": 310.0, "score": c["true_score"], "episodes": 30,
             "job": "train-3f2a"}
            for c in candidates
        ],
    }  # fmt: skip


def _data(rng, references) -> dict:
    logs = {
        "expert": {
            "role": "expert", "source": "hopper/expert:2ep", "transitions": 2_000, "episodes": 2,
            "return_mean": 3487.9, "return_std": 21.0, "returns": [3467.0, 3509.0], "length_mean": 1000.0,
            "findings": [],
        },
        "logs": {
            "role": "logs", "source": "hopper/medium:400000", "transitions": 400_000, "episodes": 693,
            "return_mean": 1815.1, "return_std": 690.1, "returns": rng.normal(1815, 690, 500).clip(100).tolist(),
            "length_mean": 577.5,
            "findings": [
                {"level": "warning", "what": "3 actions outside [-1, 1]", "where": "row 1034",
                 "remedy": "state the true bounds, or clip them"},
                {"level": "note", "what": "the last episode is cut by the end of the file", "where": "episode 692",
                 "remedy": None},
            ],
        },
    }  # fmt: skip
    edges = np.linspace(0, 1, 21)
    counts = np.histogram(rng.beta(6, 5, 400_000), edges)[0]
    return {
        "datasets": logs,
        "splits": {
            "training": {"transitions": 400_000, "episodes": 690},
            "evaluation-training": {"transitions": 300_000, "episodes": 421},
            "evaluation-validation": {"transitions": 100_000, "episodes": 140},
        },
        "notes": ["the evaluation parts are smaller than the paper's: the logs hold less"],
        "labels": {
            "d_max": 7.31, "bins": edges.tolist(), "expert": [0] * 19 + [2_000], "logs": counts.tolist(),
            "coverage": {"covered_share": 0.62, "mean_reward": 0.54},
        },
        "references": references,
    }  # fmt: skip


def _tuning(rng, trust) -> dict:
    truths = {"expert": 271.0, "medium": 243.0}
    configurations = []
    for identity, (fraction, lr, every) in enumerate(_grid()):
        bad = identity == 11
        off = 1 + 0.3 * abs(fraction - 0.5) + rng.normal(0, 0.01)
        policies = {
            name: {
                "estimate": float("nan") if bad else truth * off, "std_error": 2.0, "truth": truth,
                "truth_std_error": 1.2, "verdict": "diverged" if bad else "converged",
                "per_seed": [None] * 3 if bad else (truth * off + rng.normal(0, 2, 3)).tolist(),
            }
            for name, truth in truths.items()
        }  # fmt: skip
        error = float("inf") if bad else sum(abs(p["estimate"] - p["truth"]) for p in policies.values())
        configurations.append(
            {"id": identity,
             "settings": {"expert_fraction": fraction, "lr": lr, "target_update_every": every, "tau": 0.005},
             "rank_error": 4 if bad else 0, "value_error": error, "diverged": 2 * bad, "policies": policies}
        )  # fmt: skip
    reasons = {
        "trust": ["both known policies are ranked and valued well"],
        "care": ["only two known policies: the right order of two is found by chance half of the time"],
        "distrust": ["the known policies are ranked wrongly", "3 of 4 estimates diverged"],
    }
    return {
        "configurations": configurations, "chosen": 4, "updates": 100_000,
        "trust": {
            "verdict": trust, "reasons": reasons[trust], "rank_error": 0, "spearman": 1.0, "kendall": 1.0,
            "rule": "trust: rank error 0 with at least four known policies and values within 10 %",
            "relative_value_error": 0.013, "regret_at_1": 0.0, "regret_at_k": [0.0, 0.0],
            "intervals": {"expert": [266.0, 278.0], "medium": [238.0, 251.0]},
            "distance_warning": None,
        },
        "known": {
            name: {"source": f"hopper/{name}", "variant": "mean", "truth": truth, "truth_std_error": 1.2}
            for name, truth in truths.items()
        },
    }  # fmt: skip


def _audit(study, task, seeds, algorithms, played, revealed) -> dict:
    events = [
        {"time": "2026-11-15T09:00:00", "what": "started"},
        {"time": "2026-11-15T09:14:10", "what": "selected"},
        *([{"time": "2026-11-15T09:16:02", "what": "final evaluation"}] if played else []),
        *([{"time": "2026-11-15T09:20:00", "what": "revealed"}] if revealed else []),
    ]
    part = {"content_hash": "9f2c1c9e", "transitions": 400_000, "episodes": 690}
    return {
        "study_hash": "b7f9d0a3c1", "command": f"ilbrl tune studies/{study}.toml --out runs/{study}",
        "started": "2026-11-15T09:00:00", "finished": "2026-11-15T09:16:40",
        "seeds": {"study": 0, "policies": list(range(seeds)), "evaluations": [0, 1, 2]},
        "ranges": {"ilbrl": RANGES},
        "data": {"logs": part | {"source": f"{task}/medium:400000"}},
        "splits": {"training": part}, "versions": VERSIONS, "commit": "ac4973e", "device": "NVIDIA H200",
        "executor": "local",
        "environment_calls": {
            "collection": 0, "candidates_before_selection": 0, "final": 90_000 * algorithms if played else 0,
            "reveal": 270_000 * algorithms if revealed else 0,
        },
        "events": events,
    }  # fmt: skip


def _json(path: Path, value) -> None:
    path.write_text(json.dumps(value))


def _csv(path: Path, header: str, rows) -> None:
    with path.open("w", newline="") as file:
        file.write(header + "\n")
        csv.writer(file).writerows(rows)


@pytest.fixture
def make_run(tmp_path):
    """`make_run(name, **settings)` writes a run folder and returns it."""
    return lambda name="run", **settings: write_run(tmp_path / name, **settings)


@pytest.fixture(scope="session")
def summary(tmp_path_factory):
    """Two tasks, everything revealed; to be looked at, not changed."""
    folder = tmp_path_factory.mktemp("runs")
    tasks = enumerate(["hopper", "ant"])
    return summarise([write_run(folder / task, task, task, seed, revealed=True, seeds=6) for seed, task in tasks])
