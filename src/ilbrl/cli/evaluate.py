"""`ilbrl evaluate`: what policies are worth, from logs alone, and how far to trust that."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import tyro

from ilbrl import ope
from ilbrl.base.errors import IlbrlError
from ilbrl.base.files import written_whole
from ilbrl.cli.evaluate_setting import UNTUNED, Evaluator, sized
from ilbrl.cli.evaluate_text import as_text
from ilbrl.cli.named import load_named, warn_about
from ilbrl.data import Dataset
from ilbrl.data.benchmark import find_policy
from ilbrl.data.splits import Composition
from ilbrl.learning.population import forget_checkpoint
from ilbrl.policy import Policy
from ilbrl.report.pictures import evaluator as evaluator_pictures
from ilbrl.report.pictures import paper
from ilbrl.results.tables import Curve


@dataclass(frozen=True)
class Arguments:
    """Estimate policies' discounted values from logs with rewards, by Expected SARSA; no environment is touched.

    ilbrl evaluate --policy a.safetensors b.safetensors --expert hopper/expert --data hopper/medium

    ilbrl evaluate --tune --known expert=hopper/expert,medium=hopper/medium --expert hopper/expert --data hopper/medium
    --out tuned

    ilbrl evaluate --policy a.safetensors --config tuned/tuning.json --expert hopper/expert --data hopper/medium
    """

    expert: str
    """The expert's logs, with rewards: a file or a built-in name; `:100ep` takes the first 100 episodes."""
    data: str
    """All other logs, with rewards; `:400000steps` takes the first 400,000 transitions."""
    policy: tuple[str, ...] = ()
    """Policies to value: files (.safetensors), built-in ones such as hopper/rung1, or `logged:FILE`: the policy behind
    the data file that carries it."""
    tune: bool = False
    """First choose the setting that orders the known policies best."""
    known: str = ""
    """Policies of known value, for --tune: `expert=POLICY,NAME=POLICY`. Their true values come from held-out episodes:
    of --expert for the name `expert`, of --data for another; `NAME=POLICY@LOGS` brings a policy's own episodes."""
    config: Path | None = None
    """The setting that an earlier --tune chose: its tuning.json."""
    grid: str = "default"
    """Settings that --tune tries: default (18), paper (48), paper-choice (1), small (3)."""
    updates: int | None = None
    """Updates of each estimate; by default what the known policies needed under --config, else 100,000."""
    seeds: int = 3
    """Evaluation seeds."""
    penalty: float = 0.0
    """Standard deviations over evaluation seeds by which each value is lowered: seeds disagree where a policy leaves
    the data. 0 is the paper's estimator; docs/evaluation.md shows what 2 does."""
    seed: int = 0
    """Of the split into episodes to learn from and episodes held out."""
    out: Path | None = None
    """Folder for evaluation.json, tuning.json and the figures values.png and calibration.png."""
    hidden: tuple[int, ...] | None = None
    """Sizes of the critics' hidden layers; by default those under --config, else 256 256."""
    dtype: Literal["float32", "bfloat16"] | None = None
    """Of the critics' matrix products; by default that under --config, else float32; bfloat16 uses fused kernels on a
    GPU."""
    quiet: bool = False
    """No progress bar."""
    json: bool = False
    """Print one JSON object instead of text."""


