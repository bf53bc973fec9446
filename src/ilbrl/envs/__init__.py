"""Environments: the only package that imports Gymnasium and MuJoCo, and every call to them is counted.

Nothing here is needed to learn from logs. `data.benchmark` collects its episodes with `collect_units`, and policies
are scored with `rollout`; a protocol that promises to leave the environment alone can check `environment_calls()`, and
close environments altogether while it works (`closed`).
"""

from ilbrl.envs.playing import UniformPolicy
from ilbrl.envs.rollouts import Rollouts, collect, collect_units, collection_workers, rollout, rollout_all
from ilbrl.envs.tasks import (
    NOT_D4RL,
    OWN_SCORES,
    TASKS,
    EnvironmentCalls,
    Task,
    closed,
    environment_calls,
    find_task,
    import_module_of,
    make,
    normalised_score,
    score_notes,
)

__all__ = [
    "NOT_D4RL",
    "OWN_SCORES",
    "TASKS",
    "EnvironmentCalls",
    "Rollouts",
    "Task",
    "UniformPolicy",
    "closed",
    "collect",
    "collect_units",
    "collection_workers",
    "environment_calls",
    "find_task",
    "import_module_of",
    "make",
    "normalised_score",
    "rollout",
    "rollout_all",
    "score_notes",
]
