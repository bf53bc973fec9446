"""Training an ensemble of models once per set of logs, and checking it on held-out episodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ilbrl.base.errors import IlbrlError
from ilbrl.data import Dataset, concatenate
from ilbrl.learning import population
from ilbrl.learning.batches import Feed
from ilbrl.learning.loggers import Log
from ilbrl.models import dynamics
from ilbrl.models.dynamics import Config
from ilbrl.models.file import Errors, Models, Scales
from ilbrl.models.scales import columns_of, ends_are_unlike, scales_of

MEMBERS = 5
SEEDS_PER_ENSEMBLE = 1000
HELD_OUT_SHARE = 0.05  # of the episodes of each log
FEWEST_TO_HOLD_OUT = 5  # episodes: a log of fewer gives none of them away
FULL_SHARE_ROWS = 40_000  # a log of fewer is drawn less often
HELD_OUT_ROWS = 50_000  # at most, of all logs together
UNFIT = 2.0  # a member whose held-out loss exceeds this many times the median does not serve
SEGMENTS, LONGEST = 256, 100  # of the many-step check: logged pieces, and their steps


def train(
    logs: Sequence[Dataset],
    config: Config | None = None,
    *,
    shares: Sequence[float] | None = None,
    members: int = MEMBERS,
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
    population.require_seeds([seed])
    shares = default_shares(logs) if shares is None else list(shares)
    if len(shares) != len(logs) or min(shares) < 0 or not sum(shares) > 0:
        raise IlbrlError(f"shares: one number of at least 0 for each of the {len(logs)} logs, got {shares}")
    union = concatenate(logs)
    scales = scales_of(union)
    config = replace(
        config or Config(),
        rewards=union.rewards is not None,
        ends=bool(union.terminals.any()),
        end_rewards=ends_are_unlike(union),
        patterns=len(scales.patterns),
    )
    held_out, rows = _rows(logs, shares, np.random.default_rng(seed))
    columns = columns_of(union, scales)
    feed = Feed(
        {name: np.concatenate([column[held_out], column]) for name, column in columns.items()},
        subsets=[rows + len(held_out)],
        expert_rows=len(held_out),
        second_draw=True,
    )
    seeds = [(seed * SEEDS_PER_ENSEMBLE + k) % population.SEEDS for k in range(members)]
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
    every = _predictions(models, held_out["observations"], held_out["actions"])
    found = every[..., : models.obs_dim]
    missed = np.sqrt(np.square(found - held_out["next_observations"][:, : models.obs_dim]).mean((0, 1)))
    apart = spread(outlook(models.config, vars(models.scales), every))
    typical, high = np.maximum(np.quantile(np.asarray(apart), (0.5, 0.99)), 1e-6).astype(np.float32)
    return replace(models.scales, residual_std=missed, typical_disagreement=typical, high_disagreement=high)


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


def _predictions(models: Models, observations: np.ndarray, actions: np.ndarray) -> np.ndarray:
    """[K, N, outputs] of standardised rows."""
    inputs = jnp.asarray(np.hstack([observations, actions]))
    every = jax.jit(lambda layers: jax.lax.map(lambda one: models.predict(one, inputs, "float32"), layers))
    return np.asarray(every(models.layers))


def spread(changes: Any) -> jax.Array:
    """[K, …, obs_dim] predictions → […] root mean squared deviation from their mean."""
    return jnp.sqrt(jnp.square(changes - changes.mean(0)).mean(0).mean(-1))


def outlook(config: Config, scales: Mapping[str, Any], found: Any) -> Any:
    """[…, outputs] → […, obs_dim] the expected change of state in its own units; of numbers in patterns the expected
    value, in standard deviations."""
    change = found[..., : len(scales["obs_mean"])]
    if not config.patterns:
        return change
    patterns = scales["patterns"]
    expected = jax.nn.softmax(dynamics.pattern_logits(config, found)) @ jnp.nan_to_num(patterns)
    return jnp.where(jnp.isnan(patterns[0]), change, expected / scales["obs_std"])


def _many_step(models: Models, union: Dataset, held_out: np.ndarray, errors: Errors) -> Errors:
    """Follow logged actions in each member from held-out states and compare with what was logged."""
    ends = (union.episode_starts + union.episode_lengths)[union.episode_of[held_out]]
    length = int(min(LONGEST, max(1, np.percentile(ends - held_out, 50))))
    starts = held_out[ends - held_out >= length]
    starts = starts[np.linspace(0, len(starts) - 1, min(SEGMENTS, len(starts))).astype(int)]
    rows = starts[None] + np.arange(length)[:, None]  # [T, M]
    actions = jnp.asarray(models.scales.spec.encode_actions(union.actions[rows]))
    truth = jnp.asarray(union.next_observations[rows])
    scales = models.scales

    def member(layers: Any) -> jax.Array:
        def one(state: jax.Array, xs: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
            acted, logged = xs
            inputs = jnp.concatenate([(state - scales.obs_mean) / scales.obs_std, acted], -1)
            told = outlook(models.config, vars(scales), models.predict(layers, inputs, "float32"))
            change = told * scales.change_std + scales.change_mean
            following = state + change
            if models.config.patterns:
                following = jnp.where(np.isnan(scales.patterns[0]), following, told * scales.obs_std)
            state = jnp.clip(following, scales.state_low, scales.state_high)
            return state, jnp.sqrt(jnp.square((state - logged) / scales.obs_std).mean())

        return jax.lax.scan(one, jnp.asarray(union.observations[starts]), (actions, truth))[1]

    found = np.asarray(jax.jit(lambda layers: jax.lax.map(member, layers))(models.layers), np.float64)  # [K, T]
    steps = [n for n in (1, 2, 5, 10, 20, 50, 100) if n <= length]
    shown = found[:, np.array(steps) - 1]
    return replace(errors, steps=tuple(steps), many_step=tuple(map(tuple, shown.tolist())))
