"""`ilbrl train AGENT`: train a population of policies from logs."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, dataclass, field, make_dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from ilbrl.agents import AGENTS
from ilbrl.agents.fit import DIVERGENCE_FACTOR, MOST_SEEDS, Learned, fit, require_committee
from ilbrl.base.errors import IlbrlError, printable
from ilbrl.base.files import make_folder
from ilbrl.base.records import shown, to_plain
from ilbrl.cli.named import load_both, value_of
from ilbrl.data import Dataset, Reading, concatenate
from ilbrl.learning.population import MOST_UPDATES
from ilbrl.models.imagination import TEACHER, imagine, require_imaginable
from ilbrl.rewards import Logits
from ilbrl.rewards.ends import settled

EXAMPLE = "ilbrl train ilbrl --expert hopper/expert:2ep --logs hopper/medium:400000steps --seeds 6 --out runs/hopper"


@dataclass(frozen=True)
class TrainOptions:
    expert: str
    """The expert's episodes: a file or a built-in name; `:2ep` takes the first two episodes."""
    logs: str
    """All other logs; `:400000steps` takes the first 400,000 transitions."""
    out: Path
    """Folder for the policies, metrics.jsonl and the checkpoint; the same command continues there after a crash."""
    seeds: int = 1
    """How many seeds (0, 1, …), trained together as one compiled program."""
    committee: int = 1
    """Trainings behind each policy; with more than one, they answer together (docs/committees.md)."""
    updates: int = 100_000
    """Updates of each member. More of them continue a finished run, unless teachers (--imagine) or a discriminator
    (oril, smodice) would learn longer as well."""
    imagine: bool = False
    """Learn from imagined steps too: what policies of ILBRL would do next in learned models. Takes several times as
    long, and helps most where demonstrations are few (docs/imagination.md)."""
    divergence_factor: float = DIVERGENCE_FACTOR
    """A member whose mean |Q| exceeds this many times what its rewards allow is frozen and marked."""
    memory: float | None = None
    """Gigabytes that rows may take in training; of logs that need more, whole episodes are drawn at random. By default
    half of what this machine has."""
    reading: Reading = field(default_factory=Reading)
    quiet: bool = False
    """No progress bar."""
    json: bool = False
    """Print one JSON object instead of text."""


def main(words: list[str]) -> int:
    """Run `ilbrl train AGENT …`; the exit code is 1 if every member diverged."""
    if not words or words[0] not in AGENTS:
        agents = "\n".join(f"  {name:<17} {AGENTS[name].headline}" for name in AGENTS)
        usage = (
            f"usage: ilbrl train AGENT …      (ilbrl train AGENT --help lists its options)\n\n{agents}\n\n  {EXAMPLE}"
        )
        if words and words[0] not in ("-h", "--help"):
            raise IlbrlError(f"no agent {words[0]!r}\n\n{usage}")
        print(f"Train policies from logs alone.\n\n{usage}")
        return 0 if words else 2
    agent = words[0]
    run, config = _parse(agent, words[1:])
    for option, value, most in (("updates", run.updates, MOST_UPDATES), ("seeds", run.seeds, MOST_SEEDS)):
        if not 1 <= value <= most:
            raise IlbrlError(f"--{option}: must be between 1 and {most:,}, got {shown(value)}")
    expert, logs = load_both(run.expert, run.logs, run.reading, run.quiet)
    suits = AGENTS[agent].usual_preset(logs.discrete)
    if suits != "default" and value_of("--preset", words, "") == "":
        run, config = _parse(agent, [*words[1:], "--preset", suits])
    require_committee([config], run.committee)
    if run.imagine:
        config, logs = settled(config, expert, logs), _with_imagined(agent, config, expert, logs, run)
    learned = fit(
        agent,
        expert,
        logs,
        config=config,
        seeds=run.seeds,
        committee=run.committee,
        updates=run.updates,
        divergence_factor=run.divergence_factor,
        memory=run.memory,
        out=run.out,
        warn=lambda said: print(f"warning: {printable(said)}", file=sys.stderr),
        quiet=run.quiet,
    )
    if learned.labels is not None:
        learned.labels.save(run.out / "labels.npz")
    print(json.dumps(to_plain(_as_json(learned)), indent=1) if run.json else _as_text(learned, run))
    return int(learned.diverged.all())


