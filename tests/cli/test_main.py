import subprocess
import sys

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
