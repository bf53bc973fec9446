"""Expected SARSA behind the seam: the paper's estimator, discounted values by critics (`ope.expected_sarsa`).

All policies × settings × seeds are one population of the one training loop. Verdicts are those of `ope.verdicts`:
converged, still moving, diverged. Its calibration is the paper's grid search on known policies; settings whose targets
are too slow to converge within the updates are left out, and the notes name them.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ilbrl.base.errors import IlbrlError
from ilbrl.data import concatenate
from ilbrl.data.splits import Composition
from ilbrl.learning.loggers import Log
from ilbrl.ope import expected_sarsa as critics
from ilbrl.ope.distance import distances_from_data
from ilbrl.ope.estimates import Choices, Estimate, Estimates, Estimator, Grade, Quantity, Trace
from ilbrl.ope.evaluables import Evaluable
from ilbrl.ope.evaluation import Evaluation, evaluate
from ilbrl.ope.evaluation_data import EvaluationData
from ilbrl.ope.evidence import Evidence
from ilbrl.ope.settings import Setting
from ilbrl.ope.verdicts import WORDS

VERDICTS: Mapping[str, Grade] = {"converged": "sound", "moving": "doubtful", "diverged": "void"}


@dataclass(frozen=True)
class Config:
    """The critics and what they learn from."""

    updates: int = 100_000
    """Of each policy's critics; candidates get as many as the known policies needed to converge."""
    expert_fraction: float = 0.5
    """Share of the expert's rows in the evaluation data."""
    lr: float = 3e-4
    target_update_every: float = 2.0
    tau: float = 0.005
    gamma: float = 0.99
    informed_start: bool = True
    """Let the critics set out from the logs' mean value instead of 0, the paper's."""
    value_bounds: bool = False
    """Clip targets to the values that the logs' rewards allow; off in the paper."""
    pessimism: float = 0.0
    """Penalty on the critics' disagreement. 0: their mean, as in the paper; 1: their minimum."""
    seed_penalty: float = 0.0
    """Standard deviations over evaluation seeds that a value loses; 0 in the paper."""
    layer_norm: bool = False
    batch_size: int = 256
    hidden: tuple[int, ...] = (256, 256)
    dtype: str = "float32"
    """Matrix products in "float32" (tf32 on GPUs) or "bfloat16"."""
    grid: str = "default"
    """What a calibration tries: default, paper, paper-choice, small, or none: this configuration alone."""

    @property
    def setting(self) -> Setting:
        learning = {f.name: getattr(self, f.name) for f in fields(critics.Config) if hasattr(self, f.name)}
        return Setting(self.expert_fraction, critics.Config(**learning), self.value_bounds, self.informed_start)

    @property
    def pace(self) -> float:
        """Updates in which an error that all states share shrinks by e."""
        return self.target_update_every / (self.tau * (1 - self.gamma))


def _grid(
    fractions: Sequence[float], rates: Sequence[float], every: Sequence[float], informed_start: bool
) -> list[dict[str, Any]]:
    names = ("expert_fraction", "lr", "target_update_every", "informed_start")
    return [dict(zip(names, entry)) for entry in itertools.product(fractions, rates, every, [informed_start])]


GRIDS: dict[str, list[dict[str, Any]]] = {
    "default": _grid((0.3, 0.5, 0.8), (3e-5, 3e-4, 3e-3), (2.0, 10.0), informed_start=True),
    "paper": _grid((0.0, 0.3, 0.5, 0.8), (3e-6, 3e-5, 3e-4, 3e-3), (2.0, 10.0, 16.0), informed_start=False),
    "paper-choice": _grid((0.5,), (3e-4,), (16.0,), informed_start=False),
    "small": _grid((0.3, 0.5, 0.8), (3e-4,), (2.0,), informed_start=True),
    "none": [{}],
}


def choices(config: Config, evidence: Evidence) -> Choices:
    """The grid, less settings that cannot converge within the updates, and less mixtures that the logs cannot give."""
    if config.grid not in GRIDS:
        raise IlbrlError(f"no grid {config.grid!r}: there are {', '.join(GRIDS)}")
    entries = [replace(config, **changes) for changes in GRIDS[config.grid]]
    if len(evidence.logs) == 1:
        entries = list(dict.fromkeys(replace(c, expert_fraction=0.5) for c in entries))
    fast = [c for c in entries if c.pace <= config.updates]
    slow = sorted({c.target_update_every for c in entries} - {c.target_update_every for c in fast})
    if not slow:
        return Choices(entries)
    every = ", ".join(f"{n:g}" for n in slow)
    if not fast:
        return Choices(entries, (f"targets every {every}: {config.updates:,} updates are too few to converge",))
    left_out = f"left out: targets every {every}, which cannot converge within {config.updates:,} updates"
    return Choices(fast, (f"{left_out} ({len(entries) - len(fast)} settings)",))


