"""What is written comes back bit for bit, whatever the data."""

import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ilbrl.data import Dataset, load, save
from ilbrl.data.formats import FORMATS
from ilbrl.policy import Layer

WRITABLE = [name for name, format in FORMATS.items() if format.write]


@st.composite
def datasets(draw: st.DrawFn) -> Dataset:
    """Continuous logs of random shape, with or without each optional field, NaN included."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n, obs_dim, act_dim = draw(st.integers(1, 12)), draw(st.integers(1, 3)), draw(st.integers(1, 3))
    ends = rng.integers(0, 4, n)  # 0 and 1: none, 2: terminal, 3: time-out
    observations = rng.normal(size=(n, obs_dim)).astype(np.float32) * 10.0 ** draw(st.integers(-30, 30))
    following = np.roll(observations, -1, axis=0)
    last = (ends >= 2) | (np.arange(n) == n - 1)
    following[last] = rng.normal(size=(last.sum(), obs_dim))
    discrete = draw(st.booleans())
    bound = np.arange(1.0, act_dim + 1)
    optional: dict[str, np.ndarray] = {
        "rewards": rng.choice([np.nan, np.inf, 1.5, -2], n),
        "log_probs": rng.normal(size=n),
        "is_expert": rng.random(n) < 0.5,
    }
    optional = {name: column for name, column in optional.items() if draw(st.booleans())}
    if not discrete and draw(st.booleans()):
        optional |= {"action_low": -bound, "action_high": bound}
    return Dataset(
        observations=observations,
        actions=rng.integers(0, 5, n) if discrete else rng.normal(size=(n, act_dim)),
        next_observations=following,
        terminals=ends == 2,
        timeouts=ends == 3,
        **optional,  # pyright: ignore[reportArgumentType]
    )


@pytest.mark.parametrize("format", WRITABLE)
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(dataset=datasets())
def test_arrays_survive(format: str, dataset: Dataset) -> None:
    with tempfile.TemporaryDirectory() as folder:
        save(dataset, f"{format}:{folder}/logs")
        assert load(f"{format}:{folder}/logs").content_hash == dataset.content_hash


@pytest.mark.parametrize("format", WRITABLE)
def test_every_field_and_the_policy_survive(format: str, full: Dataset, tmp_path: Path) -> None:
    save(full, f"{format}:{tmp_path}/logs")
    back = load(f"{format}:{tmp_path}/logs")
    assert back.content_hash == full.content_hash
    assert [path.name for path in tmp_path.iterdir()] == ["logs"]  # nothing left over
    assert full.policy is not None
    assert back.policy is not None
    observations = full.observations
    assert np.array_equal(back.policy.act(observations), full.policy.act(observations))
    assert np.array_equal(
        back.policy.act(observations, np.random.default_rng(1)), full.policy.act(observations, np.random.default_rng(1))
    )
    assert back.policy.metadata == full.policy.metadata


@pytest.mark.parametrize("format", WRITABLE)
def test_a_deterministic_policy_survives(format: str, full: Dataset, tmp_path: Path) -> None:
    assert full.policy is not None
    (w, b, *_), k = full.policy.layers[-1], full.policy.act_dim
    policy = replace(full.policy, head="deterministic", layers=(*full.policy.layers[:-1], (w[:, :k], b[:k])))
    save(replace(full, policy=policy), f"{format}:{tmp_path}/logs")
    back = load(f"{format}:{tmp_path}/logs").policy
    assert back is not None
    assert np.array_equal(back.act(full.observations), policy.act(full.observations))


@pytest.mark.parametrize("format", WRITABLE)
def test_a_policy_that_chooses_survives_with_its_layer_norm(format: str, full: Dataset, tmp_path: Path) -> None:
    assert full.policy is not None
    first, second, (w, b, *_) = full.policy.layers
    normed = Layer(first.weight, first.bias, np.linspace(1, 2, 5), np.linspace(0, 1, 5))
    reach = {"obs_low": np.full(3, -9), "obs_high": np.full(3, 9)}
    chooses = {"head": "categorical", "action_low": [0], "action_high": [2]}
    policy = replace(full.policy, layers=(normed, second, (w[:, :3], b[:3])), **chooses, **reach)
    logs = replace(full, actions=np.arange(7) % 3, action_low=None, action_high=None, policy=policy)
    save(logs, f"{format}:{tmp_path}/logs")
    back = load(f"{format}:{tmp_path}/logs").policy
    assert back is not None
    assert np.array_equal(back.probabilities(full.observations), policy.probabilities(full.observations))
    assert np.array_equal(back.obs_high, policy.obs_high)


def test_npz_keeps_source_and_notes(full: Dataset, tmp_path: Path) -> None:
    back = load(save(full, tmp_path / "a.npz"))
    assert (back.source, back.notes) == (full.source, full.notes)
