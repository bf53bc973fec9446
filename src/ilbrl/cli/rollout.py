"""`ilbrl rollout`: score a policy in its environment."""

from __future__ import annotations

import json as json_format
from typing import Annotated, Any

import numpy as np
import tyro
from tyro.conf import FlagCreatePairsOff, arg

from ilbrl.base.errors import IlbrlError
from ilbrl.base.records import to_plain
from ilbrl.data.benchmark import find_player
from ilbrl.data.summary import sparkline
from ilbrl.envs import NOT_D4RL, Rollouts, UniformPolicy, import_module_of, rollout, score_notes
from ilbrl.policy import Policy

_ABOUT = """Play a policy for some episodes with all cores and report its return.

examples:
  ilbrl rollout --policy policy.safetensors --env hopper
  ilbrl rollout --policy hopper/expert --episodes 100 --stochastic
  ilbrl rollout --policy policy.safetensors --env Pendulum-v1 --json"""


def main(words: list[str]) -> int:
    """Run `ilbrl rollout …` and return its exit code."""
    return tyro.cli(_rollout, args=words, prog="ilbrl rollout", description=_ABOUT, config=(FlagCreatePairsOff,))


def _rollout(
    policy: Annotated[str, arg(metavar="FILE|NAME")],
    env: Annotated[str | None, arg(metavar="TASK")] = None,
    episodes: int = 30,
    stochastic: bool = False,
    seed: int = 0,
    workers: Annotated[int | None, arg(metavar="INT")] = None,
    json: bool = False,
) -> int:
    """Play and report.

    Args:
        policy: A policy file (.safetensors), or a built-in policy such as hopper/expert.
        env: hopper, cartpole, … or a Gymnasium id; by default the task the policy was made for.
        episodes: How many episodes to play.
        stochastic: Sample actions; otherwise the policy's mean or most probable action is taken.
        seed: Of the environments and the action noise.
        workers: Processes; by default one per core. The result does not depend on it.
        json: Print one JSON object instead of text.
    """
    player = find_player(policy)
    if env is not None:
        import_module_of(env)
    task = env or _own_task(player, policy)
    stochastic = stochastic or isinstance(player, UniformPolicy)
    played = rollout(player, task, episodes, seed, stochastic, workers, quiet=json)
    if json:
        print(json_format.dumps(to_plain(_facts(policy, stochastic, seed, played)), indent=2))
    else:
        print(_text(policy, stochastic, played))
    return 0


def _own_task(player: Policy | UniformPolicy, name: str) -> str:
    """The task a policy was made for."""
    task = name.split("/")[0] if isinstance(player, UniformPolicy) else player.metadata.get("task")
    if not isinstance(task, str):
        raise IlbrlError(f"{name}: does not say which task it was made for; name it with --env")
    return task


def _facts(policy: str, stochastic: bool, seed: int, played: Rollouts) -> dict[str, Any]:
    return {
        "policy": policy,
        "env": played.task,
        "stochastic": stochastic,
        "seed": seed,
        "episodes": len(played.returns),
        "return_mean": float(played.returns.mean()),
        "return_standard_error": None if len(played.returns) == 1 else played.standard_error,
        "discounted_return_mean": float(played.discounted_returns.mean()),
        "score": played.score,
        "length_mean": float(played.lengths.mean()),
        "steps_per_second": float(played.lengths.sum() / played.seconds),
        "returns": played.returns.tolist(),
        "lengths": played.lengths.tolist(),
    } | ({} if played.score is None else {"note": " ".join(score_notes([played.task]))})


def _text(policy: str, stochastic: bool, played: Rollouts) -> str:
    spread = f" ± {played.standard_error:,.1f} (standard error)" if len(played.returns) > 1 else ""
    lines = [
        f"{policy} in {played.task}, {len(played.returns)} {'stochastic' if stochastic else 'deterministic'} episodes",
        f"  return      {played.returns.mean():,.1f}{spread}",
        f"  discounted  {played.discounted_returns.mean():,.1f} (γ = 0.99)",
        f"  length      {played.lengths.mean():,.1f} steps",
        f"  returns     {np.min(played.returns):,.0f} {sparkline(played.returns)} {np.max(played.returns):,.0f}",
        f"  speed       {played.lengths.sum() / played.seconds:,.0f} steps/s",
    ]
    if played.score is not None:
        notes = score_notes([played.task])
        lines.insert(2, f"  score       {played.score:.1f}{' (D4RL-normalised)' if notes == [NOT_D4RL] else ''}")
        lines += notes
    return "\n".join(lines)
