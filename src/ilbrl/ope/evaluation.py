"""An evaluation in one call: logs to evidence, known policies to a calibration, policies to values.

    found = ilbrl.evaluate("mine.safetensors", "logs.csv", expert="demos.csv", known={"expert": "operator.safetensors"})
    found["mine.safetensors"].value, found.trust.verdict

`ilbrl evaluate` is the same function behind a command.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ilbrl.base.errors import IlbrlError
from ilbrl.data import Dataset, load, same_actions
from ilbrl.data.benchmark import find_policy
from ilbrl.data.doctor import require_healthy
from ilbrl.ope.calibration import Calibration, calibrate
from ilbrl.ope.estimates import Estimate, Estimates, Estimator
from ilbrl.ope.estimators import DEFAULT, estimate, find
from ilbrl.ope.evidence import Evidence
from ilbrl.ope.policies import Evaluable, Known, Sampled, clones, known_policy, logged_variant
from ilbrl.ope.trust import Trust

Log = Dataset | str | Path
"""A dataset, or a file or built-in name to load it from."""
Policies = Evaluable | str | Path | list[Any] | Mapping[str, Any]
"""One policy, a list of them, or several by name; a text is a policy file or a built-in name."""
KnownPolicies = Mapping[str, Any]
"""Name → policy. It made the log "expert" if that is its name, else the log "logs". With a tuple (policy, log) it made
the log of that name; with (policy, dataset) it made none of the logs, and these are its own episodes."""


@dataclass(frozen=True, eq=False)
class Evaluated:
    """What policies are worth, and how far to trust it."""

    evidence: Evidence
    calibration: Calibration | None  # None: no policy is known, so that nobody can say how far to trust the values
    estimates: Estimates | None  # of the policies; intervals contain the calibration's error. None: none was given
    warnings: tuple[str, ...] = ()  # about policies that the calibration does not speak for

    def __getitem__(self, policy: str) -> Estimate:
        return self.policies[policy]

    @property
    def policies(self) -> Mapping[str, Estimate]:
        """Name → value, interval, verdict."""
        return {} if self.estimates is None else self.estimates.policies

    @property
    def trust(self) -> Trust | None:
        """The verdict of the calibration."""
        return None if self.calibration is None else self.calibration.trust


def evaluate(
    policies: Policies | None,
    logs: Log | Mapping[str, Log] | Evidence,
    expert: Log | None = None,
    *,
    known: KnownPolicies | None = None,
    use_clones: bool = False,
    estimator: str | Estimator = DEFAULT,
    config: Any = None,
    seeds: int | None = None,
    seed: int = 0,
    intrinsic: bool = False,
    end: Callable[[Any, Any, Any], Any] | None = None,
    out: str | Path | None = None,
    warn: Callable[[str], None] = lambda said: None,
    quiet: bool = False,
    **settings: Any,
) -> Evaluated:
    """Estimate what policies are worth, from logs alone. No environment is touched.

    policies: one, several, or a mapping from names; None to calibrate alone.
    logs: what to learn from; several as a mapping from names. Or `Evidence`, which has everything about the logs.
    expert: the expert's logs; needed where the logs carry no rewards.
    known: policies of known value, to choose the estimator's setting and to judge it with.
    use_clones: for want of known policies, clones of the logs: a weaker check.
    config, settings: of the estimator; settings change single fields of its configuration.
    seeds: how many evaluation seeds; by default what suits the estimator.
    seed: of the choice of episodes that are held out.
    intrinsic: value closeness to the expert, even where the logs carry rewards.
    end: (observations, actions, next observations) → whether an episode ends there, instead of what models learn of
        ends. All are JAX arrays of [..., dim] in the units of the logs (of discrete actions one-hot), for it becomes
        part of a compiled program.
    out: a folder in which trained models are kept, for later calls.
    warn: is told what the doctor warns of in the logs; what it calls an error is raised.
    """
    estimator = find(estimator)
    config = estimator.changed(settings, config)
    if known and use_clones:
        raise IlbrlError("clones stand in for known policies: give either known policies or use_clones")
    named = {} if policies is None else _named(policies)
    if not named and not known and not use_clones:
        raise IlbrlError("nothing to evaluate: name policies, or known ones")
    evidence = logs if isinstance(logs, Evidence) else gather(logs, expert, seed, intrinsic, warn, quiet)
    if end is not None:
        if not estimator.plays:
            raise IlbrlError(f"end: {estimator.name} plays no episodes that could end; rollouts in models do")
        evidence = replace(evidence, end=end)
    numbers = range(estimator.seeds if seeds is None else seeds)
    options: dict[str, Any] = {"workplace": None if out is None else Path(out), "quiet": quiet}
    calibration = None
    if known or use_clones:
        found = _known(known, evidence, warn) if known else clones(evidence, quiet=quiet)
        calibration = calibrate(found, evidence, estimator, config, numbers, **options)
        config = calibration.config
    if not named:
        return Evaluated(evidence, calibration, None)
    estimates = estimate(named, evidence, estimator, config, numbers, **options)
    if calibration is None:
        return Evaluated(evidence, None, estimates)
    return Evaluated(evidence, calibration, calibration.widen(estimates), tuple(calibration.warnings(estimates)))


def gather(
    logs: Log | Mapping[str, Log],
    expert: Log | None = None,
    seed: int = 0,
    intrinsic: bool = False,
    warn: Callable[[str], None] = lambda said: None,
    quiet: bool = False,
) -> Evidence:
    """The evidence of logs that the doctor has examined, under their names: `expert`, and `logs` or what you call them.

    As for `evaluate`.
    """
    several = dict(logs) if isinstance(logs, Mapping) else {"logs": logs}
    if not several:
        raise IlbrlError("name at least one log to learn from")
    found = {} if expert is None else {"expert": _loaded(expert, quiet)}
    found |= {name: _loaded(log, quiet) for name, log in several.items()}
    found = dict(zip(found, same_actions(list(found.values()))))
    rewarded = not intrinsic and all(data.rewards is not None for data in found.values())
    demonstrations = found.get("expert")
    for data in found.values():
        if data is not demonstrations:
            require_healthy(data, demonstrations, "evaluation" if rewarded else "imitation", warn=warn)
    return Evidence.holding_out(found, seed, intrinsic=True if intrinsic else None)


def _loaded(log: Log, quiet: bool) -> Dataset:
    return log if isinstance(log, Dataset) else load(log, quiet=quiet)


def _named(policies: Policies) -> dict[str, Evaluable]:
    """Every policy under a name: its own, its file's, or its number."""
    if isinstance(policies, Mapping):
        return {str(name): _found(policy) for name, policy in policies.items()}
    if isinstance(policies, list):
        names = [str(p) if isinstance(p, (str, Path)) else f"policy {i}" for i, p in enumerate(policies)]
        return {name: _found(policy) for name, policy in zip(names, policies)}
    return {str(policies) if isinstance(policies, (str, Path)) else "policy": _found(policies)}


