"""Logged data: the dataset, its readers and writers, the doctor, splits, and the built-in benchmark."""

from ilbrl.data.dataset import Dataset, concatenate

__all__ = ["Dataset", "concatenate"]
