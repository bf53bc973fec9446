import signal
import subprocess
import sys
import textwrap

from ilbrl import __version__
from ilbrl.cli import COMMANDS, main


def test_overview_lists_every_command(capsys):
    assert main(["--help"]) == 0
    said = capsys.readouterr().out
    assert all(f"\n  {name} " in said for name in COMMANDS)
    assert main([]) == 2
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.endswith(f"ilbrl {__version__}\n")


def test_unknown_command(capsys):
    assert main(["frobnicate"]) == 2
    assert "no command 'frobnicate'" in capsys.readouterr().err


def test_bad_input_is_one_sentence_not_a_traceback(tmp_path, capsys):
    assert main(["data", "inspect", str(tmp_path / "absent.hdf5")]) == 2
    said = capsys.readouterr().err
    assert said.startswith("ilbrl data: ")
    assert "absent.hdf5" in said
    assert "Traceback" not in said


def test_a_reader_that_stops_early_is_no_error():
    script = "from ilbrl.cli import main; raise SystemExit(main(['bounds', '--help']))"
    done = subprocess.run(f'{sys.executable} -c "{script}" | head -n 1', shell=True, capture_output=True, text=True)
    assert "Traceback" not in done.stderr


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

    monkeypatch.setattr("ilbrl.cli.bounds.main", interrupted)
    assert main(["bounds"]) == 130
    assert capsys.readouterr().err == "\nilbrl: interrupted\n"
