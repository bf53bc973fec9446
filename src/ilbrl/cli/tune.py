"""`ilbrl tune`: the whole protocol, from logs to a selected policy."""

from __future__ import annotations

import json
import math
import shlex
from dataclasses import dataclass, field, make_dataclass, replace
from pathlib import Path
from typing import Any

import tyro

from ilbrl.base.errors import IlbrlError, printable
from ilbrl.base.records import to_plain
from ilbrl.envs import import_module_of, score_notes
from ilbrl.ope import SAYINGS
from ilbrl.report.deployed import known_miss
from ilbrl.report.statistics import NORMAL_95
from ilbrl.report.text import number, plus_minus
from ilbrl.report.verdict import Verdict, verdict
from ilbrl.results import read_run
from ilbrl.results.schema import Chosen, Scores
from ilbrl.results.tables import score_to_deploy
from ilbrl.study.run import StudyResult, reveal
from ilbrl.study.study import OWN, Study, preset_names
from ilbrl.study.tune import tune as run_study

USAGE = """Tune, train, evaluate offline and select, without an environment; play the selected policies once at the end.

usage: ilbrl tune --expert FILE --logs FILE --out RUN …      (your own logs; ilbrl tune own --help lists every option)
       ilbrl tune STUDY --out RUN …      (ilbrl tune STUDY --help lists every setting of the study)
       ilbrl tune --reveal RUN           (afterwards: play the candidates that were not selected;
                                          --episodes 10 plays so many of each instead of the study's number)

STUDY is a TOML file or a preset: {presets}

  ilbrl tune --expert demos.csv --logs logs.csv --out runs/mine
  ilbrl tune large --expert demos.csv --logs logs.csv --out runs/mine               (full size, for a GPU)
  ilbrl tune --expert demos.csv --logs logs.csv --columns observations angle,speed actions torque --out runs/mine
  ilbrl tune --expert demos.csv --logs logs.csv --imagine ilbrl --out runs/mine     (few demonstrations: imagined steps)
  ilbrl tune --expert demos.csv --logs logs.csv --committee 5 --out runs/mine       (less luck: committees of policies)
  ilbrl tune --expert demos.csv --logs logs.csv --intrinsic --out runs/mine         (choose by closeness to the expert)
  ilbrl tune --expert demos.csv --logs logs.csv --no-together --out runs/mine       (deploy one seed: a smaller network)
  ilbrl tune study.toml --out runs/mine
  ilbrl tune small --task walker2d --seeds 3 --out runs/walker2d
  ilbrl tune paper --task hopper --executor ray --address auto --out runs/hopper

Killed or stopped, the same command continues. docs/protocol.md explains it, with a study of your own logs.
Exit code 1: nothing was selected, or the offline values cannot be trusted, or the policy is, or may be, no better
than the logs."""


@dataclass(frozen=True)
class RunOptions:
    out: Path
    """The run folder; the same command continues there."""
    executor: str = "local"
    """Who does the jobs: this machine (local) or a Ray cluster (ray)."""
    address: str | None = None
    """Of a Ray cluster ("auto": the one this machine belongs to); by default Ray starts on this machine."""
    change: bool = False
    """Go on in a folder whose study differed; only what depends on the difference is computed again."""
    again: bool = False
    """Repeat the final evaluation although it was done; the audit records it."""
    dashboards: tuple[str, ...] = ()
    """Where training metrics go besides the run folder: tensorboard, wandb, mlflow."""
    quiet: bool = False
    """No progress, no lines per phase; log.txt has them."""
    json: bool = False
    """Print one JSON object instead of text."""


def main(words: list[str]) -> int:
    """Run `ilbrl tune …`; the exit code is 1 if the answer is bad news."""
    usage = USAGE.format(presets=", ".join(preset_names()))
    if not words or words[0] in ("-h", "--help"):
        print(usage)
        return 0 if words else 2
    if words[0] == "--reveal":
        return _reveal(words[1:], usage)
    named = {word.partition("=")[0] for word in words}
    if words[0].startswith("-") and not {"--expert", "--logs"} <= named and not {"-h", "--help"} & named:
        raise IlbrlError(f"name the study first, or your own logs with --expert and --logs\n\n{usage}")
    run, study = parse([OWN, *words] if words[0].startswith("-") else words)
    return tune(study, run, "ilbrl tune " + shlex.join(words))


