"""How rows are rewarded: the contract of a reward, and the labels of D_U = D_E ∪ D_X, the expert's rows first."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ilbrl.base.errors import IlbrlError
from ilbrl.base.files import require_file, written_whole
from ilbrl.data import Dataset
from ilbrl.learning.spec import Spec


class Labelling(NamedTuple):
    """What a reward is asked for: the rows of D_U, and the members that learn from them."""

    expert: Dataset
    logs: Dataset
    spec: Spec
    configs: Sequence[Any]  # [P]; static fields are the same for all
    seeds: Sequence[int]  # [P]
    updates: int | None = None  # of each member; None: not known yet
    known: Labels | None = None  # soft-support labels of the same rows, if somebody has computed them before
    quiet: bool = False


class Rewarded(NamedTuple):
    """What the P members of a population are rewarded with; the expert's rows first."""

    rewards: np.ndarray  # [N] for all members alike, or [G, N]
    set_of: Sequence[int] | None = None  # [P] which of the G sets each member reads; None: there is one for all
    labels: Labels | Logits | None = None  # where the rewards come from, to be shown and saved
    absorbing: np.ndarray | None = None  # as `rewards`: that of every step after a terminal row; None: nothing follows
    identity: Mapping[str, Any] = {}  # what the rewards depend on beside data, configurations and seeds


class Reward(NamedTuple):
    """How rows are rewarded. It combines with every solver that learns from rewards."""

    Config: type  # its settings; an agent's Config inherits them
    label: Callable[[Labelling], Rewarded]
    row_by_row: bool = False  # rows are rewarded without holding them all at once, so that logs may exceed memory


@dataclass(frozen=True, eq=False)
class Labels:
    """Intrinsic rewards of the expert's rows, then of the other logs in their order."""

    reward: np.ndarray  # [N] float32 in [0, 1]
    distance: np.ndarray  # [N] float64, to the nearest expert row; infinite: there is none
    nearest: np.ndarray  # [N] int64 number of that expert row; −1: there is none
    d_max: float
    expert_rows: int
    compared: str = "step"  # what distances are between: "step" (s, a), or "transition" (s, a, s′)
    action_distance: float | None = None  # between different discrete actions; None: infinite, or real-valued ones

    def save(self, path: str | Path) -> None:
        """Write `reward`, `distance`, `nearest` and the scalars to an npz file; no `action_distance` is NaN there."""
        with written_whole(path) as partial, partial.open("wb") as file:  # a path would get .npz appended
            np.savez(
                file,
                reward=self.reward,
                distance=self.distance,
                nearest=self.nearest,
                d_max=np.float64(self.d_max),
                expert_rows=np.int64(self.expert_rows),
                compared=np.array(self.compared),
                action_distance=np.float64(np.nan if self.action_distance is None else self.action_distance),
            )

    @staticmethod
    def load(path: str | Path) -> Labels:
        """Read a file written by `save`."""
        require_file(Path(path), "file of labels")
        try:
            with np.load(path, allow_pickle=False) as file:
                arrays = {name: file[name] for name in ("reward", "distance", "nearest")}
                apart = float(file["action_distance"]) if "action_distance" in file else np.nan
                found = Labels(
                    **arrays,
                    d_max=float(file["d_max"]),
                    expert_rows=int(file["expert_rows"]),
                    compared=str(file["compared"]) if "compared" in file else "step",
                    action_distance=None if np.isnan(apart) else apart,
                )
            _require_sense(found)
        except (
            KeyError, ValueError, TypeError, AttributeError, RuntimeError, ArithmeticError, OSError, EOFError,
            MemoryError, zlib.error, zipfile.BadZipFile,
        ) as error:  # fmt: skip
            raise IlbrlError(f"{path}: not a file of labels ({error}); ilbrl label writes them") from None
        return found


def _require_sense(labels: Labels) -> None:
    """Refuse labels that no reward can have given, with a ValueError."""
    rows, own = labels.reward.shape, labels.expert_rows
    if len(rows) != 1 or not rows == labels.distance.shape == labels.nearest.shape or not 0 < own <= rows[0]:
        raise ValueError("its columns do not fit together")
    if labels.nearest.dtype.kind != "i" or not ((labels.nearest >= -1) & (labels.nearest < own)).all():
        raise ValueError("nearest: not the numbers of expert rows")
    if not ((labels.reward >= 0) & (labels.reward <= 1)).all():
        raise ValueError("reward: not all between 0 and 1")
    if not (labels.distance >= 0).all():
        raise ValueError("distance: not all at least 0")


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

    def save(self, path: str | Path) -> None:
        """Write arrays `logit`, `set_of` and the scalar `expert_rows` to an npz file."""
        with written_whole(path) as partial, partial.open("wb") as file:  # a path would get .npz appended
            np.savez(
                file,
                logit=self.logit,
                set_of=np.asarray(self.set_of, np.int64),
                expert_rows=np.int64(self.expert_rows),
            )


def _logged(asked: Labelling) -> Rewarded:
    found = [data.rewards for data in (asked.expert, asked.logs) if data.rewards is not None]
    if len(found) < 2:
        lacking = next(data.source for data in (asked.expert, asked.logs) if data.rewards is None)
        raise IlbrlError(f"{lacking}: this agent learns from the true reward, and these logs carry none")
    return Rewarded(np.concatenate(found))


LOGGED = Reward(object, _logged, row_by_row=True)
"""The logs' own rewards: for oracles, no imitator reads them."""
