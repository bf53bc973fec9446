"""Minari folders, written by its own package and by us."""

from dataclasses import replace
from pathlib import Path

import gymnasium
import h5py
import numpy as np
import pytest

from ilbrl.base.errors import IlbrlError
from ilbrl.data import Dataset, load, save
from ilbrl.data.formats import minari as ours

pytestmark = pytest.mark.filterwarnings("ignore:.*env.* is .*None:UserWarning")
minari = pytest.importorskip("minari")
Box = gymnasium.spaces.Box


def made_by_minari(
    root: Path, monkeypatch: pytest.MonkeyPatch, observations: list, space: gymnasium.Space, name: str = "tests/two-v0"
) -> str:
    """A dataset of the given episodes' observations; the first is terminated, the others truncated."""
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(root))
    buffers = []
    for episode, observed in enumerate(observations):
        steps = len(observed["a"] if isinstance(observed, dict) else observed) - 1
        ends = [step == steps - 1 for step in range(steps)]
        buffers.append(
            minari.data_collector.EpisodeBuffer(
                id=episode,
                observations=observed,
                actions=np.full((steps, 2), episode, np.float32),
                rewards=np.ones(steps),
                terminations=np.array([end and episode == 0 for end in ends]),
                truncations=np.array([end and episode > 0 for end in ends]),
                infos={},
            )
        )
    minari.create_dataset_from_buffers(
        name,
        buffers,
        observation_space=space,
        action_space=Box(-2, 3, (2,), np.float32),
        description="",
        author="",
        author_email="",
        code_permalink="",
        algorithm_name="",
    )
    return name


def column(*values: float) -> np.ndarray:
    return np.array(values, np.float32)[:, None]


def test_a_dataset_of_the_minari_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    space = Box(-np.inf, np.inf, (1,), np.float32)
    name = made_by_minari(tmp_path, monkeypatch, [column(0, 1, 2), column(7, 8)], space)
    for what in (
        f"minari:{name}",
        tmp_path / name,
        tmp_path / name / "data",
        tmp_path / name / "data" / ours.MAIN_FILE,
    ):
        dataset = load(what)
        assert dataset.observations.ravel().tolist() == [0, 1, 7]
        assert dataset.next_observations.ravel().tolist() == [1, 2, 8]
        assert dataset.terminals.tolist() == [False, True, False]
        assert dataset.timeouts.tolist() == [False, False, True]
        assert dataset.action_high is not None
        assert dataset.action_high.tolist() == [3, 3]
        assert dataset.source == name


def test_more_than_ten_episodes_keep_their_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    space = Box(-np.inf, np.inf, (1,), np.float32)
    name = made_by_minari(tmp_path, monkeypatch, [column(i, i) for i in range(12)], space)
    assert load(f"minari:{name}").observations.ravel().tolist() == list(range(12))


def test_a_dict_of_vectors_is_joined_by_sorted_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    box = Box(-9, 9, (1,), np.float32)
    observed = {"b": column(1, 2), "a": column(3, 4)}
    name = made_by_minari(tmp_path, monkeypatch, [observed], gymnasium.spaces.Dict({"b": box, "a": box}))
    dataset = load(f"minari:{name}")
    assert dataset.observations.tolist() == [[3, 1]]
    assert dataset.notes == ("observations join the keys a, b, in this order",)


def test_images_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    images = np.zeros((3, 8, 8, 3), np.uint8)
    name = made_by_minari(tmp_path, monkeypatch, [images], Box(0, 255, (8, 8, 3), np.uint8))
    with pytest.raises(IlbrlError, match="not images"):
        load(f"minari:{name}")


