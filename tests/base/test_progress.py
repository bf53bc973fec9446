"""What is said about the time ahead where no bar can be drawn."""

import itertools

import pytest

from ilbrl.base import progress as module
from ilbrl.base.progress import in_words, progress


def said(capsys, monkeypatch, total: int, quiet: bool = False) -> str:
    """Of steps of 10 units that take a second each, after a first one that takes a minute."""
    clock = itertools.chain([60.0], itertools.count(61.0))
    monkeypatch.setattr(module.time, "monotonic", lambda: next(clock))
    with progress("training", total, "updates", quiet, "fewer updates") as advance:
        advance(0, note="compiling")
        for _ in range(6):
            advance(10)
    return capsys.readouterr().err


def test_one_line_measured_after_compilation(capsys, monkeypatch):
    assert said(capsys, monkeypatch, 1030) == (
        "training: about 1 min 40 s ahead at 10 updates/s; fewer updates make it shorter\n"
    )


def test_nothing_where_it_is_soon_over_or_nobody_asks(capsys, monkeypatch):
    assert said(capsys, monkeypatch, 300) == ""
    assert said(capsys, monkeypatch, 10**6, quiet=True) == ""


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.4, "0 s"), (59.4, "59 s"), (60, "1 min 0 s"), (185, "3 min 5 s"), (7800, "2 h 10 min")]
)
def test_durations(seconds, text):
    assert in_words(seconds) == text
