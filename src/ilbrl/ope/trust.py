"""How far an estimator can be trusted, and about which policies: what it makes of policies of known value.

The rule was written before any candidate's true score was looked at. Each known policy is valued twice where the
estimator allows it: from evidence with its own logs, and from evidence without them, as candidates are.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from ilbrl.ope.estimates import Estimate, Estimates
from ilbrl.ope.policies import Known, Truth
from ilbrl.ope.ranking import Check, rank_error
from ilbrl.results.schema import TrustWord

GOOD_VALUE_ERROR, BAD_VALUE_ERROR = 0.25, 1.0  # of the spread between the known policies' true values
BAD_REGRET = 0.25  # of the same
BAD_SPEARMAN = 0.6  # with three known policies or more
FEW_EPISODES = 10
CUT_OFF = 0.01
FARTHER = 1.5  # times the farthest known policy with its own logs: the verdict covers policies up to this distance

SAYINGS: Mapping[TrustWord, str] = {"trust": "trust it", "care": "use with care", "distrust": "do not trust it"}

RULE = (
    "Distrust: the value of a known policy is void; two known policies come out in the wrong order, or three or more"
    f" all alike or with a Spearman correlation below {BAD_SPEARMAN:g}; the choice among them loses more than"
    f" {BAD_REGRET:.0%} of the spread of their true values; or the mean value error exceeds that spread (of clones the"
    " smallest, and their order is no reason for distrust). All of this with the policies' own logs among"
    " the evidence, and again without them. Care: one known policy or only clones; no check without their"
    " own logs; a doubtful value; a wrong order of seeds, models or neighbours; a mean value error beyond"
    f" {GOOD_VALUE_ERROR:.0%} of the spread; true values that their episodes do not tell apart, or fewer than"
    f" {FEW_EPISODES} episodes behind one, or returns cut off with more than {CUT_OFF:.0%} left; a right order under"
    " no more than half of the settings tried. Trust: none of these. The verdict speaks about policies that lead no"
    f" farther from the logs than the known policies: {FARTHER:g} times the farthest of them with its own logs, or the"
    " farthest without."
)


class Noun(NamedTuple):
    """What reasons call the policies that an estimator was checked on."""

    one: str
    many: str

    @classmethod
    def of(cls, clones: bool) -> Noun:
        """A clone is not the policy that made a log, and is never called so."""
        return cls("clone", "clones") if clones else cls("known policy", "known policies")


@dataclass(frozen=True)
class Trust:
    """The verdict on an estimator, and everything it rests on."""

    verdict: TrustWord
    reasons: tuple[str, ...]
    seen: Check  # with the known policies' own logs among the evidence
    unseen: Check | None  # without them; None: not checked
    limit: float  # the largest `Estimate.distance` that the verdict speaks about; infinite where nothing was measured
    best_truth: float  # of the known policies
    error: float  # how far known policies are missed, in the units of the values; part of every interval
    clones: bool = False  # whether all of them are clones of the logs
    rule: str = RULE

    @property
    def saying(self) -> str:
        return SAYINGS[self.verdict]


def trust_report(
    known: Sequence[Known],
    truths: Mapping[str, Truth],
    seen: Estimates,
    unseen: Mapping[str, Estimate] | None,
    notes: Sequence[str] = (),
    agreement: tuple[int, int] = (1, 1),
) -> Trust:
    """Judge the estimates of known policies.

    unseen: each policy's estimate from evidence without its own logs, where there is one; None: not tried.
    notes: reservations about the evidence; each asks for care.
    agreement: under how many of the settings tried the order was right.
    """
    views = {"": check_of(seen.policies, truths, seen.grades)}
    if unseen and len(unseen) == len(known):
        views[" without their own logs"] = check_of(unseen, truths, seen.grades)
    clones = all(k.clone for k in known)
    noun = Noun.of(clones)
    error = _error_on_clones(truths, seen) if clones else _error([seen.policies, unseen or {}], truths, seen)
    grave, mild = [], []
    for where, check in views.items():
        excused = clones and np.isfinite(check.value_error) and error <= BAD_VALUE_ERROR * check.spread
        (mild if clones else grave).extend(_order_reasons(check, len(known), where, noun))
        (mild if excused else grave).extend(_value_reasons(check, where, noun))
        mild += _lesser_reasons(check, where, noun)
    mild += _reservations(known, truths, seen, noun)
    if len(views) == 1:
        which = "not every" if unseen else "no"
        mild.append(f"{which} {noun.one} was valued without its own logs: how it does off the logs is unknown")
    right, tried = agreement
    if views[""].rank_error == 0 and right <= tried / 2:
        mild.append(f"only {right} of {tried} settings order the {noun.many} rightly: that may be luck")
    mild += [f"the evidence: {note}" for note in notes]
    reasons = tuple(dict.fromkeys([*grave, *mild]))
    right_everywhere = f"the {noun.many} come out in the right order, near their true values, with and without their"
    return Trust(
        verdict="distrust" if grave else "care" if mild else "trust",
        reasons=reasons or (f"{right_everywhere} own logs",),
        seen=views[""],
        unseen=views.get(" without their own logs"),
        limit=_limit(seen.policies, unseen or {}),
        best_truth=max(t.value for t in truths.values()),
        error=error,
        clones=clones,
    )


def check_of(estimates: Mapping[str, Estimate], truths: Mapping[str, Truth], grades: Mapping[str, str]) -> Check:
    names = list(truths)
    void = [grades[estimates[name].verdict] == "void" for name in names]
    return Check.of([estimates[name].value for name in names], [truths[name].value for name in names], void)


def widen(estimates: Estimates, error: float) -> Estimates:
    """The estimates with intervals that contain the estimator's own error on known policies (`Trust.error`)."""
    widened = {
        name: replace(e, std_error=float(np.hypot(np.nan_to_num(e.std_error), error)))
        for name, e in estimates.policies.items()
    }
    return replace(estimates, policies=widened)


