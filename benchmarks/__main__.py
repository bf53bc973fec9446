"""`make bench`: every benchmark that runs on a CPU in minutes, one after the other."""

import subprocess
import sys

SCRIPTS = (
    "training_speed",
    "evaluation_speed",
    "labelling",
    "collection_speed",
    "load_large",
    "large_logs",
    "phased_q_learning",
    "lemmas",
    "tabular_regret",
    "bootstrap_speed",
)

for script in SCRIPTS:
    print(f"\n=== {script}", flush=True)
    subprocess.run([sys.executable, "-m", f"benchmarks.{script}"], check=True)
