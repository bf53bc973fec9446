"""The estimator of a study: which one, with which settings, and what is kept of its answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any, NamedTuple, get_args, get_type_hints

from ilbrl import ope
from ilbrl.base.errors import IlbrlError
from ilbrl.base.records import shown, to_plain
from ilbrl.learning.config import check_value
from ilbrl.models import size_for_this_machine
from ilbrl.ope.estimates import Choices
from ilbrl.ope.ranking import Check
from ilbrl.results.schema import (
    CheckRecord,
    EstimateRecord,
    Grade,
    KnownEstimate,
    KnownRecord,
    TriedSetting,
    TrustRecord,
    TuningRecord,
    Valuation,
)
from ilbrl.study.search import parse
from ilbrl.study.study import Study

DISCOUNT = 0.99  # of the discounted returns in final.json, where the estimator has none of its own


class Valuer(NamedTuple):
    """The estimator that a study names, and its configuration."""

    estimator: ope.Estimator
    config: Any
    seeds: list[int]
    blind: bool  # known policies are also valued without their own logs

    @property
    def inputs(self) -> dict[str, Any]:
        """In the inputs of a job."""
        return {"estimator": self.estimator.name, "config": to_plain(self.config), "seeds": self.seeds}


def estimator_of(study: Study) -> Valuer:
    """The study's settings hold for every configuration that a calibration tries."""
    estimator = ope.find(study.evaluation.estimator)
    changes, blind = changes_of(estimator.Config, study.evaluation.settings), study.evaluation.blind
    config, seeds = estimator.changed(changes), study.evaluation_seeds(estimator.seeds)
    if estimator.disagreement_penalty(config) and len(seeds) == 1:
        raise IlbrlError(
            f"evaluation.settings: {estimator.name} is asked for a penalty on disagreement, and one evaluation seed has"
            " nobody to disagree with; set evaluation.evaluation_seeds to 2 or more"
        )
    return Valuer(with_settings(estimator, changes), config, seeds, estimator.blind if blind is None else blind)


def settled(study: Study, begun: Study | None = None) -> Study:
    """The study with those settings written down that its estimator, or imagination, would choose by the machine.

    They are those of `begun`, the study as an earlier run in its folder wrote it, or else what suits this machine: what
    began on a GPU goes on without one, with the same jobs.
    """
    estimator, asked = ope.find(study.evaluation.estimator), study.evaluation.settings
    earlier: Mapping[str, str] = {}
    if begun is not None and begun.evaluation.estimator == estimator.name:
        earlier = begun.evaluation.settings
    usual = estimator.Config()
    left_open = [name for name in estimator.of_machine if name not in asked]
    found = {name: earlier.get(name, str(getattr(usual, name))) for name in left_open}
    evaluation, training = replace(study.evaluation, settings=asked | found), study.training
    if training.imagine and "size" not in training.imagination:
        earlier = {} if begun is None else begun.training.imagination
        size = {"size": earlier.get("size", size_for_this_machine())}
        training = replace(training, imagination=training.imagination | size)
    return replace(study, evaluation=evaluation, training=training)


def with_settings(estimator: ope.Estimator, changes: Mapping[str, Any]) -> ope.Estimator:
    """The estimator, whose choices all have these settings; a change may make two of them alike."""

    def choices(config: Any, evidence: ope.Evidence) -> Choices:
        found = estimator.choices(config, evidence)
        return Choices(list(dict.fromkeys(estimator.changed(changes, c) for c in found.configs)), found.notes)

    return replace(estimator, choices=choices)


def changes_of(Config: type, settings: Mapping[str, str], where: str = "evaluation.settings") -> dict[str, Any]:
    """Setting → value, of the type that the configuration says; `where` is what an error names."""
    changes = {}
    for name, text in settings.items():
        field = f"{where}.{name}"
        distribution, (value, *_) = parse(text, field)
        if distribution != "constant":
            raise IlbrlError(f"{field}: takes one value, not {shown(text)}")
        *outer, last = name.split(".")
        owner: Any = None
        hint: Any = Config
        for part in (*outer, last):
            hints = {f.name: get_type_hints(hint)[f.name] for f in fields(hint)} if is_dataclass(hint) else {}
            if part not in hints:
                there = ", ".join(hints) or "no parts"
                raise IlbrlError(f"{field}: there is no such setting; there are {there}")
            owner, hint = hint, hints[part]
        if text in get_args(hint):  # one of the words that the setting knows; "none" would be read as nothing
            value = text
        if hint is not str or last == "dtype":
            check_value(last, hint, value, field, owner)
        changes[name] = float(value) if hint is float else value
    return changes


