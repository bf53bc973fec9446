"""Datasets under the name the user typed, so that every error about them names the file."""

from __future__ import annotations

from dataclasses import replace

from ilbrl.data import Dataset, load
from ilbrl.data.loading import Unit


def load_named(what: str, count_in: Unit = "transitions", quiet: bool = False) -> Dataset:
    return replace(load(what, count_in=count_in, quiet=quiet), source=what)