def main(words: list[str]) -> int:
    """Run `ilbrl evaluate …`; the exit code is 1 if all estimates diverged or their tuning says not to trust them."""
    args = tyro.cli(Arguments, args=words, prog="ilbrl evaluate", config=(tyro.conf.FlagCreatePairsOff,))
    _check(args)
    policies = {name: policy_named(name) for name in args.policy}
    expert = load_named(args.expert, quiet=args.quiet)
    logs = load_named(args.data, quiet=args.quiet)
    warn_about(logs, expert, "evaluation")
    composition = ope.held_out(expert, logs, args.seed)
    result: dict[str, Any] = {}
    evaluator, hashes = UNTUNED, {"expert": expert.content_hash, "data": logs.content_hash}
    if args.tune:
        tuning = _tune(args, composition, args.updates or UNTUNED.updates)
        result["tuning"] = tuning.to_json() | {"logs": hashes}
        evaluator = Evaluator.chosen_by(result["tuning"])
        if args.out is not None:
            _write(args.out / "tuning.json", result["tuning"])
            _draw_tuning(tuning, args.out)
    elif args.config is not None:
        evaluator = Evaluator.read(args.config)
    if policies:
        if not args.tune:
            evaluator = evaluator.adjusted(hashes, args.hidden, args.dtype, args.updates)
        evaluation = _evaluate(args, composition, policies, evaluator)
        result["evaluation"] = _as_json(evaluation, composition, policies, evaluator, args.penalty)
        if args.out is not None:
            _write(args.out / "evaluation.json", result["evaluation"])
            _draw_courses(evaluation, 0, {}, args.out / "values.png")
    if args.out is not None:  # all is written: nothing to continue from, and another evaluation may follow
        for stage in result:
            forget_checkpoint(args.out / f"{stage}.safetensors")
    print(json.dumps(result, indent=1) if args.json else as_text(result))
    return int(_is_bad_news(result))


def policy_named(name: str) -> Policy:
    """A policy file, a built-in policy, or the one stored beside the data in `logged:FILE`."""
    if name.startswith("logged:"):
        log = load_named(name.removeprefix("logged:"))
        if log.policy is None:
            raise IlbrlError(f"{log.source}: carries no behaviour policy; give the policy's own file")
        return log.policy
    return find_policy(name)


def _check(args: Arguments) -> None:
    if not args.policy and not args.tune:
        raise IlbrlError("nothing to evaluate: name policies with --policy, or known ones with --tune --known …")
    if args.tune and not args.known:
        raise IlbrlError("--tune needs policies of known value: --known expert=POLICY,NAME=POLICY (at least two)")
    if args.tune and args.config is not None:
        raise IlbrlError("--tune chooses a setting and --config brings one: give either")
    if args.grid not in ope.GRIDS:
        raise IlbrlError(f"no grid {args.grid!r}: there are {', '.join(ope.GRIDS)}")
    if args.updates is not None and args.updates < 1:
        raise IlbrlError(f"--updates {args.updates}: an estimate needs at least one update")
    if not 0 <= args.penalty < float("inf"):
        raise IlbrlError(f"--penalty {args.penalty}: values are lowered by 0 or more standard deviations")
    if args.penalty and args.seeds < 2:
        raise IlbrlError(f"--penalty {args.penalty:g}: one evaluation seed has nobody to disagree with; give --seeds 2")
    if args.seed < 0:
        raise IlbrlError(f"--seed {args.seed}: a seed cannot be negative")
    if args.hidden is not None and min(args.hidden, default=1) < 1:
        raise IlbrlError(f"--hidden {' '.join(map(str, args.hidden))}: a layer needs at least one unit")


def _tune(args: Arguments, composition: Composition, updates: int) -> ope.Tuning:
    settings = [sized(setting, args.hidden, args.dtype) for setting in ope.GRIDS[args.grid]]
    data = ope.EvaluationData.of_composition(composition, [setting.expert_fraction for setting in settings])
    checkpoint = None if args.out is None else args.out / "tuning.safetensors"
    known = _known(args.known, composition)
    return ope.tune(
        known, data, settings, range(args.seeds), updates, resume_from=checkpoint, quiet=args.quiet or args.json
    )


def _known(text: str, composition: Composition) -> list[ope.Known]:
    """The known policies of `name=POLICY[@LOGS],…`."""
    found, from_data = [], []
    for entry in text.split(","):
        name, _, where = entry.partition("=")
        where, _, logs = where.partition("@")
        if not name or not where:
            raise IlbrlError(f"--known: {entry!r} is not NAME=POLICY or NAME=POLICY@LOGS")
        policy = policy_named(where)
        sides: dict[str, Any] = {"expert": policy if name == "expert" else None, "exploratory": None}
        if name != "expert":
            sides["exploratory"] = policy
            from_data += [] if logs else [name]
        known = ope.known_of_composition(composition, **sides)[0]
        own: Dataset = load_named(logs) if logs else known.episodes
        if logs:
            warn_about(own, composition.training_expert, "evaluation")
        found.append(replace(known, name=name, episodes=own))
    if len(from_data) > 1:
        raise IlbrlError(
            f"--known: {' and '.join(from_data)} cannot both be the policy behind --data;"
            " bring the episodes of the others as NAME=POLICY@LOGS"
        )
    return found