def settle(config: Config, known: Estimates) -> Config:
    """As many updates as the known policies needed; all of them where one had not converged."""
    words = {word for trace in known.traces.values() for word in trace.verdicts}
    needed = [update for trace in known.traces.values() for update in trace.decided_at]
    return replace(config, updates=max(needed)) if words == {"converged"} else config


def quantity(config: Config, evidence: Evidence) -> Quantity:
    return Quantity(config.gamma, None, evidence.reward)


def mixtures(evidence: Evidence, fractions: Sequence[float]) -> EvaluationData:
    """The rows of all logs, with a subset for each expert fraction; a single log is taken whole."""
    starts, spec = evidence.initial_observations, evidence.spec
    others = [data for name, data in evidence.logs.items() if name != "expert"]
    if "expert" not in evidence.logs or not others:
        return EvaluationData.of(evidence.union, starts, spec)
    expert, rest = evidence.logs["expert"].as_expert(), concatenate(others)
    rest = replace(rest, is_expert=np.zeros(len(rest), bool))
    data = EvaluationData.of_composition(Composition(expert, rest, expert, rest, expert), fractions, spec)
    return replace(data, initial_observations=starts)


def estimate(
    policies: Mapping[str, Evaluable],
    evidence: Evidence,
    configs: Sequence[Config],
    seeds: Sequence[int],
    *,
    workplace: Path | None = None,
    log: Log | None = None,
    quiet: bool = False,
) -> list[Estimates]:
    """Settings that differ in nothing but traced numbers learn as one population; others take turns."""
    started, found = time.monotonic(), {}
    for group in _alike(configs):
        data = mixtures(evidence, [configs[number].expert_fraction for number in group])
        settings = [configs[number].setting for number in group]
        updates = configs[group[0]].updates
        checkpoint = None if workplace is None else workplace / f"critics-{_key(evidence, configs, group, seeds)}"
        evaluation = evaluate(
            policies, data, settings, seeds, updates,
            resume_from=None if checkpoint is None else checkpoint.with_suffix(".safetensors"), log=log, quiet=quiet,
        )  # fmt: skip
        for place, number in enumerate(group):
            distances = distances_from_data(policies, data, configs[number].expert_fraction)
            found[number] = _Found(evaluation, place, distances, data.notes)
    seconds = (time.monotonic() - started) / len(configs)
    return [_estimates(list(policies), evidence, c, found[number], seconds) for number, c in enumerate(configs)]


class _Found(NamedTuple):
    evaluation: Evaluation
    setting: int  # its number there
    distances: dict[str, float]
    notes: tuple[str, ...]


def _estimates(policies: Sequence[str], evidence: Evidence, config: Config, found: _Found, seconds: float) -> Estimates:
    estimates, traces = {}, {}
    for name in policies:
        members = found.evaluation.of(name, found.setting)
        words = tuple(member.verdict for member in members)
        values = np.stack([member.initial_values for member in members])
        worst = max(words, key=WORDS.index)
        one = Estimate.of(values, worst, penalty=config.seed_penalty, distance=found.distances[name])
        estimates[name] = replace(one, value=float("nan")) if VERDICTS[worst] == "void" else one
        traces[name] = Trace(
            members[0].updates,
            np.stack([member.values for member in members]),
            words,
            tuple(member.seed for member in members),
            tuple(member.decided_at for member in members),
        )
    return Estimates(
        ESTIMATOR.name, config, quantity(config, evidence), estimates, VERDICTS, seconds,
        "distance of (s′, π(s′)) from the logged steps", traces, found.notes,
    )  # fmt: skip


def _alike(configs: Sequence[Config]) -> list[list[int]]:
    """Numbers of the configurations that one population can hold."""
    groups: dict[Any, list[int]] = {}
    for number, c in enumerate(configs):
        shape = (c.updates, c.layer_norm, c.batch_size, c.hidden, c.dtype)
        groups.setdefault(shape, []).append(number)
    return list(groups.values())


def _key(evidence: Evidence, configs: Sequence[Config], group: Sequence[int], seeds: Sequence[int]) -> str:
    described = [evidence.content_hash, [asdict(configs[number]) for number in group], list(seeds)]
    return hashlib.sha256(json.dumps(described).encode()).hexdigest()[:16]


ESTIMATOR = Estimator(
    name="expected_sarsa",
    display="Expected SARSA",
    Config=Config,
    verdicts=VERDICTS,
    quantity=quantity,
    estimate=estimate,
    choices=choices,
    settle=settle,
    updates=lambda config, seeds: config.updates * len(seeds),
    seeds=3,
)
