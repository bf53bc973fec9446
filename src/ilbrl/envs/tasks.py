"""The tasks, their scores, and the count of everything done in them."""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import astuple, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ilbrl.base.errors import IlbrlError

NOT_D4RL = (
    "Scores use D4RL's constants on Gymnasium v5 tasks: they are not comparable with D4RL tables (v2 tasks and data)."
)


@dataclass(frozen=True)
class Task:
    """A Gymnasium environment and, where D4RL gives them, the returns that score 0 and 100."""

    gym_id: str
    random_return: float | None = None
    expert_return: float | None = None
    options: dict[str, Any] = field(default_factory=dict)


TASKS = {
    "hopper": Task("Hopper-v5", -20.272305, 3234.3),
    "halfcheetah": Task("HalfCheetah-v5", -280.178953, 12135.0),
    "walker2d": Task("Walker2d-v5", 1.629008, 4592.3),
    # 27 inputs: without the 84 contact forces, which were always zero in D4RL's ant
    "ant": Task("Ant-v5", -325.6, 3879.7, {"include_cfrc_ext_in_observation": False}),
}


def find_task(name: str) -> Task:
    """A built-in task by its short name, or any Gymnasium id as it is.

    An environment of your own is `my_module:MyEnv-v0`: worker processes then import the module, as you did.
    """
    if name in TASKS:
        return TASKS[name]
    scored = next((task for task in TASKS.values() if task.gym_id == name), Task(name))
    return Task(name, scored.random_return, scored.expert_return)


def import_module_of(name: str) -> None:
    """Import the module of a task `module:Id`: for names that the user typed, never for names read from a file.

    Modules in the current folder are found too, after all others.
    """
    module, separate, _ = name.partition(":")
    if not separate or module in sys.modules:
        return
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.append(here)
    try:
        importlib.import_module(module)
    except ImportError as error:
        raise IlbrlError(f"no environment {name!r}: {error}") from None


def require_imported(name: str) -> None:
    """Refuse a task `module:Id` whose module nobody has imported: a name alone, perhaps out of a file, runs no code."""
    module, separate, _ = name.partition(":")
    if separate and module not in sys.modules:
        raise IlbrlError(
            f"the task {name!r} would run the module {module!r}, and a name alone must not do that; if you trust it,"
            f" type it yourself (ilbrl rollout --env {name}, ilbrl tune … --task {name}) or import {module} first"
        )


def normalised_score(task: str, returns: np.ndarray | float) -> np.ndarray | None:
    """D4RL's score 100 (R − random) / (expert − random) of each return; None for tasks without these constants."""
    found = find_task(task)
    if found.random_return is None or found.expert_return is None:
        return None
    return 100 * (np.asarray(returns, np.float64) - found.random_return) / (found.expert_return - found.random_return)


@dataclass(frozen=True)
class EnvironmentCalls:
    """How often environments were touched, in this process and in the workers it started.

    Not counted are units that a worker began ahead of time and whose result was never used.
    """

    environments: int = 0  # handed out by `make`; steps in those are not counted
    resets: int = 0
    steps: int = 0
    episodes: int = 0  # played to their end

    def __add__(self, other: EnvironmentCalls) -> EnvironmentCalls:
        return EnvironmentCalls(*(a + b for a, b in zip(astuple(self), astuple(other))))


_calls: dict[str, EnvironmentCalls] = {}  # process-wide on purpose: an audit must not depend on what callers pass


def environment_calls(purpose: str | None = None) -> EnvironmentCalls:
    """Calls so far for one purpose ("collection", "evaluation", …), or for all together."""
    counted = list(_calls.values()) if purpose is None else [_calls.get(purpose, EnvironmentCalls())]
    return functools.reduce(EnvironmentCalls.__add__, counted, EnvironmentCalls())


_closed: list[str] = []  # why environments are closed now, innermost block last


@contextmanager
def closed(during: str) -> Iterator[None]:
    """Within this block every environment call of this process raises, except the collection of built-in data."""
    _closed.append(during)
    try:
        yield
    finally:
        _closed.pop()


def require_open(purpose: str) -> None:
    if _closed and purpose != "collection":
        raise IlbrlError(f"environments are closed during {_closed[-1]}: nothing may be played there ({purpose})")


def count(purpose: str, calls: EnvironmentCalls) -> None:
    _calls[purpose] = environment_calls(purpose) + calls


def make(task: str, purpose: str = "by hand") -> Any:
    """The Gymnasium environment of a task, wrappers included."""
    require_open(purpose)
    count(purpose, EnvironmentCalls(environments=1))
    return build(task)


def build(name: str, trusted: bool = False) -> Any:
    """`make`, for the code that counts its own steps; `trusted` in a worker, whose parent has checked the name."""
    if not trusted:
        require_imported(name)
    try:
        import gymnasium
        import mujoco
    except ModuleNotFoundError as error:
        raise IlbrlError(f'environments need {error.name}: pip install "ilbrl[benchmark]"') from None
    task = find_task(name)
    # MuJoCo warns about Gymnasium's own models, and would write a log file into the current folder
    on_warning: Any = getattr(mujoco, "set_mju_user_warning")  # noqa: B009 - its type stub does not know it
    on_warning(lambda message: None)
    try:
        env = gymnasium.make(task.gym_id, disable_env_checker=True, **task.options)
    except (gymnasium.error.Error, ModuleNotFoundError, ValueError) as error:
        raise IlbrlError(
            f"no environment {name!r}: {error} (the built-in tasks are {', '.join(TASKS)}; name one of your own as"
            " module:Id, so that worker processes import it too)"
        ) from None
    finally:
        on_warning(None)
    for what, space in (("observations", env.observation_space), ("actions", env.action_space)):
        if not isinstance(space, gymnasium.spaces.Box) or len(space.shape) != 1:
            raise IlbrlError(f"{name}: its {what} are {space}; only flat Box spaces can be played")
    return env
