"""The agents: each a page of algorithm, all with the same parts, in one literal registry.

A module offers `Config`, `PRESETS`, `State`, `init`, `period`, `step`, `actor_layers` and `prepare`; CONTRIBUTING.md
has a skeleton.
"""

from types import ModuleType

from ilbrl.agents import bc, ilbrl, ilbrl_unweighted, oril, smodice, td3bc

AGENTS: dict[str, ModuleType] = {
    "ilbrl": ilbrl,
    "ilbrl-unweighted": ilbrl_unweighted,
    "bc": bc,
    "smodice": smodice,
    "oril": oril,
    "td3bc": td3bc,
}
