"""Loggers: one record in, and the same numbers found again by the dashboards' own readers."""

import errno
import json
import sys
from contextlib import nullcontext
from importlib.machinery import ModuleSpec
from types import SimpleNamespace

import numpy as np
import pytest

from ilbrl.base.errors import IlbrlError
from ilbrl.learning.loggers import DASHBOARDS, json_lines, require_dashboards, together

RECORDS = [
    {"update": n, "updates_per_second": 10.0, "diverged": np.array([False, True]), "loss": np.array([1.0 / n, 2.0 / n])}
    for n in (1, 2)
]
MEMBERS = ["configuration0-seed0", "configuration0-seed1"]


def test_together_tells_all():
    first, second = [], []
    log = together(first.append, second.append)
    log(RECORDS[0])
    assert first == second == [RECORDS[0]]


def test_json_lines_replace_what_a_continued_run_repeats(tmp_path):
    path = tmp_path / "metrics.jsonl"
    for record in RECORDS:
        json_lines(path)(record)
    json_lines(path)(RECORDS[1])
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line["update"] for line in lines] == [1, 2]
    assert lines[1]["loss"] == [0.5, 1.0]


def test_json_lines_keep_other_groups_of_a_population_that_is_continued(tmp_path):
    path, groups = tmp_path / "metrics.jsonl", [(first, update) for first in (0, 2) for update in (200, 400, 600)]
    log = json_lines(path)
    for first, update in groups:
        log({**RECORDS[0], "first_member": first, "update": update})
    json_lines(path)({**RECORDS[0], "first_member": 2, "update": 400})  # killed after the second group's first 200
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [(line["first_member"], line["update"]) for line in lines] == groups[:-1]


def test_lines_that_are_not_ours_are_left_out(tmp_path):
    path = tmp_path / "metrics.jsonl"
    json_lines(path)(RECORDS[0])
    path.write_bytes(path.read_bytes() + b'\xff\x00\n{"update": "x"}\n[1]\n' + b"[" * 200_000 + b"\n")
    json_lines(path)(RECORDS[1])
    assert [json.loads(line)["update"] for line in path.read_text().splitlines()] == [1, 2]


def test_json_lines_are_json_where_a_member_has_diverged(tmp_path):
    pandas = pytest.importorskip("pandas")
    json_lines(tmp_path / "metrics.jsonl")({**RECORDS[0], "loss": np.array([np.nan, 2.0])})
    assert "NaN" not in (tmp_path / "metrics.jsonl").read_text()
    assert pandas.read_json(tmp_path / "metrics.jsonl", lines=True)["loss"][0] == [None, 2.0]


def test_json_lines_survive_a_disk_that_is_full_when_they_are_continued(tmp_path, monkeypatch):
    path = tmp_path / "metrics.jsonl"
    for record in RECORDS:
        json_lines(path)(record)

    def half_written(self, text, **how):
        with self.open("w") as file:
            file.write(text[:10])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(type(path), "write_text", half_written)
    with pytest.raises(IlbrlError, match=r"metrics\.jsonl: cannot be written"):
        json_lines(path)(RECORDS[1])
    assert [json.loads(line)["update"] for line in path.read_text().splitlines()] == [1, 2]


@pytest.mark.filterwarnings("ignore")  # the library's own
def test_tensorboard(tmp_path):
    pytest.importorskip("tensorboardX")
    from tensorboardX.proto.event_pb2 import Event  # pyright: ignore[reportAttributeAccessIssue]

    with DASHBOARDS["tensorboard"](tmp_path, "bc", MEMBERS) as log:
        for record in RECORDS:
            log(record)
    (file,) = (tmp_path / "bc" / MEMBERS[1]).iterdir()
    found, data = {}, file.read_bytes()
    while data:  # a record: length (8 bytes), its checksum (4), the event, its checksum (4)
        length = int.from_bytes(data[:8], "little")
        event = Event.FromString(data[12 : 12 + length])
        found |= {(value.tag, event.step): value.simple_value for value in event.summary.value}
        data = data[16 + length :]
    assert found[("loss", 2)] == 1.0
    assert found[("diverged", 1)] == 1.0


@pytest.mark.filterwarnings("ignore")
def test_mlflow(tmp_path, monkeypatch):
    pytest.importorskip("mlflow")
    from mlflow import MlflowClient  # pyright: ignore[reportMissingImports]

    monkeypatch.setenv("MLFLOW_TRACKING_URI", tmp_path.as_uri())  # files need no database library
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    with DASHBOARDS["mlflow"](tmp_path, "bc", MEMBERS) as log:
        for record in RECORDS:
            log(record)
    reader = MlflowClient(tracking_uri=tmp_path.as_uri())
    experiment = reader.get_experiment_by_name("ilbrl")
    assert experiment is not None
    (run,) = reader.search_runs([experiment.experiment_id])
    assert run.data.metrics[f"{MEMBERS[0]}/loss"] == 0.5


