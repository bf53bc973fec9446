"""`ilbrl evaluate`: what policies are worth, from logs alone, and how far to trust that."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, field, make_dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import tyro

from ilbrl import ope
from ilbrl.base.errors import IlbrlError, printable
from ilbrl.base.records import from_json, parse_json, read_text, to_plain, write_json
from ilbrl.cli.evaluate_output import as_text, draw_calibration, draw_values
from ilbrl.cli.named import load_named, typed, value_of
from ilbrl.data import Dataset, Reading
from ilbrl.data.benchmark import find_policy
from ilbrl.learning.config import check as check_settings
from ilbrl.learning.population import forget_checkpoint
from ilbrl.policy import Policy
from ilbrl.results.schema import TuningRecord
from ilbrl.study.duration import evaluation_ahead
from ilbrl.study.estimator import tuning_record

EXAMPLES = """Estimate what policies are worth from logs alone; no environment is touched.

ilbrl evaluate --policy a.safetensors b.safetensors --expert hopper/expert --logs hopper/medium

ilbrl evaluate --known expert=hopper/expert medium=hopper/medium --expert hopper/expert --logs hopper/medium --out tuned

ilbrl evaluate --policy a.safetensors --calibration tuned/tuning.json --expert hopper/expert --logs hopper/medium"""


@dataclass(frozen=True)
class EvaluateOptions:
    logs: tuple[str, ...]
    """Logs to learn from: files or built-in names; `:400000steps` takes the first 400,000 transitions."""
    expert: str | None = None
    """The expert's logs; `:100ep` takes the first 100 episodes. Needed where the logs carry no rewards."""
    policy: tuple[str, ...] = ()
    """Policies to value: files (.safetensors), built-in ones such as hopper/rung1, or `logged:FILE`: the policy behind
    the data file that carries it."""
    known: tuple[str, ...] = ()
    """Policies of known value, to calibrate and judge the estimator with: NAME=POLICY is the policy behind --expert for
    the name `expert`, behind --logs for another. NAME=POLICY@LOG names one of several --logs; NAME=POLICY@FILE brings
    episodes of a policy that made none of the logs."""
    clones: bool = False
    """Without known policies: compare the logs' episodes with rollouts of clones of them. A weaker check."""
    calibration: Path | None = None
    """What an earlier call with --known has chosen: its tuning.json."""
    estimator: str = ope.DEFAULT
    """How to estimate; `ilbrl evaluate --estimator NAME --help` lists the settings of each."""
    seeds: int | None = None
    """Evaluation seeds; by default what suits the estimator."""
    seed: int = 0
    """Of the choice of episodes held out."""
    intrinsic: bool = False
    """Value closeness to the expert, even where the logs carry rewards."""
    out: Path | None = None
    """Folder for evaluation.json, tuning.json and figures; trained models, which later calls use again, are in its
    subfolder `workplace`."""
    quiet: bool = False
    """No progress bar."""
    json: bool = False
    """Print one JSON object instead of text."""


class Calibrated(NamedTuple):
    """With which configuration policies are valued, and what a calibration says about it."""

    config: Any
    tuning: TuningRecord | None = None  # None: not calibrated
    withheld: str | None = None  # why the verdict of a calibration is not passed on


def main(words: list[str]) -> int:
    """Run `ilbrl evaluate …`; the exit code is 1 if no policy has a value or its calibration says not to trust them."""
    args, config, reading = _parse(words)
    estimator = ope.find(args.estimator)
    _check(args)
    check_settings([config])
    policies = {name: policy_named(name) for name in args.policy}
    evidence = ope.gather(*_logs(args, reading), args.seed, args.intrinsic, _warn)
    judged = Calibrated(config)
    if args.calibration is not None:
        judged = _calibrated(args.calibration, estimator, config, typed(words), evidence)
    workplace = None if args.out is None else args.out / "workplace"
    known = _known(args, evidence, reading)
    if not (args.quiet or args.json or _has_models(workplace)):
        check = "known" if known else "clones" if args.clones else None
        seeds = range(estimator.seeds if args.seeds is None else args.seeds)
        if said := evaluation_ahead(estimator, judged.config, seeds, evidence, len(policies), check):
            print(said, file=sys.stderr, flush=True)
    found = ope.evaluate(
        policies, evidence, known=known, use_clones=args.clones, estimator=estimator,
        config=judged.config, seeds=args.seeds, out=workplace, warn=_warn, quiet=args.quiet or args.json,
    )  # fmt: skip
    result: dict[str, Any] = {}
    if found.calibration is not None:
        judged = Calibrated(found.calibration.config, tuning_record(found.calibration))
        result["calibration"] = to_plain(judged.tuning)
        if args.out is not None:
            write_json(args.out / "tuning.json", judged.tuning)
            draw_calibration(found.calibration, args.out)
    if found.estimates is not None:
        result["evaluation"] = _as_json(found, found.estimates, judged)
        if args.out is not None:
            write_json(args.out / "evaluation.json", result["evaluation"])
            draw_values(found.estimates, args.out / "values.png")
    if workplace is not None:
        _tidy(workplace)
    print(json.dumps(result, indent=1) if args.json else as_text(result))
    return int(_is_bad_news(result))


