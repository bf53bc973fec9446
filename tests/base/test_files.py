"""Files on a full disk, or of a killed process: a sentence that names them, and what was there before."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ilbrl.base.errors import IlbrlError
from ilbrl.base.files import append, locked, partial_path, written_whole


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device that is always full")
def test_a_log_on_a_full_disk_is_named():
    with pytest.raises(IlbrlError, match=r"/dev/full: cannot be written \(No space left on device\)"):
        append(Path("/dev/full"), "a line")


def test_pipes_are_neither_waited_for_nor_replaced(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(IlbrlError, match=r"pipe: cannot be written \(No such device or address\)"):
        append(tmp_path / "pipe", "a line that nobody reads")
    with pytest.raises(IlbrlError, match="pipe: is a device or a pipe"), written_whole(tmp_path / "pipe"):
        pytest.fail("it would have been replaced")
    with pytest.raises(IlbrlError, match=r"pipe: is no regular file, .*remove it"), locked(tmp_path / "pipe"):
        pass


def test_lines_are_added(tmp_path):
    for line in ("first", "second"):
        append(tmp_path / "log.txt", line)
    assert (tmp_path / "log.txt").read_text() == "first\nsecond\n"


def test_the_old_file_stays_where_the_new_one_has_no_room(tmp_path):
    def write_half():
        with written_whole(tmp_path / "a.json") as partial:
            partial.write_text("ne")
            raise OSError(errno.ENOSPC, "No space left on device")

    (tmp_path / "a.json").write_text("old")
    with pytest.raises(IlbrlError, match="cannot be written"):
        write_half()
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"a.json": "old"}


def test_what_a_killed_process_left_is_removed_and_what_a_living_one_writes_is_not(tmp_path):
    script = "import os; from ilbrl.base.files import written_whole\n"
    script += f"with written_whole({str(tmp_path / 'a [1].json')!r}) as partial: partial.write_text('ha'); os._exit(1)"
    subprocess.run([sys.executable, "-c", script], check=False)
    assert len(list(tmp_path.iterdir())) == 1
    ours = partial_path(tmp_path / "b.json")
    ours.write_text("half, by a process that lives")
    with written_whole(tmp_path / "a [1].json") as partial:
        partial.write_text("whole")
    assert partial_path(tmp_path / "b.json") == ours
    assert {path.name for path in tmp_path.iterdir()} == {"a [1].json", ours.name}


def test_a_file_in_the_place_of_the_folder_is_a_sentence(tmp_path):
    def write():
        with written_whole(tmp_path / "taken" / "a.json") as partial:
            partial.write_text("new")

    (tmp_path / "taken").write_text("a file")
    with pytest.raises(IlbrlError, match=r"taken/a\.json: cannot be written"):
        write()
