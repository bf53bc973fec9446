"""Build wheel and sdist and try them in clean environments: `make wheel-smoke`, or

    python scripts/try_wheel.py [--dist dist] [--python python3.11 python3.12 …]

For every interpreter two environments: the light one (NumPy, safetensors, no other dependency), in which a policy acts,
and the whole one, in which a command runs and a policy is trained. By default each Python from 3.11 to 3.14 found here.
With --dist nothing is built. It runs with any of these interpreters and needs only what comes with it.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
VERSIONS = ("3.11", "3.12", "3.13", "3.14")
LARGEST_WHEEL = 8_000_000  # bytes
CONTENTS = (
    "ilbrl/py.typed", "ilbrl/source_policies/hopper-expert.safetensors", "ilbrl/study/presets/own.toml",
    "ilbrl/report/templates/run.html",
)  # fmt: skip

LIGHT = """
import sys
from importlib.resources import files
import ilbrl
policy = ilbrl.Policy.load(files("ilbrl") / "source_policies" / "hopper-expert.safetensors")
assert policy.act([0.1] * policy.obs_dim).shape == (3,)
assert not {"jax", "scipy", "h5py"} & set(sys.modules)
"""
WHOLE = """
import numpy as np
import ilbrl
from ilbrl.data import from_arrays
rng = np.random.default_rng(0)
walk = rng.normal(size=(201, 3)).cumsum(0)
ends = np.arange(200) % 50 == 49
logs = from_arrays(walk[:-1], np.tanh(rng.normal(size=(200, 1))), walk[1:], timeouts=ends, terminals=np.zeros(200))
learned = ilbrl.fit("ilbrl", logs.episodes([0]), logs, updates=10, quiet=True, out="run")
assert not learned.diverged.any()
assert np.array_equal(ilbrl.Policy.load(learned.files[0]).act(walk), learned.policies[0].act(walk))
"""


class Tried(NamedTuple):
    version: str
    light: str
    whole: str


def build(folder: Path) -> None:
    """The sdist, and from it the wheel, as a package index would get them."""
    with tempfile.TemporaryDirectory() as place:
        python = _environment(sys.executable, Path(place))
        _run([python, "-m", "pip", "install", "--quiet", "build"])
        _run([python, "-m", "build", "--outdir", folder, ROOT])


def check(wheel: Path) -> None:
    """Small enough, and everything is in it."""
    if wheel.stat().st_size >= LARGEST_WHEEL:
        raise SystemExit(f"{wheel}: {wheel.stat().st_size:,} bytes; it must stay below {LARGEST_WHEEL:,}")
    with zipfile.ZipFile(wheel) as archive:
        lacking = sorted(set(CONTENTS) - set(archive.namelist()))
    if lacking:
        raise SystemExit(f"{wheel}: lacks {', '.join(lacking)}")


def tried(interpreter: str, wheel: Path, sdist: Path | None) -> Tried:
    version = subprocess.check_output([interpreter, "-c", "import platform as p; print(p.python_version())"], text=True)
    light = _try(interpreter, [["numpy", "safetensors"], ["--no-deps", wheel]], LIGHT)
    if sdist is not None:  # what is installed from the sdist must be the same
        _try(interpreter, [["numpy", "safetensors"], ["--no-deps", sdist]], LIGHT)
    return Tried(version.strip(), light, _try(interpreter, [[wheel]], WHOLE, ["--version"], ["bounds", *_BOUNDS]))


_BOUNDS = ["--mdp", "riverswim:6", "--epsilon", "0.1", "--delta", "0.05"]


def _try(interpreter: str, installs: list[list[str | Path]], code: str, *commands: list[str]) -> str:
    """Install into a new environment and run code and commands there; its size, and how long installing took."""
    with tempfile.TemporaryDirectory() as place:
        folder, started = Path(place) / "env", time.monotonic()
        python = _environment(interpreter, folder)
        for packages in installs:
            _run([python, "-m", "pip", "install", "--quiet", *packages])
        seconds = time.monotonic() - started
        _run([python, "-c", code], place)
        for words in commands:
            _run([folder / "bin" / "ilbrl", *words], place)
        size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file() and not file.is_symlink())
        return f"{size / 1e6:,.0f} MB, {seconds:.0f} s"


def _environment(interpreter: str, folder: Path) -> Path:
    _run([interpreter, "-m", "venv", folder])
    return folder / "bin" / "python"


def _run(command: list[str | Path], folder: str | Path | None = None) -> None:
    """Run a command away from the checkout, so that the installed package is the one that is imported."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(command, cwd=folder or tempfile.gettempdir(), env=kept, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")


def _found() -> list[str]:
    """The interpreters of this machine that really start (pyenv puts names there that do not)."""
    names = [shutil.which(f"python{version}") for version in VERSIONS]
    return [n for n in names if n and subprocess.run([n, "-c", ""], capture_output=True).returncode == 0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--dist", type=Path, help="a folder with a wheel, and an sdist perhaps; by default both are built"
    )
    parser.add_argument("--python", nargs="+", help="interpreters to try")
    args = parser.parse_args()
    folder = args.dist or ROOT / "dist"
    if args.dist is None:
        shutil.rmtree(folder, ignore_errors=True)
        build(folder)
    (wheel,), sdists = folder.resolve().glob("*.whl"), list(folder.resolve().glob("*.tar.gz"))
    check(wheel)
    sizes = [f"{file.name} {file.stat().st_size / 1e6:.2f} MB" for file in (wheel, *sdists)]
    print(", ".join(sizes))
    print("| Python | light: size, time to install | whole: size, time to install |\n|---|---|---|", flush=True)
    for number, interpreter in enumerate(args.python or _found()):
        row = tried(interpreter, wheel, sdists[0] if sdists and number == 0 else None)
        print(f"| {row.version} | {row.light} | {row.whole} |", flush=True)


if __name__ == "__main__":
    main()
