"""How far the choices of two algorithms are apart in offline value, and how much of that is noise."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ilbrl.results.schema import Selection
from ilbrl.results.tables import Candidate, committee_as_candidate


def behind_value(selection: Selection, candidates: Sequence[Candidate], algorithm: str) -> list[Candidate]:
    """The policies whose mean value is that of an algorithm's file: its committee, or its configuration's seeds."""
    entry = selection.algorithms[algorithm]
    if (committee := entry.deployed_committee) is not None:
        return [committee_as_candidate(algorithm, entry, committee, selection.penalty)]
    return [c for c in candidates if c.algorithm == algorithm and c.configuration == entry.configuration]


def noise_between(selection: Selection, candidates: Sequence[Candidate], first: str, second: str) -> float | None:
    """Standard error of how far the values of two algorithms' files are apart; None: not recorded.

    Evaluation by evaluation, for what all policies share there (the models, the initial states) is no part of it. Where
    a file is one seed, and its value the mean over all, another seed might have had another.
    """
    files = [behind_value(selection, candidates, name) for name in (first, second)]
    ours, theirs = map(_by_evaluation, files)
    apart = [ours[each] - theirs[each] for each in ours.keys() & theirs.keys()]
    if len(apart) < 2:
        return None
    rivals = any(member is not None for _, member in ours)
    errors = [float(np.std(apart, ddof=1)) / (1.0 if rivals else len(apart) ** 0.5)]
    for policies in files:
        values = [c.offline_value for c in policies if c.offline_value is not None]
        errors += [float(np.std(values, ddof=1)) / len(values) ** 0.5] if len(values) > 1 else []
    return float(np.hypot.reduce(errors))


def _by_evaluation(policies: Sequence[Candidate]) -> dict[tuple[int | None, int | None], float]:
    """(evaluation seed, member) → the mean value of these policies."""
    found: dict[tuple[int | None, int | None], list[float]] = {}
    for c in policies:
        for e in c.estimates:
            if e.value is not None and e.grade in (*c.counted, None):
                found.setdefault((e.evaluation_seed, e.member), []).append(e.value)
    return {each: float(np.mean(values)) for each, values in found.items()}
