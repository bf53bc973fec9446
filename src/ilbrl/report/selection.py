"""True scores of a run's candidates, and what choosing among them offline cost."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ilbrl.report.pertask import Mean, normal_mean
from ilbrl.results.folder import Run, reference_value
from ilbrl.results.tables import Candidate


def truth(run: Run, candidate: Candidate) -> float | None:
    return candidate.true_score if scored(run) else candidate.true_return


def scored(run: Run) -> bool:
    return any(candidate.true_score is not None for candidate in run.candidates)


def true_label(run: Run) -> str:
    return "true normalised score" if scored(run) else "true return"


def reference_score(run: Run, name: str) -> float | None:
    """The score of the policy behind the logs or of the expert, or return where the run has no scores."""
    reference = run.references.get(name)
    return None if reference is None else reference_value(reference, scored(run))


class Regret(NamedTuple):
    """What choosing offline cost within one algorithm, by the true scores of its configurations' seeds."""

    configurations: dict[int, Mean]
    chosen: int

    @property
    def regret(self) -> float:
        return max(mean.value for mean in self.configurations.values()) - self.configurations[self.chosen].value


def selection_regret(run: Run) -> dict[str, Regret]:
    """Algorithm → regret; only for algorithms whose unselected configurations have been revealed."""
    scores: dict[str, dict[int, list[float]]] = {}
    for candidate in run.candidates:
        score = truth(run, candidate)
        if score is not None:
            scores.setdefault(candidate.algorithm, {}).setdefault(candidate.configuration, []).append(score)
    chosen = {c.algorithm: c.configuration for c in run.candidates if c.selected}
    return {
        name: Regret({number: normal_mean(np.array(each)) for number, each in played.items()}, chosen[name])
        for name, played in scores.items()
        if len(played) > 1 and chosen.get(name) in played
    }
