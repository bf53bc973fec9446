"""Draw what `benchmarks.learning_curves` measured.

    python -m benchmarks.learning_plot results/learning docs/figures

One panel per task: mean score over seeds with its 95 % interval, the logs' policy's score as a line. Prints the
table of final scores beside it.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import matplotlib
import numpy as np

matplotlib.use("Agg")
from matplotlib import pyplot

from ilbrl.data.benchmark import source_score
from ilbrl.envs import TASKS

COLOURS = {"default": "#0072B2", "paper": "#D55E00", "bfloat16": "#009E73"}
MARKERS = {"default": "o", "paper": "s", "bfloat16": "^"}


def main(results: Path, figures: Path) -> None:
    found = [task for task in TASKS if (results / f"{task}.json").exists()]
    figure, panels = pyplot.subplots(
        1, len(found), figsize=(3.4 * len(found), 3.2), layout="constrained", squeeze=False
    )
    print("| task | variant | λ | score ± 95 % | seeds | logs |\n|---|---|---|---|---|---|")
    for task, axes in zip(found, panels[0]):
        medium = source_score(task, "medium")
        axes.axhline(medium, color="black", linestyle="--", linewidth=1, label="policy behind the logs")
        axes.set(title=task, xlabel="thousand updates", ylabel="score" if task == found[0] else "")
        for entry in json.loads((results / f"{task}.json").read_text()):
            scores, name = np.array(entry["scores"]), entry["variant"]
            mean, half = scores.mean(1), 1.96 * scores.std(1, ddof=1) / np.sqrt(scores.shape[1])
            updates = np.array(entry["update"]) / 1000
            axes.plot(updates, mean, color=COLOURS[name], marker=MARKERS[name], markersize=4, label=name)
            axes.fill_between(updates, mean - half, mean + half, color=COLOURS[name], alpha=0.15, linewidth=0)
            lam, score = entry["config"]["lam"], f"{mean[-1]:.1f} ± {half[-1]:.1f}"
            print(f"| {task} | {name} | {lam:.3g} | {score} | {scores.shape[1]} | {medium:.1f} |")
    panels[0][0].legend(frameon=False, fontsize=8)
    figures.mkdir(parents=True, exist_ok=True)
    figure.savefig(figures / "learning-curves.png", dpi=130)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
