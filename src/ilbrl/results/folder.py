"""A run folder, read whole: everything the report is made of, and what is missing from it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from ilbrl.base.errors import IlbrlError
from ilbrl.base.records import Note, from_json_tolerantly, parse_json, read_csv, read_text
from ilbrl.results.schema import (
    Audit,
    ChoicesRecord,
    DataRecord,
    Reference,
    Scores,
    Selection,
    TriedSetting,
    TuningRecord,
)
from ilbrl.results.tables import (
    Candidate,
    Curve,
    CurveRow,
    ResultRow,
    ValueRow,
    all_scores,
    as_selected,
    candidates_of_rows,
    curves,
    with_scores,
)
from ilbrl.results.vouching import Vouched, vouch

T = TypeVar("T")


@dataclass(frozen=True)
class Run:
    """A run folder. What it lacks is empty or None here, and has a sentence in `missing`."""

    path: Path
    name: str
    task: str
    study: str | None  # study.toml
    candidates: tuple[Candidate, ...]
    curves: dict[tuple[str, int, int, str], Curve]  # algorithm, configuration, policy seed, metric
    tuning_values: dict[tuple[str, str, int], Curve]  # known policy, estimator's configuration, evaluation seed
    candidate_values: dict[tuple[str, int, int, int], Curve]  # algorithm, configuration, policy seed, evaluation seed
    audit: Audit
    data: DataRecord
    tuning: TuningRecord
    selection: Selection
    final: Scores | None
    reveal: Scores | None
    missing: tuple[str, ...]
    vouched: dict[str, Vouched]  # file → whether it is what the study wrote; one that is not was left out
    choices: ChoicesRecord | None = None  # of discrete actions

    @property
    def title(self) -> str:
        """Its name and task; without an environment the task is called as the study."""
        return self.name if self.name == self.task else f"{self.name} ({self.task})"

    @property
    def unchecked(self) -> tuple[str, ...]:
        """The files that are shown although nothing vouches for them."""
        return tuple(name for name, each in self.vouched.items() if each.state == "unchecked")

    @property
    def algorithms(self) -> tuple[str, ...]:
        """In the order of results.csv, which is the study's."""
        return tuple(dict.fromkeys(candidate.algorithm for candidate in self.candidates))

    @property
    def played(self) -> bool:
        """Whether selected policies have been in an environment, even where no candidate is left to show it."""
        return self.final is not None and bool(self.final.scores)

    @property
    def references(self) -> dict[str, Reference]:
        """`expert` and `logs`; measured where an environment was played, else as logged."""
        measured = (self.final.references if self.final else {}) | (self.reveal.references if self.reveal else {})
        names = self.data.references | measured
        return {name: _merged(self.data.references.get(name), measured.get(name)) for name in names}


def _merged(logged: Reference | None, measured: Reference | None) -> Reference:
    known = {name: value for name, value in vars(measured or Reference()).items() if value not in (None, ())}
    return replace(logged or Reference(), **known)


def reference_value(reference: Reference, scored: bool) -> float | None:
    """Its score, or its return where the task has no scores; played before logged."""
    played = reference.true_score if scored else reference.true_return
    logged = reference.logged_score if scored else reference.logged_return
    return logged if played is None else played


def read_runs(folders: Sequence[str | Path]) -> tuple[Run, ...]:
    """All run folders, under names that tell them apart."""
    runs = tuple(read_run(folder) for folder in folders)
    if not runs:
        raise IlbrlError("a report needs at least one run folder: name what `ilbrl tune` wrote")
    named = Counter(run.name for run in runs)
    return tuple(run if named[run.name] == 1 else replace(run, name=str(run.path)) for run in runs)


def read_run(folder: str | Path) -> Run:
    """A run folder as far as it goes; raises only where there is no such folder, or it holds nothing of a study."""
    folder = Path(folder)
    if not _is_folder(folder):
        raise IlbrlError(f"{folder}: no such folder; name a run folder that `ilbrl tune` wrote")
    missing: list[str] = []
    note = missing.append
    audit = _record(folder / "audit.json", Audit, note, "where the results come from is not recorded")
    vouched = vouch(folder, audit or Audit())
    why = "the study cannot be reproduced from this folder alone"
    study = _believed(folder / "study.toml", vouched, note, lambda path: _read(path, read_text, note, why))

    def believed(name: str, kind: type[T], why_it_matters: str) -> T | None:
        return _believed(folder / name, vouched, note, lambda path: _record(path, kind, note, why_it_matters))

    def rows_of(name: str, kind: type[T], why_it_matters: str) -> list[T]:
        return _believed(folder / name, vouched, note, lambda path: _table(path, kind, note, why_it_matters)) or []

    rows = rows_of("results.csv", ResultRow, "there are no candidates to show")
    data = believed("data.json", DataRecord, "the logs cannot be described")
    tuning = believed("tuning.json", TuningRecord, "how far to trust the offline values is not known")
    selection = believed("selection.json", Selection, "nothing has been selected yet")
    if not rows and study is None and all(part is None for part in (audit, data, tuning, selection)):
        raise IlbrlError(f"{folder}: none of a study's files is here; name a run folder that `ilbrl tune` wrote")
    final, reveal = (  # they belong only to runs that played: their absence is no fault
        believed(name, Scores, f"the true scores of the {whose} cannot be shown") if _exists(folder / name) else None
        for name, whose in (("final.json", "selected policies"), ("reveal.json", "other candidates"))
    )
    discrete = _exists(folder / "choices.json")  # written only where actions are
    choices = believed("choices.json", ChoicesRecord, "which actions are taken is unknown") if discrete else None
    metrics = rows_of("curves.csv", CurveRow, "training curves cannot be drawn")
    values = rows_of("values.csv", ValueRow, "the course of the offline values cannot be drawn")
    return Run(
        folder,
        (rows[0].study if rows else None) or folder.resolve().name,
        (rows[0].task if rows else None) or (final.task if final else None) or "task unknown",
        study,
        tuple(as_selected(with_scores(candidates_of_rows(rows), all_scores(final, reveal)), selection or Selection())),
        curves(metrics, "algorithm", "configuration", "policy_seed", "metric"),
        _values(values, "tuning", ("policy", "ope_configuration", "evaluation_seed"), note),
        _values(values, "candidates", ("algorithm", "configuration", "policy_seed", "evaluation_seed"), note),
        audit or Audit(),
        data or DataRecord(),
        tuning or TuningRecord(),
        selection or Selection(),
        final,
        reveal,
        tuple(missing),
        vouched,
        choices,
    )


