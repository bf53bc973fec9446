"""Policies to value: what can be evaluated, policies of known value and the truth about them, and clones.

Known policies are what an estimator is checked with. Any number of them helps, and several may have made one log. The
truth about one is a mean over its own complete episodes, of the very quantity that is estimated.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, NamedTuple

import jax
import numpy as np

from ilbrl.base.errors import IlbrlError
from ilbrl.data import Dataset, concatenate
from ilbrl.learning.spec import Spec
from ilbrl.models import acting
from ilbrl.ope.evidence import Evidence, Quantity
from ilbrl.policy import Policy

_PIECE = 8192  # rows at a time: hidden layers stay in the processor's cache
PROBABILITY_SLACK = 1e-3  # how far the probabilities of a user's function may miss 1


class Sampled(NamedTuple):
    """A stochastic policy as it acted when it was logged: one sampled action per row, drawn once.

    Where actions are discrete, estimators that can use its probabilities instead draw nothing.
    """

    policy: Policy
    seed: int = 0


@dataclass(frozen=True, eq=False)
class NextActions:
    """A policy known only through its logs: a′ of each row is the action logged in the next.

    Valid on that policy's own rows and at its own initial states alone, which is why their hash comes along.
    """

    actions: np.ndarray  # [N, act_dim] or [N] the next logged action; zero where there is none
    known: np.ndarray  # [N] bool: the row has a next action, or is terminal and needs none
    initial_actions: np.ndarray  # [E, act_dim] or [E] first action of each episode
    content_hash: str  # of the log
    source: str


Evaluable = Policy | Sampled | NextActions | Callable[[np.ndarray], np.ndarray]


def logged_next_actions(log: Dataset) -> NextActions:
    """The policy behind `log`, as far as its rows show it; the last row before a time-out shows no next action."""
    last = np.append(log.episode_starts[1:], len(log)) - 1
    actions = np.roll(log.actions, -1, axis=0)
    actions[last] = 0
    known = np.ones(len(log), bool)
    known[last] = log.terminals[last]
    return NextActions(actions, known, log.actions[log.episode_starts], log.content_hash, log.source)


def act(name: str, policy: Any, observations: np.ndarray, spec: Spec) -> np.ndarray:
    """Actions of a policy that can be asked, in the user's units: [N, act_dim] float32, or [N] int64 choices.

    Of a function that answers with probabilities of choices, the most probable.
    """
    if isinstance(policy, Sampled):
        rng = np.random.default_rng(policy.seed)
        answer: Callable[[np.ndarray], np.ndarray] = lambda rows: policy.policy.act(rows, rng)  # noqa: E731
    elif isinstance(policy, Policy) and not spec.discrete and jax.default_backend() != "cpu":
        answer = compiled(policy)
    else:
        answer = getattr(policy, "act", policy)
    require_kind(name, policy, observations, spec)
    if spec.discrete and _answers_with_chances(policy, observations):
        return chances(name, policy, observations, spec).argmax(1)
    actions = _asked(name, answer, observations, () if spec.discrete else (spec.act_dim,))
    return _whole(name, actions, spec) if spec.discrete else actions.astype(np.float32)


def compiled(policy: Policy) -> Callable[[np.ndarray], np.ndarray]:
    """[N, obs_dim] → [N, act_dim] mean actions, by the accelerator: of many policies at a million logged rows, a host
    would take longer to ask than critics take to learn."""
    shape, stacked = acting.shape_of(policy), acting.stack([policy])
    return lambda rows: np.asarray(_acted(shape, stacked, rows))


@partial(jax.jit, static_argnums=0)
def _acted(shape: acting.Shape, stacked: acting.Stacked, rows: jax.Array) -> jax.Array:
    with jax.default_matmul_precision("highest"):
        return acting.act(shape, jax.tree.map(lambda leaf: leaf[0], stacked), rows)


def chances(name: str, policy: Any, observations: np.ndarray, spec: Spec) -> np.ndarray:
    """[N, num_actions] float32 probabilities with which a policy takes each discrete action.

    Of a policy that samples (`Sampled`) they are its own, and nothing is drawn; any other takes one action surely. A
    function may answer with [N] choices or with [N, num_actions] probabilities.
    """
    require_kind(name, policy, observations, spec)
    if isinstance(policy, Sampled):
        return _asked(name, policy.policy.probabilities, observations, (spec.act_dim,)).astype(np.float32)
    answer = getattr(policy, "act", policy)
    if _answers_with_chances(policy, observations):
        found = _asked(name, answer, observations, (spec.act_dim,))
        if (found < 0).any() or (np.abs(found.sum(1) - 1) > PROBABILITY_SLACK).any():
            raise IlbrlError(f"policy {name}: some of its probabilities are negative, or do not sum to 1")
        return found.astype(np.float32)
    return spec.encode_actions(act(name, policy, observations, spec))


def _answers_with_chances(policy: Any, observations: np.ndarray) -> bool:
    """Whether a user's function gives a probability for each choice, and not a choice."""
    if isinstance(policy, Policy | Sampled):
        return False
    return np.ndim(getattr(policy, "act", policy)(observations[:1])) == 2


