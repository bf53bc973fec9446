"""Logged data: the dataset, its readers and writers, the doctor, splits, and the built-in benchmark."""

from ilbrl.data.dataset import Dataset
from ilbrl.data.exchange import from_d3rlpy, from_minari, to_d3rlpy, to_frame, to_minari
from ilbrl.data.formats.arrays import from_arrays
from ilbrl.data.formats.frame import from_frame
from ilbrl.data.joining import concatenate, same_actions, same_choices
from ilbrl.data.loading import load, save
from ilbrl.data.reading import Reading

__all__ = [
    "Dataset",
    "Reading",
    "concatenate",
    "from_arrays",
    "from_d3rlpy",
    "from_frame",
    "from_minari",
    "load",
    "same_actions",
    "same_choices",
    "save",
    "to_d3rlpy",
    "to_frame",
    "to_minari",
]
