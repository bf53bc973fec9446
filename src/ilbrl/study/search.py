"""Random search: which configurations of each algorithm a study tries, and the ranges they are drawn from.

A range is written as text: `loguniform(0.1, 4)`, `choice(kl, chi2)`, or a constant.

    uniform(a, b)         a + u (b − a)
    loguniform(a, b)      a (b / a)^u
    choice(x, y, …)       the ⌊u · k⌋-th of k values
    anything else         that value itself: 0.3, [64, 64], bfloat16

The n-th draw of a hyper-parameter comes from the study's seed, the algorithm's name, the hyper-parameter's name and n
alone. So an algorithm's draws do not depend on which others are in the study, more configurations begin with the fewer,
and another range for λ leaves the learning rates as they were. u is uniform; of `even` draws each block of eight has
one u in each eighth of [0, 1), in an order of its own for every hyper-parameter (a Latin hypercube).

Draws of two algorithms are independent, or else a comparison over algorithms would ask one question several times; only
ILBRL and its ablation share theirs, on purpose (`Agent.draws_with`), since they are compared setting by setting.

Where actions are discrete, our ranges (the preset "default") are the agent's "discrete" ones, if it has any.
"""

from __future__ import annotations

import json
import math
import re
import zlib
from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any, NamedTuple, get_args, get_type_hints

import numpy as np

from ilbrl.agents import AGENTS
from ilbrl.agents.agent import Agent
from ilbrl.base.errors import IlbrlError
from ilbrl.base.records import shown
from ilbrl.learning.config import TRACED, check_value, static_fields
from ilbrl.study.study import EVERY, Ranges, Search

RANGES = get_args(Ranges)
BLOCK = 8  # even draws
SHARES = ("expert_share", "expert_odds")  # two ways to say how often the expert's rows are drawn; a share wins


class Configuration(NamedTuple):
    """One draw of one algorithm."""

    algorithm: str
    number: int  # of the draw, from 0
    hyperparameters: dict[str, Any]  # what was drawn, or set by the study
    config: Any  # the agent's Config


def draw(search: Search, algorithm: str, seed: int, discrete: bool = False) -> list[Configuration]:
    """The study's configurations of one algorithm, for actions of this kind."""
    _refuse_unknown(search)
    ranges, agent = ranges_of(search, algorithm, discrete), AGENTS[algorithm]
    base, drawer = base_of(search, algorithm, discrete), agent.draws_with or algorithm
    at = even_quantile if search.even else quantile
    first = int(search.default_first)  # number of the first that is drawn
    found = []
    for n in range(configurations_of(search, algorithm)):
        if n < first:
            drawn = _usual(search, algorithm, discrete)
        else:
            values = {name: r.draw(at(seed, drawer, name, n - first)) for name, r in ranges.items()}
            drawn = _typed(algorithm, values)
        found.append(Configuration(algorithm, n, drawn, replace(base, **drawn)))
    return found


def base_of(search: Search, algorithm: str, discrete: bool = False) -> Any:
    """The configuration that draws change."""
    agent, ranges = AGENTS[algorithm], ranges_of(search, algorithm, discrete)
    base = agent.presets.get(_suiting(search, agent, discrete), agent.presets["default"])
    if "expert_odds" in ranges and "expert_share" not in ranges:
        base = replace(base, expert_share=0.0)
    return base


def default_of(search: Search, algorithm: str, discrete: bool = False) -> Any:
    """The algorithm's default, with what the study sets to one value."""
    return replace(base_of(search, algorithm, discrete), **_usual(search, algorithm, discrete))


def _usual(search: Search, algorithm: str, discrete: bool) -> dict[str, Any]:
    base, ranges = base_of(search, algorithm, discrete), ranges_of(search, algorithm, discrete)
    values = {name: r.draw(0.0) if r.kind == "constant" else getattr(base, name) for name, r in ranges.items()}
    return _typed(algorithm, values)


def configurations_of(search: Search, algorithm: str) -> int:
    """How many configurations of this algorithm a study tries."""
    return search.configurations_of.get(algorithm, search.configurations)


def quantile(seed: int, algorithm: str, name: str, n: int) -> float:
    """u in [0, 1): the n-th draw of an algorithm's hyper-parameter `name`."""
    return float(_generator(seed, algorithm, name, n).random())


def even_quantile(seed: int, algorithm: str, name: str, n: int) -> float:
    """The same, with one draw of each block of eight in each eighth of [0, 1)."""
    block, place = divmod(n, BLOCK)
    order = _generator(seed, algorithm, f"order of {name}", block).permutation(BLOCK)
    return float((order[place] + quantile(seed, algorithm, name, n)) / BLOCK)


def _generator(seed: int, algorithm: str, name: str, n: int) -> np.random.Generator:
    return np.random.default_rng([seed, zlib.crc32(f"{algorithm}.{name}".encode()), n])