def _has_models(workplace: Path | None) -> bool:
    """Whether an earlier call left some, so that nobody knows what is still to be trained."""
    return workplace is not None and any(workplace.glob("models-*.safetensors"))


def _tidy(workplace: Path) -> None:
    """All is written: nothing is left to continue from. Trained models stay."""
    for checkpoint in (*workplace.glob("critics-*.safetensors"), *workplace.glob("training-*.safetensors")):
        forget_checkpoint(checkpoint)
    if workplace.is_dir() and not any(workplace.iterdir()):
        workplace.rmdir()


def policy_named(name: str) -> Policy:
    """A policy file, a built-in policy, or the one stored beside the data in `logged:FILE`."""
    if name.startswith("logged:"):
        log = load_named(name.removeprefix("logged:"))
        if log.policy is None:
            raise IlbrlError(f"{log.source}: carries no behaviour policy; give the policy's own file")
        return log.policy
    return find_policy(name)


def _parse(words: list[str]) -> tuple[EvaluateOptions, Any, Reading]:
    """The arguments, and the settings of the estimator that they name."""
    estimator = ope.find(value_of("--estimator", words, ope.DEFAULT))
    arguments = make_dataclass(
        "EvaluateOptions",
        [
            ("evaluation", EvaluateOptions),
            ("reading", Reading, field(default=Reading())),
            ("settings", estimator.Config, field(default=estimator.Config())),
        ],
    )
    names = "; ".join(f"{name}, {each.display}" for name, each in ope.ESTIMATORS.items())
    arguments.__doc__ = f"{EXAMPLES}\n\nEstimators: {names}."
    config = (tyro.conf.OmitArgPrefixes, tyro.conf.FlagCreatePairsOff)
    parsed: Any = tyro.cli(arguments, args=words, prog="ilbrl evaluate", config=config)
    return parsed.evaluation, parsed.settings, parsed.reading


def _check(args: EvaluateOptions) -> None:
    if not args.policy and not args.known and not args.clones:
        raise IlbrlError("nothing to evaluate: name policies with --policy, or known ones with --known NAME=POLICY")
    if args.calibration is not None and (args.known or args.clones):
        raise IlbrlError("--known calibrates the estimator and --calibration brings an earlier calibration: give one")
    if args.known and args.clones:
        raise IlbrlError("--clones stands in for known policies: give either --known or --clones")
    if args.seeds is not None and args.seeds < 1:
        raise IlbrlError(f"--seeds {args.seeds}: an estimate needs at least one")
    if args.seed < 0:
        raise IlbrlError(f"--seed {args.seed}: a seed cannot be negative")
    if not args.logs:
        raise IlbrlError("--logs: name at least one log to learn from")
    if len({*args.logs}) < len(args.logs):
        raise IlbrlError(f"--logs {' '.join(args.logs)}: names a log twice")


def _warn(said: str) -> None:
    print(f"warning: {printable(said)}", file=sys.stderr)


def _logs(args: EvaluateOptions, reading: Reading) -> tuple[dict[str, Dataset], Dataset | None]:
    """The logs by name, `logs` or, where there are several, what the user typed; and the expert's."""
    expert = None if args.expert is None else load_named(args.expert, reading, quiet=args.quiet)
    several = len(args.logs) > 1
    return {text if several else "logs": load_named(text, reading, quiet=args.quiet) for text in args.logs}, expert


