"""Tables: a pandas frame, CSV and Parquet."""

import gzip
import time
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest

from ilbrl.base.errors import IlbrlError
from ilbrl.data import Dataset, Reading, from_frame, load, save
from ilbrl.data.doctor import examine

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
        ("a,b\n1,2\n", "has no field 'observations', only a, b; say which is which"),
        ("obs_0,action_0\n1,2\nhigh,2\n", "'obs_0' holds 'high' in row 1, not numbers"),
        ("obs_0,action_0\n1_000,2\n1,2\n", "'obs_0' holds '1_000' in row 0, not numbers"),
        (f"obs_0,action_0\n{10**25},2\n1,2\n", "'obs_0' holds an integer of 84 bits in row 0, not numbers"),
        ("obs_0,action_0,action_0\n1,2,3\n", "column 'action_0' for actions stands there twice"),
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


def test_decimals_of_databases_are_numbers(tmp_path: Path) -> None:
    exact = [Decimal("1.5"), Decimal("2.5"), Decimal("-3")]
    frame = pd.DataFrame({"obs_0": exact, "action": exact, "reward": [*exact[:2], None]})
    frame.to_parquet(tmp_path / "logs.parquet")
    dataset = load(tmp_path / "logs.parquet")
    assert dataset.observations.tolist() == dataset.actions.tolist() == [[1.5], [2.5]]
    assert dataset.rewards is not None
    assert dataset.rewards.tolist() == [1.5, 2.5]


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


ODD = "trial;angle;speed;torque;fell;comment\n1;0,5;1;2;0;a\n1;0,6;2;-3;1;b\n2;0,7;3;1;0;c\n2;0,8;4;0;1;d\n"
NAMES = {"observations": "angle,speed", "actions": "torque", "terminals": "fell", "episodes": "trial"}
MAPPING = """
observations = ["angle", "speed"]
actions = ["torque"]
terminals = "fell"
episodes = "trial"
action_low = -4
action_high = [4.0]
"""
MAPPING_JSON = (
    '{"observations": ["angle", "speed"], "actions": ["torque"], "terminals": "fell", "episodes": "trial",'
    ' "action_low": -4, "action_high": 4}'
)


def check_odd_table(dataset: Dataset) -> None:
    assert dataset.observations.tolist() == [[0.5, 1], [np.float32(0.6), 2], [np.float32(0.7), 3], [np.float32(0.8), 4]]
    assert dataset.actions.tolist() == [[2], [-3], [1], [0]]
    assert dataset.episode_lengths.tolist() == [2, 2]
    assert [bound.tolist() for bound in dataset.action_range] == [[-4], [4]]
    assert "not used: comment" in dataset.notes


@pytest.mark.parametrize("suffix", ["csv", "csv.gz", "parquet"])
@pytest.mark.parametrize("how", ["options", "mapping.toml", "mapping.json"])
def test_tables_as_people_have_them(tmp_path: Path, suffix: str, how: str) -> None:
    path = tmp_path / f"logs.{suffix}"
    (tmp_path / "plain.csv").write_text(ODD)
    frame = pd.read_csv(tmp_path / "plain.csv", sep=";", decimal=",")
    if suffix == "parquet":
        frame.to_parquet(path)
    else:
        frame.to_csv(path, sep=";", decimal=",", index=False)
    if how == "options":
        reading = Reading(NAMES, action_low=(-4,), action_high=(4,))
    else:
        (tmp_path / how).write_text(MAPPING if how.endswith("toml") else MAPPING_JSON)
        reading = Reading(mapping=str(tmp_path / how))
    dataset = load(path, reading)
    check_odd_table(dataset)
    assert any("decimal comma" in note for note in dataset.notes) == (suffix != "parquet")
    columns = {**NAMES, "observations": ["angle", "speed"], "actions": ["torque"]}
    check_odd_table(from_frame(frame, columns, action_low=-4, action_high=4))


