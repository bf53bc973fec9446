"""Where training metrics go. A logger is a callable that takes one flat record per chunk of updates."""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from ilbrl.base.errors import IlbrlError
from ilbrl.base.files import append, written_whole
from ilbrl.base.records import to_plain

Log = Callable[[dict[str, Any]], None]
"""Takes {"update": int, "first_member": int, "updates_per_second": float, "diverged": [P] bool, metric: [P] floats, …}.

A population that does not fit into memory is logged group by group: the values are those of P members from
`first_member` on.
"""


def together(*logs: Log) -> Log:
    """One logger that tells several."""

    def log(record: dict[str, Any]) -> None:
        for each in logs:
            each(record)

    return log


def json_lines(path: Path) -> Log:
    """Append one JSON object per record, flushed at once: `tail -f` works, and so does pandas.read_json(lines=True).

    A run that was killed may have logged beyond its last checkpoint: lines that the continued run repeats are replaced.
    """
    pending = True

    def log(record: dict[str, Any]) -> None:
        nonlocal pending
        if pending and path.is_file():
            lines = path.read_text(encoding="utf-8", errors="replace").splitlines(keepends=True)
            kept = [line for line in lines if _before(line, record)]
            with written_whole(path) as partial:
                partial.write_text("".join(kept), encoding="utf-8")
        pending = False
        append(path, json.dumps(to_plain({name: np.asarray(value) for name, value in record.items()})))

    return log


def _before(line: str, record: dict[str, Any]) -> bool:
    try:
        return _when(json.loads(line)) < _when(record)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):  # of a killed run, or somebody else's
        return False


def _when(record: dict[str, Any]) -> tuple[int, int]:
    """The order of records: groups of a population are trained one after the other."""
    return record.get("first_member", 0), record["update"]  # older lines do not say whose they are


# --- other people's dashboards: extras, imported when asked for, open for the length of a `with` block ----------------


@contextmanager
def tensorboard(folder: Path, name: str, members: Sequence[str]) -> Iterator[Log]:
    """One TensorBoard run per member, under folder/name."""
    try:
        from tensorboardX import SummaryWriter
    except ModuleNotFoundError:
        raise IlbrlError('logging to TensorBoard needs tensorboardX: pip install "ilbrl[tensorboard]"') from None
    writers = {member: SummaryWriter(str(folder / name / member)) for member in members}

    def log(record: dict[str, Any]) -> None:
        for member, scalars in _of_each(record, members).items():
            for metric, value in scalars.items():
                writers[member].add_scalar(metric, value, record["update"])

    try:
        yield log
    finally:
        for writer in writers.values():
            writer.close()


@contextmanager
def wandb(folder: Path, name: str, members: Sequence[str]) -> Iterator[Log]:
    """One Weights & Biases run, as $WANDB_PROJECT, $WANDB_MODE and the like say; metrics are named MEMBER/METRIC."""
    try:
        import wandb as library  # pyright: ignore[reportMissingImports]
    except ModuleNotFoundError:
        raise IlbrlError('logging to Weights & Biases needs wandb: pip install "ilbrl[wandb]"') from None
    folder.mkdir(parents=True, exist_ok=True)
    with library.init(name=name, dir=str(folder), reinit="create_new") as run:
        yield lambda record: run.log(_named(record, members), step=record["update"])


@contextmanager
def mlflow(folder: Path, name: str, members: Sequence[str]) -> Iterator[Log]:
    """One MLflow run, where $MLFLOW_TRACKING_URI says, else in folder/mlflow.db; metrics are named MEMBER/METRIC."""
    try:
        from mlflow import MlflowClient  # pyright: ignore[reportMissingImports]
    except ModuleNotFoundError:
        raise IlbrlError('logging to MLflow needs mlflow: pip install "ilbrl[mlflow]"') from None
    folder.mkdir(parents=True, exist_ok=True)
    here = f"sqlite:///{folder.resolve()}/mlflow.db"
    client = MlflowClient(tracking_uri=os.environ.get("MLFLOW_TRACKING_URI") or here)
    found = client.get_experiment_by_name("ilbrl")
    experiment = found.experiment_id if found else client.create_experiment("ilbrl")
    run = client.create_run(experiment, run_name=name).info.run_id

    def log(record: dict[str, Any]) -> None:
        for metric, value in _named(record, members).items():
            client.log_metric(run, metric, value, step=record["update"])

    yield log
    client.set_terminated(run)


