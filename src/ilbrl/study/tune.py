"""A study in one call, for Python and for the command line:

ilbrl.tune(expert="demos.csv", logs="logs.csv", out="runs/mine").policy
ilbrl.tune("small", task="walker2d", seeds=3, out="runs/walker2d")
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

from ilbrl.base.errors import IlbrlError
from ilbrl.base.records import from_table, to_plain
from ilbrl.data import Dataset
from ilbrl.envs import import_module_of
from ilbrl.study.executors import spread_over_cores
from ilbrl.study.run import StudyResult, run
from ilbrl.study.study import OWN, Study


def tune(
    study: str | Path | Study = OWN,
    *,
    out: str | Path,
    executor: str = "local",
    address: str | None = None,
    change: bool = False,
    again: bool = False,
    dashboards: Sequence[str] = (),
    quiet: bool = False,
    command: str | None = None,
    **changes: Any,
) -> StudyResult:
    """Tune, train, evaluate offline and select, without an environment; play the selected policies once at the end.

    study: a study, a TOML file, or a preset; by default the one for logs of your own.
    out: the run folder; the same call continues there.
    executor: who does the jobs: this machine ("local") or a Ray cluster ("ray").
    address: of the Ray cluster; by default Ray starts on this machine.
    change: go on in a folder whose study differed; only what depends on the difference is computed again.
    again: repeat the final evaluation although it was done, which the audit records.
    dashboards: where training metrics go besides the run folder: tensorboard, wandb, mlflow.
    changes: settings of the study by name, as the options of `ilbrl tune` (expert, logs, task, seeds, updates …).

    Where JAX is not in use yet, every core becomes a device, so that a population fills them.
    """
    if address is not None and executor != "ray":
        raise IlbrlError("the address is of a Ray cluster: add --executor ray (executor='ray')")
    found = changed(study if isinstance(study, Study) else Study.load(study), changes)
    if found.task is not None and "task" in changes:
        import_module_of(found.task)  # named by the caller, and so trusted; what only stands in a file is not
    spread_over_cores()
    return run(
        found, Path(out), executor=executor, change=change, again=again, dashboards=dashboards, quiet=quiet,
        command=command, **({"address": address} if executor == "ray" else {}),
    )  # fmt: skip


def changed(study: Study, changes: Mapping[str, Any]) -> Study:
    """The study with some settings changed, each by its name alone; a table gets entries beside those it has."""
    table, places = to_plain(study), _places(study)
    for name, value in changes.items():
        if name not in places:
            raise IlbrlError(f"a study has no setting {name!r}; there are {', '.join(places)}")
        if isinstance(value, Dataset):
            raise IlbrlError(f"{name}: a study reads files; ilbrl.data.save(dataset, {name + '.npz'!r}) writes one")
        home = table
        for part in places[name]:
            home = home[part]
        home[name] = home[name] | to_plain(value) if isinstance(value, Mapping) else to_plain(value)
    return from_table(Study, table, "the study")


def _places(record: Any, path: tuple[str, ...] = ()) -> dict[str, tuple[str, ...]]:
    """Every setting by its name, and the parts of a study that lead to it. No two have the same name."""
    found: dict[str, tuple[str, ...]] = {}
    for field in fields(record):
        found[field.name] = path
        value = getattr(record, field.name)
        found |= _places(value, (*path, field.name)) if is_dataclass(value) else {}
    return found
