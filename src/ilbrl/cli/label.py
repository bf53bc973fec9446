"""`ilbrl label`: how close every logged step is to the expert's support."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import tyro

from ilbrl.base.errors import IlbrlError, printable
from ilbrl.base.records import to_plain
from ilbrl.cli.named import load_both, refuse_input, warn_about
from ilbrl.data import Dataset, Reading, same_choices
from ilbrl.data.summary import sparkline
from ilbrl.learning.config import check_value
from ilbrl.learning.spec import Spec
from ilbrl.report.pictures import paper
from ilbrl.report.pictures.runs import closeness
from ilbrl.rewards import Labels, Logits, discriminator, indicator
from ilbrl.rewards.soft_support import Explanation, explain, label_steps, standard_features


@dataclass(frozen=True)
class LabelOptions:
    """Label the logs with ILBRL's intrinsic reward: 1 on the expert's own steps, less the farther away a step is.

    ilbrl label --expert hopper/expert:2ep --logs hopper/medium:400000steps --out labels.npz

    ilbrl label --expert E.hdf5 --logs X.hdf5 --explain 12345

    ilbrl label --reward discriminator --expert E.hdf5 --logs X.hdf5 --out logits.npz
    """

    expert: str
    """The expert's episodes: a file or a built-in name; `:2ep` takes the first two episodes."""
    logs: str
    """All other logs; `:400000steps` takes the first 400,000 transitions."""
    reward: Literal["support", "indicator", "discriminator"] = "support"
    """ILBRL's closeness to the expert's support; 1 on steps that the expert took exactly, else 0, as for finite
    problems; or the log-odds of a discriminator, as SMODICE and ORIL learn it."""
    action_distance: float | None = None
    """Of discrete actions: how far another action is, in standard deviations of an observation. By default only expert
    steps with the same action are near."""
    out: Path | None = None
    """Write arrays reward, distance and nearest (expert rows first, then the logs') and d_max to this npz file;
    of a discriminator: logit, in the same order."""
    explain: int | None = None
    """Show why this row got its reward: its nearest expert step and the distance along every feature."""
    plot: Path | None = None
    """Draw the histogram of rewards into this file (png, svg or pdf)."""
    discriminator: discriminator.Config = field(default_factory=discriminator.Config)
    seed: int = 0
    """Of the discriminator."""
    reading: tyro.conf.OmitArgPrefixes[Reading] = field(default_factory=Reading)
    json: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """Print one JSON object instead of text."""


def main(words: list[str]) -> int:
    args = tyro.cli(LabelOptions, args=words, prog="ilbrl label")
    if args.plot is not None:
        paper.check_format(args.plot)
    for written in (args.out, args.plot):
        refuse_input(written, args.expert, args.logs)
    expert, logs = load_both(args.expert, args.logs, args.reading)
    warn_about(logs, expert)
    if args.reward != "support" and (args.explain is not None or args.plot is not None):
        raise IlbrlError(f"--explain and --plot show support rewards: leave --reward {args.reward} out")
    if args.reward == "discriminator":
        judged = discriminator.label(expert, logs, [args.discriminator], [args.seed])
        if args.out is not None:
            judged.save(args.out)
        _print_logits(judged, args)
        return 0
    check_value("action_distance", float | None, args.action_distance, "--action-distance")
    alike = same_choices([expert, logs])
    spec, names = Spec.of(*alike), _feature_names(alike[0])  # an action that only the logs have is a feature as well
    if args.reward == "indicator":
        labels = indicator.label(expert, logs)
    else:
        labels = label_steps(expert, logs, spec, action_distance=args.action_distance)
    if args.out is not None:
        labels.save(args.out)
    if args.plot is not None:
        of_logs = labels.reward[labels.expert_rows :]
        paper.save_as(args.plot, closeness(np.linspace(0, 1, 61), np.histogram(of_logs, bins=60, range=(0, 1))[0]))
    explanation = None
    if args.explain is not None:
        features = standard_features(spec, action_distance=args.action_distance)
        explanation = explain(labels, expert, logs, features, args.explain)
    if args.json:
        print(json.dumps(to_plain(_as_json(labels, explanation, names)), indent=1))
        return 0
    _print(labels, expert, logs, args.out)
    if explanation is not None:
        _print_explanation(explanation, names)
    return 0


