import io
import os
import signal
import subprocess
import sys
import textwrap
import time
from types import SimpleNamespace

import pytest

from ilbrl import __version__
from ilbrl.cli import COMMANDS, main


def test_overview_lists_every_command(capsys):
    assert main(["--help"]) == 0
    said = capsys.readouterr().out
    assert all(f"\n  {name} " in said for name in COMMANDS)
    assert main([]) == 2
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.endswith(f"ilbrl {__version__}\n")


def test_a_setting_that_is_on_by_default_has_both_spellings(capsys):
    with pytest.raises(SystemExit):
        main(["train", "ilbrl", "--help"])
    assert "--layer-norm, --no-layer-norm" in capsys.readouterr().out


def test_unknown_command(capsys):
    assert main(["frobnicate"]) == 2
    assert "no command 'frobnicate'" in capsys.readouterr().err


def test_bad_input_is_one_sentence_not_a_traceback(tmp_path, capsys):
    assert main(["data", "inspect", str(tmp_path / "absent.hdf5")]) == 2
    said = capsys.readouterr().err
    assert said.startswith("ilbrl data: ")
    assert "absent.hdf5" in said
    assert "Traceback" not in said


def test_commands_of_the_light_install_say_what_they_need(monkeypatch, capsys):
    def absent(command):
        raise ModuleNotFoundError("No module named 'tyro'", name="tyro")

    monkeypatch.setattr("ilbrl.cli._import", absent)
    assert main(["policy", "show", "a.safetensors"]) == 2
    said = capsys.readouterr().err
    assert said.startswith("ilbrl policy: needs tyro, which is not installed here; ")
    assert "Traceback" not in said


CONSOLE = "import sys; from ilbrl.cli import main; sys.exit(main())"  # what the console script does


@pytest.mark.parametrize("words", [["--help"], ["bounds", "--help"], ["policy", "show", "hopper/expert"]])
def test_a_reader_that_stops_early_is_no_error(words):
    """Also where all output still waits to be written when the command has ended."""
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run([sys.executable, "-c", CONSOLE, *words], stdout=writing, stderr=subprocess.PIPE, text=True)
    os.close(writing)
    assert (done.returncode, done.stderr) == (0, "")


def test_no_command_complains_of_a_reader_that_stops_early(played, files, monkeypatch):
    """`… | head`, for whatever prints much."""
    policy, logs = str(files / "expert.safetensors"), str(files / "medium.npz")
    for words in (
        *(["report", str(played), "--format", name] for name in ("md", "json", "latex", "csv")),
        *(["data", "inspect", logs, *more] for more in ([], ["--json"])),
        *(["policy", "show", policy, *more] for more in ([], ["--json"])),
        ["label", "--expert", str(files / "expert.npz"), "--logs", logs],
        ["bounds", "--help"], ["tabular", "--help"], ["train", "ilbrl", "--help"], ["tune"], ["rollout", "--help"],
        ["models", "train", "--help"], ["evaluate", "--help"],
    ):  # fmt: skip
        reading, writing = os.pipe()
        os.close(reading)
        said = io.StringIO()
        with os.fdopen(writing, "w") as nobody, monkeypatch.context() as patch:
            patch.setattr(sys, "stdout", nobody)
            patch.setattr(sys, "stderr", said)
            assert (main(words), said.getvalue()) == (0, ""), words


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_a_terminal_without_unicode_is_no_error(encoding):
    done = subprocess.run(
        [sys.executable, "-c", CONSOLE, "--help"], env={**os.environ, "PYTHONIOENCODING": encoding}, capture_output=True
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"usage: ilbrl COMMAND \\u2026" in done.stdout


def test_an_interrupt_while_a_command_is_imported_is_silent():
    script = textwrap.dedent("""
        import os, signal
        from ilbrl import cli
        cli.importlib.import_module = lambda name: os.kill(os.getpid(), signal.SIGINT)
        cli.main(["bounds"])
    """)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (-signal.SIGINT, "")


def test_an_interrupt_afterwards_is_one_line(monkeypatch, capsys):
    def interrupted(words):
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr("ilbrl.cli._import", lambda command: SimpleNamespace(main=interrupted))
    for words in (["bounds"], ["evaluate"], ["label", "--out", "a file"], ["policy", "export", "--out=a.onnx"]):
        assert main(words) == 130
        assert capsys.readouterr().err == "\nilbrl: stopped\n"
    for words, typed in (
        (["evaluate", "--out", "a folder"], "evaluate --out 'a folder'"),
        (["models", "train", "--out=models"], "models train --out=models"),
    ):
        assert main(words) == 130
        said = f"\nilbrl: stopped; the same command continues from here: ilbrl {typed}\n"
        assert capsys.readouterr().err == said


DEAF = """
import hashlib, os, sys
from ilbrl import cli
from ilbrl.base.processes import run_units

def main(words):
    children = run_units(eval, "__import__('os').getpid() if x < 2 else __import__('time').sleep(60)",
                         ({"x": x} for x in range(9)), 2)
    print(next(children), flush=True)
    hashlib.pbkdf2_hmac("sha256", b"", b"", 500_000_000)  # minutes in C, as a compiler: no Python step in between
    raise AssertionError("the end was not awaited")

cli._import = lambda command: type("Command", (), {"main": staticmethod(main)})
sys.argv = ["ilbrl", "train", "--out", "runs/mine"]
sys.exit(cli.main())
"""


def test_ctrl_c_ends_a_command_that_does_not_listen_and_its_children_within_two_seconds():
    with subprocess.Popen(
        [sys.executable, "-c", DEAF], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        child = int(process.stdout.readline())
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=20) == 130  # after 1.5 seconds of grace, and what a busy machine adds
        said = "\nilbrl: stopped; the same command continues from here: ilbrl train --out runs/mine\n"
        assert process.stderr.read() == said
    for _ in range(100):  # until the system has buried it
        try:
            os.kill(child, 0)
        except ProcessLookupError:
            return
        time.sleep(0.05)
    pytest.fail("a child outlived the command")
