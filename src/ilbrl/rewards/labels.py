"""What a labeller returns: one row per transition of D_U = D_E ∪ D_X, the expert's rows first."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ilbrl.files import written_whole


@dataclass(frozen=True, eq=False)
class Labels:
    """Intrinsic rewards of the expert's rows, then of the other logs in their order."""

    reward: np.ndarray  # [N] float32 in [0, 1]
    distance: np.ndarray  # [N] float64, to the nearest expert row
    nearest: np.ndarray  # [N] int64 number of that expert row; −1: there is none
    d_max: float
    expert_rows: int

    def save(self, path: str | Path) -> None:
        """Write arrays `reward`, `distance`, `nearest` and scalars `d_max`, `expert_rows` to an npz file."""
        with written_whole(path) as partial:
            np.savez(
                partial,
                reward=self.reward,
                distance=self.distance,
                nearest=self.nearest,
                d_max=np.float64(self.d_max),
                expert_rows=np.int64(self.expert_rows),
            )