def remedy(path: Path) -> str:
    """The way out where a file of a run folder is damaged and a study needs it."""
    parents = [parent.parent.name for parent in path.parents]
    if "jobs" in parents:
        job = path.parents[parents.index("jobs")]
        return f"remove the folder {job} and give the same command again, which does this job anew"
    if path.name in ("audit.json", "final.json"):
        return "restore it from a copy, or use another folder"
    return "remove it: the command that made it makes it again"


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except (OSError, ValueError):  # a name that is too long, or has a NUL in it
        return False


def _read(path: Path, read: Callable[[Path], T], note: Note, why_it_matters: str) -> T | None:
    """What `read` makes of a file, or a note that begins with its name and says why that matters."""
    try:
        return read(path)
    except IlbrlError as error:
        what = "is not there" if not _exists(path) else str(error).removeprefix(f"{path}: ").removeprefix(path.name)
        note(f"{path.name} {what.removeprefix(': ')}: {why_it_matters}.")
    return None


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:
        return True


def _record(path: Path, kind: type[T], note: Note, why_it_matters: str) -> T | None:
    plain = _read(path, lambda path: parse_json(read_text(path), str(path)), note, why_it_matters)
    return None if plain is None else from_json_tolerantly(kind, in_todays_words(plain), path.name, note)


def _table(path: Path, kind: type[T], note: Note, why_it_matters: str) -> list[T]:
    before: list[str] = []
    rows = _read(path, lambda path: read_csv(path, kind, before.append), note, why_it_matters)
    for sentence in before:
        note(sentence)
    if rows == [] and not before and kind is not ValueRow:  # not every estimator has values over updates
        note(f"{path.name} has no rows: {why_it_matters}.")
    return rows or []


def _believed(path: Path, vouched: Mapping[str, Vouched], note: Note, read: Callable[[Path], T]) -> T | None:
    """What a file says, unless it disagrees with the audit or with its job."""
    found = vouched.get(path.name)
    if found is None or found.state != "disagrees":
        return read(path)
    note(f"{found.why} What it says is left out; the command that made it makes it again.")
    return None


def _values(rows: Sequence[ValueRow], stage: str, key: tuple[str, ...], note: Note) -> dict[tuple, Curve]:
    """The curves of one stage; rows that do not say whose they are have no place in one."""
    own = [row for row in rows if row.stage == stage]
    whole = [row for row in own if all(getattr(row, name) is not None for name in key)]
    if left_out := len(own) - len(whole):
        empty = ", ".join(name for name in key if any(getattr(row, name) is None for row in own))
        note(f"values.csv: {left_out} row{'s' * (left_out > 1)} with nothing under {empty}, left out.")
    return curves(whole, *key)


def in_todays_words(plain: Any) -> Any:
    """The content of a JSON file of an older version, by today's names.

    D_X was called exploratory, and the settings of an evaluator stood among its results.
    """
    if not isinstance(plain, dict):
        return plain
    for name in ("datasets", "labels", "references", "data"):
        if isinstance(table := plain.get(name), dict) and "exploratory" in table:
            plain = plain | {name: {"logs" if key == "exploratory" else key: each for key, each in table.items()}}
    for logs in plain["datasets"].values() if isinstance(plain.get("datasets"), dict) else ():
        if isinstance(logs, dict) and logs.get("role") == "exploratory":
            logs["role"] = "logs"
    tried = plain.get("configurations")
    if isinstance(tried, list):
        known = TriedSetting.__dataclass_fields__
        plain = plain | {
            "configurations": [
                {**each, "settings": {name: value for name, value in each.items() if name not in known}}
                if isinstance(each, dict) and "settings" not in each
                else each
                for each in tried
            ]
        }
    return plain
