"""The tasks, their scores, and the count of everything done in them."""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import astuple, dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ilbrl.base.errors import IlbrlError
from ilbrl.base.records import shown
from ilbrl.envs import clinic

NOT_D4RL = (
    "Scores use D4RL's constants on Gymnasium v5 tasks: they are not comparable with D4RL tables (v2 tasks and data)."
)
OWN_SCORES = "Score 0 is the mean return of uniformly drawn actions, score 100 that of the task's built-in expert."


@dataclass(frozen=True)
class Task:
    """An environment and, where they are known, the returns that score 0 and 100."""

    gym_id: str
    random_return: float | None = None
    expert_return: float | None = None
    options: dict[str, Any] = field(default_factory=dict)
    action_names: tuple[str, ...] | None = None  # of discrete actions; None: real-valued, or nobody has named them
    own: Callable[[], Any] | None = None  # makes an environment of ours, which needs no Gymnasium

    @property
    def score_note(self) -> str | None:
        """What a reader of scores must know; None: the task has none."""
        if self.random_return is None or self.expert_return is None:
            return None
        return NOT_D4RL if self.action_names is None else OWN_SCORES


TASKS = {
    "hopper": Task("Hopper-v5", -20.272305, 3234.3),
    "halfcheetah": Task("HalfCheetah-v5", -280.178953, 12135.0),
    "walker2d": Task("Walker2d-v5", 1.629008, 4592.3),
    # 27 inputs: without the 84 contact forces, which were always zero in D4RL's ant
    "ant": Task("Ant-v5", -325.6, 3879.7, {"include_cfrc_ext_in_observation": False}),
    # of discrete actions 0 and 100 are measured, over 300 episodes and more; the clinic's are exact
    "cartpole": Task("CartPole-v1", 21.6, 500.0, action_names=("left", "right")),
    "acrobot": Task("Acrobot-v1", -499.0, -79.9, action_names=("back", "none", "forth")),
    "lunarlander": Task("LunarLander-v3", -188.9, 235.8, action_names=("none", "left", "main", "right")),
    "clinic": Task("clinic", -0.502134, 0.489154, action_names=clinic.TREATMENTS, own=clinic.Clinic),
}


def find_task(name: str) -> Task:
    """A built-in task by its short name, or any Gymnasium id as it is.

    An environment of your own is `my_module:MyEnv-v0`: worker processes then import the module, as you did.
    """
    if name in TASKS:
        return TASKS[name]
    scored = next((task for task in TASKS.values() if task.gym_id == name), Task(name))
    return replace(scored, options={})


def import_module_of(name: str) -> None:
    """Import the module of a task `module:Id`: for names that the user typed, never for names read from a file.

    Modules in the current folder are found too, after all others.
    """
    module, separate, _ = name.partition(":")
    if not separate or module in sys.modules:
        return
    if not all(part.isidentifier() for part in module.split(".")):
        raise IlbrlError(f"no environment {name!r}: what stands before the colon is no name of a module")
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
    """The score 100 (R − random) / (expert − random) of each return; None for tasks without these constants."""
    found = find_task(task)
    if found.random_return is None or found.expert_return is None:
        return None
    return 100 * (np.asarray(returns, np.float64) - found.random_return) / (found.expert_return - found.random_return)


def score_notes(tasks: Iterable[str]) -> list[str]:
    """What a reader of these tasks' scores must know, each sentence once."""
    notes = (find_task(task).score_note for task in tasks)
    return list(dict.fromkeys(note for note in notes if note is not None))


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
    task = find_task(name)
    if task.own is not None:
        return task.own()
    try:
        import gymnasium
    except ModuleNotFoundError as error:
        raise IlbrlError(f'environments need {error.name}: pip install "ilbrl[benchmark]"') from None
    try:
        with _quiet_mujoco():
            env = gymnasium.make(task.gym_id, disable_env_checker=True, **task.options)
    except gymnasium.error.DependencyNotInstalled as error:
        extra = "box2d" if "box2d" in str(error).lower() else "benchmark"
        raise IlbrlError(f'{name}: {error} (pip install "ilbrl[{extra}]")') from None
    except (gymnasium.error.Error, ImportError, ValueError) as error:
        raise IlbrlError(
            f"no environment {shown(name)}: {str(error)[:300]} (the built-in tasks are {', '.join(TASKS)}; name one of"
            " your own as module:Id, so that worker processes import it too)"
        ) from None
    spaces = gymnasium.spaces
    seen, acted = env.observation_space, env.action_space
    if not isinstance(seen, spaces.Box) or len(seen.shape) != 1:
        raise IlbrlError(f"{name}: its observations are {seen}; only flat Box spaces can be played")
    numbers = isinstance(acted, spaces.Box) and len(acted.shape) == 1
    if not numbers and not (isinstance(acted, spaces.Discrete) and acted.start == 0):
        raise IlbrlError(
            f"{name}: its actions are {acted}; only flat Box spaces and Discrete ones from 0 can be played"
        )
    return env


class Sizes(NamedTuple):
    """What an environment shows and takes."""

    obs_dim: int
    act_dim: int  # numbers in an action; 1 for a discrete one, as in a `Dataset`
    num_actions: int | None  # None: actions are real-valued


def sizes_of(env: Any) -> Sizes:
    """Of an environment that `build` has made."""
    choices = getattr(env.action_space, "n", None)  # Gymnasium's name of how many actions a Discrete space has
    (observed,) = env.observation_space.shape
    if choices is not None:
        return Sizes(observed, 1, int(choices))
    (acted,) = env.action_space.shape
    return Sizes(observed, acted, None)


@contextmanager
def _quiet_mujoco() -> Iterator[None]:
    """MuJoCo warns about Gymnasium's own models, and would write a log file into the current folder."""
    try:
        import mujoco
    except ModuleNotFoundError:  # then nothing of it is played either
        yield
        return
    on_warning: Any = getattr(mujoco, "set_mju_user_warning")  # noqa: B009 - its type stub does not know it
    on_warning(lambda message: None)
    try:
        yield
    finally:
        on_warning(None)
