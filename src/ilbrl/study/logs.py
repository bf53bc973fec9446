"""The logs of a study: loaded, examined, split by episode, described, and the policies known to have made them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from ilbrl import envs, ope
from ilbrl.base.errors import IlbrlError
from ilbrl.data import Dataset, load, same_choices
from ilbrl.data.benchmark import find_policy, measured_returns
from ilbrl.data.doctor import Finding, Purpose, require_healthy
from ilbrl.data.loading import parse
from ilbrl.data.splits import Composition, CompositionSizes, compose
from ilbrl.envs.tasks import Sizes, build, sizes_of
from ilbrl.policy import Policy
from ilbrl.results.schema import (
    PARTS,
    ROLES,
    DataRecord,
    FindingRecord,
    LabelsRecord,
    LogsRecord,
    Reference,
    Size,
    Source,
)
from ilbrl.study.study import Study

SHOWN = 500  # returns listed at most

Logs = Mapping[str, Dataset]
"""Role (`expert`, `logs`) → what was read, before it is split."""


PARTS_OF_TRAINING = ("training_expert", "training_logs")


@dataclass(frozen=True, eq=False)
class Parts:
    """What jobs read: the composition of Algorithm 2 and the known policies with their held-out episodes.

    Where no policy is known, clones of the logs stand in for them: a job of its own makes them (`evaluation`).
    """

    composition: Composition
    known: tuple[ope.Known, ...]
    roles: Mapping[str, str]  # known policy → whose episodes are its own
    intrinsic: bool = False  # value by closeness to the expert, whatever the logs carry

    @cached_property
    def hashes(self) -> dict[str, str]:
        """Part → content hash."""
        return {name: getattr(self.composition, name).content_hash for name in PARTS}

    @cached_property
    def evidence(self) -> ope.Evidence:
        """What estimators learn from."""
        return ope.Evidence.of_composition(self.composition, self.intrinsic or None)

    @property
    def discrete(self) -> bool:
        """Whether actions are."""
        return self.composition.training_expert.discrete

    def sizes(self) -> dict[str, Size]:
        parts = {name: getattr(self.composition, name) for name in PARTS}
        return {name: Size(len(part), part.num_episodes, self.hashes[name]) for name, part in parts.items()}


def load_logs(study: Study, quiet: bool = False) -> Logs:
    """Read both logs under the names the study gives them; a discrete action has the same number in both."""
    named = [study.named(getattr(study.data, role), f"data.{role}") for role in ROLES]
    found = [replace(load(text, study.data.reading, quiet=quiet), source=text) for text in named]
    return dict(zip(ROLES, same_choices(found)))


def examine(logs: Logs, intrinsic: bool = False) -> dict[str, list[Finding]]:
    """The doctor's findings about each log; errors stop the study here.

    Where rewards are lacking, or not read, logs are examined for imitation: policies are then valued by their closeness
    to the expert.
    """
    rewarded = not intrinsic and all(data.rewards is not None for data in logs.values())
    purpose: Purpose = "evaluation" if rewarded else "imitation"
    return {
        "expert": require_healthy(logs["expert"], purpose=purpose, demonstrations=True),
        "logs": require_healthy(logs["logs"], logs["expert"], purpose=purpose),
    }


def require_playable(task: str, logs: Logs) -> None:
    """Refuse a task that does not exist or has other sizes than the logs. Nothing is reset or stepped, nor counted."""
    env = build(task)
    played = sizes_of(env)
    env.close()
    for role, data in logs.items():
        logged = Sizes(data.obs_dim, data.act_dim, data.num_actions if data.discrete else None)
        same_kind = logged[:2] == played[:2] and data.discrete == (played.num_actions is not None)
        if not same_kind or (logged.num_actions or 0) > (played.num_actions or 0):
            raise IlbrlError(
                f"task: {task} has {_said(played)}, {data.source} ({role}) {_said(logged)}; name the environment that"
                " the logs come from, or none"
            )


def _said(sizes: Sizes) -> str:
    acts = f"actions of {sizes.act_dim}" if sizes.num_actions is None else f"{sizes.num_actions} discrete actions"
    return f"observations of {sizes.obs_dim} numbers and {acts}"


def split(study: Study, logs: Logs) -> Parts:
    """Training, evaluation and validation parts, by episode, and the known policies."""
    sizes = CompositionSizes(
        training=study.data.training_transitions,
        expert_episodes=study.data.expert_episodes,
        evaluation=study.data.evaluation_transitions,
        validation=study.data.validation_transitions,
    )
    composition = compose(logs["expert"], logs["logs"], sizes, rng=study.seed)
    named = _named(study, logs)
    known = tuple(_known(study, name, entry, logs, composition) for name, entry in named.items())
    roles = {name: entry["logs"] for name, entry in named.items()}
    return Parts(composition, known, roles, study.evaluation.intrinsic)


# --- known policies ---------------------------------------------------------------------------------------------------


def _named(study: Study, logs: Logs) -> dict[str, dict[str, str]]:
    """NAME → its entries: the policies named by the study, or those that came with the logs; there may be none."""
    found: dict[str, dict[str, str]] = {}
    for key, text in study.known.items():
        name, _, entry = key.rpartition(".")
        if not name or entry not in ("policy", "logs", "variant"):
            raise IlbrlError(f"known.{key}: write known.NAME.policy, known.NAME.logs or known.NAME.variant")
        found.setdefault(name, {"logs": name})[entry] = text
    roles = [entry["logs"] for entry in found.values()]
    if shared := {role for role in roles if roles.count(role) > 1}:
        raise IlbrlError(
            f"known: several policies are said to have made the {min(shared)} data ({', '.join(found)}), and whose"
            " episodes are whose cannot be told; name one policy for each"
        )
    return found or {role: {"logs": role} for role, data in logs.items() if data.policy is not None}


def _known(study: Study, name: str, entry: dict[str, str], logs: Logs, composition: Composition) -> ope.Known:
    role, variant = entry["logs"], entry.get("variant")
    if role not in logs:
        raise IlbrlError(f"known.{name}.logs: {role!r} is neither expert nor logs; say whose episodes are its own")
    if variant not in ("sampled", "mean", None):
        raise IlbrlError(f"known.{name}.variant: {variant!r} is neither sampled nor mean")
    policy = _policy(study, name, entry, logs[role])
    deterministic = policy.head == "deterministic"
    if deterministic and variant == "sampled":
        raise IlbrlError(f"known.{name}.variant: the policy is deterministic and has no sampled variant; say mean")
    held_out = composition.validation
    assert held_out.is_expert is not None
    of_role = held_out.is_expert[held_out.episode_starts] == (role == "expert")
    episodes = replace(held_out.episodes(of_role.nonzero()[0]), source=logs[role].source)
    return ope.Known(name, policy, episodes, "mean" if deterministic or variant == "mean" else "sampled", log=role)


def _policy(study: Study, name: str, entry: dict[str, str], data: Dataset) -> Policy:
    if "policy" not in entry:
        if data.policy is None:
            raise IlbrlError(f"{data.source}: carries no policy; name a file under known.{name}.policy")
        return data.policy
    text = study.named(entry["policy"], f"known.{name}.policy")
    return find_policy(text)


# --- data.json --------------------------------------------------------------------------------------------------------


def describe(
    study: Study, logs: Logs, findings: Mapping[str, Sequence[Finding]], parts: Parts, labels: LabelsRecord
) -> DataRecord:
    """What the logs hold, what the doctor found, how they were split, and how good they are."""
    return DataRecord(
        datasets={role: _logs_record(role, data, findings[role]) for role, data in logs.items()},
        splits=parts.sizes(),
        notes=tuple(parts.composition.notes),
        labels=labels,
        references={role: _reference(study, role, data) for role, data in logs.items()},
    )


def sources(logs: Logs) -> dict[str, Source]:
    return {role: Source(len(d), d.num_episodes, d.content_hash, d.source) for role, d in logs.items()}


def _logs_record(role: str, data: Dataset, findings: Sequence[Finding]) -> LogsRecord:
    returns = _returns(data)
    shown = returns[np.linspace(0, len(returns) - 1, min(SHOWN, len(returns))).astype(int)]
    return LogsRecord(
        role=role,
        source=data.source,
        transitions=len(data),
        episodes=data.num_episodes,
        return_mean=float(returns.mean()) if len(returns) else None,
        return_std=float(returns.std(ddof=1)) if len(returns) > 1 else None,
        returns=tuple(float(f"{value:.6g}") for value in shown),
        length_mean=float(data.episode_lengths.mean()),
        findings=tuple(_finding_record(finding) for finding in findings),
    )


def _finding_record(finding: Finding) -> FindingRecord:
    where = finding.field if finding.row is None else f"{finding.field or 'data'}, row {finding.row}"
    return FindingRecord(finding.grade, finding.message, where)


def _returns(data: Dataset) -> np.ndarray:
    """[·] of complete episodes; none where the logs have no rewards."""
    return np.zeros(0) if data.rewards is None else data.returns()[data.complete]


def _reference(study: Study, role: str, data: Dataset) -> Reference:
    """Logged return and score, and the true score of the policy behind a built-in log, as the package measured it."""
    returns = _returns(data)
    logged = float(returns.mean()) if len(returns) else None
    score = None if logged is None or study.task is None else envs.normalised_score(study.task, logged)
    behind, _, _ = parse(data.source).where.partition("@")  # other seeds, the same policy
    measured = measured_returns()["policies"].get(behind)
    played = "stochastic" if role == "logs" and data.discrete else "deterministic"  # as the final evaluation plays it
    return Reference(
        logged_return=logged,
        logged_score=None if score is None else float(score),
        true_score=None if measured is None else measured[played]["score_mean"],
    )
