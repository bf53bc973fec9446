"""Logs larger than memory, labelled and trained on within a limit: `python -m benchmarks.large_logs`.

Synthetic logs of hopper's sizes (11 inputs, 3 actions; 20 million rows are 2.1 GB) are written to an HDF5 file, and
`ilbrl label` and `ilbrl train` read it in processes of their own. Their memory is read from the system ten times a
second: all that is resident, and what of it belongs to the process alone (the rest are pages of files, which the system
takes back when it needs them).
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import h5py
import numpy as np

OBS_DIM, ACT_DIM, EPISODE = 11, 3, 1000
EXPERT_EPISODES = 2


def write_logs(path: Path, rows: int, drift: float, seed: int) -> None:
    """Random walks that an action pushes back, episode by episode, so that this process stays small."""
    rng = np.random.default_rng(seed)
    gain = np.random.default_rng(0).normal(size=(OBS_DIM, ACT_DIM)).astype(np.float32) / OBS_DIM
    shapes = {"observations": (OBS_DIM,), "actions": (ACT_DIM,), "next_observations": (OBS_DIM,), "rewards": ()}
    with h5py.File(path, "w") as file:
        columns = {name: file.create_dataset(name, (rows, *shape), "f4") for name, shape in shapes.items()}
        for start in range(0, rows, 100 * EPISODE):
            count = min(100 * EPISODE, rows - start)
            steps = rng.normal(size=(count // EPISODE, EPISODE + 1, OBS_DIM)).astype(np.float32)
            walk = (0.05 * steps).cumsum(1) + drift * steps[:, :1]
            here, after = walk[:, :-1].reshape(count, OBS_DIM), walk[:, 1:].reshape(count, OBS_DIM)
            columns["observations"][start : start + count] = here
            columns["next_observations"][start : start + count] = after
            columns["actions"][start : start + count] = np.tanh(
                -here @ gain + rng.normal(size=(count, ACT_DIM)) * drift
            )
            columns["rewards"][start : start + count] = -np.square(here).mean(1)
        file["terminals"] = np.zeros(rows, bool)
        file["timeouts"] = np.arange(1, rows + 1) % EPISODE == 0


class Used(NamedTuple):
    seconds: float
    resident: int  # bytes, at the most
    own: int  # of these, at the most, without pages of files
    said: str


def measured(*words: str) -> Used:
    """Run `ilbrl …` and watch its memory."""
    started, peaks = time.monotonic(), {"VmHWM": 0, "RssAnon": 0}
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen([sys.executable, "-m", "ilbrl", *words], stdout=output, stderr=output)
        while process.poll() is None:
            for name, size in _memory(process.pid).items():
                peaks[name] = max(peaks[name], size)
            time.sleep(0.1)
        output.seek(0)
        said = output.read()
    if process.returncode != 0:
        raise SystemExit(f"ilbrl {' '.join(words)}: exit code {process.returncode}\n{said}")
    return Used(time.monotonic() - started, peaks["VmHWM"], peaks["RssAnon"], said)


def _memory(process: int) -> dict[str, int]:
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except OSError:  # it has just ended
        return {}
    fields = dict(line.split(":", 1) for line in lines)
    return {name: int(fields[name].split()[0]) * 1024 for name in ("VmHWM", "RssAnon") if name in fields}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--memory", type=float, default=2.0, help="gigabytes for the rows of training")
    parser.add_argument("--updates", type=int, default=2000)
    parser.add_argument("--folder", type=Path, help="where the files go, and stay; by default a temporary folder")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=args.folder) as name:
        folder = Path(name)
        started = time.monotonic()
        write_logs(folder / "expert.hdf5", EXPERT_EPISODES * EPISODE, 0.02, seed=1)
        write_logs(folder / "logs.hdf5", args.rows, 0.5, seed=2)
        size = (folder / "logs.hdf5").stat().st_size
        print(f"{args.rows:,} rows, {size / 1e9:.2f} GB, written in {time.monotonic() - started:.0f} s")
        data = ["--expert", str(folder / "expert.hdf5"), "--logs", str(folder / "logs.hdf5")]
        train = [f"--memory={args.memory:g}", f"--updates={args.updates}", "--quiet", f"--out={folder / 'run'}"]
        runs = {"label": [f"--out={folder / 'labels.npz'}"], "train ilbrl": train}
        print(f"{'command':<14}{'seconds':>9}{'resident, GB':>14}{'its own, GB':>13}")
        for command, options in runs.items():
            used = measured(*command.split(), *data, *options)
            print(f"{command:<14}{used.seconds:>9.0f}{used.resident / 1e9:>14.2f}{used.own / 1e9:>13.2f}")
            print("  " + "\n  ".join(line.replace(f"{folder}/", "") for line in used.said.splitlines() if line.strip()))
        for file in ("labels.npz", "run/labels.npz"):
            with np.load(folder / file) as labels:
                print(f"{file}: rewards of {len(labels['reward']):,} rows, d_max {labels['d_max']:.4g}")


if __name__ == "__main__":
    main()
