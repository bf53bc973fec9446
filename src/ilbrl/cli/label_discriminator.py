"""`ilbrl label --reward discriminator`: what a discriminator, as SMODICE and ORIL use it, says of every logged step."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from ilbrl.data import Dataset
from ilbrl.data.summary import sparkline
from ilbrl.rewards import Logits, discriminator


def run(
    expert: Dataset, data: Dataset, config: discriminator.Config, seed: int, out: Path | None, as_json: bool
) -> None:
    labels = discriminator.label(expert, data, [config], [seed])
    if out is not None:
        labels.save(out)
    if as_json:
        print(json.dumps(_as_json(labels), indent=1))
        return
    for name, logits in _parts(labels).items():
        low, middle, high = np.quantile(logits, [0.05, 0.5, 0.95])
        print(f"{name:<8} {len(logits):,} rows, {(logits > 0).mean():.1%} judged to be the expert's")
        print(f"  log-odds {logits.min():.2f} {sparkline(logits)} {logits.max():.2f}")
        print(f"         5 % below {low:.3f} · median {middle:.3f} · 5 % above {high:.3f}")
    if out is not None:
        print(f"written  {out}")


def _parts(labels: Logits) -> dict[str, np.ndarray]:
    return {"expert": labels.logit[0, : labels.expert_rows], "data": labels.logit[0, labels.expert_rows :]}


def _as_json(labels: Logits) -> dict:
    parts = _parts(labels)
    return {
        "rows": labels.logit.shape[1],
        "expert_rows": labels.expert_rows,
        "mean_log_odds": {name: float(logits.mean()) for name, logits in parts.items()},
        "judged_expert": {name: float((logits > 0).mean()) for name, logits in parts.items()},
    }