def _known(args: EvaluateOptions, evidence: ope.Evidence, reading: Reading) -> dict[str, Any]:
    """The known policies of `NAME=POLICY`, `NAME=POLICY@LOG` or `NAME=POLICY@FILE`."""
    typed_as = {args.expert: "expert", **({args.logs[0]: "logs"} if len(args.logs) == 1 else {})}
    found: dict[str, Any] = {}
    for entry in args.known:
        name, _, where = entry.partition("=")
        where, _, log = where.partition("@")
        if not name or not where:
            raise IlbrlError(f"--known: {entry!r} is not NAME=POLICY, NAME=POLICY@LOG or NAME=POLICY@FILE")
        if name in found:
            raise IlbrlError(f"--known: {name} stands there twice; known policies need different names")
        found[name] = policy_named(where)
        if log:
            log = typed_as.get(log, log)
            found[name] = found[name], log if log in evidence.logs else load_named(log, reading, quiet=args.quiet)
    return found


def _calibrated(
    path: Path, estimator: ope.Estimator, config: Any, options: set[str], evidence: ope.Evidence
) -> Calibrated:
    """What an earlier calibration chose, changed by the options that were typed.

    Its verdict stays where these logs and settings are those it is about.
    """
    if not path.is_file():
        raise IlbrlError(f"{path}: no such file; `ilbrl evaluate --known … --out FOLDER` writes one")
    record = from_json(TuningRecord, parse_json(read_text(path), str(path)), str(path))
    if record.estimator != estimator.name:
        raise IlbrlError(f"{path}: calibrates {record.estimator}; say --estimator {record.estimator}")
    chosen = from_json(estimator.Config, record.config, f"{path}: config")
    changed = [name for name in vars(config) if options & {name, f"no_{name}"}]  # --no-weighted changes weighted
    asked = replace(chosen, **{name: getattr(config, name) for name in changed})
    departures = [f"{name} {getattr(asked, name)}, not {getattr(chosen, name)}" for name in changed]
    departures = [said for said, name in zip(departures, changed) if getattr(asked, name) != getattr(chosen, name)]
    here = {name: data.content_hash for name, data in evidence.logs.items()}
    departures += [f"another log {name}" for name in here if record.evidence.get(name) != here[name]]
    departures += [f"no log {name}" for name in record.evidence if name not in here]
    if not departures:
        return Calibrated(asked, record)
    withheld = (
        f"the verdict of the calibration is about other estimates: here {' and '.join(departures)};"
        " how far to trust these numbers is unknown until --known with the same options says so"
    )
    return Calibrated(asked, record, withheld)


def _as_json(found: ope.Evaluated, estimates: ope.Estimates, judged: Calibrated) -> dict[str, Any]:
    trust = None if judged.tuning is None or judged.withheld else judged.tuning.trust
    warned = found.warnings
    if trust is not None and judged.tuning is not None and found.calibration is None:  # of an earlier call
        limit = float("inf") if trust.distance_limit is None else trust.distance_limit
        truths = [known.truth for known in judged.tuning.known.values() if known.truth is not None]
        best = max(truths, default=float("inf"))
        clones = all(known.clone for known in judged.tuning.known.values())
        warned = ope.warnings(estimates, limit, best, trust.error or 0.0, clones)
        estimates = ope.widen(estimates, trust.error or 0.0)
    policies = {
        name: {
            "value": estimate.value,
            "interval": list(estimate.interval),
            "verdict": estimate.verdict,
            "parts": list(estimate.parts),
            "distance": estimate.distance,
            "length": estimate.length,
            "gain": estimate.gain,
            "task_return": estimate.task_return,
        }
        for name, estimate in estimates.policies.items()
    }
    return to_plain(
        {
            "policies": policies,
            "estimator": estimates.estimator,
            "quantity": str(estimates.quantity),
            "measure": estimates.measure,
            "config": estimates.config,
            "initial_states": len(found.evidence.initial_observations),
            "seconds": estimates.seconds,
            "warnings": warned,
            "trust": trust,
            "trust_withheld": judged.withheld,
            "notes": [*found.evidence.notes, *estimates.notes],
        }
    )


def _is_bad_news(result: dict[str, Any]) -> bool:
    trusts = [part["trust"] for part in result.values() if part["trust"] is not None]
    if any(trust["verdict"] == "distrust" for trust in trusts):
        return True
    policies = result.get("evaluation", {}).get("policies", {})
    return bool(policies) and all(entry["value"] is None for entry in policies.values())
