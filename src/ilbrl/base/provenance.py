"""Which code made a result: versions of what matters, and the commit where there is one."""

from __future__ import annotations

import os
import subprocess
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from ilbrl import __version__


@cache
def versions() -> dict[str, str]:
    """Versions of ilbrl and of the libraries that can change a number."""
    found = {"ilbrl": __version__}
    for package in ("jax", "jaxlib", "numpy", "optax", "gymnasium", "mujoco"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


@cache
def commit() -> str | None:
    """The commit of the checkout this package runs from, marked `+` when files differ from it; None elsewhere.

    A copy without its history (a container image, a cluster node) can be told in the environment: ILBRL_COMMIT.
    """
    if told := os.environ.get("ILBRL_COMMIT"):
        return told
    here = Path(__file__).parent
    try:
        git = ["git", "-C", str(here)]
        tracked = subprocess.run([*git, "ls-files", "--error-unmatch", __file__], capture_output=True, timeout=10)
        if tracked.returncode:
            return None
        described = subprocess.run(
            [*git, "describe", "--always", "--dirty=+"], capture_output=True, text=True, timeout=10
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return described.stdout.strip() or None
