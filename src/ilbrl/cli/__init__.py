"""The `ilbrl` command: one file per subcommand, imported only when it is asked for."""

from __future__ import annotations

import importlib
import os
import shlex
import signal
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from io import TextIOWrapper
from types import ModuleType

from ilbrl.base.errors import IlbrlError
from ilbrl.base.stopping import INTERRUPTED, leave, prompt_end

COMMANDS = {
    "demo": "the whole job on built-in data, in a minute or two",
    "data": "inspect, convert and make datasets",
    "label": "how close every logged step is to the expert's support",
    "train": "train a population of policies from logs",
    "tune": "the whole protocol: tune, train, evaluate offline, select",
    "evaluate": "what policies are worth, from logs alone, and how far to trust it",
    "models": "learn the dynamics behind logs, and roll policies out in them",
    "rollout": "score a policy in its environment",
    "policy": "show a policy file, or export it as ONNX or C",
    "report": "one page about one study or several",
    "bounds": "the paper's sample-complexity bounds, as a calculator",
    "tabular": "ILBRL on a finite MDP, without any deep learning",
}

EXIT_CODES = "exit codes: 0 done · 1 done, and the answer is bad news · 2 bad input or usage · 130 interrupted"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `ilbrl COMMAND …` and return its exit code (the console script passes it on to the shell)."""
    if arguments is not None:
        return _answer(list(arguments))
    words = sys.argv[1:]
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a terminal that has no "…" gets \u2026, not an error
    with prompt_end(lambda: _say_stopped(words)):
        code = _answer(words)
    if code == INTERRUPTED:
        leave(code)  # libraries would wait for what they still compute
    return code


def _answer(words: list[str]) -> int:
    """The exit code; every error that a user can cause or meet is one sentence on standard error."""
    try:
        try:
            return _run(words)
        finally:
            if sys.stdout is not None:
                sys.stdout.flush()  # here, where a reader that is gone can be dealt with
    except IlbrlError as error:
        print(f"ilbrl {words[0]}: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:  # `ilbrl … | head`: the reader has seen enough
        _silence()
        return 0
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] in sys.stdlib_module_names | {"ilbrl"}:
            raise
        print(f"ilbrl {words[0]}: {_not_installed(error.name)}", file=sys.stderr)
        return 2
    except SystemExit as error:  # of tyro: after --help, or wrong usage; and of rich, when the reader has seen enough
        if isinstance(error.__context__, BrokenPipeError):
            return 0
        raise
    except OSError as error:  # a full disk, a folder that may not be written
        print(f"ilbrl {words[0]}: {error.filename or 'a file'}: {error.strerror or error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        _say_stopped(words)
        return INTERRUPTED


def _run(words: list[str]) -> int:
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
    return _import(words[0]).main(words[1:])


def _not_installed(module: str) -> str:
    return (
        f"needs {module}, which is not installed here; without its dependencies the package only loads policies in"
        " Python (ilbrl.Policy.load): install it again without --no-deps"
    )


def _say_stopped(words: list[str]) -> None:
    continues = f"; the same command continues from here: ilbrl {shlex.join(words)}" if _continues(words) else ""
    print(f"\nilbrl: stopped{continues}", file=sys.stderr)


def _continues(words: list[str]) -> bool:
    """Whether the same command goes on from what it has written."""
    if words[0] == "evaluate":
        return any(word.partition("=")[0] == "--out" for word in words)
    return words[0] in ("demo", "train", "tune") or words[:2] in (["data", "make"], ["models", "train"])


def _silence() -> None:
    """What is still to be written to a pipe that nobody reads is discarded, so that exit does not fail again."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, AttributeError, ValueError):
            os.dup2(nowhere, stream.fileno())


def _import(command: str) -> ModuleType:
    """The module of a command. Ctrl-C ends the import at once: an exception there would show the libraries' insides."""
    module, handler = f"ilbrl.cli.{command}", signal.getsignal(signal.SIGINT)
    on_main_thread = threading.current_thread() is threading.main_thread()
    if not on_main_thread or handler is not signal.default_int_handler:  # the caller has its own handler
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
