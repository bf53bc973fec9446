"""The intrinsic rewards of the training part: their histogram, and how well the logs cover the expert."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ilbrl.learning.batches import Spec
from ilbrl.rewards import Labels, soft_support
from ilbrl.study.folder import write_json
from ilbrl.study.jobs import Job, Report
from ilbrl.study.logs import Parts

BINS = np.linspace(0, 1, 41)


def job(parts: Parts) -> Job:
    return Job("describe", {"data": {name: parts.hashes[name] for name in ("training_expert", "training_logs")}})


def work(inputs: Mapping[str, Any], parts: Parts, upstream: Sequence[Path], folder: Path, report: Report) -> None:
    del inputs, upstream, report
    split = parts.composition
    features = soft_support.standard_features(Spec.of(split.training))
    labels = soft_support.label(split.training_expert, split.training_logs, features, quiet=True)
    write_json(folder / "result.json", summary(labels))


def summary(labels: Labels) -> dict[str, Any]:
    """`labels` of data.json. The expert is covered where one of its steps is the nearest of some exploratory step."""
    expert, others = np.split(labels.reward, [labels.expert_rows])
    nearest = np.unique(labels.nearest[labels.expert_rows :])
    return {
        "d_max": labels.d_max,
        "bins": BINS.tolist(),
        "expert": np.histogram(expert, BINS)[0].tolist(),
        "exploratory": np.histogram(others, BINS)[0].tolist(),
        "coverage": {"covered_share": len(nearest) / labels.expert_rows, "mean_reward": float(others.mean())},
    }