def discount_of(study: Study) -> float:
    """The discount at which true discounted returns are recorded: the estimator's own, if it has one."""
    gamma = getattr(estimator_of(study).config, "gamma", 1.0)
    return gamma if gamma < 1 else DISCOUNT


# --- records ----------------------------------------------------------------------------------------------------------


def valuation_of(found: ope.Estimates, name: str) -> Valuation:
    estimate = found[name]
    records = estimate_records(found, name)
    return Valuation(records, estimate.std_error, estimate.distance, estimate.gain, estimate.task_return)


def estimate_records(found: ope.Estimates, name: str) -> tuple[EstimateRecord, ...]:
    """One per evaluation seed or member of an ensemble, each with its own verdict where it has one."""
    estimate, trace = found[name], found.traces.get(name)
    values = estimate.parts or (estimate.value,) * len(found.parts)  # no parts: there is one value, or none
    records = []
    for i, (part, value) in enumerate(zip(found.parts, values, strict=True)):
        word = estimate.verdict if trace is None else trace.verdicts[i]
        grade: Grade = found.grades[word]
        decided_at = None if trace is None else int(trace.decided_at[i])
        kept = None if grade == "void" else float(value)
        records.append(EstimateRecord(part.seed, kept, word, grade, decided_at, part.member))
    return tuple(records)


def tuning_record(found: ope.Calibration) -> TuningRecord:
    """tuning.json."""
    trust, estimates = found.trust, found.estimates
    return TuningRecord(
        estimator=found.estimator,
        quantity=str(found.quantity),
        gamma=found.quantity.gamma,
        horizon=found.quantity.horizon,
        reward=found.quantity.reward,
        configurations=tuple(_tried(number, found) for number in range(len(found.table))),
        chosen=found.chosen,
        config=to_plain(found.config),
        updates=ope.find(found.estimator).updates(found.config, [0]) or None,
        trust=TrustRecord(
            verdict=trust.verdict,
            reasons=trust.reasons,
            rule=trust.rule,
            **vars(_check_record(trust.seen)),
            unseen=None if trust.unseen is None else _check_record(trust.unseen),
            intervals={name: estimate.interval for name, estimate in estimates.policies.items()},
            distances={name: estimate.distance for name, estimate in estimates.policies.items()},
            distance_limit=trust.limit,
            error=trust.error,
        ),
        known={
            known.name: KnownRecord(
                known.episodes.source,
                known.variant,
                found.truths[known.name].value,
                found.truths[known.name].std_error,
                found.truths[known.name].episodes,
                known.log,
                known.clone,
            )
            for known in found.known
        },
        notes=found.notes,
        evidence=dict(found.evidence),
        model_errors=estimates.model_errors,
    )


def _check_record(check: Check) -> CheckRecord:
    return CheckRecord(
        check.rank_error, check.spearman, check.kendall, check.bias, check.value_error, check.regret_at_k[0],
        check.regret_at_k,
    )  # fmt: skip


def _tried(number: int, found: ope.Calibration) -> TriedSetting:
    row, grades = found.table[number], found.estimates.grades
    seen, unseen = (
        {
            name: KnownEstimate(
                estimate.value,
                estimate.std_error,
                found.truths[name].value,
                found.truths[name].std_error,
                estimate.verdict,
                estimate.parts,
                estimate.gain,
            )
            for name, estimate in estimates.items()
        }
        for estimates in (row.seen, row.unseen)
    )
    return TriedSetting(
        id=number,
        settings=to_plain(row.config),
        rank_error=row.seen_check.rank_error,
        value_error=row.seen_check.value_error,
        diverged=sum(grades[estimate.verdict] == "void" for estimate in row.seen.values()),
        policies=seen,
        unseen=unseen,
    )
