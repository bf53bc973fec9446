"""Learned models as a thing to keep: trained once per set of logs, saved, loaded, and checked on held-out episodes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import safetensors
import safetensors.numpy

from ilbrl.base import records
from ilbrl.base.errors import IlbrlError
from ilbrl.base.files import require_readable, written_whole
from ilbrl.data import Dataset, concatenate
from ilbrl.learning import population
from ilbrl.learning.batches import Feed, Spec
from ilbrl.learning.loggers import Log
from ilbrl.models import dynamics
from ilbrl.models.dynamics import Config

FORMAT = "ilbrl-models-1"
Predict = Callable[[Any, jax.Array, str], jax.Array]
HELD_OUT_SHARE = 0.05  # of the episodes of each log
FEWEST_TO_HOLD_OUT = 5  # episodes: a log of fewer gives none of them away
FULL_SHARE_ROWS = 40_000  # a log of fewer is drawn less often
HELD_OUT_ROWS = 50_000  # at most, of all logs together
REWARD_TAILS = (0.01, 99.99)  # percentiles of the logged rewards that predictions are clipped to
UNFIT = 2.0  # a member whose held-out loss exceeds this many times the median does not serve
SEGMENTS, LONGEST = 256, 100  # of the many-step check: logged pieces, and their steps


@dataclass(frozen=True, eq=False)
class Scales:
    """Between the user's units and the networks', and what the logs show to be possible."""

    obs_mean: np.ndarray  # [obs_dim]
    obs_std: np.ndarray
    action_low: np.ndarray  # [act_dim]
    action_high: np.ndarray
    change_mean: np.ndarray  # [obs_dim] of s′ − s
    change_std: np.ndarray
    state_low: np.ndarray  # [obs_dim] smallest and largest observation of the logs
    state_high: np.ndarray
    reward: np.ndarray  # [4] mean, standard deviation, smallest and largest reward that is predicted
    residual_std: np.ndarray  # [obs_dim] what predictions of the scaled change miss on held-out rows
    typical_disagreement: np.ndarray  # [] median over held-out rows

    @property
    def spec(self) -> Spec:
        return Spec(self.obs_mean, self.obs_std, self.action_low, self.action_high)


@dataclass(frozen=True)
class Errors:
    """How right the serving members are on held-out episodes, in standard deviations of the observations."""

    held_out_loss: tuple[float, ...]  # [K] the lowest mean, which decided when to stop
    steps: tuple[int, ...]  # lengths of the logged pieces that were predicted
    many_step: tuple[tuple[float, ...], ...]  # [K][steps] root mean squared error after so many steps
    left_out: tuple[int, ...] = ()  # seeds of members that do not serve


@dataclass(frozen=True, eq=False)
class Models:
    """K serving members, ready to be rolled out."""

    layers: tuple[dict[str, np.ndarray], ...]  # leaves [K, …]
    config: Config
    scales: Scales
    horizon: int  # the logs' own time limit
    errors: Errors
    sources: tuple[str, ...] = ()
    predict: Predict = dynamics.predict  # another function of (parameters, inputs, dtype) may stand in; not saved

    @property
    def members(self) -> int:
        return len(self.layers[0]["w"])

    @property
    def obs_dim(self) -> int:
        return len(self.scales.obs_mean)

    @property
    def content_hash(self) -> str:
        """SHA-256 of parameters and scales."""
        digest = hashlib.sha256()
        for name, array in sorted(_arrays(self).items()):
            digest.update(name.encode() + np.ascontiguousarray(array).tobytes())
        return digest.hexdigest()

    def save(self, path: str | Path) -> Path:
        """One safetensors file, written whole or not at all."""
        header = {
            "format": FORMAT,
            "config": asdict(self.config),
            "horizon": self.horizon,
            "errors": asdict(self.errors),
            "sources": list(self.sources),
            "content_hash": self.content_hash,
        }
        with written_whole(path) as partial:
            partial.write_bytes(safetensors.numpy.save(_arrays(self), {"ilbrl": json.dumps(header, sort_keys=True)}))
        return Path(path)

    @staticmethod
    def load(path: str | Path) -> Models:
        """Read what `save` wrote; a damaged file is refused by name."""
        path = Path(path)
        require_readable(path)
        try:
            with safetensors.safe_open(path, framework="numpy") as file:
                header = json.loads((file.metadata() or {}).get("ilbrl", "{}"))
                arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a mapping
            if header["format"] != FORMAT:
                raise IlbrlError(f"{path}: written in format {header['format']!r}, this version reads {FORMAT!r}")
            config = records.from_json(Config, header["config"], f"{path}, config")
            errors = records.from_json(Errors, header["errors"], f"{path}, errors")
            depth = len(config.hidden) + 1
            names = ("w", "b", "scale", "shift")
            layers = tuple({n: arrays[f"{n}{i}"] for n in names if f"{n}{i}" in arrays} for i in range(depth))
            scales = Scales(**{name: arrays[name] for name in Scales.__dataclass_fields__})
            models = Models(layers, config, scales, int(header["horizon"]), errors, tuple(header["sources"]))
            whole = models.content_hash == header["content_hash"]
        except (KeyError, safetensors.SafetensorError, ValueError, TypeError, RecursionError) as error:
            raise IlbrlError(f"{path}: not a file of learned models ({error}); train them again") from None
        if not whole:
            raise IlbrlError(f"{path}: damaged (its checksum does not fit); train the models again")
        return models


def _arrays(models: Models) -> dict[str, np.ndarray]:
    layers = {f"{name}{i}": array for i, layer in enumerate(models.layers) for name, array in layer.items()}
    return layers | {name: np.asarray(value) for name, value in vars(models.scales).items()}


def train(
    logs: Sequence[Dataset],
    config: Config | None = None,
    *,
    shares: Sequence[float] | None = None,
    members: int = 7,
    seed: int = 0,
    resume_from: Path | None = None,
    log: Log | None = None,
    quiet: bool = False,
) -> Models:
    """Learn the dynamics behind `logs`; a batch draws from each of them with its share.

    shares: one per log; by default `default_shares`.
    Episodes of every log that has at least five are held out: they decide when each member stops and which serve.
    resume_from: a checkpoint file: written on the way, continued from if there.
    """
    logs = [data for data in logs if len(data)]
    if not logs:
        raise IlbrlError("models need logs to learn from: none has a row")
    shares = default_shares(logs) if shares is None else list(shares)
    if len(shares) != len(logs) or min(shares) < 0 or not sum(shares) > 0:
        raise IlbrlError(f"shares: one number of at least 0 for each of the {len(logs)} logs, got {shares}")
    union = concatenate(logs)
    config = replace(config or Config(), rewards=union.rewards is not None, ends=bool(union.terminals.any()))
    scales = _scales(union)
    held_out, rows = _rows(logs, shares, np.random.default_rng(seed))
    columns = _columns(union, scales)
    feed = Feed(
        {name: np.concatenate([column[held_out], column]) for name, column in columns.items()},
        subsets=[rows + len(held_out)],
        expert_rows=len(held_out),
        second_draw=True,
    )
    seeds = [seed * 1000 + k for k in range(members)]
    fitted = population.fit(
        dynamics.LEARNER,
        [config] * members,
        seeds,
        feed,
        scales.spec,
        int(config.updates),
        resume_from=resume_from,
        identity={"logs": [data.content_hash for data in logs], "shares": shares},
        log=log,
        label="training models",
        quiet=quiet,
    )
    lowest = np.asarray(fitted.state.lowest, np.float64)
    fit = np.isfinite(lowest) & (fitted.diverged_at < 0)
    if not fit.any():
        raise IlbrlError("every model diverged; a smaller learning rate may help, or the doctor: ilbrl data inspect")
    serving = np.flatnonzero(fit & (lowest <= UNFIT * np.median(lowest[fit])))
    layers = tuple({name: leaf[serving] for name, leaf in layer.items()} for layer in fitted.state.best)
    horizon = time_limit(logs)
    left_out = tuple(seeds[k] for k in range(members) if k not in serving)
    errors = Errors(tuple(lowest[serving].tolist()), (), (), left_out)
    models = Models(layers, config, scales, horizon, errors, tuple(data.source for data in logs))
    models = replace(models, scales=_measured(models, {name: column[held_out] for name, column in columns.items()}))
    return replace(models, errors=_many_step(models, union, held_out, errors))


def default_shares(logs: Sequence[Dataset]) -> list[float]:
    """How often each log is drawn: equally often, but a small one less, for models would learn it by heart."""
    weights = np.cbrt(np.minimum(np.array([len(data) for data in logs]) / FULL_SHARE_ROWS, 1.0))
    return (weights / weights.sum()).tolist()


def _measured(models: Models, held_out: dict[str, np.ndarray]) -> Scales:
    """The scales with what held-out rows show: how far members are apart, and how far from the truth."""
    found = _predictions(models, held_out["observations"], held_out["actions"])[..., : models.obs_dim]
    missed = np.sqrt(np.square(found - held_out["next_observations"]).mean((0, 1)))
    typical = max(float(np.median(np.asarray(spread(found)))), 1e-6)
    return replace(models.scales, residual_std=missed, typical_disagreement=np.asarray(typical, np.float32))


def time_limit(logs: Sequence[Dataset]) -> int:
    """The longest logged episode: where episodes time out, that is the limit."""
    return int(max(data.episode_lengths.max() for data in logs))


def _rows(logs: Sequence[Dataset], shares: Sequence[float], rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Row numbers of the union: those held out, and those to draw from, repeated so that each log has its share."""
    held, kept, start = [], [], 0
    for data in logs:
        count = round(HELD_OUT_SHARE * data.num_episodes)
        chosen = np.zeros(data.num_episodes, bool)
        if data.num_episodes >= FEWEST_TO_HOLD_OUT:
            chosen[rng.permutation(data.num_episodes)[: max(count, 1)]] = True
        own = chosen[data.episode_of]
        held.append(start + np.flatnonzero(own))
        kept.append(start + np.flatnonzero(~own))
        start += len(data)
    if not any(map(len, held)):  # few and long episodes: the end of each is held out
        tails = [part[int(len(part) * (1 - HELD_OUT_SHARE)) :] for part in kept]
        held = [tail if len(part) > len(tail) > 0 else part[-1:] for part, tail in zip(kept, tails)]
        kept = [part[: len(part) - len(tail)] if len(part) > len(tail) else part for part, tail in zip(kept, held)]
    held_out = np.concatenate([part[:: max(1, -(-len(part) * len(logs) // HELD_OUT_ROWS))] for part in held])
    total = max(len(part) / share for part, share in zip(kept, shares) if share > 0)
    drawn = [np.resize(part, max(1, round(share * total))) for part, share in zip(kept, shares) if share > 0]
    return held_out, np.concatenate(drawn)


def _scales(union: Dataset) -> Scales:
    spec = Spec.of(union)
    change = union.next_observations.astype(np.float64) - union.observations
    if union.rewards is None:
        reward = np.array([0.0, 1.0, 0.0, 0.0])
    else:
        rewards = union.rewards.astype(np.float64)
        reward = np.array([rewards.mean(), rewards.std() + 1e-6, *np.percentile(rewards, REWARD_TAILS)])
    seen = np.stack([union.observations.min(0), union.next_observations.min(0)]).min(0)
    most = np.stack([union.observations.max(0), union.next_observations.max(0)]).max(0)
    return Scales(
        spec.obs_mean, spec.obs_std, np.asarray(spec.action_low), np.asarray(spec.action_high),
        change.mean(0).astype(np.float32), (change.std(0) + 1e-6).astype(np.float32), seen, most,
        reward.astype(np.float32), np.zeros(union.obs_dim, np.float32), np.ones((), np.float32),
    )  # fmt: skip


def _columns(union: Dataset, scales: Scales) -> dict[str, np.ndarray]:
    """What the learner is fed: the change of state stands where a batch has its next observations."""
    change = union.next_observations - union.observations
    columns = {
        "observations": scales.spec.standardise(union.observations),
        "actions": scales.spec.scale_actions(union.actions),
        "next_observations": (change - scales.change_mean) / scales.change_std,
        "continues": 1.0 - union.terminals.astype(np.float32),
    }
    if union.rewards is not None:
        columns["rewards"] = (union.rewards - scales.reward[0]) / scales.reward[1]
    return columns


def _predictions(models: Models, observations: np.ndarray, actions: np.ndarray) -> np.ndarray:
    """[K, N, outputs] of standardised rows."""
    inputs = jnp.asarray(np.hstack([observations, actions]))
    every = jax.jit(lambda layers: jax.lax.map(lambda one: models.predict(one, inputs, "float32"), layers))
    return np.asarray(every(models.layers))


def spread(changes: Any) -> jax.Array:
    """[K, …, obs_dim] predictions → […] root mean squared deviation from their mean."""
    return jnp.sqrt(jnp.square(changes - changes.mean(0)).mean(0).mean(-1))


def _many_step(models: Models, union: Dataset, held_out: np.ndarray, errors: Errors) -> Errors:
    """Follow logged actions in each member from held-out states and compare with what was logged."""
    ends = (union.episode_starts + union.episode_lengths)[union.episode_of[held_out]]
    length = int(min(LONGEST, max(1, np.percentile(ends - held_out, 50))))
    starts = held_out[ends - held_out >= length]
    starts = starts[np.linspace(0, len(starts) - 1, min(SEGMENTS, len(starts))).astype(int)]
    rows = starts[None] + np.arange(length)[:, None]  # [T, M]
    actions = jnp.asarray(models.scales.spec.scale_actions(union.actions[rows]))
    truth = jnp.asarray(union.next_observations[rows])
    scales, obs_dim = models.scales, models.obs_dim

    def member(layers: Any) -> jax.Array:
        def one(state: jax.Array, xs: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
            acted, logged = xs
            inputs = jnp.concatenate([(state - scales.obs_mean) / scales.obs_std, acted], -1)
            change = models.predict(layers, inputs, "float32")[..., :obs_dim] * scales.change_std + scales.change_mean
            state = jnp.clip(state + change, scales.state_low, scales.state_high)
            return state, jnp.sqrt(jnp.square((state - logged) / scales.obs_std).mean())

        return jax.lax.scan(one, jnp.asarray(union.observations[starts]), (actions, truth))[1]

    found = np.asarray(jax.jit(lambda layers: jax.lax.map(member, layers))(models.layers), np.float64)  # [K, T]
    steps = [n for n in (1, 2, 5, 10, 20, 50, 100) if n <= length]
    shown = found[:, np.array(steps) - 1]
    return replace(errors, steps=tuple(steps), many_step=tuple(map(tuple, shown.tolist())))
