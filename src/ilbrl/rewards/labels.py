"""What a labeller returns: one row per transition of D_U = D_E ∪ D_X, the expert's rows first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ilbrl.base.files import written_whole


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
        with written_whole(path) as partial, partial.open("wb") as file:  # a path would get .npz appended
            np.savez(
                file,
                reward=self.reward,
                distance=self.distance,
                nearest=self.nearest,
                d_max=np.float64(self.d_max),
                expert_rows=np.int64(self.expert_rows),
            )


@dataclass(frozen=True, eq=False)
class Logits:
    """What a population's discriminators say of D_U; members with the same discriminator share a set of labels."""

    logit: np.ndarray  # [G, N] float32 log-odds that the expert made the step; NaN: that discriminator diverged
    set_of: Sequence[int]  # [P] which of the G sets each member reads
    expert_rows: int

    @property
    def probability(self) -> np.ndarray:
        """[G, N] 1 / (1 + exp(−logit))."""
        return 0.5 + 0.5 * np.tanh(0.5 * self.logit)

    @property
    def largest(self) -> np.ndarray:
        """[P] max |logit|."""
        return np.abs(self.logit).max(1)[list(self.set_of)]

    def save(self, path: str | Path) -> None:
        """Write arrays `logit`, `set_of` and the scalar `expert_rows` to an npz file."""
        with written_whole(path) as partial, partial.open("wb") as file:  # a path would get .npz appended
            np.savez(
                file,
                logit=self.logit,
                set_of=np.asarray(self.set_of, np.int64),
                expert_rows=np.int64(self.expert_rows),
            )
