"""`ilbrl data`, as a person or a script meets it."""

import json
from pathlib import Path

import numpy as np
import pytest

from ilbrl.cli import main
from ilbrl.data import Dataset, from_arrays, load, save
from ilbrl.data.summary import sparkline


def small(**change: object) -> Dataset:
    rng = np.random.default_rng(0)
    fields = {
        "observations": rng.normal(size=(6, 2)),
        "actions": rng.uniform(-1, 1, (6, 1)),
        "rewards": [1, 1, 1, 5, 5, 5],
        "terminals": [0, 0, 1, 0, 0, 1],
        "timeouts": np.zeros(6),
    }
    return from_arrays(**{**fields, **change})  # pyright: ignore[reportArgumentType]


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    return save(small(), tmp_path / "logs.npz")


def test_inspect_for_people(logs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "inspect", str(logs)]) == 0
    shown = capsys.readouterr().out
    assert "6 transitions in 2 episodes" in shown
    assert "action 0" in shown
    assert "note no next_observations in the logs" in shown


def test_inspect_for_scripts(logs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "inspect", str(logs), "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert (facts["transitions"], facts["episodes"]) == (6, 2)
    assert facts["episode_returns"] == [3, 15]
    assert facts["returns"] == {"min": 3, "median": 9, "mean": 9, "max": 15}
    assert facts["behaviour_policy"] == {"found": False}
    assert facts["findings"][-1]["check"] == "reader"


def test_inspect_exits_1_on_errors(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    broken = save(small(actions=np.full((6, 1), np.nan)), tmp_path / "broken.npz")
    assert main(["data", "inspect", str(broken)]) == 1
    assert "error actions: NaN in 6 rows (first: row 0, column 0)" in capsys.readouterr().out
    assert main(["data", "inspect", str(broken), "--json"]) == 1
    facts = json.loads(capsys.readouterr().out, parse_constant=lambda constant: pytest.fail(f"{constant} is not JSON"))
    assert facts["ranges"]["actions"]["mean"] == [None]


def test_inspect_a_real_excerpt(capsys: pytest.CaptureFixture[str]) -> None:
    path = Path(__file__).parents[2].parent / "shared" / "data" / "d4rl_excerpt" / "hopper_medium-v2.hdf5"
    if not path.is_file():
        pytest.skip("the folder of real D4RL files is not beside the checkout")
    assert main(["data", "inspect", str(path), "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["transitions"] == 911
    assert [round(value) for value in facts["episode_returns"]] == [1465, 1413]
    assert facts["behaviour_policy"]["found"]
    assert facts["behaviour_policy"]["log_prob_max_error"] < 1e-4


def test_inspect_beside_expert_data(logs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "inspect", str(logs), "--expert", f"{logs}:1ep"]) == 0
    assert "3 of 3 expert transitions also stand in the other logs" in capsys.readouterr().out


def test_inspect_examines_the_expert_too(logs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "inspect", str(logs), "--expert", f"{logs}:1ep"]) == 0
    assert capsys.readouterr().out.endswith("\nexpert: arrays  3 transitions in 1 episode, mean return 3\n")
    broken = save(small(actions=np.full((6, 1), np.nan), source="broken"), tmp_path / "broken.npz")
    assert main(["data", "inspect", str(logs), "--expert", str(broken)]) == 1
    shown = capsys.readouterr().out
    assert "  error actions: NaN in 6 rows" in shown[shown.index("expert: broken") :]
    assert main(["data", "inspect", str(logs), "--expert", str(broken), "--json"]) == 1
    facts = json.loads(capsys.readouterr().out)
    assert facts["expert"]["findings"][0]["grade"] == "error"
    assert all(finding["grade"] != "error" for finding in facts["findings"])


def test_a_row_is_told_as_an_editor_counts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [f"{k};0.1;{k // 4}" for k in range(8)]
    rows[5] = ";0.1;1"
    (tmp_path / "logs.csv").write_text("\n".join(["speed;action;episode", *rows, ""]))
    assert main(["data", "inspect", str(tmp_path / "logs.csv"), "--columns", "observations", "speed"]) == 1
    shown = capsys.readouterr().out
    assert "error observations: NaN in 1 row (first: row 5, column speed); repair such rows or leave them out" in shown
    assert (tmp_path / "logs.csv").read_text().splitlines()[7 - 1] == rows[5]
    assert "note rows are counted from 0, without the heading: row 5 is line 7 of the file" in shown


def test_inspect_draws(logs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "inspect", str(logs), "--plot", str(tmp_path / "p.png")]) == 0
    assert (tmp_path / "p.png").read_bytes().startswith(b"\x89PNG")
    assert main(["data", "inspect", str(logs), "--plot", str(tmp_path / "p.doc")]) == 2
    assert "is no figure; name a file that ends in .png" in capsys.readouterr().err


def test_what_files_say_does_nothing_to_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Neither mark-up of the printing library nor control characters, in names of files and columns."""
    path = tmp_path / "[red] \u202e.csv"
    path.write_text("obs_0,action,[/x],\x1b]0;gone\x07,terminal\n1,a\x1b[2J,0,0,0\n2,[/b],0,0,1\n")
    for words in (["data", "inspect", str(path)], ["data", "convert", str(path), str(tmp_path / "a.npz")]):
        assert main(words) == 0
        said = capsys.readouterr().out
        assert "not used: [/x], \\x1b]0;gone\\x07" in said
        assert "[red] " in said or "a.npz" in said
        assert not {"\x1b", "\x07", "\u202e"} & set(said)
    path.write_text("obs_0,act\x1b[2J\n1,2\n")
    assert main(["data", "inspect", str(path)]) == 2
    assert "\x1b" not in capsys.readouterr().err


def test_convert_writes_all_and_never_over_what_it_reads(logs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = logs.read_bytes()
    assert main(["data", "convert", f"{logs}:1ep", f"d4rl:{logs}", "--force"]) == 2
    assert "this command reads it" in capsys.readouterr().err
    assert main(["data", "convert", str(logs), f"{logs.parent}/other.npz:1ep"]) == 2
    assert "how much to take is said of what is read" in capsys.readouterr().err
    assert [path.name for path in logs.parent.iterdir()] == [logs.name]
    assert logs.read_bytes() == before


def test_convert_and_back(logs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "convert", str(logs), str(tmp_path / "logs.hdf5")]) == 0
    assert main(["data", "convert", str(tmp_path / "logs.hdf5"), str(tmp_path / "back.npz")]) == 0
    assert load(tmp_path / "back.npz").content_hash == load(logs).content_hash
    assert "6 transitions in 2 episodes" in capsys.readouterr().out


def test_convert_overwrites_only_by_force(logs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "precious.npz"
    target.write_text("precious")
    assert main(["data", "convert", str(logs), str(target)]) == 2
    assert "exists already" in capsys.readouterr().err
    assert target.read_text() == "precious"
    assert main(["data", "convert", str(logs), str(target), "--force"]) == 0
    assert len(load(target)) == 6


@pytest.mark.parametrize("name", ["empty.hdf5", "text.hdf5", "cut.npz", "folder", "absent.npz", "object.npz"])
def test_bad_input_is_one_sentence_and_nothing_is_written(
    name: str, logs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "empty.hdf5").touch()
    (tmp_path / "text.hdf5").write_text("hello")
    (tmp_path / "cut.npz").write_bytes(logs.read_bytes()[:-200])
    (tmp_path / "folder").mkdir()
    np.savez(tmp_path / "object.npz", observations=np.zeros((2, 1)), actions=np.array([None, {}]))
    before = sorted(tmp_path.iterdir())
    for command in (["inspect", str(tmp_path / name)], ["convert", str(tmp_path / name), str(tmp_path / "out.npz")]):
        assert main(["data", *command]) == 2
        error = capsys.readouterr().err
        assert error.startswith(f"ilbrl data: {tmp_path / name}: ")
        assert error.count("\n") == 1
    assert sorted(tmp_path.iterdir()) == before


def test_make_knows_its_names(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("gymnasium")
    assert main(["data", "make", "pong/expert"]) == 2
    assert "no benchmark dataset 'pong/expert'" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["--help"], ["inspect", "--help"], ["convert", "--help"], ["make", "--help"]])
def test_help_teaches_by_example(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit:
        main(["data", *words])
    assert exit.value.code == 0
    assert f"ilbrl data {words[0] if len(words) > 1 else 'inspect'} " in capsys.readouterr().out


def test_usage_errors_exit_with_2() -> None:
    with pytest.raises(SystemExit) as exit:
        main(["data", "inspect"])
    assert exit.value.code == 2


def test_sparklines_are_histograms() -> None:
    assert sparkline(np.array([0.0, 0, 0, 0, 1, 2, 2]), width=3) == "█▃▅"
    assert sparkline(np.array([3.0, 3, np.nan])) == "█"
    assert sparkline(np.array([np.nan])) == ""
