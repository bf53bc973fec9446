"""The project's docstrings, which are plain text, as reStructuredText for Sphinx's autodoc.

What a reader sees in the source is what the API pages show: paragraphs, `names` in backticks, lines such as
`seeds: how many` about parameters, aligned columns, indented examples, and the comments beside the fields of a
dataclass or NamedTuple.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
from contextlib import suppress
from pathlib import Path
from typing import Any

from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.errors import PycodeError
from sphinx.pycode import ModuleAnalyzer

PACKAGE = Path(__file__).resolve().parents[2] / "src" / "ilbrl"

BACKTICKS = re.compile(r"(`[^`]+`)")
NAME = re.compile(r"`[A-Za-z_][\w.]*`")
EMPHASIS = re.compile(r"(\*\w[\w ]*\*)")
PARAMETER = re.compile(r"(\w+(?:, \w+)*): (.*)")
COLUMNS = re.compile(r"(\S+(?:,? \S+)*)\s{2,}(\S.*)")
FIELD = re.compile(r"^(    \w+: [^#\n]*  )# ", re.MULTILINE)
GENERATED = ("Alias for field number",)  # NamedTuple's own words about its fields


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("builder-inited", _show_comments_of_fields)
    app.connect("autodoc-process-docstring", _rewrite)
    app.connect("autodoc-process-signature", _shorten)
    app.connect("object-description-transform", _leave_out_of_contents)
    return {"parallel_read_safe": True}


def _rewrite(app: Sphinx, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    text = "\n".join(lines).strip("\n")
    short = name.rpartition(".")[2]
    if text.startswith(GENERATED) or (_is_record(thing) and text.startswith(f"{short}(")):
        text = ""
    if what == "data":
        text = _about(thing)
    lines[:] = to_rst(text, _parameters(thing))


def _shorten(app: Sphinx, what: str, name: str, thing: Any, options: Any, arguments: str | None, returns: str | None):
    """A record shows its fields, each with its type, its default and a comment, and no signature above them."""
    return ("", None) if what == "class" and _is_record(thing) else None


def _leave_out_of_contents(app: Sphinx, domain: str, kind: str, content: addnodes.desc_content) -> None:
    """The list at the side of a page names functions, classes and methods; fields would drown them."""
    if kind in ("attribute", "property"):
        for signature in content.parent.findall(addnodes.desc_signature):
            signature["_toc_name"] = ""


def _is_record(thing: Any) -> bool:
    return dataclasses.is_dataclass(thing) or hasattr(thing, "_fields")


def _parameters(thing: Any) -> set[str]:
    names = {field.name for field in dataclasses.fields(thing)} if dataclasses.is_dataclass(thing) else set()
    try:
        return names | set(inspect.signature(thing).parameters)
    except (TypeError, ValueError):
        return names


def _show_comments_of_fields(app: Sphinx) -> None:
    """Autodoc takes `#:` beside a field for its documentation; here every comment there is, so it is told that."""
    for path in sorted(PACKAGE.rglob("*.py")):
        name = ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__")
        code = path.read_text()
        analyzer = ModuleAnalyzer.for_string(FIELD.sub(r"\1#: ", code), name, str(path))
        with suppress(PycodeError):  # annotations that hold f-strings, as those of commands
            analyzer.analyze()
            analyzer.code = code  # what "source" shows
            ModuleAnalyzer.cache["module", name] = analyzer


def _about(thing: Any) -> str:
    """A registry is described by its keys: what can be asked for."""
    return "Keys: " + ", ".join(f"`{key}`" for key in thing) if isinstance(thing, dict) else ""


def to_rst(text: str, parameters: set[str] = frozenset()) -> list[str]:  # type: ignore[assignment]
    """The same text as reStructuredText; what it does not understand becomes a paragraph, never an error."""
    lines: list[str] = []
    for block in re.split(r"\n\s*\n", text):
        rows = block.strip("\n").split("\n")
        if rows[0].startswith(" "):
            lines += ["::", "", *("    " + row for row in rows)]
        elif all(COLUMNS.fullmatch(row) for row in rows):
            lines += [f"- ``{match[1]}``: {_inline(match[2])}" for row in rows if (match := COLUMNS.fullmatch(row))]
        elif rows[0].startswith("- "):
            lines += [_inline(row) for row in rows]
        else:
            lines += _paragraph(rows, parameters)
        lines.append("")
    return lines


def _paragraph(rows: list[str], parameters: set[str]) -> list[str]:
    """Prose; from the first line about a parameter on, a list of them."""
    lines: list[str] = []
    for row in rows:
        match = PARAMETER.fullmatch(row)
        if match and set(match[1].split(", ")) <= parameters:
            if lines and not lines[-1].startswith(("- ", "  ")):
                lines.append("")
            lines.append(f"- **{match[1]}**: {_inline(match[2])}")
        elif lines and lines[-1].startswith(("- ", "  ")):
            lines += [f"  {_inline(row.strip())}"] if row.startswith(" ") else ["", _inline(row)]
        else:
            lines.append(_inline(row))
    return lines


def _inline(text: str) -> str:
    """Names in backticks become references where they can; everything else is shown as it stands."""
    parts = BACKTICKS.split(text)
    return "".join(_code(part) if BACKTICKS.fullmatch(part) else _escaped(part) for part in parts)


def _code(part: str) -> str:
    return part if NAME.fullmatch(part) else f"``{part[1:-1]}``"


def _escaped(text: str) -> str:
    parts = EMPHASIS.split(text)
    return "".join(part if EMPHASIS.fullmatch(part) else re.sub(r"([\\*_|`])", r"\\\1", part) for part in parts)
