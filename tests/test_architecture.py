"""The house rules that a machine can check: import direction, and what importing costs."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "src" / "ilbrl"

# In the order data walks through the house: a module imports only what stands before it.
ORDER = [
    "base", "policy", "envs", "data", "learning", "rewards", "agents", "models", "results", "ope", "study", "tabular",
    "report", "cli", "__main__",
]  # fmt: skip

# Libraries that only these parts may import, so that the rest works without them.
AT_THE_EDGE = {
    "gymnasium": {"envs", "tabular"},  # tabular reads toy-text tables
    "mujoco": {"envs"},
    "faiss": {"rewards"},
    "tyro": {"cli"},
    "minari": {"data"},
    "onnx": {"policy"},
    "pandas": {"data"},
    "ray": {"study"},
    "tensorboardX": {"learning"},
    "wandb": {"learning"},
    "mlflow": {"learning"},
    "jinja2": {"report"},
}


def imports(path: Path) -> list[tuple[str, bool]]:
    """(module, whether at the top level) of every import in a file, `from ilbrl import x` as `ilbrl.x`."""
    tree = ast.parse(path.read_text())
    found = []
    for node in ast.walk(tree):
        top = node in tree.body
        if isinstance(node, ast.Import):
            found += [(alias.name, top) for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [f"ilbrl.{a.name}" for a in node.names] if node.module == "ilbrl" else [node.module]
            found += [(name, top) for name in names]
    return found


FILES = [path for path in PACKAGE.rglob("*.py") if path != PACKAGE / "__init__.py"]


def part_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def test_every_part_has_its_place():
    assert {part_of(path) for path in FILES} - {"source_policies"} <= set(ORDER)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_point_backwards(path):
    own = ORDER.index(part_of(path))
    for module, _ in imports(path):
        if module.startswith("ilbrl.") and module != "ilbrl.__version__":
            other = module.split(".")[1]
            assert ORDER.index(other) <= own, f"{path.name} imports {module}, which stands after it"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_edge_libraries_stay_at_the_edge(path):
    for module, top in imports(path):
        library = module.split(".")[0]
        if library in AT_THE_EDGE:
            assert part_of(path) in AT_THE_EDGE[library], f"{path.name} imports {library}"
            assert not top or library == "tyro", f"{path.name} imports {library} at the top: do it where it is used"


def test_importing_is_light():
    script = (
        "import sys, time, ilbrl\n"
        "assert 'numpy' not in sys.modules\n"
        "ilbrl.Dataset, ilbrl.Policy, ilbrl.load\n"
        "heavy = {'jax', 'gymnasium', 'mujoco', 'faiss', 'ray', 'pandas', 'matplotlib', 'minari', 'tyro'}\n"
        "print(time.process_time(), *sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    seconds, *imported = done.stdout.split()
    assert imported == []
    assert float(seconds) < 2  # of processor time in that process; 0.2 on a quiet machine
