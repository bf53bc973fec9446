"""The logs of a study: loaded, examined, split by episode, described; `known` has the policies of known value."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from ilbrl import envs, ope
from ilbrl.base.errors import IlbrlError
from ilbrl.data import Dataset, load, same_choices
from ilbrl.data.benchmark import measured_returns
from ilbrl.data.doctor import Finding, Purpose, require_healthy
from ilbrl.data.loading import parse
from ilbrl.data.splits import Composition, CompositionSizes, compose
from ilbrl.envs.tasks import Sizes, build, sizes_of
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
from ilbrl.study.known import known_policies, load_episodes, named_by
from ilbrl.study.study import Study

SHOWN = 500  # returns listed at most

Logs = Mapping[str, Dataset]
"""Role (`expert`, `logs`) → what was read, before it is split; `known.NAME` → a known policy's own episodes."""


PARTS_OF_TRAINING = ("training_expert", "training_logs")


@dataclass(frozen=True, eq=False)
class Parts:
    """What jobs read: the composition of Algorithm 2 and the known policies with their own episodes.

    Where no policy is known, clones of the logs stand in for them: a job of its own makes them (`evaluation`).
    """

    composition: Composition
    known: tuple[ope.Known, ...]
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
    def behind(self) -> dict[str, ope.Known]:
        """Role → the one policy that made this log; a log that several made has none."""
        makers = Counter(known.log for known in self.known)
        return {known.log: known for known in self.known if known.log is not None and makers[known.log] == 1}

    @property
    def discrete(self) -> bool:
        """Whether actions are."""
        return self.composition.training_expert.discrete

    def sizes(self) -> dict[str, Size]:
        parts = {name: getattr(self.composition, name) for name in PARTS}
        return {name: Size(len(part), part.num_episodes, self.hashes[name]) for name, part in parts.items()}


def load_logs(study: Study, quiet: bool = False) -> Logs:
    """Read both logs, and the known policies' own episodes, under the names the study gives them.

    A discrete action has the same number in all of them.
    """
    named = [study.named(getattr(study.data, role), f"data.{role}") for role in ROLES]
    found = [replace(load(text, study.data.reading, quiet=quiet), source=text) for text in named]
    logs = dict(zip(ROLES, same_choices(found)))
    return logs | load_episodes(study, named_by(study), logs["logs"], quiet)


def examine(logs: Logs, intrinsic: bool = False) -> dict[str, list[Finding]]:
    """The doctor's findings about each log; errors stop the study here.

    Where rewards are lacking, or not read, logs are examined for imitation: policies are then valued by their closeness
    to the expert.
    """
    rewarded = not intrinsic and all(logs[role].rewards is not None for role in ROLES)
    purpose: Purpose = "evaluation" if rewarded else "imitation"
    expert = logs["expert"]
    found = {"expert": require_healthy(expert, purpose=purpose, demonstrations=True)}
    return found | {name: require_healthy(data, expert, purpose) for name, data in logs.items() if name != "expert"}


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
    return Parts(composition, known_policies(study, logs, _held_out(composition, logs)), study.evaluation.intrinsic)


def _held_out(composition: Composition, logs: Logs) -> dict[str, Dataset]:
    """Role → its episodes in the validation part."""
    held_out = composition.validation
    assert held_out.is_expert is not None
    by_expert = held_out.is_expert[held_out.episode_starts]
    of_role = {"expert": by_expert, "logs": ~by_expert}
    return {role: replace(held_out.episodes(np.flatnonzero(of_role[role])), source=logs[role].source) for role in ROLES}


# --- data.json --------------------------------------------------------------------------------------------------------


def describe(
    study: Study, logs: Logs, findings: Mapping[str, Sequence[Finding]], parts: Parts, labels: LabelsRecord
) -> DataRecord:
    """What the logs hold, what the doctor found, how they were split, and how good they are."""
    return DataRecord(
        datasets={name: _logs_record(name, data, findings[name]) for name, data in logs.items()},
        splits=parts.sizes(),
        notes=tuple(parts.composition.notes),
        labels=labels,
        references={role: _reference(study, role, logs[role]) for role in ROLES},
    )


def sources(logs: Logs) -> dict[str, Source]:
    return {name: Source(len(d), d.num_episodes, d.content_hash, d.source) for name, d in logs.items()}


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
