"""The study's task, looked up before anything is computed: a wrong one shall not show after all the training."""

from __future__ import annotations

from ilbrl.base.errors import IlbrlError
from ilbrl.envs.tasks import build
from ilbrl.study.logs import Logs


def require_playable(task: str, logs: Logs) -> None:
    """Refuse a task that does not exist or has other sizes than the logs. Nothing is reset or stepped, nor counted."""
    env = build(task)
    (observed,), (acted,) = env.observation_space.shape, env.action_space.shape
    env.close()
    for role, data in logs.by_role.items():
        if (data.obs_dim, data.act_dim) != (observed, acted):
            raise IlbrlError(
                f"task: {task} has observations of {observed} numbers and actions of {acted}, {data.source} ({role})"
                f" {data.obs_dim} and {data.act_dim}; name the environment that the logs come from, or none"
            )