def test_options_come_before_the_mapping_file(tmp_path: Path) -> None:
    (tmp_path / "m.toml").write_text(MAPPING)
    (tmp_path / "logs.csv").write_text(ODD)
    reading = Reading({"observations": "sp*"}, str(tmp_path / "m.toml"), action_high=(9,))
    dataset = load(tmp_path / "logs.csv", reading)
    assert dataset.obs_dim == 1
    assert [bound.tolist() for bound in dataset.action_range] == [[-4], [9]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("reward = 'r'", "there is no field 'reward'; the fields are observations"),
        ("actions = 3", "actions must be a name, or a list of names"),
        ("action_low = 'x'", "action_low must be a number"),
        ("action_low = 1" + "0" * 400, "action_low must be a number"),
        ("max_episode_steps = 0", "at least 1"),
        ("a = ", "cannot be read as a mapping file"),
        ("a = " + "[" * 100_000, "cannot be read as a mapping file"),
    ],
)
def test_bad_mapping_files(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "m.toml").write_text(text)
    (tmp_path / "logs.csv").write_text(ODD)
    with pytest.raises(IlbrlError, match=message):
        load(tmp_path / "logs.csv", Reading(mapping=str(tmp_path / "m.toml")))


def test_done_means_a_terminal_unless_the_row_timed_out(tmp_path: Path) -> None:
    (tmp_path / "logs.csv").write_text("obs_0,action_0,done,truncated\n1,0,0,0\n2,0,1,1\n3,0,0,0\n4,0,1,0\n")
    dataset = load(tmp_path / "logs.csv")
    assert dataset.observations.ravel().tolist() == [1, 3, 4]
    assert dataset.terminals.tolist() == [False, False, True]
    assert dataset.timeouts.tolist() == [True, False, False]


def test_columns_of_lists(tmp_path: Path) -> None:
    frame = pd.DataFrame({"observation": [[1, 2], [3, 4]], "action": [[0.5], [0.1]], "done": [False, True]})
    frame.to_parquet(tmp_path / "logs.parquet")
    assert load(tmp_path / "logs.parquet").observations.tolist() == [[1, 2], [3, 4]]
    with pytest.raises(IlbrlError, match="lists in column 'observation' must be of numbers, all equally long"):
        from_frame(pd.DataFrame({"observation": [[1, 2], [3]], "action": [[0.5], [0.1]]}))


@pytest.mark.parametrize("kept_in", ["npz", "hdf5"])
def test_columns_keep_their_names(tmp_path: Path, kept_in: str) -> None:
    frame = pd.DataFrame({"angle": [0.0, 1, 2], "speed": [3.0, 4, 5], "torque": [0.1, 0.2, 0.3], "done": [0, 0, 1]})
    logs = from_frame(frame, {"observations": ["speed", "angle"], "actions": "torque"})
    assert logs.column_names("observations") == ("speed", "angle")
    assert load(save(logs, tmp_path / f"logs.{kept_in}")).column_names("actions") == ("torque",)
    assert from_frame(pd.DataFrame({"obs": [[1, 2]], "action": [0.5], "done": [1]})).column_names("observations") == (
        "observation 0",
        "observation 1",
    )


def test_the_same_columns_in_another_order_are_an_error() -> None:
    frame = pd.DataFrame({"obs_angle": [0.0, 1], "obs_speed": [3.0, 4], "action_0": [0.1, 0.2], "done": [0, 1]})
    logs, other = from_frame(frame), from_frame(frame.rename(columns={"obs_speed": "obs_rpm"}))
    swapped = from_frame(frame[["obs_speed", "obs_angle", "action_0", "done"]])
    (found,) = [f for f in examine(logs, swapped) if f.check == "expert"]
    assert (found.grade, found.field) == ("error", "observations")
    assert "column 0 of the expert's observations is obs_speed, that of the other logs obs_angle" in found.message
    assert [f.grade for f in examine(logs, other) if f.field == "observations"] == ["warning"]


def test_messages_name_the_row_of_the_file_after_reordering() -> None:
    frame = pd.DataFrame({"episode": [1, 2, 1, 2], "step": [0, 0, 1, 1], "obs_x": [0.0, 1, np.nan, 3], "action_0": 0.5})
    found = next(finding for finding in examine(from_frame(frame.assign(next_obs_x=1.0))) if finding.check == "finite")
    assert found.row == 2
    assert "(first: row 2, column obs_x)" in found.message
    with pytest.raises(IlbrlError, match=r"found 0\.5 in row 1"):
        from_frame(frame.assign(terminal=[0, 0.5, 0, 1]))
    dropped = from_frame(frame.assign(terminal=[0, 0, 0, 1]))
    assert any("dropped 1 row without one (first: row 2)" in note for note in dropped.notes)


