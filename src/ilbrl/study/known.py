"""The known policies of a study: what it says of them, and the episodes that show what they are worth.

A known policy's true value is told by its own episodes: those of the log that it alone made, or those of a file of its
own. Nobody learns from such a file. Where the policy also made a log, alone or with others, the study says which one,
so that the estimator is also checked without it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ilbrl import ope
from ilbrl.base.errors import IlbrlError
from ilbrl.data import Dataset, load, same_actions
from ilbrl.data.benchmark import find_policy
from ilbrl.data.rows import steps_recur, transition_fingerprints
from ilbrl.learning.spec import Spec
from ilbrl.ope.policies import Variant, logged_variant, require_complete, require_kind
from ilbrl.policy import Policy
from ilbrl.results.schema import KNOWN, ROLES
from ilbrl.study.study import Study

ENTRIES = ("policy", "logs", "episodes", "variant")
COPIED = 0.01  # of a known policy's transitions: beyond it, its episodes are taken to be part of a log


class Named(NamedTuple):
    """What a study says of one known policy."""

    name: str
    policy: str | None = None  # a file or built-in name; None: the policy that its episodes carry
    log: str | None = None  # that it made, alone or with others that are named; None: none of them
    episodes: str | None = None  # a file or built-in name of its own episodes; None: all of its log's are its own
    variant: str | None = None

    @property
    def data(self) -> str:
        """Under which name its episodes are among what was read."""
        return f"{KNOWN}{self.name}" if self.episodes is not None or self.log is None else self.log


def named_by(study: Study) -> list[Named]:
    """The known policies as the study names them; there may be none."""
    said: dict[str, dict[str, str]] = {}
    for key, text in study.known.items():
        name, _, entry = key.rpartition(".")
        if not name or entry not in ENTRIES:
            ways = [f"known.NAME.{entry}" for entry in ENTRIES]
            raise IlbrlError(f"known.{key}: write {', '.join(ways[:-1])} or {ways[-1]}")
        said.setdefault(name, {"logs": name} if name in ROLES else {})[entry] = text
    found = [
        Named(name, each.get("policy"), each.get("logs"), each.get("episodes"), each.get("variant"))
        for name, each in said.items()
    ]
    for each in found:
        _require_sense(each)
    for role in ROLES:
        makers = [each for each in found if each.log == role]
        if len(makers) > 1 and (lacking := [each.name for each in makers if each.episodes is None]):
            raise IlbrlError(
                f"known: several policies are said to have made the {role} data"
                f" ({', '.join(each.name for each in makers)}), and whose episodes are whose cannot be told; bring a"
                f" file of its own episodes for each (known.{lacking[0]}.episodes)"
            )
    return found


def _require_sense(named: Named) -> None:
    where = f"known.{named.name}"
    if named.log is None and named.episodes is None:
        raise IlbrlError(
            f"{where}: whose episodes are its own? Say {where}.logs (expert or logs: all episodes of that log), or name"
            f" a file of its episodes under {where}.episodes"
        )
    if named.log is not None and named.log not in ROLES:
        raise IlbrlError(f"{where}.logs: {named.log!r} is neither expert nor logs; say which of them it made")
    if named.variant not in ("sampled", "mean", None):
        raise IlbrlError(f"{where}.variant: {named.variant!r} is neither sampled nor mean")


# --- their own episodes -----------------------------------------------------------------------------------------------


def load_episodes(study: Study, named: Iterable[Named], log: Dataset, quiet: bool = False) -> dict[str, Dataset]:
    """`known.NAME` → the episodes of each known policy that has a file of them.

    log: one of the logs, whose discrete actions have the numbers that count.
    """
    found = {}
    for each in named:
        if each.episodes is not None:
            text = study.named(each.episodes, f"known.{each.name}.episodes")
            episodes = replace(load(text, study.data.reading, quiet=quiet), source=text)
            found[each.data] = _with_numbers_of(log, episodes, f"known.{each.name}.episodes")
    return found


def _with_numbers_of(log: Dataset, episodes: Dataset, where: str) -> Dataset:
    """The same episodes, where a discrete action has the number that it has in the logs."""
    if log.action_names is None:
        return episodes
    same, alike = same_actions([log, episodes])
    if new := (same.action_names or ())[len(log.action_names) :]:
        raise IlbrlError(
            f"{where}: {episodes.source} has the actions {', '.join(new[:8])}, which the logs do not have"
            f" ({', '.join(log.action_names[:8])}); is it a log of this task? Actions that exist and were never logged"
            " are stated by data.reading.action_names"
        )
    return alike


def _require_same_time_limit(named: Named, episodes: Dataset, logs: Iterable[Dataset]) -> None:
    """Refuse an episode that goes on after the step at which the logs' longest episodes time out."""
    every = [(data.episode_lengths, _timed_out(data)) for data in logs]
    lengths, by_limit = (np.concatenate(column) for column in zip(*every))
    limit, longer = lengths.max(), episodes.episode_lengths > lengths.max()
    if by_limit[lengths == limit].any() and longer.any():
        first = np.argmax(longer)
        row, steps = episodes.source_row(episodes.episode_starts[first]), episodes.episode_lengths[first]
        raise IlbrlError(
            f"known.{named.name}.episodes: {episodes.source}: episode {first} (from row {row}) has {steps:,} steps, and"
            f" those of the logs time out after {limit:,}; bring episodes with the logs' time limit"
        )


