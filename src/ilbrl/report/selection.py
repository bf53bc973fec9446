"""True scores of a run's candidates, and what choosing among them offline cost."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ilbrl.report.results import Candidate, Run, reference_value


def truth(run: Run, candidate: Candidate) -> float | None:
    return candidate.true_score if scored(run) else candidate.true_return


def scored(run: Run) -> bool:
    return any(candidate.true_score is not None for candidate in run.candidates)


def true_label(run: Run) -> str:
    return "true normalised score" if scored(run) else "true return"


def reference_score(run: Run, name: str) -> float | None:
    """The expert's or exploratory policy's score, or return where the run has no scores."""
    reference = run.references.get(name)
    return None if reference is None else reference_value(reference, scored(run))


class Regret(NamedTuple):
    """What choosing offline cost within one algorithm, by the mean true score of each configuration's seeds."""

    selected: float
    best: float
    worst: float
    configurations: dict[int, float]
    chosen: int

    @property
    def regret(self) -> float:
        return self.best - self.selected


def selection_regret(run: Run) -> dict[str, Regret]:
    """Algorithm → regret; only for algorithms whose unselected configurations have been revealed."""
    found = {}
    for algorithm in run.algorithms:
        scores: dict[int, list[float]] = {}
        chosen = None
        for c in run.candidates:
            score = truth(run, c)
            if c.algorithm == algorithm and score is not None:
                scores.setdefault(c.configuration, []).append(score)
                chosen = c.configuration if c.selected else chosen
        means = {configuration: float(np.mean(each)) for configuration, each in scores.items()}
        if chosen is not None and len(means) > 1:
            found[algorithm] = Regret(means[chosen], max(means.values()), min(means.values()), means, chosen)
    return found