def test_doubts_about_columns_and_labels_are_findings() -> None:
    frame = pd.DataFrame({"observation_0": [1.0, 2, 3, 4, 5], "observation_2": 2.0, "action_0": 0.5})
    frame["terminal"], frame["episode"] = [0, 1, 0, 0, 1], ["a", "a", "a", None, None]
    warnings = [f.message for f in examine(from_frame(frame)) if f.check == "reader" and f.grade == "warning"]
    assert warnings == [
        "column observation_1 is missing before observation_2; was it left out?",
        "2 rows without an episode label (first: row 3): neighbouring ones are taken as an episode of their own;"
        " label every row",
        "1 terminal inside a labelled episode (first: row 1): what follows is taken as a new episode;"
        " mend the labels or the terminals",
    ]


WHOLE = "episode,obs_0,action_0,reward,done\n" + "".join(
    f"{e},{e + t / 10},0.5,1.25,{int(t == 2)}\n" for e in range(3) for t in range(3)
)


@pytest.mark.parametrize("suffix", ["csv", "csv.gz"])
def test_a_table_cut_off_inside_its_last_row_is_refused(tmp_path: Path, suffix: str) -> None:
    for cut in range(len(WHOLE) - len("2,2.2,0.5,1.25,1\n") + 1, len(WHOLE) - len(",1\n") + 1):
        text = WHOLE[:cut].encode()
        (tmp_path / f"logs.{suffix}").write_bytes(gzip.compress(text) if suffix == "csv.gz" else text)
        with pytest.raises(
            IlbrlError, match=rf"logs\.{suffix}: row 8, the last one, has \d of 5 cells: the file was cut"
        ):
            load(tmp_path / f"logs.{suffix}")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (WHOLE[:-1], ["note: the last row has no line end"]),
        (WHOLE[:-17], ["warning: the last episode (2 rows, from row 6) is the only one without"]),
        (WHOLE, []),
        (WHOLE + "\n", []),
        (WHOLE.replace("\n", "\r"), []),
        (WHOLE.replace("\n", "\r\n"), []),
        (WHOLE.replace("done", "remark").replace(",1\n", ',"a\nb"\n'), []),
        (WHOLE.replace("done", "remark").replace(",1\n", f",{'x' * 200_000}\n"), []),
        ("episode,obs_0,action_0\n0,1,2\n0,1,3\n0,1,4\n1,1,5\n1,1,6\n1,1,7\n2,1,8\n2,1,9\n", [
            "warning: the last episode (2 rows, from row 6) is the only one of fewer than 3 rows"
        ]),
    ],
)  # fmt: skip
def test_what_looks_cut_off_is_a_finding(tmp_path: Path, text: str, said: list[str]) -> None:
    (tmp_path / "logs.csv").write_text(text, newline="")
    found = [str(f) for f in examine(load(tmp_path / "logs.csv")) if "cut" in f.message]
    assert len(found) == len(said)
    assert all(sentence.startswith(start) for sentence, start in zip(found, said))


def test_thousands_of_columns_take_seconds(tmp_path: Path) -> None:
    names = [*(f"observation_{i}" for i in range(5000)), "action_0", "terminal"]
    rows = [",".join(["0.5"] * 5001 + [end]) for end in ("0", "0", "1")]
    (tmp_path / "wide.csv").write_text("\n".join([",".join(names), *rows]))
    started = time.monotonic()
    dataset = load(tmp_path / "wide.csv")
    assert dataset.obs_dim == 5000
    assert len(examine(dataset)) > 0
    assert time.monotonic() - started < 15  # two seconds; once it was half a minute


def test_bounds_must_fit_the_actions(tmp_path: Path) -> None:
    (tmp_path / "logs.csv").write_text("obs_0,action_0,action_1,terminal\n1,0,0,0\n2,0,1,1\n")
    with pytest.raises(IlbrlError, match=r"--action-low: 3 numbers, but logs\.csv has 2 action columns"):
        load(tmp_path / "logs.csv", Reading(action_low=(1, 2, 3), action_high=(4,)))
    with pytest.raises(IlbrlError, match="give --action-low and --action-high, both or neither"):
        load(tmp_path / "logs.csv", Reading(action_low=(1,)))