def _timed_out(data: Dataset) -> np.ndarray:
    """[E] whether each episode ends in a time-out."""
    last = data.episode_starts + data.episode_lengths - 1
    return data.timeouts[last] & ~data.terminals[last]


def _require_not_logged(named: Named, episodes: Dataset, logs: Mapping[str, Dataset]) -> None:
    """Refuse episodes that stand in a log which the policy is not said to have made: nothing would be checked blindly.

    Where steps take few values, equal ones are to be expected, and say nothing.
    """
    marks = transition_fingerprints(episodes)
    for role in ROLES:
        log = logs[role]
        if role == named.log or steps_recur(log):
            continue
        copied = np.isin(marks, transition_fingerprints(log))
        if copied.mean() > COPIED:
            row = episodes.source_row(np.argmax(copied))
            raise IlbrlError(
                f"known.{named.name}.episodes: {copied.sum():,} of {len(episodes):,} transitions of {episodes.source}"
                f" (first: row {row}) also stand in {log.source}, from which models learn: if the policy made some of"
                f" it, say known.{named.name}.logs = {role!r}; if not, leave them out of one of the two"
            )


# --- the policies -----------------------------------------------------------------------------------------------------


def known_policies(study: Study, logs: Mapping[str, Dataset], held_out: Mapping[str, Dataset]) -> tuple[ope.Known, ...]:
    """The policies that the study names, or else those that came with the logs; there may be none.

    logs: what was read, `known.NAME` among it.
    held_out: role → episodes of that log which nobody learns from.
    """
    of_logs = [Named(role, log=role) for role in ROLES if logs[role].policy is not None]
    return tuple(_known(study, named, logs, held_out) for named in named_by(study) or of_logs)


def _known(study: Study, named: Named, logs: Mapping[str, Dataset], held_out: Mapping[str, Dataset]) -> ope.Known:
    policy, episodes = _policy(study, named, logs[named.data]), held_out.get(named.data, logs[named.data])
    known = ope.Known(named.name, policy, episodes, _variant(named, policy), named.log)
    require_complete(known)
    require_kind(f"known.{named.name}", policy, episodes.observations, Spec.of(logs["expert"]))
    if named.episodes is not None:
        _require_same_time_limit(named, episodes, [logs[role] for role in ROLES])
        _require_not_logged(named, episodes, logs)
    return known


def _policy(study: Study, named: Named, data: Dataset) -> Policy:
    if named.policy is None:
        if data.policy is None:
            raise IlbrlError(f"{data.source}: carries no policy; name a file under known.{named.name}.policy")
        return data.policy
    return find_policy(study.named(named.policy, f"known.{named.name}.policy"))


def _variant(named: Named, policy: Policy) -> Variant:
    usual = logged_variant(policy)
    if usual == "mean" and named.variant == "sampled":
        raise IlbrlError(
            f"known.{named.name}.variant: the policy is deterministic and has no sampled variant; say mean"
        )
    return "mean" if named.variant == "mean" else usual
