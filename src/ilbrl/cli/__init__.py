"""The `ilbrl` command: one file per subcommand, imported only when it is asked for."""

from __future__ import annotations

import importlib
import os
import signal
import sys
import threading
from collections.abc import Sequence
from types import ModuleType

from ilbrl.base.errors import IlbrlError

COMMANDS = {
    "demo": "the whole job on built-in data, in a few minutes",
    "data": "inspect, convert and make datasets",
    "label": "how close every logged step is to the expert's support",
    "train": "train a population of policies from logs",
    "tune": "the whole protocol: tune, train, evaluate offline, select",
    "evaluate": "what policies are worth, from logs alone, and how far to trust it",
    "rollout": "score a policy in its environment",
    "report": "one page about one study or several",
    "bounds": "the paper's sample-complexity bounds, as a calculator",
    "tabular": "ILBRL on a finite MDP, without any deep learning",
}

EXIT_CODES = "exit codes: 0 done · 1 done, and the answer is bad news · 2 bad input or usage · 130 interrupted"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `ilbrl COMMAND …` and return its exit code (the console script passes it on to the shell)."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words[:1] == ["--version"]:
        from ilbrl import __version__

        print(f"ilbrl {__version__}")
        return 0
    if not words or words[0] in ("-h", "--help"):
        print(_overview())
        return 0 if words else 2
    if words[0] not in COMMANDS:
        print(f"ilbrl: no command {words[0]!r}\n\n{_overview()}", file=sys.stderr)
        return 2
    command = _import(words[0])
    try:
        return command.main(words[1:])
    except IlbrlError as error:
        print(f"ilbrl {words[0]}: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:  # `ilbrl … | head`: the reader has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:  # a full disk, a folder that may not be written
        print(f"ilbrl {words[0]}: {error.filename or 'a file'}: {error.strerror or error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\nilbrl: interrupted", file=sys.stderr)
        return 130


def _import(command: str) -> ModuleType:
    """The module of a command; Ctrl-C ends its import at once, for an exception there shows the libraries' insides."""
    module, handler = f"ilbrl.cli.{command}", signal.getsignal(signal.SIGINT)
    on_main_thread = threading.current_thread() is threading.main_thread()
    if not on_main_thread or handler is not signal.default_int_handler:  # a caller's own way with Ctrl-C stays
        return importlib.import_module(module)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        return importlib.import_module(module)
    finally:
        signal.signal(signal.SIGINT, handler)


def _overview() -> str:
    rows = "\n".join(f"  {name:<9} {what}" for name, what in COMMANDS.items())
    return (
        "Batch imitation learning: from logged data alone to a policy you can deploy.\n\n"
        f"usage: ilbrl COMMAND …      (ilbrl COMMAND --help explains each)\n\n{rows}\n\n{EXIT_CODES}"
    )