def parse(words: list[str]) -> tuple[RunOptions, Study]:
    """The run and the study: the file or preset named first, changed by the options that follow."""
    study = Study.load(words[0])
    without_tables = _with_tables(study, {}, {}, {}, {}, {}, {})  # for tyro, a table with entries has fixed ones
    arguments = make_dataclass("Arguments", [("run", RunOptions), ("study", Study, field(default=without_tables))])
    arguments.__doc__ = f"The study {words[0]}, and what may be changed about it.\n\nTables take pairs: {_PAIRS}"
    config = (tyro.conf.OmitArgPrefixes, tyro.conf.FlagCreatePairsOff)
    parsed: Any = tyro.cli(arguments, args=words[1:], prog=f"ilbrl tune {words[0]}", config=config)
    given: Study = parsed.study
    if given.task and any(word.partition("=")[0] == "--task" for word in words):
        import_module_of(given.task)  # typed here, and so trusted; what only stands in a file is not
    return parsed.run, _with_tables(
        given,
        study.known | given.known,
        study.search.ranges | given.search.ranges,
        study.search.configurations_of | given.search.configurations_of,
        study.training.imagination | given.training.imagination,
        study.evaluation.settings | given.evaluation.settings,
        study.data.reading.columns | given.data.reading.columns,
    )


Table = dict[str, str]


def _with_tables(
    study: Study,
    known: Table,
    ranges: Table,
    counts: dict[str, int],
    imagination: Table,
    settings: Table,
    columns: Table,
) -> Study:
    return replace(
        study,
        known=known,
        data=replace(study.data, reading=replace(study.data.reading, columns=columns)),
        search=replace(study.search, ranges=ranges, configurations_of=counts),
        training=replace(study.training, imagination=imagination),
        evaluation=replace(study.evaluation, settings=settings),
    )


_PAIRS = "--ranges ilbrl.lam 'uniform(1, 4)' all.dtype bfloat16"


def tune(study: Study, run: RunOptions, command: str) -> int:
    """Run a study and say what came of it."""
    result = run_study(
        study, out=run.out, executor=run.executor, address=run.address, change=run.change, again=run.again,
        dashboards=run.dashboards, quiet=run.quiet or run.json, command=command,
    )  # fmt: skip
    found = verdict(read_run(result.folder))
    shown = f"`ilbrl report {result.folder}` shows it with pictures."
    said = [f"The verdict: {found.call}.", *found.how_good, shown]
    text = f"{as_text(result)}\n{' '.join(said)}"
    print(json.dumps(to_plain(as_json(result, found)), indent=1) if run.json else text)
    return int(found.grade == "bad")


def as_json(result: StudyResult, found: Verdict) -> dict[str, Any]:
    trust = result.tuning.trust
    return {
        "folder": str(result.folder),
        "verdict": {"grade": found.grade, "headline": found.headline, "in_short": found.in_short},
        "trust": None if trust is None else {"verdict": trust.verdict, "reasons": trust.reasons},
        "selection": result.selection,
        "final": result.final,
    }


def as_text(result: StudyResult) -> str:
    """What was selected and why, how far to trust it, and its true score where there is one."""
    overall, trust = result.selection.overall, result.tuning.trust
    if overall is None:
        return result.nothing or "Nothing was selected."
    chosen = result.selection.algorithms[overall.algorithm]
    lines = [
        f"Selected: {overall.algorithm}, configuration {overall.configuration} — {overall.reason}.",
        f"Hyper-parameters: {_settings(chosen.hyperparameters)}",
        *([] if chosen.file is None else [f"Deployed: {chosen.file}."]),
        "",
        *_scoreboard(result),
        *([] if trust is None or trust.verdict is None else ["", f"Offline values: {SAYINGS[trust.verdict]}."]),
        *(f"  - {reason}" for reason in (trust.reasons if trust else ())),
        "",
        f"The policy: {result.folder / (overall.policy or '')}",
    ]
    return "\n".join(map(printable, lines))


