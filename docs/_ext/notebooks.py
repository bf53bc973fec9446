"""Notebooks as pages: text, code, and the outputs that are stored in them. Nothing is executed while the site is built.

This page instead of MyST-NB, which needs 42 more packages (Jupyter's client, kernel and cache, IPython,
SQLAlchemy …) in order to execute notebooks: `scripts/run_notebooks.py` has done that, and the tests do it again.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from docutils import nodes
from myst_parser.parsers.sphinx_ import MystParser
from sphinx.application import Sphinx


class NotebookParser(MystParser):
    """Reads nbformat 4."""

    supported = ("notebook",)

    def parse(self, inputstring: str, document: nodes.document) -> None:
        name = Path(document["source"]).name
        super().parse("\n\n".join(markdown(json.loads(inputstring), name)), document)


def markdown(notebook: dict[str, Any], name: str) -> Iterator[str]:
    """The cells as MyST; below the title, the notebook itself to download."""
    download = f"{{download}}`This page as a Jupyter notebook <{name}>`"
    for number, cell in enumerate(notebook["cells"]):
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            title, _, rest = source.partition("\n") if number == 0 else ("", "", source)
            yield f"{title}\n\n{download}\n\n{rest}" if number == 0 else rest
        else:
            yield f"~~~~python\n{source.rstrip(';')}\n~~~~"
            yield from map(_output, cell["outputs"])


def _output(output: dict[str, Any]) -> str:
    data = output.get("data", {})
    if "image/png" in data:
        return f"![what the code above draws](data:image/png;base64,{data['image/png'].strip()})"
    text = "".join(output.get("text") or data.get("text/plain", ())).rstrip()
    return f"~~~~{{code-block}} text\n:class: output\n\n{text}\n~~~~"


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_source_suffix(".ipynb", "notebook")
    app.add_source_parser(NotebookParser)
    return {"parallel_read_safe": True}
