"""Tables: a pandas frame, CSV and Parquet."""

from pathlib import Path

import pytest

from ilbrl.base.errors import IlbrlError
from ilbrl.data import from_frame, load

pd = pytest.importorskip("pandas")

TABLE = {
    "episode": ["b", "b", "b", "a", "a"],
    "observation_1": [0.1, 1.1, 2.1, 10.1, 11.1],
    "observation_0": [0, 1, 2, 10, 11],
    "observation_10": [5, 5, 5, 5, 5],
    "action_0": [1, 0, 1, 0, 1],
    "reward": [1.0, 2, 3, 4, 5],
    "terminal": [False, False, True, False, False],
}


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_files(tmp_path: Path, suffix: str) -> None:
    frame = pd.DataFrame(TABLE)
    path = tmp_path / f"logs.{suffix}"
    frame.to_csv(path, index=False) if suffix == "csv" else frame.to_parquet(path)
    dataset = load(path)
    # Episode "a" ends without a terminal: its last row has no successor and goes, the one before times out.
    assert dataset.observations[:, 0].tolist() == [0, 1, 2, 10]
    assert dataset.observations[:, 1] == pytest.approx([0.1, 1.1, 2.1, 10.1])
    assert dataset.observations[:, 2].tolist() == [5, 5, 5, 5]
    assert not dataset.discrete  # numbered action columns are continuous even where all values are whole
    assert dataset.terminals.tolist() == [False, False, True, False]
    assert dataset.timeouts.tolist() == [False, False, False, True]
    assert dataset.returns().tolist() == [6, 4]


def test_steps_put_interleaved_rows_in_order() -> None:
    frame = pd.DataFrame(
        {
            "episode": [1, 2, 1, 2],
            "step": [1, 0, 0, 1],
            "obs_x": [11.0, 20, 10, 21],
            "next_obs_x": [12.0, 21, 11, 22],
            "action": [0, 1, 2, 3],
        }
    )
    dataset = from_frame(frame)
    assert dataset.observations.ravel().tolist() == [10, 11, 20, 21]
    assert dataset.discrete
    assert dataset.actions.tolist() == [2, 0, 1, 3]
    assert dataset.timeouts.tolist() == [False, True, False, True]
    assert "rows were put into the order of their episodes and steps" in dataset.notes


def test_columns_of_any_name() -> None:
    frame = pd.DataFrame({"x": [0.0, 1, 2], "v": [3.0, 4, 5], "force": [0.1, 0.2, 0.3], "crashed": [0, 0, 1]})
    columns = {"observations": ["v", "x"], "actions": ["force"], "terminals": "crashed"}
    dataset = from_frame(frame, columns)
    assert dataset.observations.tolist() == [[3, 0], [4, 1], [5, 2]]
    assert dataset.terminals.tolist() == [False, False, True]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "cannot be read as CSV"),
        ("a,b\n1,2\n", "no columns for observations, found only a, b"),
        ("obs_0,action_0\n1,2\nhigh,2\n", "'obs_0' holds 'high' in row 1, not numbers"),
        ("obs_0,action_0,action_0\n1,2,3\n", "column 'action_0' stands there twice"),
        ("obs_0,action_0\n", "holds no transitions"),
        ("obs_0,action_0\n1,2,3\n1,2,3\n", "more cells than its first line has names"),
        ("obs_0,action_0,terminal\n1,2,0\n1,2,\n", "terminals must be true/false or 1/0, found nan in row 1"),
        ("obs_0,action_0\n1,2\n1,2,3,4\n", "cannot be read as CSV"),
    ],
)
def test_errors(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "logs.csv").write_text(text)
    with pytest.raises(IlbrlError, match=message):
        load(tmp_path / "logs.csv")


def test_columns_that_nobody_named_are_nobodys(tmp_path: Path) -> None:
    (tmp_path / "logs.csv").write_text(",,obs_0,action_0\n7,8,1,2\n7,8,3,4\n")  # as pandas writes an index
    assert load(tmp_path / "logs.csv").observations.tolist() == [[1]]


def test_other_encodings_than_utf8_are_named(tmp_path: Path) -> None:
    (tmp_path / "logs.csv").write_bytes("obs_0,action_0,café\n1,2,3\n".encode("latin-1"))
    with pytest.raises(IlbrlError, match="is not UTF-8 text"):
        load(tmp_path / "logs.csv")


def test_text_named_parquet(tmp_path: Path) -> None:
    (tmp_path / "logs.parquet").write_text("not a table")
    with pytest.raises(IlbrlError, match="cannot be read as Parquet"):
        load(tmp_path / "logs.parquet")
