"""Labellers: what an imitator is rewarded for, one file each."""

from ilbrl.rewards.labels import Labels, Logits

__all__ = ["Labels", "Logits"]
