"""Records on disk: there and back, and every way in which a file can be wrong is one sentence."""

import math
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import pytest

from ilbrl.base import records
from ilbrl.base.errors import IlbrlError


@dataclass(frozen=True)
class Inner:
    value: float
    name: str = "nobody"


@dataclass(frozen=True)
class Outer:
    count: int = 1
    rate: float | None = None
    kind: Literal["a", "b"] = "a"
    flag: bool = False
    pair: tuple[float, float] | None = None
    inner: Inner | None = None
    many: dict[str, Inner] = field(default_factory=dict)
    items: tuple[int, ...] = ()
    free: dict[str, Any] = field(default_factory=dict)


class Row(NamedTuple):
    name: str
    number: int
    value: float | None
    settings: dict[str, Any] | None = None


WHOLE = Outer(3, 0.5, "b", True, (0.0, 1.0), Inner(2.0), {"x": Inner(3.0, "y")}, (1, 2), {"deep": {"er": [1, None]}})


def test_json_there_and_back(tmp_path):
    records.write_json(tmp_path / "a.json", WHOLE)
    assert records.read_json(tmp_path / "a.json", Outer) == WHOLE


def test_what_is_not_finite_is_null(tmp_path):
    records.write_json(tmp_path / "a.json", Outer(rate=math.nan, free={"x": [math.inf, np.float32(2.0), np.arange(2)]}))
    found = records.read_json(tmp_path / "a.json", Outer)
    assert found.rate is None
    assert found.free == {"x": [None, 2.0, [0, 1]]}


def test_csv_there_and_back(tmp_path):
    rows = [Row("a, b", 1, 0.1), Row("c", -2, None, {"lam": 0.25}), Row("d\ne", 3, 1e-300)]
    records.write_csv(tmp_path / "a.csv", Row, [*rows, ("f", 4, math.inf, None)])
    assert records.read_csv(tmp_path / "a.csv", Row) == [*rows, Row("f", 4, None)]


DEEP = 200_000
WRONG = {
    "an integer of 5,000 digits": '{"count": ' + "9" * 5000 + "}",
    "10 to the 400": '{"count": 1' + "0" * 400 + "}",
    "10 to the 400 as a number": '{"rate": 1' + "0" * 400 + "}",
    "a lone surrogate": '{"inner": {"value": 1, "name": "\\ud800"}}',
    "a lone surrogate as a name": '{"many": {"\\ud800": {"value": 1, "name": "x"}}}',
    "a lone surrogate anywhere": '{"free": {"x": ["\\udfff"]}}',
    "a huge number anywhere": '{"free": {"x": 1' + "0" * 400 + "}}",
    "nested deep": "[" * DEEP,
    "nested deep in a field": '{"free": ' + '{"a":' * 900 + "1" + "}" * 900 + "}",
    "not an object": "[]",
    "an infinite number": '{"inner": {"value": 1e999, "name": "x"}}',
    "text for a number": '{"count": "three"}',
    "true for a number": '{"count": true}',
    "a number for truth": '{"flag": 1}',
    "another word": '{"kind": "c"}',
    "a list for an object": '{"inner": []}',
    "an object for a list": '{"items": {}}',
    "too short a list": '{"pair": [1.0]}',
    "cut off": '{"count": 1',
    "nothing": "",
}


@pytest.mark.parametrize("wrong", WRONG)
def test_damaged_json_is_one_sentence(tmp_path, wrong):
    path = tmp_path / "a.json"
    path.write_text(WRONG[wrong])
    with pytest.raises(IlbrlError, match=r"a\.json: .*; remove it") as said:
        records.read_json(path, Outer, "remove it")
    assert len(str(said.value)) < 500
    notes: list[str] = []
    try:
        found = records.from_json_tolerantly(Outer, records.parse_json(WRONG[wrong], "a.json"), "a.json", notes.append)
    except IlbrlError:
        return  # no JSON at all
    assert len(notes) == 1
    assert found in (None, Outer(), Outer(inner=Inner(1.0)))  # what does not fit is left out


def test_tolerant_reading_keeps_what_fits():
    notes = []
    plain = {"count": "three", "rate": 2, "many": {"x": {"value": 1}, "y": {"name": "lacks its value"}}, "other": 1}
    found = records.from_json_tolerantly(Outer, plain, "a.json", notes.append)
    assert found == Outer(rate=2.0, many={"x": Inner(1.0)})
    assert notes == [
        "a.json: count: must be a whole number, got 'three'; it is left out.",
        "a.json: many[y].value: not there; it is left out.",
    ]