def _found(policy: Evaluable | str | Path) -> Evaluable:
    return find_policy(str(policy)) if isinstance(policy, (str, Path)) else policy


def _known(known: KnownPolicies, evidence: Evidence, warn: Callable[[str], None]) -> list[Known]:
    found, behind_logs = [], []
    for name, entry in known.items():
        pair: Any = entry if isinstance(entry, tuple) and not isinstance(entry, Sampled) else (entry, None)
        policy, made = _found(pair[0]), pair[1]
        if isinstance(made, Dataset):
            purpose = "evaluation" if evidence.reward == "logged" else "imitation"
            require_healthy(made, evidence.logs.get("expert"), purpose, warn=warn)
            found.append(Known(name, policy, made, logged_variant(policy)))
            continue
        log = made or ("expert" if name == "expert" else "logs")
        if log not in evidence.logs:
            there = ", ".join(evidence.logs)
            raise IlbrlError(f"known policy {name}: whose episodes are its own? Name one of the logs: {there}")
        behind_logs += [name] if made is None and log == "logs" else []
        found.append(known_policy(name, policy, evidence, log))
    if len(behind_logs) > 1:
        raise IlbrlError(
            f"known policies: {' and '.join(behind_logs)} cannot both be the one policy behind the logs, and whose"
            " episodes are whose cannot be told; bring the episodes of each (NAME=POLICY@FILE on the command line)"
        )
    return found
