"""`ilbrl tabular`: a first look at ILBRL on a finite MDP, where regret is computed and not estimated."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import tyro
from tyro.conf import arg

from ilbrl.base.errors import IlbrlError
from ilbrl.tabular.dice import Config as SmodiceConfig
from ilbrl.tabular.dice import smodice
from ilbrl.tabular.exact import average_reward, occupancy, total_variation
from ilbrl.tabular.imitation import Config, behavioural_cloning, ilbrl
from ilbrl.tabular.logs import rollout
from ilbrl.tabular.mdp import FiniteMDP, action_probabilities, uniform_policy
from ilbrl.tabular.phased import Unseen
from ilbrl.tabular.planning import average_optimum
from ilbrl.tabular.worlds import NAMES, world

DESCRIPTION = """An optimal expert demonstrates, a random explorer logs, and ILBRL, behavioural cloning and SMODICE
imitate from those logs alone. Regret and total variation are exact. No deep learning, no waiting.

Terminal states of Gymnasium's toy-text environments restart at once, and every step jumps to a random state with
probability --restart, so that the process goes on for ever, as the theory wants.

examples:
  ilbrl tabular --env FrozenLake-v1                    the whole story in a second
  ilbrl tabular --env grid:10x10 --expert-steps 30     few demonstrations: cloning is lost, ILBRL is not
  ilbrl tabular --env riverswim:8 --expert-steps 20 --unseen optimistic
  ilbrl tabular --env Taxi-v4 --expert-steps 1000 --logs-steps 100000 --json
"""
MOST_STEPS = 10_000_000
STRANGE = "·"  # a cell whose action the policy leaves open


@dataclass(frozen=True)
class WorldOptions:
    env: Annotated[str, arg(help=NAMES)] = "FrozenLake-v1"
    expert_steps: Annotated[int, arg(help="transitions demonstrated by the optimal expert")] = 200
    logs_steps: Annotated[int, arg(help="transitions logged by the uniformly random explorer")] = 20_000
    gamma: Annotated[float, arg(help="discount of phased Q-learning and SMODICE")] = 0.99
    unseen: Annotated[Unseen, arg(help="what a state-action absent from the logs is worth")] = "pessimistic"
    restart: Annotated[float, arg(help="toy-text only: chance that a step jumps to a random state")] = 0.01
    seed: Annotated[int, arg(help="of the logs, and of a random MDP (garnet)")] = 0
    json: Annotated[bool, arg(help="print one JSON object")] = False


def main(words: list[str]) -> int:
    args = tyro.cli(
        WorldOptions,
        args=words,
        prog="ilbrl tabular",
        description=DESCRIPTION,
        config=(tyro.conf.FlagCreatePairsOff,),
    )
    if not 1 <= args.expert_steps <= MOST_STEPS or not 0 <= args.logs_steps <= MOST_STEPS:
        raise IlbrlError(
            f"--expert-steps must be at least 1, --logs-steps at least 0, and neither more than {MOST_STEPS:,}"
        )
    mdp = world(args.env, args.seed, args.restart)
    expert = average_optimum(mdp).policy
    rng = np.random.default_rng(args.seed)
    logs = rollout(mdp, expert, args.expert_steps, rng), rollout(mdp, uniform_policy(mdp), args.logs_steps, rng)
    size = mdp.num_states, mdp.num_actions
    policies = {
        "expert": expert,
        "ILBRL": ilbrl(*logs, *size, Config(args.gamma, args.unseen)).policy,
        "BC": behavioural_cloning(logs[0], *size),
        "SMODICE": smodice(*logs, *size, SmodiceConfig(args.gamma)).policy,
        "explorer": uniform_policy(mdp),
    }
    scores = {name: _score(mdp, expert, policy) for name, policy in policies.items()}
    visited = int((logs[0].counts(*size).sum(axis=1) > 0).sum())
    if args.json:
        print(json.dumps(_jsonable(args, mdp, policies, scores, visited), indent=2))
    else:
        print(_report(args, mdp, policies, scores, visited))
    return 0


def _score(mdp: FiniteMDP, expert: np.ndarray, policy: np.ndarray) -> dict[str, float]:
    mine, experts = average_reward(mdp, policy), average_reward(mdp, expert)
    distance = total_variation(occupancy(mdp, policy), occupancy(mdp, expert))
    return {"average_reward": mine, "regret": experts - mine, "total_variation": distance}


def _jsonable(
    args: WorldOptions,
    mdp: FiniteMDP,
    policies: dict[str, np.ndarray],
    scores: dict[str, dict[str, float]],
    visited: int,
) -> dict[str, Any]:
    return {
        "env": args.env,
        "states": mdp.num_states,
        "actions": mdp.num_actions,
        "expert_steps": args.expert_steps,
        "logs_steps": args.logs_steps,
        "gamma": args.gamma,
        "unseen": args.unseen,
        "seed": args.seed,
        "states_demonstrated": visited,
        "scores": scores,
        "expert_policy": policies["expert"].tolist(),
        "imitation_policy": policies["ILBRL"].tolist(),
        "state_numbers": None if mdp.origin is None else mdp.origin.tolist(),
    }


def _report(
    args: WorldOptions,
    mdp: FiniteMDP,
    policies: dict[str, np.ndarray],
    scores: dict[str, dict[str, float]],
    visited: int,
) -> str:
    lines = [
        f"{args.env}: {mdp.num_states} states × {mdp.num_actions} actions;"
        f" {args.expert_steps:,} expert transitions ({visited} states demonstrated),"
        f" {args.logs_steps:,} of a random explorer",
        "",
        *_side_by_side(mdp, {name: policies[name] for name in ("expert", "ILBRL", "BC")}),
        "",
        f"  {'':<10} {'average reward':>15} {'regret':>10} {'total variation':>16}",
    ]
    for name, score in scores.items():
        lines.append(
            f"  {name:<10} {score['average_reward']:>15.5f} {score['regret']:>10.5f} {score['total_variation']:>16.4f}"
        )
    return "\n".join(lines)


def _side_by_side(mdp: FiniteMDP, policies: dict[str, np.ndarray]) -> list[str]:
    """Each policy drawn as arrows on the grid; for an MDP without a grid, the share of states that agree."""
    if mdp.layout is None:
        expert = action_probabilities(mdp, policies["expert"]).argmax(axis=1)
        agree = (np.asarray(policies["ILBRL"]) == expert).mean()
        return [f"  ILBRL takes the expert's action in {agree:.0%} of the states"]
    drawings = {name: _drawing(mdp, policy) for name, policy in policies.items()}
    width = max(len(mdp.layout.background[0]), *(len(name) for name in drawings)) + 4
    rows = ["  " + "".join(name.ljust(width) for name in drawings)]
    return rows + ["  " + "".join(row.ljust(width) for row in grid) for grid in zip(*drawings.values())]


def _drawing(mdp: FiniteMDP, policy: np.ndarray) -> list[str]:
    assert mdp.layout is not None
    width = len(mdp.layout.background[0])
    cells = list("".join(mdp.layout.background))
    for cell, odds in zip(mdp.layout.cells, action_probabilities(mdp, policy)):
        cells[cell] = mdp.layout.glyphs[int(odds.argmax())] if odds.max() > 0.5 else STRANGE
    return ["".join(cells[start : start + width]) for start in range(0, len(cells), width)]
