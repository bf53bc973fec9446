"""`ilbrl models`: train models of the dynamics behind logs, look at them, and roll policies out in them."""

from __future__ import annotations

import json as json_format
import shutil
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import tyro
from tyro.conf import FlagCreatePairsOff, OmitArgPrefixes, Positional, UseAppendAction, arg

from ilbrl.base.errors import IlbrlError, printable
from ilbrl.base.records import to_plain
from ilbrl.cli.named import load_both, load_named, refuse_input, warn_about
from ilbrl.data import Reading
from ilbrl.data.benchmark import find_policy
from ilbrl.learning.config import check_value
from ilbrl.models import MEMBERS, PENALTY
from ilbrl.report.pictures import paper
from ilbrl.report.pictures.evaluator import model_errors
from ilbrl.results.schema import ErrorsRecord

_ABOUT = """Learn what follows from what: (state, action) → next state, reward, end of the episode.

The models are what `ilbrl evaluate` and `ilbrl tune` roll policies out in. This command trains and inspects them alone.

examples:
  ilbrl models train --expert hopper/expert:2ep --logs hopper/medium:400000steps --out hopper.models
  ilbrl models inspect hopper.models --figure errors.png
  ilbrl models inspect hopper.models --policy policy.safetensors --starts hopper/medium:40ep"""


def main(words: list[str]) -> int:
    """Run `ilbrl models …` and return its exit code."""
    commands = {"train": train, "inspect": inspect}
    return tyro.extras.subcommand_cli_from_dict(
        commands, prog="ilbrl models", description=_ABOUT, args=words, config=(FlagCreatePairsOff,)
    )


def train(
    logs: str,
    out: Path,
    expert: str | None = None,
    size: Literal["large", "medium", "small"] = "small",
    members: int = MEMBERS,
    seed: int = 0,
    quiet: bool = False,
    json: bool = False,
    reading: OmitArgPrefixes[Reading] = Reading(),  # noqa: B008 - immutable
) -> int:
    """Train an ensemble of models. Killed or stopped, the same command continues to the same result.

    Example: ilbrl models train --expert hopper/expert:2ep --logs hopper/medium:400000steps --out hopper.models

    Args:
        logs: The logs: a file or a built-in name.
        out: The file to write.
        expert: The expert's episodes, drawn often however few they are: models must be right where good policies go.
        size: large for a GPU (4 layers of 512 units, a minute), medium, or small for two cores.
        members: Models in the ensemble.
        seed: Of the training and of what is held out.
        quiet: No progress bar.
        json: Print one JSON object instead of a table.
        reading: What the files do not say.
    """
    from ilbrl import models

    check_value("members", int, members, "--members")
    refuse_input(out, logs, expert)
    sets = [load_named(logs, reading, quiet)] if expert is None else load_both(expert, logs, reading, quiet)
    rewarded = all(data.rewards is not None for data in sets)  # else models learn no reward
    warn_about(sets[-1], None if expert is None else sets[0], "evaluation" if rewarded else "imitation")
    workplace = out.with_name(f".{out.name}.training")
    learned = models.train(
        sets,
        models.SIZES[size],
        members=members,
        seed=seed,
        resume_from=workplace / "checkpoint.safetensors",
        quiet=quiet,
    )
    learned.save(out)
    shutil.rmtree(workplace, ignore_errors=True)
    _show(learned, out, {}, json)
    return 0


def inspect(
    file: Positional[Annotated[Path, arg(metavar="MODELS")]],
    /,
    policy: UseAppendAction[tuple[str, ...]] = (),
    starts: str | None = None,
    penalty: float = PENALTY,
    figure: Path | None = None,
    json: bool = False,
    reading: OmitArgPrefixes[Reading] = Reading(),  # noqa: B008 - immutable
) -> int:
    """Say how right the models are on held-out episodes, and roll policies out in them.

    Example: ilbrl models inspect hopper.models --policy policy.safetensors --starts hopper/medium:40ep

    Args:
        file: What `ilbrl models train` wrote.
        policy: A policy to roll out, a file or a built-in name such as hopper/expert; may be given several times.
        starts: Logs whose first states the rollouts begin with; needed with --policy.
        penalty: Standard deviations of the logged rewards that a step loses per unit of disagreement.
        figure: A file to draw the errors into, a line per model: PNG, SVG or PDF, by its ending.
        json: Print one JSON object instead of tables.
        reading: What the file of --starts does not say.
    """
    from ilbrl import models

    if figure is not None:
        paper.check_format(figure)
    refuse_input(figure, str(file))
    learned = models.Models.load(file)
    if policy and starts is None:
        raise IlbrlError("--policy: rollouts need states to begin with: name the logs, --starts LOGS")
    if figure is not None:
        drawn = model_errors([ErrorsRecord(**vars(learned.errors))])
        if drawn is None:
            raise IlbrlError(f"--figure: {file} records no errors of its models; train them again")
        paper.save_as(figure, drawn)
    values: dict[str, Any] = {}
    if policy:
        assert starts is not None
        first = load_named(starts, reading).initial_observations
        chosen = first[np.linspace(0, len(first) - 1, min(models.STARTS, len(first))).astype(int)]
        policies = {name: find_policy(name) for name in policy}
        played = models.rollout(policies, learned, chosen, penalty=penalty)
        for p, name in enumerate(policies):
            values[name] = {
                "return": float(played.values[p]),
                "between_members": float(played.returns[p].mean(1).std(ddof=1)) if learned.members > 1 else None,
                "length": float(played.lengths[p].mean()),
                "disagreement": float(played.disagreement[p].mean()),
                "outside": float(played.outside[p].mean()),
            }
    _show(learned, file, values, json)
    return 0


def _show(learned: Any, file: Path, values: dict[str, Any], json: bool) -> None:
    if json:
        facts = {
            "file": str(file),
            "members": learned.members,
            "horizon": learned.horizon,
            "sources": list(learned.sources),
            "config": asdict(learned.config),
            "errors": asdict(learned.errors),
            "policies": values,
        }
        print(json_format.dumps(to_plain(facts), indent=1))
        return
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    console = Console(highlight=False, soft_wrap=True)
    learns = learned.config
    predicts = ["the change of state", *["flags"] * bool(learns.patterns), *["reward"] * learns.rewards]
    predicts += [*["reward of the last step"] * learns.end_rewards, *["end"] * learns.ends]
    console.print(
        f"[bold]{escape(str(file))}[/bold]  {learned.members} models of"
        f" {escape(printable(' + '.join(learned.sources)))}; they predict"
        f" {', '.join(predicts)}; episodes last up to {learned.horizon:,} steps"
    )
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("error after … steps of a held-out episode (standard deviations)")
    for steps in learned.errors.steps:
        table.add_column(f"{steps}", justify="right")
    for k, errors in enumerate(learned.errors.many_step):
        table.add_row(f"model {k}", *(f"{error:.3f}" for error in errors))
    console.print(table)
    if learned.errors.left_out:
        console.print(f"left out: {len(learned.errors.left_out)} models that were much worse than the others")
    for name, value in values.items():
        console.print(
            f"{escape(name)}: return {value['return']:,.1f} over {value['length']:,.0f} steps;"
            f" disagreement {value['disagreement']:.1f} × that of the logs, {value['outside']:.0%} of the steps at the"
            " edge of the logs"
        )
