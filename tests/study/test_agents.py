"""A study that names an agent runs: every entry of the registry, and one that only this test puts into it."""

import json
from dataclasses import replace

import pytest

from ilbrl.agents import AGENTS, bc
from ilbrl.agents.agent import Agent
from ilbrl.agents.weights import BY_REWARD, RewardWeight
from ilbrl.learning.batches import Shares
from ilbrl.learning.config import config
from ilbrl.rewards import soft_support


@config
class Config(bc.Config, soft_support.SupportReward, RewardWeight, Shares):
    pass


INVENTED = Agent(
    name="weighted-bc",
    title="Weighted BC",
    headline="Cloning of all logs, weighted by closeness to the expert.",
    colour="#7A3E9D",
    solver=bc.SOLVER,
    reward=soft_support.REWARD,
    weight=BY_REWARD,
    Config=Config,
    presets={"default": Config()},
    ranges={"default": {"lr": "loguniform(1e-4, 1e-2)"}},
)


@pytest.mark.slow
def test_every_agent_and_an_invented_one(tiny, run, monkeypatch):
    """In the folder of a finished study, so that only the agents it did not have are trained and evaluated."""
    monkeypatch.setitem(AGENTS, INVENTED.name, INVENTED)
    replace(tiny, search=replace(tiny.search, algorithms=tuple(AGENTS))).run(run, change=True, quiet=True)
    selected = json.loads((run / "selection.json").read_text())["algorithms"]
    assert set(selected) == set(AGENTS)
    assert all((run / "policies" / name / "best.safetensors").exists() for name in AGENTS)
