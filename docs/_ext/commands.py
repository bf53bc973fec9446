"""The directive `command`: what a command of `ilbrl` says under --help, taken from the command itself."""

from __future__ import annotations

import contextlib
import io
import os
import shlex
from typing import Any
from unittest import mock

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from ilbrl.cli import main

WIDTH = "100"


class Command(SphinxDirective):
    required_arguments = 1
    final_argument_whitespace = True

    def run(self) -> list[nodes.Node]:
        words = shlex.split(self.arguments[0])
        said, failed = io.StringIO(), 0
        with mock.patch.dict(os.environ, COLUMNS=WIDTH, NO_COLOR="1"), contextlib.redirect_stdout(said):
            try:
                failed = main([*words, "--help"])
            except SystemExit as stop:  # tyro's way of ending --help
                failed = stop.code or 0
        if failed:
            raise self.error(f"ilbrl {shlex.join(words)} --help: exit code {failed}")
        text = said.getvalue().strip()
        return [nodes.literal_block(text, text, language="text", classes=["help"])]


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_directive("command", Command)
    return {"parallel_read_safe": True}
