"""Files on a full disk: a sentence that names them, and what was there before."""

import errno
from pathlib import Path

import pytest

from ilbrl.base.errors import IlbrlError
from ilbrl.base.files import append, written_whole


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device that is always full")
def test_a_log_on_a_full_disk_is_named():
    with pytest.raises(IlbrlError, match=r"/dev/full: cannot be written \(No space left on device\)"):
        append(Path("/dev/full"), "a line")


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


def test_a_file_in_the_place_of_the_folder_is_a_sentence(tmp_path):
    def write():
        with written_whole(tmp_path / "taken" / "a.json") as partial:
            partial.write_text("new")

    (tmp_path / "taken").write_text("a file")
    with pytest.raises(IlbrlError, match=r"taken/a\.json: cannot be written"):
        write()
