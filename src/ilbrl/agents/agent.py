"""An agent is a value: which rows it sees, how they are rewarded and weighted, and which solver learns from them.

Each part stands alone: a new reward or solver combines with all others, and an agent that combines them is a value of
`Agent` and one line in `ilbrl.agents.AGENTS`. Its Config inherits the settings of its parts; nothing else is inherited.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Literal, NamedTuple

import numpy as np

from ilbrl.agents.weights import Weighing, Weight
from ilbrl.base.errors import IlbrlError
from ilbrl.data import Dataset, concatenate, same_choices
from ilbrl.learning import batches as feeding
from ilbrl.learning import nets
from ilbrl.learning.batches import Feed, Shares
from ilbrl.learning.population import Learner
from ilbrl.learning.spec import Spec
from ilbrl.rewards import Labelling, Labels, Logits, Reward, Rewarded

PerRow = np.ndarray | Callable[[Dataset], np.ndarray]
"""[N] numbers for the expert's rows and then the logs', or a function that makes them of these rows."""


class Solver(NamedTuple):
    """What learns a policy from rewarded rows: the contract of td3bc.py, bc.py and smodice.py."""

    Config: type
    learner: Learner
    actor_layers: Callable[[Any], nets.Layers]  # state → the network that acts
    largest_value: Callable[[Any, float], float] | None
    """(configuration, max |r|) → what no true |value| exceeds; None: it learns no values, and needs no reward."""
    needs: Callable[[Any], Sequence[str]] = lambda cfg: ()
    """configuration → the columns that it reads beside the usual ones: next_actions, initial_observations."""
    head: Mapping[str, Any] = {}  # what `Policy` must know of a stochastic actor


@dataclass(frozen=True)
class Agent:
    """A recipe, with its settings, the ranges they are searched in, and how it looks in print."""

    name: str
    title: str  # in tables and figures
    headline: str  # one sentence for those who choose an agent
    colour: str
    solver: Solver
    Config: type
    presets: Mapping[str, Any]
    ranges: Mapping[str, Mapping[str, str]]
    """Preset of a study's search ("default": ours, "paper": as printed) → setting → range, as text; "discrete": ours
    where actions are discrete, and those of "default" where it is not there."""
    discrete: Solver | None = None  # learns in place of `solver` where actions are discrete; None: cannot
    reward: Reward | None = None  # None: nothing is rewarded
    weight: Weight | None = None  # None: all rows count alike
    rows: Literal["union", "expert"] = "union"  # D_E ∪ D_X, with the expert's share of each batch in Config; or D_E
    draws_with: str | None = None  # another agent, whose draws of hyper-parameters this one shares

    def solver_for(self, spec: Spec) -> Solver:
        """The solver for actions of this kind."""
        if not spec.discrete:
            return self.solver
        if self.discrete is None:
            raise IlbrlError(f"agent {self.name}: learns real-valued actions only, and these logs have discrete ones")
        return self.discrete

    def usual_preset(self, discrete: bool) -> str:
        """The preset that suits actions of this kind."""
        return "discrete" if discrete and "discrete" in self.presets else "default"

    def learns_from(self, expert: Dataset, logs: Dataset) -> list[Dataset]:
        """The datasets whose rows it is trained on, the expert's first."""
        return [expert] if self.rows == "expert" else [expert, logs]

    def __post_init__(self) -> None:
        used = (self.solver, self.discrete, self.reward, self.weight)
        parts = [part.Config for part in used if part is not None]
        for part in [*parts, Shares] if self.rows == "union" else parts:
            if not issubclass(self.Config, part):
                raise TypeError(f"agent {self.name}: its Config must inherit {part.__module__}.{part.__name__}")
        if self.weight is not None and self.reward is None:
            raise TypeError(f"agent {self.name}: weights are made of rewards, and it has none")


# --- what is made of the logs before training -------------------------------------------------------------------------


@dataclass(frozen=True)
class Prepared:
    """What a population is trained on; member p has the p-th configuration and seed."""

    spec: Spec
    feed: Feed
    largest_values: np.ndarray  # [P] what no true |value| of a member exceeds; infinite: it learns none
    labels: Labels | Logits | None = field(repr=False, default=None)
    identity: Mapping[str, Any] = field(default_factory=dict)  # what it depends on beside data, configurations, seeds


def prepare(
    agent: Agent,
    expert: Dataset,
    logs: Dataset,
    configs: Sequence[Any],
    seeds: Sequence[int],
    *,
    reward: PerRow | None = None,
    weight: PerRow | None = None,
    labels: Labels | None = None,
    absorbing: np.ndarray | None = None,
    updates: int | None = None,
    quiet: bool = False,
) -> Prepared:
    """Label, weight and normalise the rows once for all members.

    reward, weight: the user's own, in place of the agent's.
    labels: soft-support labels of the same rows, to spare searching for neighbours again.
    absorbing: with a `reward` of the user's own, [N] what every step after a terminal row earns.
    updates: how long members will be trained, for rewards that are learned no longer than that.
    """
    cfg = configs[0]  # for what is static, and so the same for all members
    expert, logs = same_choices([expert, logs])
    rows = concatenate(agent.learns_from(expert.as_expert(), logs))
    if len(rows) == 0:
        raise IlbrlError(f"{rows.source}: no rows, so there is nothing to learn from")
    spec = Spec.of(rows)
    made = None
    if reward is not None:
        made = Rewarded(_per_row("reward", reward, rows), absorbing=absorbing)
    elif agent.reward is not None:
        made = agent.reward.label(Labelling(expert, logs, spec, configs, seeds, updates, labels, quiet))
    shared, own, own_of, learned = feeding.transitions(rows, spec), {}, None, {}
    if made is not None:
        _require_within_bounds(agent, configs, made.rewards)
        weigher = agent.weight if weight is None else None
        sets = _sets(made, configs, weigher)
        columns = {"rewards": np.atleast_2d(made.rewards)[sets.rewards]}
        if made.absorbing is not None:
            columns["absorbing"] = np.atleast_2d(made.absorbing)[sets.rewards]
        if weigher is not None:
            asked = Weighing(expert, logs, rows, spec, columns["rewards"], sets.configs, made.labels)
            columns["weights"] = _not_negative(agent, weigher.weigh(asked))
        if sets.of_member is None:
            shared |= {name: column[0] for name, column in columns.items()}
        else:
            own, own_of = columns, sets.of_member
        learned = made.identity
    if weight is not None:
        shared["weights"] = _not_negative(agent, _per_row("weight", weight, rows))
    given = {name: _digest(shared[name]) for name, one in (("rewards", reward), ("weights", weight)) if one is not None}
    return Prepared(
        spec,
        _feed(agent, cfg, rows, spec, shared, own, own_of, len(expert)),
        _largest_values(agent.solver_for(spec), configs, made),
        None if made is None else made.labels,
        {**learned, **given},
    )