def warnings(estimates: Estimates, limit: float, best_truth: float, error: float, clones: bool = False) -> list[str]:
    """What must be said about policies that a verdict does not speak about, or whose values are not plausible.

    limit, best_truth, error, clones: as in `Trust`.
    """
    said = []
    found = {name: e for name, e in estimates.policies.items() if estimates.grade(name) != "void"}
    if void := [name for name in estimates.policies if name not in found]:
        said.append(f"no value: {_listed(f'{name} ({estimates[name].verdict})' for name in void)}")
    if far := distance_warning({name: e.distance for name, e in found.items()}, limit, clones):
        said.append(far)
    if high := value_warning({name: e.value for name, e in found.items()}, best_truth, error, clones):
        said.append(high)
    return said


def value_warning(values: Mapping[str, float], best_truth: float, error: float, clones: bool = False) -> str | None:
    """A sentence that names the policies valued above every known one; None where there are none."""
    high = [f"{name} ({value:.4g})" for name, value in values.items() if value > best_truth + error]
    if not high:
        return None
    best = "the episodes of the best log" if clones else "the best known policy"
    return f"valued above {best} ({best_truth:.4g}), where nothing was checked: {_listed(high)}"


def distance_warning(distances: Mapping[str, float], limit: float, clones: bool = False) -> str | None:
    """A sentence that names the policies farther from the logs than `limit`; None where there are none."""
    far = [f"{name} ({distance:.2f})" for name, distance in distances.items() if distance > limit]
    if not far:
        return None
    return (
        f"farther from the logs than the {Noun.of(clones).many} vouch for (limit {limit:.2f}): {_listed(far)};"
        " their values are extrapolated, and such policies tend to be over-estimated"
    )


def _order_reasons(check: Check, policies: int, where: str, noun: Noun) -> list[str]:
    if policies > 2 and check.spearman < BAD_SPEARMAN:
        return [f"the {noun.many} come out in another order{where} (Spearman {check.spearman:.2f})"]
    nothing_void, told_apart = np.isfinite(check.value_error), not np.isnan(check.spearman)
    if policies > 2 and check.spread > 0 and nothing_void and not told_apart:
        return [f"the {noun.many} all have the same value{where}"]
    if policies == 2 and check.rank_error > 0:
        return [f"the {noun.many} come out in the wrong order{where}"]
    if policies > 1 and check.regret_at_k[0] > BAD_REGRET:
        return [f"the best {noun.one} is not chosen{where}: {check.regret_at_k[0]:.0%} of the spread is lost"]
    return []


def _value_reasons(check: Check, where: str, noun: Noun) -> list[str]:
    if check.value_error == float("inf"):
        return [f"the value of a {noun.one} is void{where}"]
    if check.value_error > BAD_VALUE_ERROR:
        return [
            f"the mean value error{where} is {check.value_error:.2g} times {_unit(check, noun)} ({_direction(check)})"
        ]
    return []


