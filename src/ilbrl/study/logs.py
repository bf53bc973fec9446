"""The logs of a study: loaded, examined, split by episode, and the policies that are known to have made them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from ilbrl import ope
from ilbrl.base.errors import IlbrlError
from ilbrl.data import Dataset, load
from ilbrl.data.benchmark import find_policy
from ilbrl.data.doctor import Finding, require_healthy
from ilbrl.data.splits import Composition, CompositionSizes, compose
from ilbrl.policy import Policy
from ilbrl.study.study import Study

PARTS = ("training_expert", "training_logs", "evaluation_expert", "evaluation_logs", "validation")


@dataclass(frozen=True, eq=False)
class Logs:
    """What the logs hold before they are split."""

    expert: Dataset
    exploratory: Dataset

    @property
    def by_role(self) -> dict[str, Dataset]:
        return {"expert": self.expert, "exploratory": self.exploratory}


@dataclass(frozen=True, eq=False)
class Parts:
    """What jobs read: the composition of Algorithm 2 and the known policies with their held-out episodes."""

    composition: Composition
    known: tuple[ope.Known, ...]
    roles: dict[str, str]  # known policy → whose episodes are its own: expert or exploratory

    @cached_property
    def hashes(self) -> dict[str, str]:
        """Part → content hash."""
        return {name: getattr(self.composition, name).content_hash for name in PARTS}


def load_logs(study: Study, quiet: bool = False) -> Logs:
    """Phase 0: read both logs under the names the study gives them."""
    loaded = {}
    for role in ("expert", "exploratory"):
        text = study.named(getattr(study.data, role), f"data.{role}")
        loaded[role] = replace(load(text, quiet=quiet), source=text)
    return Logs(**loaded)


def examine(logs: Logs) -> dict[str, list[Finding]]:
    """The doctor's findings about each log; errors stop the study here."""
    return {
        "expert": require_healthy(logs.expert, purpose="evaluation"),
        "exploratory": require_healthy(logs.exploratory, logs.expert, purpose="evaluation"),
    }


def split(study: Study, logs: Logs) -> Parts:
    """Phase 1: training, evaluation and validation parts, by episode, and the known policies."""
    sizes = CompositionSizes(
        training=study.data.training_transitions,
        expert_episodes=study.data.expert_episodes,
        evaluation=study.data.evaluation_transitions,
        validation=study.data.validation_transitions,
    )
    composition = compose(logs.expert, logs.exploratory, sizes, rng=study.seed)
    named = _named(study, logs)
    known = tuple(_known(study, name, entry, logs, composition) for name, entry in named.items())
    return Parts(composition, known, {name: entry["logs"] for name, entry in named.items()})


def _named(study: Study, logs: Logs) -> dict[str, dict[str, str]]:
    """NAME → its entries: the policies named by the study, or those that came with the logs."""
    found: dict[str, dict[str, str]] = {}
    for key, text in study.known.items():
        name, _, entry = key.rpartition(".")
        if not name or entry not in ("policy", "logs", "variant"):
            raise IlbrlError(f"known.{key}: write known.NAME.policy, known.NAME.logs or known.NAME.variant")
        found.setdefault(name, {"logs": name})[entry] = text
    roles = [entry["logs"] for entry in found.values()]
    if shared := {role for role in roles if roles.count(role) > 1}:
        raise IlbrlError(
            f"known: several policies are said to have made the {min(shared)} logs ({', '.join(found)}), and whose"
            " episodes are whose cannot be told; name one policy per log"
        )
    found = found or {role: {"logs": role} for role, data in logs.by_role.items() if data.policy is not None}
    if not found:
        raise IlbrlError(
            f"the evaluator is tuned on known policies, and neither {logs.expert.source} nor {logs.exploratory.source}"
            " carries the policy that made it; name policy files under [known.NAME], two or more. Where only their"
            " episodes exist, clone each first: ilbrl train bc --expert THEIR_LOGS --logs THEIR_LOGS --out FOLDER"
        )
    return found


def _known(study: Study, name: str, entry: dict[str, str], logs: Logs, composition: Composition) -> ope.Known:
    role, variant = entry["logs"], entry.get("variant")
    if role not in logs.by_role:
        raise IlbrlError(
            f"known.{name}.logs: {role!r} is neither expert nor exploratory; say whose episodes are its own"
        )
    if variant not in ("sampled", "mean", None):
        raise IlbrlError(f"known.{name}.variant: {variant!r} is neither sampled nor mean")
    policy = _policy(study, name, entry, logs.by_role[role])
    deterministic = policy.head == "deterministic"
    if deterministic and variant == "sampled":
        raise IlbrlError(f"known.{name}.variant: the policy is deterministic and has no sampled variant; say mean")
    held_out = composition.validation
    assert held_out.is_expert is not None
    of_role = held_out.is_expert[held_out.episode_starts] == (role == "expert")
    episodes = held_out.episodes(of_role.nonzero()[0])
    return ope.Known(name, policy, episodes, "mean" if deterministic or variant == "mean" else "sampled")


def _policy(study: Study, name: str, entry: dict[str, str], data: Dataset) -> Policy:
    if "policy" not in entry:
        if data.policy is None:
            raise IlbrlError(f"{data.source}: carries no policy; name a file under known.{name}.policy")
        return data.policy
    text = study.named(entry["policy"], f"known.{name}.policy")
    return find_policy(text)