def require_kind(name: str, policy: Any, observations: np.ndarray, spec: Spec) -> None:
    """Refuse a policy file of other observations or actions than the logs have."""
    own = policy.policy if isinstance(policy, Sampled) else policy
    if not isinstance(own, Policy):
        return
    if own.obs_dim != observations.shape[1]:
        raise IlbrlError(
            f"policy {name}: takes observations of {own.obs_dim} numbers, and those of the logs have"
            f" {observations.shape[1]}; is it a policy of this task?"
        )
    if own.num_actions != spec.num_actions:
        kinds = ["real-valued actions" if n is None else f"{n} choices" for n in (own.num_actions, spec.num_actions)]
        raise IlbrlError(
            f"policy {name}: has {kinds[0]}, and the logs have {kinds[1]}; is it a policy of this task? (Logs that do"
            " not show every choice need to be told how many there are: --num-actions)"
        )
    if own.num_actions is None and own.act_dim != spec.act_dim:
        raise IlbrlError(
            f"policy {name}: has actions of {own.act_dim} numbers, and those of the logs have {spec.act_dim}; is it a"
            " policy of this task?"
        )


def require_same_names(name: str, policy: Any, names: tuple[str, ...] | None) -> None:
    """Refuse a policy whose actions have other names, or other numbers, than those of the logs; None: no names."""
    own = policy.policy if isinstance(policy, Sampled) else policy
    if names is not None and isinstance(own, Policy) and own.action_names not in (None, names):
        raise IlbrlError(
            f"policy {name}: its actions are {', '.join(own.action_names or ())}, those of the logs {', '.join(names)}:"
            " the same number would mean different actions; read the logs with the policy's names in their order"
            " (--action-names)"
        )


def _asked(name: str, answer: Callable[[np.ndarray], Any], observations: np.ndarray, shape: tuple[int, ...]) -> Any:
    """[N, *shape] what a policy answers, asked piece by piece and checked."""
    pieces = []
    for start in range(0, len(observations), _PIECE):
        rows = observations[start : start + _PIECE]
        answered = np.asarray(answer(rows))
        if answered.shape != (len(rows), *shape):
            raise IlbrlError(
                f"policy {name}: answered observations {rows.shape} with actions {answered.shape},"
                f" expected {(len(rows), *shape)}; is it a policy of this task?"
            )
        pieces.append(answered)
    answers = np.concatenate(pieces) if pieces else np.zeros((0, *shape), np.float32)
    if not np.isfinite(answers).all():
        raise IlbrlError(f"policy {name}: some of its actions are not finite; it cannot be evaluated")
    return answers


def _whole(name: str, actions: np.ndarray, spec: Spec) -> np.ndarray:
    """[N] int64 choices; anything else is refused."""
    whole = actions.astype(np.int64)
    if (whole != actions).any() or (len(whole) and not 0 <= whole.min() <= whole.max() < spec.act_dim):
        raise IlbrlError(f"policy {name}: its actions are not all whole numbers from 0 to {spec.act_dim - 1}")
    return whole


# --- policies of known value ------------------------------------------------------------------------------------------

Variant = Literal["mean", "sampled"]
CLONING = 20_000  # updates of a clone


@dataclass(frozen=True, eq=False)
class Known:
    """A policy of known quality, and episodes that it played itself.

    Estimate and truth must be of the same variant: a stochastic policy's logs are worth something else than its mean
    action. `sampled`: the episodes are logs of sampled actions, and values bootstrap on sampled actions. `mean`:
    the episodes were played with the mean action (or the policy is deterministic), and values bootstrap on it.

    log: the name of the log in the evidence that this policy made, alone or with others; None: it made none of them.
    clone: the policy was cloned from the log, so the episodes are not its own; at best it is worth as much.
    """

    name: str
    policy: Evaluable
    episodes: Dataset
    variant: Variant = "sampled"
    log: str | None = None
    clone: bool = False

    @property
    def evaluable(self) -> Evaluable:
        """What to evaluate, in the variant that the episodes show."""
        if self.variant == "mean" or not isinstance(self.policy, Policy):
            return self.policy
        if self.policy.head == "deterministic":
            raise IlbrlError(f"known policy {self.name}: is deterministic and has no sampled variant; say `mean`")
        return Sampled(self.policy)


