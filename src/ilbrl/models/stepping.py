"""One step in learned models: between what networks say and states, rewards and flags in the units of the logs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ilbrl.models.dynamics import Config, pattern_logits
from ilbrl.models.file import Models


def constants_of(models: Models) -> dict[str, Any]:
    """The models as a compiled program takes them."""
    spec = models.scales.spec
    centre, half_range = (np.zeros(1), np.ones(1)) if spec.discrete else spec.action_affine
    return {
        "layers": jax.tree.map(jnp.asarray, models.layers),
        "centre": jnp.asarray(centre, jnp.float32),
        "half_range": jnp.asarray(half_range, jnp.float32),
        **{name: jnp.asarray(value) for name, value in vars(models.scales).items()},
    }


def nearest_level(states: jax.Array, levels: jax.Array) -> jax.Array:
    """[..., obs_dim] states, where numbers that have `levels` (`Scales.levels`) take the nearest of them."""
    if not levels.size:
        return states
    distance = jnp.abs(states[..., None] - levels)
    nearest = jnp.where(jnp.isnan(distance), jnp.inf, distance).argmin(-1)
    chosen = jnp.take_along_axis(jnp.broadcast_to(levels, distance.shape), nearest[..., None], -1)[..., 0]
    return jnp.where(jnp.isnan(levels[:, 0]), states, chosen)


def in_network_units(
    constants: Mapping[str, Any], state: jax.Array, actions: jax.Array, one_hot: bool
) -> tuple[jax.Array, jax.Array]:
    """States and actions as models read them; `one_hot` actions go in as they are."""
    scaled = actions if one_hot else jnp.clip((actions - constants["centre"]) / constants["half_range"], -1, 1)
    return (state - constants["obs_mean"]) / constants["obs_std"], scaled


def next_state(
    constants: Mapping[str, Any], state: jax.Array, change: jax.Array, pattern: jax.Array | None = None
) -> tuple[jax.Array, jax.Array]:
    """The state that a predicted change leads to, and the same within the range of the logs.

    pattern: […] the number of the next one (`Scales.patterns`); None: there are none.
    """
    following = state + change * constants["change_std"] + constants["change_mean"]
    following = nearest_level(following, constants["levels"])
    if pattern is not None:
        values = constants["patterns"][pattern]
        following = jnp.where(jnp.isnan(values), following, values)
    return following, jnp.clip(following, constants["state_low"], constants["state_high"])


def in_units(found: jax.Array, scale: jax.Array) -> jax.Array:
    """A predicted reward in the units of the logs, and within what they show; `scale` as `Scales.reward`."""
    mean, std, low, high = scale
    return jnp.clip(found * std + mean, low, high)


def drawn_pattern(config: Config, found: jax.Array, key: jax.Array, lead: int = 0) -> jax.Array | None:
    """[…] numbers of patterns, drawn by their chances; alike along the first `lead` axes. None: there are none."""
    if not config.patterns:
        return None
    logits = pattern_logits(config, found)
    return (logits + jax.random.gumbel(key, logits.shape[lead:])).argmax(-1)
