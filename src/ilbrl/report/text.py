"""Numbers and sentences as a person reads them, and names from files made safe for each place they are printed in.

Names of runs, tasks, algorithms, metrics and columns come from files that anybody may have written. Each output has one
function here that prints them as they are and lets them do nothing: `markdown`, `tex`, `script`, `on_page`, `on_paper`,
`terminal`, `file_name`. (Tags are escaped by the template engine, those of plot texts on screen by the page's script.)
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import shlex
import unicodedata
from collections.abc import Sequence
from pathlib import Path
from typing import Any

FILE_NAME_LENGTH = 80
LABEL_LENGTH = 60  # in a picture
OF_RUN = " · "  # between an algorithm, or a role, and the run that it is of


def decimals(value: float) -> int:
    """Enough for three digits of a small number, one for a large one or none at all."""
    return 1 if abs(value) >= 10 or value == 0 else 2 if abs(value) >= 1 else 3


def number(value: Any, digits: int | None = None) -> str:
    """With thousands apart; a dash where there is no number."""
    if value is None or not math.isfinite(value):
        return "–"
    return f"{value:,.{decimals(value) if digits is None else digits}f}"


def percent(share: float | None) -> str:
    return number(share) if share is None or not math.isfinite(share) else f"{100 * share:.1f} %"


def plus_minus(value: float | None, half_width: float | None) -> str:
    """`271.0 ± 2.4`, to the decimals of the first; the value alone where its uncertainty is not known."""
    if value is None or half_width is None or not math.isfinite(half_width):
        return number(value)
    return f"{number(value)} ± {number(half_width, decimals(value))}"


def sentence(text: str) -> str:
    """With a capital and a full stop, whoever wrote it."""
    text = text.strip()
    return text[:1].upper() + text[1:] + ("" if not text or text.endswith((".", "!", "?")) else ".")


def several(count: int, what: str, plural: str | None = None) -> str:
    """`1 seed`, `3 seeds`, `2 policies`."""
    return f"{count:,} {what if count == 1 else plural or what + 's'}"


def listed(names: Sequence[str]) -> str:
    """`A, B and C`; with semicolons where a name has a comma of its own."""
    if len(names) < 2:
        return "".join(names)
    apart = "; " if any("," in name for name in names) else ", "
    return f"{apart.join(names[:-1])}{apart if apart == '; ' else ' '}and {names[-1]}"


def short(value: Any) -> str:
    """A hyper-parameter: three significant digits, whatever else as it is; a dash where there is none."""
    return "–" if value is None else f"{value:.3g}" if isinstance(value, float) else str(value)


def plain(value: Any) -> str:
    """Recorded settings in words: a distribution as `uniform(0.2, 0.5)`, an object as `name value, …`."""
    if isinstance(value, dict) and set(value) == {"kind", "values"}:
        return f"{value['kind']}({plain(value['values'])})"
    if isinstance(value, dict):
        return "; ".join(f"{name} {plain(each)}" for name, each in value.items())
    return ", ".join(map(short, value)) if isinstance(value, list | tuple) else short(value)


def one_line(text: str) -> str:
    """Without line breaks and control characters, which could hide or move what stands beside them."""
    return "".join(" " if letter in "\n\r\t\u2028\u2029" else _visible(letter) for letter in text)


def _visible(letter: str) -> str:
    return "\N{REPLACEMENT CHARACTER}" if unicodedata.category(letter) in ("Cc", "Cf", "Cs") else letter


def on_page(text: str) -> str:
    """Text whose lines stay, and in which nothing turns the direction of writing or stays unseen."""
    return text if text.isprintable() else "".join(c if c in "\n\t" else _visible(c) for c in text)


terminal = one_line


def markdown(text: str) -> str:
    """Text that Markdown shows as it is: no mark-up, no HTML, no link, no new column of a table."""
    escaped = re.sub(r"([\\`*\[\]<>|#~&@!$])", r"\\\1", one_line(text))
    escaped = re.sub(r"(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])", r"\\_", escaped)  # within a word it means nothing
    return re.sub(r"(?i)(https?|ftp|mailto|www)([:.])", r"\1\\\2", escaped)


_TEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "±": r"$\pm$", "–": "--", "·": r"$\cdot$", "⌊": r"$\lfloor$",
    "⌋": r"$\rfloor$", "√": r"$\surd$", "<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}",
    "[": "{[}", "]": "{]}", "*": "{*}",  # after the end of a row these would be arguments of it
}  # fmt: skip


def tex(text: str) -> str:
    """Text that LaTeX sets as it is written; letters that pdfLaTeX's fonts lack become question marks."""
    escaped = "".join(_TEX.get(letter, letter) for letter in one_line(text))
    return escaped.encode("latin-1", "replace").decode("latin-1")


def on_paper(text: str) -> str:
    """Text for matplotlib, which takes dollars for mathematics and hides legends that begin with an underscore.

    It is cut where it would leave no room for the picture.
    """
    text = one_line(text)
    text = text if len(text) <= LABEL_LENGTH else f"{text[:LABEL_LENGTH]}…"
    text = text.replace("$", r"\$")
    return f" {text}" if text.startswith("_") else text


def script(value: Any) -> str:
    """JSON that may stand inside <script>: no tag can begin or end in it."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    text = on_page(text)
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def file_name(name: str) -> str:
    """The stem of a file, made of a name that may say anything: letters, digits, dots and dashes, no path.

    A name that had to change gets a few letters of its hash, so that two names never share a file.
    """
    safe = re.sub(r"[^A-Za-z0-9._-]+", "-", name)[:FILE_NAME_LENGTH].strip("-.")
    if safe and safe == name:
        return safe
    return f"{safe}-{hashlib.sha256(name.encode('utf-8', 'backslashreplace')).hexdigest()[:8]}".lstrip("-")


def command(*words: str | Path) -> str:
    """A command line to copy: what the shell would split or expand is quoted."""
    return shlex.join(map(str, words))