def test_half_a_pair_is_no_pair():
    said = []
    assert records.from_json_tolerantly(Outer, {"count": 2, "pair": [1.0, "x"]}, "a.json", said.append) == Outer(2)
    assert said == [
        "a.json: pair[1]: must be a number, got 'x'; it is left out.",
        "a.json: pair: must be a list of 2, of which 1 can be used; it is left out.",
    ]


def test_strict_reading_asks_for_every_field():
    with pytest.raises(IlbrlError, match=r"^a\.json: rate, kind, flag, .*: not there; remove it$"):
        records.from_json(Outer, {"count": 1}, "a.json", "remove it")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("name,number,value\na,1,x\n", r"line 2: could not convert string to float: 'x'"),
        ("name,number,value\na,1\n", r"line 2: the row ends early"),
        ("name,number,value\na,,1\n", r"line 2: number is empty"),
        (f"name,number,value\na,{'9' * 5000},1\n", r"line 2: "),
        ("name,number,value\na,1" + "0" * 400 + ",1\n", r"line 2: an integer of more than 64 bits"),
        ("name,number,value,settings\na,1,1,[1]\n", r"line 2: must be an object, got a list"),
        ("name,number,value,settings\na,1,1," + "[" * DEEP + "\n", r"line "),
        ("name,value\na,1\n", r"has no column number"),
        ("", r"has no column name, number, value"),
    ],
)
def test_damaged_csv_is_one_sentence(tmp_path, text, said):
    path = tmp_path / "a.csv"
    path.write_text(text)
    with pytest.raises(IlbrlError, match=rf"a\.csv: {said}"):
        records.read_csv(path, Row)


def test_tolerant_csv_keeps_the_rows_that_fit(tmp_path):
    notes = []
    (tmp_path / "a.csv").write_text("name,number,value\na,1,inf\nb,x,2\nc,3,4\nd")
    assert records.read_csv(tmp_path / "a.csv", Row, notes.append) == [Row("a", 1, None), Row("c", 3, 4.0)]
    (said,) = notes
    assert said.startswith("a.csv: 2 unreadable rows, first in line 3 (invalid literal")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("count = " + "9" * 5000, "not a TOML file"),
        ("count = 1" + "0" * 400, "count: must be a whole number of at most 64 bits, got an integer of 1329 bits"),
        ("count = " + "[" * DEEP, "not a TOML file"),
        ("free." + "a." * 5000 + "b = 1", "is nested too deep"),
        ("rate = nan\ncount = inf", "count: must be a whole number, got inf"),
        ("free.x = 2020-01-01", "free.x: must be text, a number or a list"),
        ("cuont = 1", "cuont: no such field; there are count, rate"),
        ("inner = 3", r"inner: is a table of settings, not 3; write \[inner\] above them"),
    ],
)
def test_a_study_like_table(tmp_path, text, said):
    (tmp_path / "a.toml").write_text(text)
    with pytest.raises(IlbrlError, match=rf"a\.toml: {said}"):
        records.read_toml(tmp_path / "a.toml", Outer)


def test_toml_there_and_back(tmp_path):
    (tmp_path / "a.toml").write_text("free.x.y = [64, 64]\n[free.z]\n'the w' = 0.5\n")
    found = records.read_toml(tmp_path / "a.toml", Outer)
    assert found.free == {"x.y": "[64, 64]", "z.the w": "0.5"}
    records.write_toml(tmp_path / "b.toml", found)
    assert records.read_toml(tmp_path / "b.toml", Outer) == found


def test_what_is_no_regular_file_is_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    long = tmp_path / ("x" * 300)
    for path in (tmp_path / "pipe", Path("/dev/zero"), tmp_path, long, Path("a\0b"), tmp_path / "nowhere"):
        with pytest.raises(IlbrlError, match=r"is not a regular file|cannot be read|is not a text file"):
            records.read_text(path)
    (tmp_path / "bytes").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(IlbrlError, match="is not a text file"):
        records.read_text(tmp_path / "bytes")


def test_text_that_cannot_be_written_leaves_the_file_alone(tmp_path):
    records.write_json(tmp_path / "a.json", WHOLE)
    with pytest.raises(IlbrlError, match="not Unicode"):
        records.write_json(tmp_path / "a.json", Outer(free={"x": "\ud800"}))
    assert records.read_json(tmp_path / "a.json", Outer) == WHOLE


def test_differences_say_what_and_how():
    changed = Outer(count=4, inner=Inner(3.0), free={"deep": 1})
    assert records.differences(Outer(inner=Inner(2.0)), changed) == [
        "count: 1 → 4",
        "inner.value: 2.0 → 3.0",
        "free.deep: not set → 1",
    ]
