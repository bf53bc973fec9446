"""Run notebooks and keep what they show: `python scripts/run_notebooks.py docs/notebooks/*.ipynb`.

They are nbformat 4 and open in Jupyter, which is not needed to run them: cells of plain Python, executed one after the
other in a temporary folder. Kept are what a cell prints, the value of its last line, and its figures. The cell with the
tag `parameters` holds the sizes; the tests replace them by smaller ones.
"""

from __future__ import annotations

import argparse
import ast
import base64
import contextlib
import io
import json
import os
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

os.environ.setdefault("MPLBACKEND", "agg")
DPI = 80  # small files


def execute(notebook: dict[str, Any], parameters: Mapping[str, Any]) -> None:
    """Run all cells in the folder where we are, and put their outputs in the place of the old ones."""
    names: dict[str, Any] = {"__name__": "__main__"}
    number = 0
    for cell in notebook["cells"]:
        if cell["cell_type"] != "code":
            continue
        number += 1
        cell["execution_count"], cell["outputs"] = number, _outputs("".join(cell["source"]), names, number)
        if "parameters" in cell["metadata"].get("tags", ()):
            unknown = [name for name in parameters if name not in names]
            if unknown:
                raise ValueError(f"the notebook has no parameter {', '.join(unknown)}")
            names.update(parameters)


def _outputs(source: str, names: dict[str, Any], number: int) -> list[dict[str, Any]]:
    tree = ast.parse(source)
    last = tree.body[-1] if tree.body else None
    if isinstance(last, ast.Expr):
        del tree.body[-1]
    printed, value = io.StringIO(), None
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, f"cell {number}", "exec"), names)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), f"cell {number}", "eval"), names)
    found: list[dict[str, Any]] = []
    if text := printed.getvalue():
        found.append({"output_type": "stream", "name": "stdout", "text": _lines(text)})
    if value is not None and not source.rstrip().endswith(";"):
        shown = {"data": {"text/plain": _lines(repr(value))}, "metadata": {}, "execution_count": number}
        found.append({"output_type": "execute_result", **shown})
    return found + [{"output_type": "display_data", "data": data, "metadata": {}} for data in _figures()]


def _figures() -> list[dict[str, Any]]:
    """The figures that a cell has drawn, as Jupyter shows them below it."""
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot is None:
        return []
    found = []
    for number in pyplot.get_fignums():
        image = io.BytesIO()
        pyplot.figure(number).savefig(image, dpi=DPI, bbox_inches="tight", metadata={"Software": None})
        said = [f"<Figure with {len(pyplot.figure(number).axes)} axes>"]
        found.append({"image/png": base64.b64encode(image.getvalue()).decode() + "\n", "text/plain": said})
    pyplot.close("all")
    return found


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("notebooks", type=Path, nargs="+")
    for path in parser.parse_args().notebooks:
        home, notebook = path.resolve(), json.loads(path.read_text(encoding="utf-8"))
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            execute(notebook, {})
        home.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        print(f"{path}: {home.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
