"""Where training metrics go. A logger is a callable that takes one flat record per chunk of updates."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from ilbrl.base.errors import IlbrlError
from ilbrl.base.files import append, written_whole

Log = Callable[[dict[str, Any]], None]
"""Takes {"update": int, "updates_per_second": float, "diverged": [P] bool, metric: [P] floats, …}."""


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
        if pending and path.exists():
            kept = [line for line in path.read_text().splitlines(keepends=True) if _before(line, record["update"])]
            with written_whole(path) as partial:
                partial.write_text("".join(kept))
        pending = False
        append(path, json.dumps(record, default=lambda value: np.asarray(value).tolist()))

    return log


def _before(line: str, update: int) -> bool:
    try:
        return json.loads(line)["update"] < update
    except (json.JSONDecodeError, KeyError):  # the line being written when the run was killed
        return False


# --- other people's dashboards: extras, imported when asked for, open for the length of a `with` block ----------------


@contextmanager
def tensorboard(folder: Path, name: str, members: Sequence[str]) -> Iterator[Log]:
    """One TensorBoard run per member, under folder/name."""
    try:
        from tensorboardX import SummaryWriter
    except ModuleNotFoundError:
        raise IlbrlError('logging to TensorBoard needs tensorboardX: pip install "ilbrl[tensorboard]"') from None
    writers = [SummaryWriter(str(folder / name / member)) for member in members]

    def log(record: dict[str, Any]) -> None:
        for writer, scalars in zip(writers, _of_each(record, len(members))):
            for metric, value in scalars.items():
                writer.add_scalar(metric, value, record["update"])

    try:
        yield log
    finally:
        for writer in writers:
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


DASHBOARDS: dict[str, Callable[[Path, str, Sequence[str]], AbstractContextManager[Log]]] = {
    "tensorboard": tensorboard,
    "wandb": wandb,
    "mlflow": mlflow,
}


def _named(record: dict[str, Any], members: Sequence[str]) -> dict[str, float]:
    """MEMBER/METRIC → value."""
    pairs = zip(members, _of_each(record, len(members)))
    return {f"{member}/{metric}": value for member, scalars in pairs for metric, value in scalars.items()}


def _of_each(record: dict[str, Any], members: int) -> list[dict[str, float]]:
    """Each member's scalars; what is one number for all goes to each."""
    columns = {k: np.broadcast_to(np.asarray(v, np.float64), (members,)) for k, v in record.items() if k != "update"}
    return [{name: float(column[p]) for name, column in columns.items()} for p in range(members)]
