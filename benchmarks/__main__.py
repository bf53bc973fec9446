"""`make bench`: every speed benchmark that runs on a CPU, one after the other."""

import subprocess
import sys

SCRIPTS = (
    "training_speed",
    "evaluation_speed",
    "labelling",
    "collection_speed",
    "load_large",
    "phased_q_learning",
    "bootstrap_speed",
)

for script in SCRIPTS:
    print(f"\n=== {script}", flush=True)
    subprocess.run([sys.executable, "-m", f"benchmarks.{script}"], check=True)