def grouped(configurations: list[Configuration], members_per_configuration: int, limit: int) -> list[list]:
    """Configurations that one compiled program can train, in groups of at most `limit` members (at least one each)."""
    alike: dict[str, list[Configuration]] = {}
    for c in configurations:
        alike.setdefault(repr(static_fields(c.config)), []).append(c)
    size = max(1, limit // members_per_configuration)
    return [group[i : i + size] for group in alike.values() for i in range(0, len(group), size)]


def ranges_of(search: Search, algorithm: str, discrete: bool = False) -> dict[str, Range]:
    """Hyper-parameter → range: those of the agent, changed by the study's own (`all.…`, then the algorithm's).

    Where the study states the expert's share or odds, the agent's range of the other one goes.
    """
    if algorithm not in AGENTS:
        raise IlbrlError(f"search.algorithms: no algorithm {shown(algorithm)}; there are {', '.join(AGENTS)}")
    if search.preset not in RANGES:
        raise IlbrlError(f"search.preset: no ranges {search.preset!r}; there are {', '.join(RANGES)}")
    agent = AGENTS[algorithm]
    known = {f.name for f in fields(agent.Config)}
    own = _changes(search, algorithm)
    for name in own.keys() - known:
        there = ", ".join(sorted(known))
        raise IlbrlError(f"search.ranges.{algorithm}.{name}: {algorithm} has no such setting; it has {there}")
    stated = {name: text for name, text in _changes(search, EVERY).items() if name in known} | own
    texts = dict(agent.ranges.get(_suiting(search, agent, discrete), agent.ranges["default"]))
    for name in SHARES if stated.keys() & set(SHARES) else ():
        texts.pop(name, None)
    return {name: _checked(algorithm, name, text) for name, text in (texts | stated).items()}


def _suiting(search: Search, agent: Agent, discrete: bool) -> str:
    """Which of an agent's ranges and presets a search takes; where the agent has none of this name, its "default"."""
    return agent.usual_preset(discrete) if search.preset == "default" else search.preset


def _checked(algorithm: str, name: str, text: str) -> Range:
    """A range all of whose values the setting can have: each of a choice, both ends of an interval."""
    field = f"search.ranges.{algorithm}.{name}"
    found, hint = parse(text, field), get_type_hints(AGENTS[algorithm].Config)[name]
    for value in found.values:
        check_value(name, hint, value, field)
    return found


def _changes(search: Search, algorithm: str) -> dict[str, str]:
    prefix = f"{algorithm}."
    return {key.removeprefix(prefix): text for key, text in search.ranges.items() if key.startswith(prefix)}


def _refuse_unknown(search: Search) -> None:
    for algorithm in search.configurations_of:
        if algorithm not in AGENTS:
            raise IlbrlError(
                f"search.configurations_of: no algorithm {shown(algorithm)}; there are {', '.join(AGENTS)}"
            )
    for key in search.ranges:
        algorithm, _, name = key.partition(".")
        if algorithm not in AGENTS and algorithm != EVERY:
            raise IlbrlError(
                f"search.ranges.{key}: no algorithm {shown(algorithm)}; there are {', '.join(AGENTS)}, {EVERY}"
            )
        agents = AGENTS.values() if algorithm == EVERY else [AGENTS[algorithm]]
        if not any(name in {f.name for f in fields(agent.Config)} for agent in agents):
            raise IlbrlError(f"search.ranges.{key}: no setting {name!r}; ilbrl train {algorithm} --help lists them")


def _typed(algorithm: str, values: dict[str, Any]) -> dict[str, Any]:
    """Integers become floats where the setting is one."""
    hints = get_type_hints(AGENTS[algorithm].Config)
    return {name: float(v) if hints[name] in TRACED and v is not None else v for name, v in values.items()}


# --- ranges as text ---------------------------------------------------------------------------------------------------

KINDS: dict[str, Callable[[tuple[Any, ...], float], Any]] = {
    "uniform": lambda ends, u: ends[0] + u * (ends[1] - ends[0]),
    "loguniform": lambda ends, u: ends[0] * (ends[1] / ends[0]) ** u,
    "choice": lambda values, u: values[math.floor(u * len(values))],
    "constant": lambda value, u: value[0],
}
_CALL = re.compile(r"\s*([a-z]+)\s*\((.*)\)\s*", re.DOTALL)


class Range(NamedTuple):
    """A distribution by its kind and what it is made of."""

    kind: str
    values: tuple[Any, ...]

    def draw(self, u: float) -> Any:
        """The value at the quantile u in [0, 1)."""
        return KINDS[self.kind](self.values, u)


def parse(text: str, field: str = "range") -> Range:
    """A range from its text; `field` is what an error names."""
    if text.count("(") != text.count(")") or text.count("[") != text.count("]"):
        raise IlbrlError(f"{field}: a bracket of {shown(text.strip())} is missing")
    call = _CALL.fullmatch(text)
    if call is None:
        return Range("constant", (_value(text),))
    kind, values = call[1], _values(call[2])
    if kind not in ("uniform", "loguniform", "choice"):
        raise IlbrlError(f"{field}: no distribution {shown(kind)}; there are uniform, loguniform and choice")
    if kind == "choice":
        if not values:
            raise IlbrlError(f"{field}: choice() offers nothing to choose from")
        return Range(kind, values)
    if len(values) != 2 or not all(_is_number(value) for value in values):
        raise IlbrlError(f"{field}: {kind} takes two numbers, {shown(text.strip())} has {len(values)} values")
    low, high = values
    if not low <= high or (kind == "loguniform" and low <= 0):
        lowest = "above 0 and " if kind == "loguniform" else ""
        raise IlbrlError(
            f"{field}: the first number of {shown(text.strip())} must be {lowest}no larger than the second"
        )
    return Range(kind, (float(low), float(high)))


def _values(text: str) -> tuple[Any, ...]:
    """Separated by commas, but not by those inside brackets."""
    return tuple(_value(part) for part in re.split(r",(?![^\[]*\])", text) if part.strip())


def _value(text: str) -> Any:
    """A number, a truth value, a list (as a tuple), None for `none`; else the text itself."""
    text = text.strip()
    if text == "none":
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):  # no JSON, an integer of thousands of digits, or nested too deep
        return text
    return tuple(value) if isinstance(value, list) else value


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
