"""`ilbrl demo`: the whole job on built-in data, in a few minutes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import tyro

from ilbrl.agents import AGENTS
from ilbrl.data import load
from ilbrl.data.benchmark import source_policy
from ilbrl.data.doctor import examine
from ilbrl.data.summary import sparkline
from ilbrl.envs import NOT_D4RL, rollout
from ilbrl.learning import fit
from ilbrl.rewards import Labels

TASK, EXPERT_EPISODES, TRANSITIONS = "hopper", 18, 20_000


@dataclass(frozen=True)
class Arguments:
    """Imitate an expert from 18 of its episodes and 20,000 steps of somebody worse, without an environment.

    The environment appears only at the end, to show what came of it. Needs `pip install "ilbrl[benchmark]"`.
    """

    out: Path = Path("runs/demo")
    """Folder for the policies; the same command continues there if it is interrupted."""
    updates: int = 15_000
    seeds: int = 2
    episodes: int = 10


def main(words: list[str]) -> int:
    args = tyro.cli(Arguments, args=words, prog="ilbrl demo")
    print(f"1  Logs: {EXPERT_EPISODES} episodes of an expert, {TRANSITIONS:,} steps of a mediocre policy ({TASK})")
    expert, data = load(f"{TASK}/expert:{EXPERT_EPISODES}ep"), load(f"{TASK}/medium:{TRANSITIONS}")
    findings = examine(data, expert)
    grave = [finding for finding in findings if finding.grade == "error"]
    print(f"   the doctor found {len(grave)} errors in {len(data):,} transitions (ilbrl data inspect {TASK}/medium)")

    print("2  ILBRL: reward every step by its closeness to the expert's, then one call to offline RL")
    small = replace(AGENTS["ilbrl"].PRESETS["default"], hidden=(128, 128), actor_lr=5e-4, critic_lr=5e-4)
    learned = fit("ilbrl", expert, data, config=small, seeds=args.seeds, updates=args.updates, out=args.out)
    assert isinstance(learned.labels, Labels)
    rewards = learned.labels.reward[len(expert) :]
    print(
        f"   rewards of the logs  {rewards.min():.2f} {sparkline(rewards)} {rewards.max():.2f}   (the expert's are 1)"
    )

    print(f"3  What came of it: {args.episodes} episodes of each policy in the environment, for the first time")
    scores = {
        "mediocre policy": _score(source_policy(TASK, "medium"), args.episodes),
        "ILBRL": float(np.mean([_score(policy, args.episodes) for policy in learned.policies])),
        "expert": _score(source_policy(TASK, "expert"), args.episodes),
    }
    for name, score in scores.items():
        print(f"   {name:<16}{score:6.1f}  {'█' * round(max(score, 0) / 2)}")
    gap = (scores["ILBRL"] - scores["mediocre policy"]) / (scores["expert"] - scores["mediocre policy"])
    print(f"\nILBRL closed {gap:.0%} of the gap between the logs and the expert it saw {EXPERT_EPISODES} episodes of.")
    print(f"{NOT_D4RL}\nThe policies are in {args.out}: ilbrl rollout --policy {learned.files[0]} --env {TASK}")
    return 0


def _score(policy, episodes: int) -> float:
    score = rollout(policy, TASK, episodes, seed=1).score
    assert score is not None
    return score