def _as_json(labels: Labels, explanation: Explanation | None, names: Sequence[str]) -> dict:
    of_logs = labels.reward[labels.expert_rows :]
    summary: dict = {
        "rows": len(labels.reward),
        "expert_rows": labels.expert_rows,
        "d_max": labels.d_max,
        "mean_reward": {"expert": float(labels.reward[: labels.expert_rows].mean()), "logs": float(of_logs.mean())},
        "histogram": {"edges": np.linspace(0, 1, 21).tolist(), "logs": _histogram(of_logs).tolist()},
    }
    if explanation is not None:
        summary["explanation"] = {
            **{name: to_plain(value) for name, value in vars(explanation).items() if not isinstance(value, np.ndarray)},
            "feature_names": names[: len(explanation.features)],
            "per_feature": to_plain(explanation.per_feature),
        }
    return summary


def _histogram(rewards: np.ndarray) -> np.ndarray:
    return np.histogram(rewards, bins=20, range=(0, 1))[0]


def _print(labels: Labels, expert: Dataset, logs: Dataset, out: Path | None) -> None:
    of_logs = labels.reward[labels.expert_rows :]
    print(f"expert   {expert.source}: {labels.expert_rows:,} rows, reward 1 by construction")
    print(f"logs     {logs.source}: {len(of_logs):,} rows, d_max {labels.d_max:.4g}")
    low, middle, high = np.quantile(of_logs, [0.05, 0.5, 0.95])
    print(f"rewards  {of_logs.min():.2f} {sparkline(of_logs)} {of_logs.max():.2f}")
    print(f"         5 % below {low:.3f} · median {middle:.3f} · 5 % above {high:.3f}")
    if out is not None:
        print(f"written  {out}")


def _feature_names(expert: Dataset) -> list[str]:
    """Of `standard_features`: the observation's columns, then those of the action or its choices."""
    choices = [f"action {name}" for name in expert.choice_names] if expert.discrete else []
    return [*expert.column_names("observations"), *(choices or expert.column_names("actions"))]


def _print_explanation(e: Explanation, names: Sequence[str]) -> None:
    print(f"\nrow {e.row}: {e.source}, episode {e.episode}, step {e.step}")
    if e.action is not None:
        print(f"action: {printable(e.action)}")
    if e.nearest_episode is None:
        print(f"the expert never takes the action {printable(e.action or '')}: nothing is near, and the reward is 0")
        return
    taken = "" if e.nearest_action is None else f", action {printable(e.nearest_action)}"
    print(f"nearest expert step: episode {e.nearest_episode}, step {e.nearest_step}{taken}")
    print(f"distance {e.distance:.6g} → reward {e.reward:.4f}\n")
    width = max(16, *map(len, names)) + 2
    print(f"{'feature':<{width}}{'here':>12}{'expert':>12}{'distance':>12}   (standardised units)")
    for i in map(int, np.argsort(-e.per_feature, kind="stable")):
        numbers = e.features[i], e.nearest_features[i], e.per_feature[i]
        print(f"{printable(names[i]):<{width}}" + "".join(f"{each:>12.4f}" for each in numbers))


def _print_logits(judged: Logits, args: LabelOptions) -> None:
    """What a discriminator says of the expert's rows and of the logs'."""
    parts = dict(zip(("expert", "logs"), np.split(judged.logit[0], [judged.expert_rows])))
    if args.json:
        summary = {
            "rows": judged.logit.shape[1],
            "expert_rows": judged.expert_rows,
            "mean_log_odds": {name: float(logits.mean()) for name, logits in parts.items()},
            "judged_expert": {name: float((logits > 0).mean()) for name, logits in parts.items()},
        }
        print(json.dumps(to_plain(summary), indent=1))
        return
    for name, logits in parts.items():
        low, middle, high = np.quantile(logits, [0.05, 0.5, 0.95])
        print(f"{name:<8} {len(logits):,} rows, {(logits > 0).mean():.1%} judged to be the expert's")
        print(f"  log-odds {logits.min():.2f} {sparkline(logits)} {logits.max():.2f}")
        print(f"         5 % below {low:.3f} · median {middle:.3f} · 5 % above {high:.3f}")
    if args.out is not None:
        print(f"written  {args.out}")
