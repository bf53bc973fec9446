"""Draw what `benchmarks.learning_curves` has measured, and print it as a table.

python -m benchmarks.learning_plot docs/results/curves docs/figures
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import pyplot

from benchmarks.learning_curves import TASKS
from ilbrl.data.benchmark import source_score

SERIES = {"scores": ("mean of weights", "#0072B2", "o"), "scores_of_last_weights": ("last weights", "#D55E00", "s")}


def curves(folder: Path) -> list[dict[str, Any]]:
    """The default's, fewest expert episodes first, then by task."""
    found = [entry for path in folder.glob("*-*.json") for entry in json.loads(path.read_text())]
    return sorted(found, key=lambda entry: (entry["expert_episodes"], TASKS.index(entry["task"])))


def table(folder: Path) -> list[str]:
    """Mean score over seeds after so many thousand updates, and the mean over all of them."""
    found = curves(folder)
    updates = [f"{update // 1000}" for update in found[0]["update"]]
    lines = [
        f"| task, expert episodes | policy | {' | '.join(updates)} | all |",
        "|---|---|" + "---:|" * (len(updates) + 1),
    ]
    for entry in found:
        for field, (name, *_) in SERIES.items():
            means = np.mean(entry[field], axis=1)
            shown = " | ".join(f"{mean:.1f}" for mean in [*means, means.mean()])
            lines.append(f"| {entry['task']}, {entry['expert_episodes']} | {name} | {shown} |")
    return lines


def draw(folder: Path, path: Path) -> None:
    """A panel per curve; bands are 95 % over seeds."""
    found = curves(folder)
    figure, panels = pyplot.subplots(
        1, len(found), figsize=(3.4 * len(found), 3.5), layout="constrained", squeeze=False
    )
    for entry, axes in zip(found, panels[0]):
        axes.set(title=f"{entry['task']}, {entry['expert_episodes']} expert episodes", xlabel="thousand updates")
        for level, dashes in (("expert", ":"), ("medium", "--")):
            name = "expert" if level == "expert" else "policy behind the logs"
            axes.axhline(source_score(entry["task"], level), color="black", linestyle=dashes, linewidth=1, label=name)
        updates = np.array(entry["update"]) / 1000
        for field, (name, colour, marker) in SERIES.items():
            scores = np.array(entry[field])
            mean, half = scores.mean(1), 1.96 * scores.std(1, ddof=1) / np.sqrt(scores.shape[1])
            axes.plot(updates, mean, color=colour, marker=marker, markersize=4, label=name)
            axes.fill_between(updates, mean - half, mean + half, color=colour, alpha=0.15, linewidth=0)
    panels[0][0].set_ylabel("score")
    figure.legend(*panels[0][0].get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False)
    figure.savefig(path, dpi=130)


if __name__ == "__main__":
    print("\n".join(table(Path(sys.argv[1]))))
    draw(Path(sys.argv[1]), Path(sys.argv[2]) / "learning-curves.png")