def _evaluate(
    args: Arguments, composition: Composition, policies: dict[str, Policy], evaluator: Evaluator
) -> ope.Evaluation:
    data = ope.EvaluationData.of_composition(composition, [evaluator.setting.expert_fraction])
    return ope.evaluate(
        policies,
        data,
        [evaluator.setting],
        range(args.seeds),
        evaluator.updates,
        resume_from=None if args.out is None else args.out / "evaluation.safetensors",
        quiet=args.quiet or args.json,
    )


def _draw_tuning(tuning: ope.Tuning, folder: Path) -> None:
    truths = {name: truth.value for name, truth in tuning.truths.items()}
    _draw_courses(tuning.evaluation, tuning.chosen_id, truths, folder / "known-values.png")
    chosen = tuning.table[tuning.chosen_id].policies
    points = [
        evaluator_pictures.Point(name, truths[name], each.value, each.interval[1] - each.value)
        for name, each in chosen.items()
    ]
    paper.save_as(folder / "calibration.png", evaluator_pictures.estimates_against_truth(points))


def _draw_courses(evaluation: ope.Evaluation, setting: int, truths: dict[str, float], path: Path) -> None:
    """A panel per policy, a line per evaluation seed."""
    panels = [
        evaluator_pictures.courses(
            policy, [(Curve(e.updates, e.values), e.verdict) for e in evaluation.of(policy, setting)],
            "discounted value", truths.get(policy),
        )
        for policy in evaluation.policies
    ]  # fmt: skip
    paper.save_as(path, *panels)


def _as_json(
    evaluation: ope.Evaluation,
    composition: Composition,
    policies: dict[str, Policy],
    evaluator: Evaluator,
    penalty: float,
) -> dict[str, Any]:
    setting = evaluation.settings[0]
    data = ope.EvaluationData.of_composition(composition, [setting.expert_fraction])
    distances = ope.distances_from_data(policies, data, setting.expert_fraction)
    found, notes = {}, list(data.notes)
    if penalty:
        notes.append(
            f"values are less {penalty:g} standard deviations over seeds; a tuning's verdict is about their mean"
        )
    for name in policies:
        combined = evaluation.combined(name, penalty=penalty)
        sound = combined.verdict != "diverged"
        found[name] = {
            "value": combined.value if sound else None,
            "interval": list(combined.interval) if sound else None,
            "verdict": combined.verdict,
            "decided_at": [e.decided_at for e in evaluation.of(name)],
            "per_seed": [e.value if e.verdict != "diverged" else None for e in evaluation.of(name)],
            "distance": distances[name],
        }
    return {
        "policies": found,
        "setting": setting.as_dict(),
        "updates": evaluation.updates,
        "penalty": penalty,
        "initial_states": len(data.initial_observations),
        "seconds": evaluation.seconds,
        "distance_warning": ope.distance_warning(distances, evaluator.distance_limit),
        "trust": evaluator.trust,
        "trust_withheld": evaluator.trust_withheld,
        "notes": notes,
    }


def _is_bad_news(result: dict[str, Any]) -> bool:
    if any((part["trust"] or {}).get("verdict") == "distrust" for part in result.values()):
        return True
    policies = result.get("evaluation", {}).get("policies", {})
    return bool(policies) and all(entry["verdict"] == "diverged" for entry in policies.values())


def _write(path: Path, record: dict[str, Any]) -> None:
    with written_whole(path) as partial:
        partial.write_text(json.dumps(record, indent=1) + "\n")