class Truth(NamedTuple):
    """What a known policy is truly worth, as far as its episodes tell."""

    value: float
    std_error: float  # nan for a single episode
    episodes: int
    cut_off: float  # how much of the future the returns of episodes that timed out early lack, as a share


def truth(known: Known, quantity: Quantity) -> Truth:
    """The mean over the policy's own complete episodes; those cut by the end of the file do not count."""
    log = known.episodes
    if log.rewards is None:
        raise IlbrlError(
            f"known policy {known.name}: {log.source} carries no rewards, so its true value is unknown; bring episodes"
            " with rewards, or leave it out"
        )
    require_complete(known)
    returns, lengths = quantity.returns(log)[log.complete], log.episode_lengths[log.complete]
    if not np.isfinite(returns).all():
        episode = np.flatnonzero(log.complete)[~np.isfinite(returns)][0]
        raise IlbrlError(
            f"known policy {known.name}: {log.source}: rewards of episode {episode} are not finite, so its true value"
            " is unknown; repair them or leave the episode out"
        )
    terminated = log.terminals[(log.episode_starts + log.episode_lengths - 1)[log.complete]]
    std_error = float(returns.std(ddof=1) / np.sqrt(len(returns))) if len(returns) > 1 else float("nan")
    if quantity.horizon is None:
        lacking = quantity.gamma**lengths if quantity.gamma < 1 else np.zeros(len(lengths))
    else:
        lacking = np.maximum(1 - lengths / quantity.horizon, 0.0)
    cut_off = float(np.where(terminated, 0.0, lacking).mean())
    return Truth(float(returns.mean()), std_error, len(returns), cut_off)


def require_complete(known: Known) -> None:
    """Refuse a known policy that has no complete episode of its own."""
    if not known.episodes.complete.any():
        raise IlbrlError(
            f"known policy {known.name}: {known.episodes.source} holds no complete episode of it, so its true value is"
            " unknown; bring at least one episode that ends in a terminal or a time-out"
        )


def known_policy(name: str, policy: Evaluable, evidence: Evidence, log: str) -> Known:
    """The policy behind one log of the evidence, with its held-out episodes, or all of them where none is held out."""
    if log not in evidence.logs:
        raise IlbrlError(f"known policy {name}: there is no log {log!r} among the evidence: {', '.join(evidence.logs)}")
    return Known(name, policy, evidence.held_out.get(log, evidence.logs[log]), logged_variant(policy), log)


def logged_variant(policy: Evaluable) -> Variant:
    """How a policy acts when it is logged: a stochastic one samples."""
    return "sampled" if isinstance(policy, Policy) and policy.head != "deterministic" else "mean"


def clones(
    evidence: Evidence, updates: int = CLONING, seed: int = 0, config: Any = None, quiet: bool = False
) -> list[Known]:
    """A clone of every log, for want of known policies: its rollouts are compared with the log's own episodes.

    config: of behaviour cloning; by default its own.

    A clone is not the policy that made the log, and the log's returns are not the clone's: where the two differ, the
    clone may be at fault as well as the estimator. So a calibration on clones ends in *use with care* at best.
    """
    from ilbrl.agents.fit import fit

    found = {
        name: fit("bc", log, log, config=config, seeds=[seed], updates=updates, quiet=quiet)
        for name, log in evidence.logs.items()
    }
    return [clone_of(name, learned.policies[0], evidence) for name, learned in found.items()]


def clone_of(log: str, policy: Policy, evidence: Evidence) -> Known:
    """A policy that was cloned from this log, with all its episodes that no candidate was trained on.

    A clone of discrete actions draws them, as those who were logged did: its most probable ones alone may be worth far
    more than the log, and that would be taken for the estimator's error.
    """
    episodes = evidence.logs[log]
    if log in evidence.held_out and log not in evidence.unsplit:
        episodes = concatenate([episodes, evidence.held_out[log]])
    return Known(f"clone of {log}", policy, episodes, logged_variant(policy), log=log, clone=True)