def _scoreboard(result: StudyResult) -> list[str]:
    """A line per algorithm and known policy: offline value, what its own episodes say, what was played."""
    evaluator, final = result.tuning.chosen_evaluator, result.final or Scores()
    scored = any(score.score is not None for score in final.scores)
    clones = any(known.clone for known in result.tuning.known.values())
    true = f"true {'score' if scored else 'return'}" if result.final else ""
    lines = [_row("", "offline value", "its log's own" if clones else "its episodes", true)]
    for name, entry in result.selection.algorithms.items():
        lines.append(_row(name, _offline(result, entry), "", _number(true_score(result, name, scored))))
    for name, known in (evaluator.policies if evaluator else {}).items():
        reference = final.references.get(result.roles.get(name, name))
        true = None if reference is None else reference.true_score if scored else reference.true_return
        lines.append(_row(f"({name})", number(known.estimate), _number(known.truth), _number(true)))
    if result.tuning.quantity:
        lines.append(f"Offline value: {result.tuning.quantity}.")
    returns = {name: entry.to_deploy.task_return for name, entry in result.selection.algorithms.items()}
    if told := [f"{name} {number(value)}" for name, value in returns.items() if value is not None]:
        lines.append(f"Return by the logs' rewards in the same imagined episodes: {', '.join(told)}.")
    return [*lines, *(score_notes([final.task or ""]) if scored else [])]


def true_score(result: StudyResult, algorithm: str, scored: bool = True) -> float | None:
    """Score, or return, of an algorithm's best.safetensors; of all its seeds where that file was not played."""
    file = score_to_deploy(result.selection, result.final, algorithm)
    found = [s for s in (result.final or Scores()).scores if s.algorithm == algorithm]
    values = [v for s in ([file] if file else found) if (v := s.score if scored else s.return_mean) is not None]
    return sum(values) / len(values) if values else None


def _offline(result: StudyResult, entry: Chosen) -> str:
    """The value of the file to deploy, no surer than the estimator was on the known policies."""
    error = math.hypot(entry.to_deploy.value_std_error or 0.0, known_miss(result.tuning) or 0.0)
    return plus_minus(entry.to_deploy.value, NORMAL_95 * error if error else None)


def _number(value: float | None) -> str:
    return "" if value is None else number(value)


def _row(name: str, *cells: str) -> str:
    return (f"{name:<18}" + "".join(f"{cell:>17}" for cell in cells)).rstrip()


def _settings(table: dict[str, Any]) -> str:
    return ", ".join(f"{k} {v:.3g}" if isinstance(v, float) else f"{k} {v}" for k, v in table.items())


def _reveal(words: list[str], usage: str) -> int:
    folder, options = Path(words[0] if words else "-"), dict(zip(words[1::2], words[2::2]))
    known = options.keys() <= {"--task", "--episodes"} and options.get("--episodes", "1").isdecimal()
    if str(folder).startswith("-") or len(words) != 1 + 2 * len(options) or not known:
        raise IlbrlError(
            "--reveal takes one run folder, --episodes with a number, and --task where a task is a module of your"
            f" own\n\n{usage}"
        )
    if (task := options.get("--task")) is not None:
        if (played := Study.load(folder / "study.toml").task) != task:
            raise IlbrlError(f"--task {task}: the study in {folder} was played in {played}")
        import_module_of(task)  # typed here, and so trusted
    scores = reveal(folder, episodes=int(options["--episodes"]) if "--episodes" in options else None)
    best = sorted(scores.scores, key=lambda s: -math.inf if s.return_mean is None else s.return_mean, reverse=True)[:5]
    print(f"{len(scores.scores)} candidates that were not selected were played; the best of them:")
    for s in best:
        score = "" if s.score is None else f"  score {s.score:.1f}"
        whose = f"{s.algorithm}, configuration {s.configuration}, seed {s.policy_seed}"
        print(f"  {whose}: return {number(s.return_mean)}{score}")
    print(f"All of them: {folder / 'reveal.json'}")
    return 0
