"""The agents, in one literal registry.

Solvers are a page of algorithm each (td3bc.py, bc.py, smodice.py). An agent combines a solver with rows, a reward and
weights (agent.py): `ilbrl.py` and `baselines.py` hold ours, CONTRIBUTING.md has a skeleton for yours.
"""

from ilbrl.agents.agent import Agent
from ilbrl.agents.baselines import BC, ORACLE, ORIL, SMODICE
from ilbrl.agents.ilbrl import ILBRL, UNWEIGHTED

AGENTS: dict[str, Agent] = {
    "ilbrl": ILBRL,
    "ilbrl-unweighted": UNWEIGHTED,
    "bc": BC,
    "smodice": SMODICE,
    "oril": ORIL,
    "td3bc": ORACLE,
}
