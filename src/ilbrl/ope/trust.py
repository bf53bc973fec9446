"""How far an off-policy evaluation can be trusted, judged by what it makes of policies of known value."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from ilbrl.ope.evaluation import Combined
from ilbrl.ope.known import Truth
from ilbrl.ope.ranking import kendall, rank_error, regret, spearman

TRUSTED_VALUE_ERROR = 0.25  # of the spread between the known policies
DISTRUSTED_VALUE_ERROR = 1.0
FEW_EPISODES = 10
CUT_OFF = 0.01
FARTHER = 1.5  # times the known policies' distance from the data, beyond which an estimate is extrapolation

RULE = (
    "Distrust: a known policy diverged, or is ranked wrongly, or the mean value error exceeds the spread of the known"
    " policies' true values. Care: only one known policy; an estimate still moving; an evaluation seed that orders them"
    f" otherwise; a mean value error beyond {TRUSTED_VALUE_ERROR:.0%} of the spread; true values that their episodes"
    f" do not tell apart; fewer than {FEW_EPISODES} episodes behind a true value, or returns cut off while more than"
    f" {CUT_OFF:.0%} of the discount is left; a data mixture that missed its expert fraction; a right"
    " order under no more than half of the settings. Trust: none of these."
)


@dataclass(frozen=True)
class Trust:
    """The verdict on an evaluator, and everything it rests on."""

    verdict: Literal["trust", "care", "distrust"]
    reasons: tuple[str, ...]
    rank_error: float
    spearman: float
    kendall: float
    relative_value_error: float  # mean |V − truth| / spread of the truths; of |truth| for a single known policy
    regret_at_1: float
    regret_at_k: tuple[float, ...]  # for k = 1 … K
    intervals: Mapping[str, tuple[float, float]]  # 95 %, over initial states and evaluation seeds
    distances: Mapping[str, float] = field(default_factory=dict)  # of known policies from the data
    rule: str = RULE

    @property
    def distance_limit(self) -> float:
        """The distance from the data beyond which the known policies vouch for nothing; infinite where unmeasured."""
        return FARTHER * max(self.distances.values()) if self.distances else float("inf")


def trust_report(
    estimates: Mapping[str, Combined],
    truths: Mapping[str, Truth],
    notes: Sequence[str] = (),
    distances: Mapping[str, float] | None = None,
    agreement: tuple[int, int] = (1, 1),
) -> Trust:
    """Judge the estimates of known policies by the truth about them; `RULE` says how.

    notes: what was wrong with the data mixture; each is a reason for care.
    agreement: how many settings order the known policies rightly, and how many were tried.
    """
    names = list(truths)
    values, true = (np.array([x[name].value for name in names]) for x in (estimates, truths))
    diverged = np.array([estimates[name].verdict == "diverged" for name in names])
    spread = float(np.ptp(true)) if len(names) > 1 else abs(float(true[0]))
    sound = ~diverged
    error = float(np.abs(values - true)[sound].mean() / max(spread, 1e-12)) if sound.any() else float("inf")
    ranks = rank_error(values, true, diverged)
    grave = _grave_reasons(names, diverged, ranks, error)
    mild = _mild_reasons(names, estimates, truths, ranks, error, spread)
    mild += [f"the data: {note}" for note in notes]
    right, tried = agreement
    if ranks == 0 and right <= tried / 2:
        mild.append(f"only {right} of {tried} settings order the known policies rightly: that may be luck")
    ranked = np.where(diverged, -np.inf, values)
    return Trust(
        verdict="distrust" if grave else "care" if mild else "trust",
        reasons=(*grave, *mild) or ("all known policies converged, in the right order, near their true values",),
        rank_error=ranks,
        spearman=spearman(values[sound], true[sound]),
        kendall=kendall(values[sound], true[sound]),
        relative_value_error=error,
        regret_at_1=regret(ranked, true),
        regret_at_k=tuple(regret(ranked, true, k) for k in range(1, len(names) + 1)),
        intervals={name: estimates[name].interval for name in names},
        distances=dict(distances or {}),
    )


def _grave_reasons(names: list[str], diverged: np.ndarray, ranks: float, error: float) -> list[str]:
    reasons = []
    if diverged.any():
        reasons.append(f"the evaluation of {_listed(n for n, d in zip(names, diverged) if d)} diverged")
    elif ranks > 0:
        reasons.append(f"the known policies come out in the wrong order (rank error {ranks:g})")
    if error > DISTRUSTED_VALUE_ERROR:
        scale = "spread of the known policies" if len(names) > 1 else "known policy's true value"
        reasons.append(f"the mean value error is {error:.2g} times the {scale}")
    return reasons


def _mild_reasons(
    names: list[str],
    estimates: Mapping[str, Combined],
    truths: Mapping[str, Truth],
    ranks: float,
    error: float,
    spread: float,
) -> list[str]:
    reasons = []
    if len(names) == 1:
        reasons.append("only one known policy: nothing shows that the evaluator can tell a better policy from a worse")
    if moving := [name for name in names if estimates[name].verdict == "moving"]:
        reasons.append(f"the value of {_listed(moving)} was still moving: run more updates")
    seeds = np.array([estimates[name].per_seed for name in names]).T
    true = np.array([truths[name].value for name in names])
    contrary = sum(rank_error(seed, true, np.zeros(len(names), bool)) > 0 for seed in seeds)
    if ranks == 0 and contrary:
        reasons.append(f"{contrary} of {len(seeds)} evaluation seeds order the known policies wrongly")
    if TRUSTED_VALUE_ERROR < error <= DISTRUSTED_VALUE_ERROR:
        reasons.append(f"the mean value error is {error:.0%} of the spread of the known policies ({spread:.4g})")
    order = sorted(names, key=lambda name: truths[name].value)
    for worse, better in itertools.pairwise(order):
        gap = truths[better].value - truths[worse].value
        if gap < 2 * np.hypot(*(np.nan_to_num(truths[name].std_error) for name in (worse, better))):
            reasons.append(f"the true values of {worse} and {better} are within each other's error ({gap:.3g} apart)")
    if few := [f"{n} ({truths[n].episodes})" for n in names if truths[n].episodes < FEW_EPISODES]:
        reasons.append(f"few episodes behind the true value of {_listed(few)}")
    if cut := [name for name in names if truths[name].cut_off > CUT_OFF]:
        reasons.append(f"the returns of {_listed(cut)} were cut off early, so the true value is larger in magnitude")
    return reasons


def _listed(names) -> str:
    return ", ".join(names)
