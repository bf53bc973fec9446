"""How to read logs that do not say everything themselves: names of columns, action bounds, the time limit.

Every command that reads logs takes these options, and a mapping file can hold them all:

    observations = ["angle", "speed"]       # mapping.toml, or the same as JSON
    actions = "torque"
    terminals = "fell"
    episodes = "trial"
    action_low = -2.0
    action_high = 2.0
    max_episode_steps = 200
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from ilbrl.base.errors import IlbrlError
from ilbrl.data.dataset import Dataset
from ilbrl.data.joining import MOST_CHOICES, with_action_names

FIELDS = (
    "observations", "actions", "next_observations", "rewards", "terminals", "timeouts", "log_probs", "propensities",
    "is_expert", "episodes", "steps",
)  # fmt: skip
_LARGEST_MAPPING = 1_000_000  # bytes


@dataclass(frozen=True)
class Reading:
    """What the files do not say; the same for the expert's logs and the others."""

    columns: dict[str, str] = field(default_factory=dict)
    """Names in tables and npz or D4RL files, as pairs: observations angle,speed actions torque episodes trial. A star
    stands for any characters: observations 'sensor_*'."""
    mapping: str | None = None
    """A TOML or JSON file that says the same, and the bounds: observations = ["angle", "speed"], action_low = -2."""
    action_low: tuple[float, ...] = ()
    """Lowest allowed action, one number per column or one for all; by default what the file states, else the range of
    the logs where it exceeds [-1, 1]."""
    action_high: tuple[float, ...] = ()
    """Highest allowed action."""
    action_names: tuple[str, ...] = ()
    """All discrete actions by name, in the order of their numbers: left right stay."""
    num_actions: int | None = None
    """How many discrete actions there are, where they have no names."""
    max_episode_steps: int | None = None
    """After how many steps an episode was stopped, for logs that do not mark it."""

    def __post_init__(self) -> None:
        check_fields(self.columns, "--columns")
        if self.max_episode_steps is not None and self.max_episode_steps < 1:
            raise IlbrlError(f"--max-episode-steps {self.max_episode_steps}: an episode has at least one step")
        if self.num_actions is not None and not 1 <= self.num_actions <= MOST_CHOICES:
            raise IlbrlError(f"--num-actions {self.num_actions}: between 1 and {MOST_CHOICES:,} can be told apart")

    @property
    def names(self) -> dict[str, str | list[str]]:
        """Field → its column or columns, from the mapping file and the options; options come first."""
        told = {name: home for name, home in self._mapped().items() if name in FIELDS}
        return told | {name: home.split(",") if "," in home else home for name, home in self.columns.items()}

    @property
    def array_names(self) -> dict[str, str | list[str]]:
        """The same for files of arrays, whose rows are in order."""
        if "steps" in self.names:
            raise IlbrlError("--columns steps: only the rows of tables are put in order; leave it out")
        return self.names

    def with_mapping(self) -> Reading:
        """The same with bounds and time limit taken from the mapping file, where they are not stated."""
        told = {name: value for name, value in self._mapped().items() if name not in FIELDS}
        return replace(self, **{name: value for name, value in told.items() if not getattr(self, name)})

    def completed(self, dataset: Dataset) -> Dataset:
        """The dataset with the bounds, names or number of actions stated here, where they are."""
        if self.action_names or self.num_actions is not None:
            dataset = with_action_names(dataset, self.action_names or list(map(str, range(self.num_actions or 0))))
        stated = {name: np.array(getattr(self, name)) for name in ("action_low", "action_high") if getattr(self, name)}
        if not stated:
            return dataset
        if dataset.discrete:  # whole numbers within bounds are amounts, not choices
            dataset = replace(dataset, actions=dataset.actions[:, None].astype(np.float32))
        for name, bound in stated.items():
            if len(bound) not in (1, dataset.act_dim):
                option = f"--{name.replace('_', '-')}"
                raise IlbrlError(
                    f"{option}: {len(bound)} numbers, but {dataset.source} has {dataset.act_dim} action columns;"
                    " give one number, or one for each"
                )
        bounds = {name: np.broadcast_to(bound, dataset.act_dim) for name, bound in stated.items()}
        bounded = replace(dataset, **bounds)
        if bounded.action_low is None or bounded.action_high is None:
            raise IlbrlError(f"{dataset.source}: give --action-low and --action-high, both or neither")
        return bounded

    def _mapped(self) -> dict[str, Any]:
        return {} if self.mapping is None else _read_mapping(Path(self.mapping))