def _lesser_reasons(check: Check, where: str, noun: Noun) -> list[str]:
    reasons = []
    if GOOD_VALUE_ERROR < check.value_error <= BAD_VALUE_ERROR:
        reasons.append(
            f"the mean value error{where} is {check.value_error:.0%} of {_unit(check, noun)} ({_direction(check)})"
        )
    if len(check.regret_at_k) > 2 and check.rank_error > 0 and check.spearman >= BAD_SPEARMAN:
        reasons.append(f"some {noun.many} change places{where} (Spearman {check.spearman:.2f})")
    return reasons


def _unit(check: Check, noun: Noun) -> str:
    return f"the spread of the {noun.many} ({check.spread:.4g})" if len(check.regret_at_k) > 1 else "the true value"


def _direction(check: Check) -> str:
    if abs(check.bias) < check.value_error / 2:
        return "both ways"
    return "too high" if check.bias > 0 else "too low"


def _reservations(known: Sequence[Known], truths: Mapping[str, Truth], seen: Estimates, noun: Noun) -> list[str]:
    """What makes the check itself weak."""
    reasons, names = [], [k.name for k in known]
    if clones := [k.name for k in known if k.clone]:
        reasons.append(
            f"no known policy behind {_listed(clones)}: the logs' episodes were compared with rollouts of clones, and"
            " a clone is not the policy that made the logs"
        )
    if len(known) == 1:
        reasons.append(f"only one {noun.one}: nothing shows that the estimator can tell a better policy from a worse")
    if doubtful := [f"{n} ({seen[n].verdict})" for n in names if seen.grade(n) == "doubtful"]:
        reasons.append(f"the value of {_listed(doubtful)} is doubtful")
    parts = [seen[name].parts for name in names]
    if len(known) > 1 and len({len(part) for part in parts}) == 1 and parts[0]:
        true = np.array([truths[name].value for name in names])
        wrong = [rank_error(np.array(part), true, np.zeros(len(names), bool)) > 0 for part in zip(*parts)]
        if 0 < sum(wrong) < len(wrong):
            reasons.append(f"{sum(wrong)} of {len(wrong)} seeds or models order the {noun.many} wrongly")
    for worse, better in itertools.pairwise(sorted(names, key=lambda name: truths[name].value)):
        gap = truths[better].value - truths[worse].value
        if gap < 2 * np.hypot(*(np.nan_to_num(truths[name].std_error) for name in (worse, better))):
            reasons.append(f"the true values of {worse} and {better} are within each other's error ({gap:.3g} apart)")
    if few := [f"{n} ({truths[n].episodes})" for n in names if truths[n].episodes < FEW_EPISODES]:
        reasons.append(f"few episodes behind the true value of {_listed(few)}")
    if cut := [name for name in names if truths[name].cut_off > CUT_OFF]:
        reasons.append(f"the returns of {_listed(cut)} were cut off early, so the true value is larger in magnitude")
    return reasons


def _limit(seen: Mapping[str, Estimate], unseen: Mapping[str, Estimate]) -> float:
    near = [e.distance for e in seen.values() if np.isfinite(e.distance)]
    off = [e.distance for e in unseen.values() if np.isfinite(e.distance)]
    return max([FARTHER * distance for distance in near] + off, default=float("inf"))


def _error(views: Iterable[Mapping[str, Estimate]], truths: Mapping[str, Truth], seen: Estimates) -> float:
    """√(mean of (V − truth)² − what chance explains), the largest over the views: candidates are off the logs too."""
    found = [0.0]
    for view in views:
        pairs = [(e, truths[name]) for name, e in view.items() if seen.grades[e.verdict] != "void"]
        if pairs:
            squared = np.mean([(e.value - t.value) ** 2 for e, t in pairs])
            chance = np.mean([np.nan_to_num(e.std_error) ** 2 + np.nan_to_num(t.std_error) ** 2 for e, t in pairs])
            found.append(float(np.sqrt(max(squared - chance, 0.0))))
    return max(found)


def _error_on_clones(truths: Mapping[str, Truth], seen: Estimates) -> float:
    """√((V − truth)² + its own variance) of the clone that is met best: the miss of another may be the clone's fault.

    A clone of two demonstrations can be worth far less than they are, and an estimator is right to say so.
    """
    sound = [(seen[name], truth) for name, truth in truths.items() if seen.grade(name) != "void"]
    return min((float(np.hypot(e.value - t.value, np.nan_to_num(e.std_error))) for e, t in sound), default=0.0)


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names)