def _with_imagined(agent: str, config: Any, expert: Dataset, logs: Dataset, run: TrainOptions) -> Dataset:
    """The logs, and imagined steps after them; teachers are as the members, where these are of their kind."""
    require_imaginable("--imagine", agent)
    make_folder(run.out)
    imagined = imagine(
        expert, logs, config=config if agent == TEACHER else None, updates=run.updates, workplace=run.out,
        quiet=run.quiet,
    )  # fmt: skip
    return concatenate([logs, imagined])


def _parse(agent: str, words: list[str]) -> tuple[TrainOptions, Any]:
    """The run and the hyper-parameters: those of the preset, changed by the options that follow."""
    presets = AGENTS[agent].presets
    named = value_of("--preset", words, "default")
    if named not in presets:
        raise IlbrlError(f"{agent} has no preset {named!r}: there are {', '.join(presets)}")
    arguments = make_dataclass(
        "Arguments",
        [
            ("run", Annotated[TrainOptions, tyro.conf.FlagCreatePairsOff]),
            ("preset", str, field(default=named)),
            ("config", AGENTS[agent].Config, field(default=presets[named])),
        ],
    )
    arguments.__doc__ = (
        f"{AGENTS[agent].headline}\n\n{EXAMPLE}\n\nPresets: {', '.join(presets)}; other options change them."
    )
    config = (tyro.conf.OmitArgPrefixes,)  # a hyper-parameter that is on or off has --x and --no-x: presets differ
    parsed: Any = tyro.cli(arguments, args=words, prog=f"ilbrl train {agent}", config=config)
    if parsed.preset != named:
        raise IlbrlError(f"--preset {parsed.preset}: write it as --preset NAME or --preset=NAME, and once")
    return parsed.run, parsed.config


def _as_json(learned: Learned) -> dict[str, Any]:
    metrics = learned.metrics
    return {
        "agent": learned.agent,
        "config": asdict(learned.configs[0]),
        "updates": learned.fitted.updates,
        "done_before": learned.fitted.done_before,
        "seconds": learned.fitted.seconds,
        "members": [
            {
                "seed": seed,
                "policy": str(path),
                "diverged_at": int(learned.diverged_at[p]),
                **{name: to_plain(values[-1, p]) for name, values in metrics.items() if name != "update"},
            }
            for p, (seed, path) in enumerate(zip(learned.seeds, learned.files))
        ],
    }


def _as_text(learned: Learned, run: TrainOptions) -> str:
    fitted, count = learned.fitted, len(learned.policies)
    each = f" of {run.committee} trainings" if run.committee > 1 else ""
    what = f"{learned.agent}: {count} polic{'y' if count == 1 else 'ies'}{each} × {fitted.updates:,} updates"
    left = fitted.updates - fitted.done_before
    if left == 0:
        anew = run.imagine or isinstance(learned.labels, Logits)  # with more updates these would be others
        longer = "" if anew else "more --updates continue, "
        lines = [f"{what}, already done: {run.out} holds them ({longer}another --out starts anew)"]
    else:
        rate = left * len(fitted.diverged_at) / fitted.seconds
        since = f", the last {left:,} of them" if fitted.done_before else ""
        lines = [f"{what}{since} in {fitted.seconds:,.0f} s ({rate:,.0f} updates/s, compilation included)"]
    for member in _as_json(learned)["members"]:
        fate = f"diverged at update {member['diverged_at']:,}" if member["diverged_at"] >= 0 else "fine"
        losses = " · ".join(f"{name} {value:.4g}" for name, value in member.items() if isinstance(value, float))
        lines.append(f"  {member['policy']}  {fate}  {losses}")
    file, logs = learned.files[0], f"--expert {run.expert} --logs {run.logs}"
    lines.append(f"next: ilbrl evaluate --policy {file} {logs} … (what it is worth, from logs alone),")
    lines.append(f"      ilbrl rollout --policy {file} --env … (where there is an environment), or ilbrl.Policy.load")
    return "\n".join(lines)
