"""Logs as a practitioner has them, of two environments of Gymnasium: what comes of `ilbrl tune` with its defaults?

    python -m benchmarks.own_logs [--tasks pendulum cartpole] [--seed 31] [--runs runs/own-logs]

Pendulum is a `.csv.gz` with semicolons, odd names and no rewards: 4 episodes of a good controller, 80 of a tired one.
CartPole is Parquet with named actions and rewards: 3 episodes of a good controller, 100 of one that guesses every
second action. The tool sees the files alone. Then the policy and the expert play 50 new episodes, and a row of
docs/walk.md is printed, with the mean return of the logged episodes between the two. A study that is finished already
in its folder is not run again.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium
import numpy as np
import pandas as pd

import ilbrl
from ilbrl.report.pictures import display
from ilbrl.report.verdict import verdict
from ilbrl.results import read_run

Controller = Callable[[np.ndarray], Any]
PLAYED, PLAYED_FROM, SEEDS_APART = 50, 5000, 100_003


class Task(NamedTuple):
    environment: str
    good: Controller
    weak: Callable[[np.random.Generator], Controller]
    demonstrations: int
    logged: int
    suffix: str
    write: Callable[[list[list[tuple]], Path], None]
    options: str


def swing_up(observation: np.ndarray) -> np.ndarray:
    """Pumps energy until the pole can get up, then holds it."""
    cosine, sine, speed = observation
    if cosine > 0.9:
        return _torque(-12 * np.arctan2(sine, cosine) - 3 * speed)
    surplus = speed * speed / 2 + 15 * (cosine - 1)
    return _torque(-speed * surplus if abs(speed) > 0.1 else 2.0)


def tired(rng: np.random.Generator) -> Controller:
    """Pumps weakly, holds late and shakes."""

    def act(observation: np.ndarray) -> np.ndarray:
        cosine, sine, speed = observation
        if cosine > 0.95:
            wanted = np.clip(-5 * np.arctan2(sine, cosine) - 0.7 * speed, -2, 2)
        else:
            wanted = 0.8 * np.clip(-speed * (speed * speed / 2 + 15 * (cosine - 1)), -1, 1)
        return _torque(wanted + 0.9 * rng.normal())

    return act


def _torque(wanted: float) -> np.ndarray:
    return np.array([np.clip(wanted, -2, 2)], np.float32)


def balance(observation: np.ndarray) -> int:
    return int(observation @ [0.1, 0.3, 3.0, 1.0] > 0)


def guessing(rng: np.random.Generator) -> Controller:
    def act(observation: np.ndarray) -> int:
        if rng.random() < 0.5:
            return int(rng.integers(2))
        return int(observation[2] + 0.1 * observation[3] > 0)

    return act


def write_table(episodes: list[list[tuple]], path: Path) -> None:
    rows = [
        (run, tick, *seen, *acted) for run, steps in enumerate(episodes) for tick, (seen, acted, *_) in enumerate(steps)
    ]
    names = ["run", "tick", "angle_cos", "angle_sin", "speed", "torque"]
    pd.DataFrame(rows, columns=names).to_csv(path, sep=";", index=False)


def write_parquet(episodes: list[list[tuple]], path: Path) -> None:
    rows = [
        (run, *seen, ["left", "right"][acted], reward, fell)
        for run, steps in enumerate(episodes)
        for seen, acted, reward, fell in steps
    ]
    names = ["run", "cart_pos", "cart_vel", "pole_angle", "pole_vel", "push", "reward", "fell"]
    pd.DataFrame(rows, columns=names).to_parquet(path)


TASKS = {
    "pendulum": Task(
        "Pendulum-v1", swing_up, tired, 4, 80, "csv.gz", write_table,
        "--columns observations angle_cos,angle_sin,speed actions torque episodes run --action-low -2 --action-high 2",
    ),
    "cartpole": Task(
        "CartPole-v1", balance, guessing, 3, 100, "parquet", write_parquet,
        "--columns observations cart_pos,cart_vel,pole_angle,pole_vel actions push episodes run terminals fell",
    ),
}  # fmt: skip


def play(environment: str, act: Controller, seeds: Sequence[int]) -> list[list[tuple]]:
    """[episodes][steps] (observation, action, reward, whether it ended there)."""
    env, episodes = gymnasium.make(environment), []
    for seed in seeds:
        (seen, _), steps, over = env.reset(seed=seed), [], False
        while not over:
            acted = act(seen)
            following, reward, ended, stopped, _ = env.step(acted)
            steps.append((seen, acted, reward, ended))
            seen, over = following, ended or stopped
        episodes.append(steps)
    return episodes


def mean_return(episodes: list[list[tuple]]) -> float:
    return float(np.mean([sum(reward for _, _, reward, _ in steps) for steps in episodes]))


def make_logs(task: Task, seed: int, folder: Path) -> tuple[list[str], float]:
    """Write both files: the options that name them, and the mean return of the logs."""
    folder.mkdir(parents=True, exist_ok=True)
    weak, named, earned = task.weak(np.random.default_rng(seed)), [], 0.0
    for option, act, episodes, apart in (("expert", task.good, task.demonstrations, 0), ("logs", weak, task.logged, 1)):
        first = (seed + apart) * SEEDS_APART
        path = folder / f"{option}.{task.suffix}"
        played = play(task.environment, act, range(first, first + episodes))
        task.write(played, path)
        named, earned = [*named, f"--{option}", str(path)], mean_return(played)
    return named, earned


def row(name: str, seed: int, runs: Path) -> str:
    """Make logs, tune, and only then play."""
    task, folder = TASKS[name], runs / f"{name}-{seed}"
    named, earned = make_logs(task, seed, folder)
    words = ["tune", *named, *task.options.split(), "--out", str(folder / "run")]
    started = time.monotonic()
    subprocess.run([sys.executable, "-m", "ilbrl", *words], check=False)  # exit code 1 is bad news, and told below
    minutes, run = (time.monotonic() - started) / 60, read_run(folder / "run")
    guard = ilbrl.Policy.load(folder / "run/policies/best.safetensors").guarded(outside="clip")
    seeds = range(PLAYED_FROM, PLAYED_FROM + PLAYED)
    ours, expert = (mean_return(play(task.environment, act, seeds)) for act in (guard.act, task.good))
    overall = run.selection.overall
    chosen = display(overall.algorithm or "") if overall else "nothing"
    return f"| {name} | {chosen} | {verdict(run).call} | {ours:.0f} | {earned:.0f} | {expert:.0f} | {minutes:.0f} |"


def table(names: Sequence[str], seed: int, runs: Path) -> Iterator[str]:
    yield "| logs | selected | verdict | policy | logs | expert | minutes |"
    yield "|---|---|---|---:|---:|---:|---:|"
    for name in names:
        yield row(name, seed, runs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", nargs="+", choices=list(TASKS), default=list(TASKS))
    parser.add_argument("--seed", type=int, default=31)
    parser.add_argument("--runs", type=Path, default=Path("runs/own-logs"))
    args = parser.parse_args()
    for line in table(args.tasks, args.seed, args.runs):
        print(line, flush=True)


if __name__ == "__main__":
    main()