Dashboard = Callable[[Path, str, Sequence[str]], AbstractContextManager[Log]]
"""Takes a folder, the name of a run and the names of its members. Records come in the order of their updates."""


def _forgiving(name: str, dashboard: Dashboard) -> Dashboard:
    """A dashboard whose failure is one warning, after which it is told nothing more: training goes on without it."""

    @contextmanager
    def opened(folder: Path, run: str, members: Sequence[str]) -> Iterator[Log]:
        failures: list[Exception] = []

        def attempt(action: Callable[[], Any]) -> Any:
            try:
                return action()
            except IlbrlError:  # its library is missing
                raise
            except Exception as error:
                if not failures:
                    said = f"{name} failed ({type(error).__name__}: {error}); training goes on without it"
                    print(f"warning: {said}", file=sys.stderr)
                failures.append(error)

        context = dashboard(folder, run, members)
        tell = attempt(context.__enter__)
        try:
            yield lambda record: None if failures else attempt(lambda: tell(record))
        finally:
            if tell is not None:
                attempt(lambda: context.__exit__(None, None, None))

    return opened


DASHBOARDS: dict[str, Dashboard] = {
    "tensorboard": _forgiving("TensorBoard", tensorboard),
    "wandb": _forgiving("Weights & Biases", wandb),
    "mlflow": _forgiving("MLflow", mlflow),
}


def require_dashboards(names: Sequence[str]) -> None:
    """Before anything is computed: refuse an unknown dashboard, a missing library, a login that does not work."""
    for name in names:
        if name not in DASHBOARDS:
            raise IlbrlError(f"no dashboard {name!r}: there are {', '.join(DASHBOARDS)}")
        library = _LIBRARIES[name]
        if importlib.util.find_spec(library) is None:
            raise IlbrlError(f'logging to {name} needs {library}: pip install "ilbrl[{name}]"')
    if "wandb" in names and os.environ.get("WANDB_MODE") not in ("offline", "disabled", "dryrun"):
        import wandb as library  # pyright: ignore[reportMissingImports]

        _require_answer("Weights & Biases", library.login, "`wandb login` logs in, WANDB_MODE=offline does without")
    if "mlflow" in names and os.environ.get("MLFLOW_TRACKING_URI"):
        from mlflow import MlflowClient  # pyright: ignore[reportMissingImports]

        _require_answer(
            "MLflow",
            lambda: MlflowClient().search_experiments(max_results=1) is not None,
            "is $MLFLOW_TRACKING_URI right? Without it MLflow logs into the run folder",
        )


_LIBRARIES = {"tensorboard": "tensorboardX", "wandb": "wandb", "mlflow": "mlflow"}


def _require_answer(name: str, ask: Callable[[], Any], advice: str) -> None:
    try:
        reason = None if ask() else "not logged in"
    except Exception as error:  # each library has errors of its own
        reason = f"{type(error).__name__}: {error}"
    if reason is not None:
        raise IlbrlError(f"{name} cannot be reached ({reason}); {advice}")


def _named(record: dict[str, Any], members: Sequence[str]) -> dict[str, float]:
    """MEMBER/METRIC → value."""
    of_each = _of_each(record, members).items()
    return {f"{member}/{metric}": value for member, scalars in of_each for metric, value in scalars.items()}


def _of_each(record: dict[str, Any], members: Sequence[str]) -> dict[str, dict[str, float]]:
    """Member → its scalars, of those that the record is about; what is one number for all goes to each."""
    first, count = record.get("first_member", 0), len(record["diverged"])
    scalars = {name: value for name, value in record.items() if name not in ("update", "first_member")}
    columns = {name: np.broadcast_to(np.asarray(value, np.float64), (count,)) for name, value in scalars.items()}
    own = enumerate(members[first : first + count])
    return {member: {name: float(column[p]) for name, column in columns.items()} for p, member in own}