def homes(
    stored: Iterable[str],
    usual: Mapping[str, Sequence[str]],
    told: Mapping[str, str | Sequence[str]],
    source: object,
) -> dict[str, list[str]]:
    """Field → where a file keeps it: as told, or under the first of its usual names that is there."""
    names = dict.fromkeys(stored)
    found: dict[str, list[str]] = {}
    for name, candidates in usual.items():
        there = [candidate for candidate in candidates if candidate in names]
        if there:
            found[name] = there[:1]
    found |= {name: _expanded(name, home, names, source) for name, home in told.items()}
    for name in ("observations", "actions"):
        if name not in found:
            raise IlbrlError(
                f"{source}: has no field {name!r}, only {_some(list(names))}; say which is which:"
                " --columns observations NAME,NAME actions NAME episodes NAME (and where there are such columns:"
                " terminals NAME timeouts NAME rewards NAME)"
            )
    return found


def unused(stored: Iterable[str], used: Mapping[str, Sequence[str]]) -> list[str]:
    """A note that names what nobody reads, so that nothing is left out silently."""
    taken = {name for names in used.values() for name in names}
    left = [name for name in stored if name not in taken]
    return [f"not used: {_some(left)}"] if left else []


def in_order(names: list[str], prefix: str) -> tuple[list[str], list[str]]:
    """(names, doubts): numbered names by number, others as they stand; a gap in the numbers is doubtful."""
    ends = [name.removeprefix(prefix) for name in names]
    if not all(end.isdecimal() and len(end) < 10 for end in ends):
        return names, []
    numbers = sorted(map(int, ends))
    gap = next((number + 1 for number, after in pairwise(numbers) if after > number + 1), None)
    doubts = [] if gap is None else [f"column {prefix}{gap} is missing before {prefix}{numbers[-1]}; was it left out?"]
    return sorted(names, key=lambda name: int(name.removeprefix(prefix))), doubts


def _expanded(field: str, home: str | Sequence[str], names: Mapping[str, None], source: object) -> list[str]:
    found: list[str] = []
    for name in [home] if isinstance(home, str) else home:
        if name in names:
            found.append(name)
        elif "*" in name and (matching := _matching(name, names)):
            found += in_order(matching, name.partition("*")[0])[0]
        else:
            raise IlbrlError(f"{source}: no column {name!r} for {field}, found {_some(list(names))}")
    return found


def _matching(pattern: str, names: Iterable[str]) -> list[str]:
    expression = re.compile(".*".join(map(re.escape, pattern.split("*"))))
    return [name for name in names if expression.fullmatch(name)]


def _some(names: Sequence[str]) -> str:
    return (", ".join(names[:20]) or "nothing") + (f" … ({len(names):,} in all)" if len(names) > 20 else "")


def check_fields(names: Iterable[str], where: str, known: Sequence[str] = FIELDS) -> None:
    """Refuse the name of a field that there is not; `where` begins the message."""
    for name in names:
        if name not in known:
            raise IlbrlError(f"{where}: there is no field {name!r}; the fields are {', '.join(known)}")


def _read_mapping(path: Path) -> dict[str, Any]:
    """A mapping file, checked entry by entry."""
    if not path.is_file():
        raise IlbrlError(f"{path}: no such mapping file")
    if path.stat().st_size > _LARGEST_MAPPING:
        raise IlbrlError(f"{path}: a mapping file has at most {_LARGEST_MAPPING:,} bytes")
    try:
        text = path.read_text(encoding="utf-8")
        entries = json.loads(text) if path.suffix.lower() == ".json" else tomllib.loads(text)
    except (OSError, ValueError, RecursionError) as error:
        raise IlbrlError(f"{path}: cannot be read as a mapping file ({error})") from None
    if not isinstance(entries, dict):
        raise IlbrlError(f'{path}: a mapping file has lines such as actions = "torque"')
    options = [each.name for each in fields(Reading) if each.name not in ("columns", "mapping")]
    check_fields(entries, str(path), (*FIELDS, *options))
    return {name: _checked(name, value, path) for name, value in entries.items()}


def _checked(name: str, value: Any, path: Path) -> Any:
    values = value if isinstance(value, list) else [value]
    if name in FIELDS or name == "action_names":
        if values and all(isinstance(each, str) for each in values):
            return value if name in FIELDS else tuple(values)
        raise IlbrlError(f"{path}: {name} must be a name, or a list of names")
    if name in ("max_episode_steps", "num_actions"):
        if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 2**63:
            return value
        raise IlbrlError(f"{path}: {name} must be a whole number, at least 1")
    if values and all(isinstance(each, int | float) and not isinstance(each, bool) for each in values):
        try:
            return tuple(float(each) for each in values)
        except OverflowError:
            pass
    raise IlbrlError(f"{path}: {name} must be a number, or a list of numbers, one per action column")