def test_wandb_offline(tmp_path, monkeypatch):
    pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    with DASHBOARDS["wandb"](tmp_path, "bc", MEMBERS) as log:
        for record in RECORDS:
            log(record)
    assert list(tmp_path.rglob("*.wandb"))


def test_a_group_of_a_population_is_told_under_the_names_of_its_members(tmp_path, monkeypatch):
    told = []
    run = SimpleNamespace(log=lambda record, step: told.append(record))
    monkeypatch.setitem(sys.modules, "wandb", SimpleNamespace(init=lambda **options: nullcontext(run)))
    with DASHBOARDS["wandb"](tmp_path, "bc", ["a", "b", *MEMBERS]) as log:
        log({**RECORDS[0], "first_member": 2})
    (record,) = told
    assert {name: value for name, value in record.items() if name.endswith("/loss")} == {
        f"{MEMBERS[0]}/loss": 1.0,
        f"{MEMBERS[1]}/loss": 2.0,
    }
    assert {name.rpartition("/")[2] for name in record} == {"updates_per_second", "diverged", "loss"}


class FakeRun:
    """A Weights & Biases run whose connection breaks at the second record."""

    def __init__(self):
        self.records = []

    def __enter__(self):
        return self

    def __exit__(self, *error):
        raise ConnectionError("nobody listens")

    def log(self, record, step):
        self.records.append(step)
        if step == 2:
            raise ConnectionError("the line is cut")


def test_a_dashboard_that_fails_warns_once_and_training_goes_on(tmp_path, monkeypatch, capsys):
    run = FakeRun()
    monkeypatch.setitem(sys.modules, "wandb", SimpleNamespace(init=lambda **options: run))
    with DASHBOARDS["wandb"](tmp_path, "bc", MEMBERS) as log:
        for record in [*RECORDS, *RECORDS]:
            log(record)
    assert run.records == [1, 2]
    said = "warning: Weights & Biases failed (ConnectionError: the line is cut); training goes on without it\n"
    assert capsys.readouterr().err == said


def test_a_dashboard_that_does_not_even_open(tmp_path, monkeypatch, capsys):
    def init(**options):
        raise RuntimeError("no such project")

    monkeypatch.setitem(sys.modules, "wandb", SimpleNamespace(init=init))
    with DASHBOARDS["wandb"](tmp_path, "bc", MEMBERS) as log:
        log(RECORDS[0])
    assert capsys.readouterr().err.count("no such project") == 1


def test_an_error_of_the_training_itself_passes_through(tmp_path):
    pytest.importorskip("tensorboardX")
    with pytest.raises(KeyError, match="of the training"), DASHBOARDS["tensorboard"](tmp_path, "bc", MEMBERS):
        raise KeyError("of the training")


def test_logins_are_checked_before_anything_starts(monkeypatch):
    def refuse():
        raise ValueError("api_key not configured")

    spec = ModuleSpec("wandb", None)
    monkeypatch.setitem(sys.modules, "wandb", SimpleNamespace(login=refuse, __spec__=spec))
    monkeypatch.delenv("WANDB_MODE", raising=False)
    with pytest.raises(IlbrlError, match=r"api_key not configured\); `wandb login`"):
        require_dashboards(["wandb"])
    monkeypatch.setitem(sys.modules, "wandb", SimpleNamespace(login=lambda: False, __spec__=spec))
    with pytest.raises(IlbrlError, match="not logged in"):
        require_dashboards(["wandb"])
    monkeypatch.setenv("WANDB_MODE", "offline")
    require_dashboards(["wandb"])
    with pytest.raises(IlbrlError, match="no dashboard 'grafana': there are tensorboard, wandb, mlflow"):
        require_dashboards(["grafana"])


def test_a_missing_library_is_named(monkeypatch, tmp_path):
    for name, library in {"tensorboard": "tensorboardX", "wandb": "wandb", "mlflow": "mlflow"}.items():
        monkeypatch.setitem(sys.modules, library, None)
        with pytest.raises(IlbrlError, match=rf'pip install "ilbrl\[{name}\]"'):
            require_dashboards([name])
        with pytest.raises(IlbrlError, match=rf'pip install "ilbrl\[{name}\]"'):
            DASHBOARDS[name](tmp_path, "bc", MEMBERS).__enter__()