class Sets(NamedTuple):
    """The columns that members read: one set for each way of rewarding and weighing."""

    of_member: list[int] | None  # [P] which of the G sets; None: there is one for all
    rewards: list[int]  # [G] number of its rewards
    configs: list[Any]  # [G] what it is weighed by


def _sets(made: Rewarded, configs: Sequence[Any], weight: Weight | None) -> Sets:
    """weight: None: it is not made of the rewards, so that members do not differ in it."""
    settings = [] if weight is None else [f.name for f in fields(weight.Config)]
    rewards_of = made.set_of if made.set_of is not None else [0] * len(configs)
    kinds = [(one, *(getattr(cfg, name) for name in settings)) for one, cfg in zip(rewards_of, configs)]
    distinct = list(dict.fromkeys(kinds))
    first = [kinds.index(kind) for kind in distinct]
    alike = made.set_of is None and len(distinct) == 1
    of_member = None if alike else [distinct.index(kind) for kind in kinds]
    return Sets(of_member, [kind[0] for kind in distinct], [configs[i] for i in first])


def _feed(
    agent: Agent,
    cfg: Any,
    rows: Dataset,
    spec: Spec,
    shared: dict[str, np.ndarray],
    own: dict[str, np.ndarray],
    own_of: Sequence[int] | None,
    expert_rows: int,
) -> Feed:
    """The columns with whatever else the solver needs; rows to be held out come first, and are never trained on."""
    needs, percent = agent.solver_for(spec).needs(cfg), getattr(cfg, "held_out_percent", 0)
    if "next_actions" in needs:
        shared = shared | feeding.logged_next_actions(rows, spec)
    initial = spec.standardise(rows.initial_observations) if "initial_observations" in needs else None
    if percent == 0:
        return Feed(shared, own, own_of, initial_observations=initial, expert_rows=expert_rows)
    held_out = len(rows) * percent // 100
    if agent.rows != "expert":
        raise IlbrlError(
            f"held_out_percent: only the expert's rows are held out, and {agent.name} learns from all; use 0"
        )
    if not 0 < held_out < len(rows):
        raise IlbrlError(f"{rows.source}: cannot hold out {percent} % of its {len(rows)} rows; use 1 to 99, or 0")
    held_out_first = {name: np.roll(column, held_out, axis=0) for name, column in shared.items()}
    training = [np.arange(held_out, len(rows))]
    return Feed(held_out_first, subsets=training, expert_rows=held_out, second_draw=True)


def _largest_values(solver: Solver, configs: Sequence[Any], made: Rewarded | None) -> np.ndarray:
    """[P]; NaN where a member's rewards are, which marks the member diverged."""
    limit = solver.largest_value
    if limit is None or made is None:
        return np.full(len(configs), np.inf)
    per_set = np.abs(np.atleast_2d(made.rewards)).max(1)
    set_of = made.set_of if made.set_of is not None else [0] * len(configs)
    return np.array([limit(cfg, float(per_set[one])) for cfg, one in zip(configs, set_of)])


def _digest(column: np.ndarray) -> str:
    return hashlib.sha256(np.ascontiguousarray(column).data).hexdigest()


def _per_row(what: str, given: PerRow, rows: Dataset) -> np.ndarray:
    """[N] float32 of an array or a function of the user's own."""
    found = np.asarray(given(rows) if callable(given) else given, np.float32)
    if found.shape != (len(rows),):
        raise IlbrlError(
            f"{what}: must be one number per row, the expert's rows first: [{len(rows)}], got {found.shape}"
        )
    if not np.isfinite(found).all():
        raise IlbrlError(f"{what}: row {np.isfinite(found).argmin()} is NaN or infinite; every row needs a number")
    return found


def _not_negative(agent: Agent, weights: np.ndarray) -> np.ndarray:
    if (weights < 0).any():
        raise IlbrlError(
            f"{agent.name}: weights must not be negative, the lowest is {weights.min():g};"
            " give a weight of your own (fit(…, weight=…)), or rewards of at least 0"
        )
    return weights


def _require_within_bounds(agent: Agent, configs: Sequence[Any], rewards: np.ndarray) -> None:
    bounds = getattr(configs[0], "reward_bounds", None)
    if bounds is not None and (np.nanmin(rewards) < bounds[0] or np.nanmax(rewards) > bounds[1]):
        raise IlbrlError(
            f"{agent.name}: reward_bounds are {bounds[0]:g} to {bounds[1]:g}, but rewards lie between"
            f" {np.nanmin(rewards):g} and {np.nanmax(rewards):g}; set other bounds, or None (--reward-bounds None)"
        )
