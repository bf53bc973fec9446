"""The intrinsic reward as estimators need it: closeness to the expert's steps, as a function that a program can hold.

    r_I(s, a) = 1 − √(d / d_max),    d = min over the expert's (s′, a′) of ‖φ(s, a) − φ(s′, a′)‖₂

with φ and d_max as in `rewards.soft_support`, but over at most `EXPERT_ROWS` of the expert's steps, so that it can be
computed by brute force inside a compiled rollout. Discrete actions are near or not: only expert steps with the same
action are compared, by their observations, and an action that the expert never takes earns 0.

Such a reward is never negative, so a sum over the steps of an episode would prefer policies that never end one. Where
the expert works towards terminals (`rewards.ends` decides it, as for training), every step that is left after a
terminal earns as much as the end resembles the expert's ends.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
import numpy as np

from ilbrl.base.errors import IlbrlError
from ilbrl.data import Dataset
from ilbrl.learning.spec import Spec
from ilbrl.rewards import ends

EXPERT_ROWS = 4096  # of the expert's steps, spread evenly, that closeness is measured to
SEARCHED = 20_000  # rows of the other logs, spread evenly, among which d_max is found
PIECE = 4096  # rows labelled at a time
OTHER_ACTION = 1e4  # distance to an expert step with another discrete action: beyond all others


@dataclass(frozen=True, eq=False)
class Closeness:
    """The intrinsic reward as a function, usable inside jit: [..., obs_dim], [..., act_dim] in the user's units.

    Discrete actions are one-hot rows, [..., num_actions].
    """

    expert: jax.Array  # [R, obs_dim + act_dim] φ of the expert's steps
    spec: Spec
    d_max: float
    goal: ends.Goal | None = None  # the expert's ends, where it works towards them

    @staticmethod
    def to(
        expert: Dataset, logs: Dataset, spec: Spec, rows: int = EXPERT_ROWS, beside: Dataset | None = None
    ) -> Closeness:
        """Closeness to `expert`; the farthest row of `logs` is worth 0, and so is everything farther away.

        beside: the logs that are not the expert's, with whose ends its own are compared; by default `logs`.
        """
        if not len(expert):
            raise IlbrlError(f"{expert.source}: no expert rows, so nothing to be close to")
        near = expert.transitions(0, len(expert)) if len(expert) <= rows else _spread_out(expert, rows)
        features = jnp.concatenate([spec.standardise(near.observations), spec.encode_actions(near.actions)], 1)
        arrives = ends.settled(ends.Ends(), expert, logs if beside is None else beside).ends == "success"
        last = spec.standardise(expert.observations[expert.terminals])
        bare = Closeness(features, spec, 1.0, ends.goal_of(last) if arrives else None)
        others = _spread_out(logs, min(SEARCHED, len(logs)))
        distances = np.concatenate([*bare._in_pieces(bare.distance, others), np.zeros(1)])
        farthest = float(distances[distances < OTHER_ACTION / 2].max())
        return replace(bare, d_max=farthest)

    def distance(self, observations: jax.Array, actions: jax.Array) -> jax.Array:
        """[...] distance to the nearest expert step."""
        spec = self.spec
        x, expert = (observations - spec.obs_mean) / spec.obs_std, self.expert
        apart = 0.0
        if spec.discrete:
            expert, chosen = expert[:, : spec.obs_dim], expert[:, spec.obs_dim :]
            apart = OTHER_ACTION**2 * (1 - actions @ chosen.T)
        else:
            centre, half_range = spec.action_affine
            x = jnp.concatenate([x, (actions - centre) / half_range], -1)
        cross = jnp.matmul(x, expert.T, precision=jax.lax.Precision.HIGHEST)
        squared = jnp.square(x).sum(-1) + (jnp.square(expert).sum(-1) - 2 * cross + apart).min(-1)
        return jnp.sqrt(jnp.maximum(squared, 0.0))

    def __call__(self, observations: jax.Array, actions: jax.Array) -> jax.Array:
        """[...] rewards in [0, 1]."""
        if self.d_max == 0:  # every logged state is the expert's; another discrete action is still another
            return 1.0 * (self.distance(observations, actions) < OTHER_ACTION / 2)
        return 1 - jnp.sqrt(jnp.minimum(self.distance(observations, actions) / self.d_max, 1.0))

    def arrival(self, observations: jax.Array) -> jax.Array:
        """[...] c in [0, 1]: how much the end of an episode after these observations resembles the expert's ends."""
        assert self.goal is not None
        x, last = (observations - self.spec.obs_mean) / self.spec.obs_std, jnp.asarray(self.goal.ends, jnp.float32)
        cross = jnp.matmul(x, last.T, precision=jax.lax.Precision.HIGHEST)
        squared = jnp.square(x).sum(-1, keepdims=True) + jnp.square(last).sum(-1) - 2 * cross
        least = self.goal.sigma**2
        return jnp.minimum(1.0, (least / jnp.maximum(squared, least)).mean(-1) / self.goal.usual)

    def label(self, data: Dataset) -> Dataset:
        """The same rows, rewarded by closeness."""
        pieces = self._in_pieces(self, data)
        return replace(data, rewards=np.concatenate([*pieces, np.zeros(0, np.float32)]))

    def _in_pieces(self, function, data: Dataset) -> list[np.ndarray]:
        compiled, found = jax.jit(function), []
        for i in range(0, len(data), PIECE):
            actions = data.actions[i : i + PIECE]
            acted = self.spec.encode_actions(actions) if self.spec.discrete else actions
            found.append(np.asarray(compiled(data.observations[i : i + PIECE], acted)))
        return found


def _spread_out(data: Dataset, rows: int) -> Dataset:
    """So many rows, evenly spaced; what is left has no episodes to speak of."""
    chosen = np.linspace(0, len(data) - 1, rows).astype(int) if rows else np.zeros(0, int)
    apart = np.ones(rows, bool)
    return Dataset(
        data.observations[chosen], data.actions[chosen], data.next_observations[chosen], apart, apart,
        source=data.source,
    )  # fmt: skip
