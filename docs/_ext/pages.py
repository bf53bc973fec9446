"""Pages that are written to be read in the repository, too.

A link to a document of the repository's root leads to its page here, and one whose text is the name of a document shows
the title of that page instead. A link to other files of the repository (results,
sources), which the site does not carry, becomes plain text. A link to nothing is left to MyST, whose warning fails the
build.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx

DOCS = Path(__file__).resolve().parents[1]
ROOT = DOCS.parent

INCLUDED = {
    "changelog": "CHANGELOG.md",
    "conduct": "CODE_OF_CONDUCT.md",
    "contributing": "CONTRIBUTING.md",
    "security": "SECURITY.md",
    "start": "README.md",
}
"""Page → the document of the root that it includes, whose links are relative to the root."""


def setup(app: Sphinx) -> dict[str, Any]:
    # before Sphinx gathers the files to copy (500)
    app.connect("doctree-read", _follow, priority=100)
    app.connect("doctree-read", _keep_together)
    return {"parallel_read_safe": True}


def _follow(app: Sphinx, tree: nodes.document) -> None:
    page = app.env.docname
    here = ROOT if page in INCLUDED else (DOCS / page).parent
    for link in list(tree.findall(addnodes.pending_xref)) + list(tree.findall(addnodes.download_reference)):
        if link.get("reftype") != "myst":
            continue
        path, _, anchor = link["reftarget"].partition("#")
        if link.get("refdomain") == "doc":  # MyST found a document; it may stand outside this folder
            path, anchor = _source(path), link["reftargetid"]
        target = (here / path).resolve()
        if not path or not target.exists():
            continue
        document = _page(target)
        if document is None:
            link.replace_self(link.children)
            continue
        found = addnodes.pending_xref("", *link.children, **link.attributes)
        found["refdomain"], found["reftarget"], found["reftargetid"] = "doc", document, anchor or None
        found["refexplicit"] = not link.astext().endswith(target.name)
        link.replace_self(found)


def _keep_together(app: Sphinx, tree: nodes.document) -> None:
    """A number and its interval stay on one line of a table."""
    for entry in tree.findall(nodes.entry):
        for text in list(entry.findall(nodes.Text)):
            if " ± " in text and not isinstance(text.parent, nodes.literal):
                text.parent.replace(text, nodes.Text(text.replace(" ± ", "\u00a0±\u00a0")))


def _source(document: str) -> str:
    """Where the text of a page stands."""
    notebook = DOCS / f"{document}.ipynb"
    return str(notebook if notebook.exists() else DOCS / f"{document}.md")


def _page(target: Path) -> str | None:
    """The page that shows a file of the repository."""
    for page, source in INCLUDED.items():
        if target == ROOT / source:
            return page
    if target.suffix in (".md", ".ipynb") and target.is_relative_to(DOCS):
        return target.relative_to(DOCS).with_suffix("").as_posix()
    return None