@pytest.mark.parametrize("field", ["rewards", None])
def test_the_minari_package_reads_what_we_write(full: Dataset, tmp_path: Path, field: str | None) -> None:
    dataset = replace(full, rewards=None) if field else full
    save(dataset, f"minari:{tmp_path}/logs")
    theirs = minari.MinariDataset(tmp_path / "logs" / "data")
    assert (theirs.total_steps, theirs.total_episodes, theirs.id) == (7, 3, "logs-v0")
    assert theirs.action_space == Box(np.array([-1, -2]), np.array([1, 2]), (2,), np.float32)
    for i, episode in enumerate(theirs.iterate_episodes()):
        mine = full.episodes([i])
        assert np.array_equal(episode.observations[:-1], mine.observations)
        assert np.array_equal(episode.observations[1:], mine.next_observations)
        assert np.array_equal(episode.actions, mine.actions)
        assert np.array_equal(episode.terminations, mine.terminals)
        assert np.array_equal(episode.truncations, mine.timeouts)
    assert (load(tmp_path / "logs").rewards is None) == (field == "rewards")


def test_what_minari_cannot_store_is_refused_and_nothing_is_written(full: Dataset, tmp_path: Path) -> None:
    broken = replace(full, next_observations=full.next_observations + 1)
    with pytest.raises(IlbrlError, match="next observation of row 0 is not the observation of the row after"):
        save(broken, f"minari:{tmp_path}/logs")
    assert not any(tmp_path.iterdir())


def test_only_a_minari_folder_is_ever_overwritten(full: Dataset, tmp_path: Path) -> None:
    precious = tmp_path / "logs" / "thesis.txt"
    precious.parent.mkdir()
    precious.write_text("years of work")
    with pytest.raises(IlbrlError, match="is left alone"):
        save(full, f"minari:{tmp_path}/logs")
    assert precious.read_text() == "years of work"
    save(full, f"minari:{tmp_path}/new")
    save(full.episodes([0]), f"minari:{tmp_path}/new")
    assert len(load(tmp_path / "new")) == 3


def test_the_old_folder_stays_if_the_new_one_cannot_take_its_place(
    full: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(full, f"minari:{tmp_path}/a-v0")
    rename = Path.rename

    def refusing(self: Path, target: Path) -> Path:
        if self.name.endswith(".partial"):
            raise OSError(28, "No space left on device")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", refusing)
    with pytest.raises(IlbrlError, match=r"cannot be written \(No space left"):
        save(full, f"minari:{tmp_path}/a-v0")
    assert [path.name for path in tmp_path.iterdir()] == ["a-v0"]
    np.testing.assert_array_equal(load(f"minari:{tmp_path}/a-v0").observations, full.observations)


def test_an_episode_that_nothing_ends_is_closed_as_a_timeout(full: Dataset, tmp_path: Path) -> None:
    save(full, f"minari:{tmp_path}/logs")
    with h5py.File(tmp_path / "logs" / "data" / ours.MAIN_FILE, "a") as file:
        file["episode_1/truncations"][-1] = False  # pyright: ignore[reportIndexIssue]
    dataset = load(tmp_path / "logs")
    assert dataset.timeouts.tolist() == full.timeouts.tolist()
    assert "1 episode ended in neither termination nor truncation" in dataset.notes[0]


def test_a_damaged_policy_beside_the_data_is_a_doubt(full: Dataset, tmp_path: Path) -> None:
    save(full, f"minari:{tmp_path}/logs")
    (tmp_path / "logs" / "data" / "policy.safetensors").write_bytes(b"half")
    dataset = load(tmp_path / "logs")
    assert dataset.policy is None
    assert "the behaviour policy beside the data was left out" in dataset.warnings[0]


def test_an_id_that_is_not_there_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    with pytest.raises(IlbrlError, match="minari download mujoco/hopper/expert-v0"):
        load("minari:mujoco/hopper/expert-v0")


@pytest.mark.parametrize("limit", [np.inf, np.finfo(np.float32).max])
def test_an_unbounded_action_space_states_no_bounds(full: Dataset, tmp_path: Path, limit: float) -> None:
    bounds = {"action_low": np.full(2, -limit, np.float32), "action_high": np.full(2, limit, np.float32)}
    save(replace(full, policy=None, **bounds), f"minari:{tmp_path}/wide-v0")
    dataset = load(f"minari:{tmp_path}/wide-v0")
    assert dataset.action_low is None
    assert np.isfinite(dataset.action_range).all()
