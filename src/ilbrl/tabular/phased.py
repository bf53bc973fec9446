"""Phased Q-learning (Kearns & Singh 1998) and the three places its samples can come from.

    Q_{i+1}(s, a) = r(s, a) + γ (1/m) Σ_k V_i(s′_k),    V_i(s) = max_a Q_i(s, a),    Q_0 = 0,

with m fresh samples s′_k ~ P(· | s, a) of every pair in each of ℓ phases. A source of samples is a function
`bootstrap(phase, values)` → [S, A] empirical mean next values; no phase loops over single states, actions or samples.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import Literal, NamedTuple

import numpy as np
from scipy import sparse

from ilbrl.base.errors import IlbrlError
from ilbrl.tabular.alias import MAX_OUTCOMES, alias_table, draw
from ilbrl.tabular.exact import mixing_time, p_min
from ilbrl.tabular.logs import Log, concatenate_logs, rollout
from ilbrl.tabular.mdp import FiniteMDP, policy_chain
from ilbrl.tabular.planning import check_discount

Bootstrap = Callable[[int, np.ndarray], np.ndarray]
Unseen = Literal["pessimistic", "optimistic"]
BLOCK = 1_000_000  # counts one thread draws at a time
CHUNK = 16_384  # single draws at a time: few enough to stay in the processor's cache
MANY_SUCCESSORS = 256  # with fewer, an alias table is not worth building
DRAWS_PER_COUNT = 3  # one multinomial count takes at least as long as this many single draws


class Phased(NamedTuple):
    action_values: np.ndarray  # [S, A] Q̂_ℓ
    policy: np.ndarray  # [S] greedy; ties go to the lowest action
    deviation: float  # η′ = max |bootstrap − true expectation| over phases and pairs; NaN without `truth`


def phased_q_learning(
    rewards: np.ndarray, bootstrap: Bootstrap, gamma: float, phases: int, truth: FiniteMDP | None = None
) -> Phased:
    """ℓ = `phases` sweeps over [S, A] rewards. With `truth` the realised η′ of the concentration claim is measured."""
    check_discount(gamma)
    if phases < 1:
        raise IlbrlError(f"phased Q-learning needs at least one phase, got {phases}")
    q, deviation = np.zeros(rewards.shape), 0.0
    for phase in range(phases):
        values = q.max(axis=1)
        sampled = bootstrap(phase, values)
        if truth is not None:
            deviation = max(deviation, float(np.abs(sampled - truth.expected_next(values)).max()))
        q = rewards + gamma * sampled
    return Phased(q, q.argmax(axis=1), deviation if truth is not None else float("nan"))


# --- a generative model -------------------------------------------------------------------------------------------


def generative_model(mdp: FiniteMDP, samples: int, rng: np.random.Generator) -> Bootstrap:
    """True parallel sampling: m = `samples` draws of every pair in every phase.

    The update needs only how often each successor was drawn. With few successors these counts are drawn directly: one
    multinomial per pair, over its possible successors. With many successors most counts would be 0 or 1; single draws
    from an alias table are then cheaper.
    """
    if samples < 1:
        raise IlbrlError(f"phased Q-learning needs at least one sample per pair, got {samples}")
    successors, odds = _successors(mdp)
    if max(MANY_SUCCESSORS, samples / DRAWS_PER_COUNT) <= odds.shape[1] <= MAX_OUTCOMES:
        return _from_draws(mdp, successors, samples, rng)
    return _from_counts(mdp, successors, odds, samples, rng)


def _from_counts(
    mdp: FiniteMDP, successors: np.ndarray | None, odds: np.ndarray, samples: int, rng: np.random.Generator
) -> Bootstrap:
    def bootstrap(phase: int, values: np.ndarray) -> np.ndarray:
        counts = _multinomial(samples, odds, rng)
        means = counts @ values if successors is None else np.einsum("pk,pk->p", counts, values[successors])
        return (means / samples).reshape(mdp.rewards.shape)

    return bootstrap


def _from_draws(mdp: FiniteMDP, successors: np.ndarray | None, samples: int, rng: np.random.Generator) -> Bootstrap:
    table, step = _alias_table(mdp), max(1, CHUNK // samples)

    def bootstrap(phase: int, values: np.ndarray) -> np.ndarray:
        means = np.empty(len(table))
        for start in range(0, len(table), step):
            rows = slice(start, start + step)
            drawn = draw(table[rows], samples, rng)
            if successors is None:
                means[rows] = values[drawn].mean(axis=1)
            else:
                means[rows] = np.take_along_axis(values[successors[rows]], drawn, axis=1).mean(axis=1)
        return means.reshape(mdp.rewards.shape)

    return bootstrap


@lru_cache(maxsize=1)  # building a table takes as long as some phases; it is as large as its MDP, so one is kept
def _alias_table(mdp: FiniteMDP) -> np.ndarray:
    return alias_table(_successors(mdp)[1])


def _successors(mdp: FiniteMDP) -> tuple[np.ndarray | None, np.ndarray]:
    """[S·A, k] possible successors (None: all states, in order) and their probabilities, rows padded to one width.

    Padding repeats the last successor with probability 0. A remainder from rounding then falls on a possible successor.
    """
    dense = isinstance(mdp.transitions, np.ndarray)
    if dense and 2 * np.count_nonzero(mdp.transitions, axis=1).max() > mdp.num_states:
        return None, mdp.transitions / mdp.transitions.sum(axis=1, keepdims=True)
    table = sparse.csr_array(mdp.transitions)
    table.eliminate_zeros()
    degree = np.diff(table.indptr)
    width = int(degree.max())
    offset = np.arange(width)
    position = table.indptr[:-1, None] + np.minimum(offset, degree[:, None] - 1)
    odds = np.where(offset < degree[:, None], table.data[position], 0.0)
    return table.indices[position], odds / odds.sum(axis=1, keepdims=True)


def _multinomial(samples: int, odds: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """[P, k] counts. Large tables are drawn in blocks by threads: NumPy releases the interpreter lock while it draws.

    Each block has its own child generator, so the result does not depend on the number of threads.
    """
    blocks = -(-odds.size // BLOCK)
    if blocks == 1:
        return rng.multinomial(samples, odds)
    with ThreadPoolExecutor() as threads:
        pieces = threads.map(
            lambda g, rows: g.multinomial(samples, rows), rng.spawn(blocks), np.array_split(odds, blocks)
        )
        return np.concatenate(list(pieces))


# --- parallel sampling simulated from one trajectory (Lemma 4) ----------------------------------------------------


def sampling_interval(explorer_mixing_time: int, p_min: float) -> int:
    """T = t_X ⌈log₂(2 / p_min)⌉: after T steps the chain is within p_min / 2 of ρ_X in total variation."""
    return explorer_mixing_time * int(np.ceil(np.log2(2 / p_min)))


def parallel_samples(log: Log, interval: int, per_pair: int, num_states: int, num_actions: int) -> np.ndarray:
    """[S·A, per_pair] next states, in the order met, from every `interval`-th transition of an explorer's log.

    Raises if some pair has fewer than `per_pair` = m·ℓ: the failure whose probability Lemma 4 bounds.
    """
    kept = log[:: max(interval, 1)]
    kept.check(num_states, num_actions)
    pair = kept.states * num_actions + kept.actions
    counts = np.bincount(pair, minlength=num_states * num_actions)
    if (rarest := int(counts.argmin()), int(counts.min()))[1] < per_pair:
        raise IlbrlError(
            f"the explorer's log does not cover the MDP: (s, a) = {divmod(rarest, num_actions)} has {counts.min()} of"
            f" the {per_pair} samples wanted; log for longer, or ask for fewer (m·ℓ)"
        )
    order = np.argsort(pair, kind="stable")
    first = np.cumsum(counts) - counts
    return kept.next_states[order[first[:, None] + np.arange(per_pair)]]


def simulated_sampling(
    mdp: FiniteMDP,
    explorer: np.ndarray,
    samples: int,
    phases: int,
    rng: np.random.Generator,
    max_steps: int = 10_000_000,
) -> tuple[Bootstrap, int]:
    """Parallel sampling from one trajectory of the explorer, continued until every pair has its m·ℓ samples.

    Returns the source and the number of transitions it took (compare `lemmas.lemma4_transitions`, times m·ℓ).
    """
    interval = sampling_interval(mixing_time(policy_chain(mdp, explorer)), smallest := p_min(mdp, explorer))
    wanted, kept = samples * phases, Log(*np.empty((3, 0), np.int64))
    state, steps = None, 0
    while (counts := kept.counts(mdp.num_states, mdp.num_actions)).min() < wanted:
        chunk = interval * max(1, int((wanted - counts.min()) / smallest))
        if steps + chunk > max_steps:
            raise IlbrlError(f"simulating m·ℓ = {wanted:,} parallel samples takes more than {max_steps:,} steps")
        log = rollout(mdp, explorer, chunk, rng, state)
        state, steps = int(log.next_states[-1]), steps + chunk
        kept = concatenate_logs([kept, log[interval - 1 :: interval]])
    table = parallel_samples(kept, 1, wanted, mdp.num_states, mdp.num_actions)
    return from_samples(table.reshape(*mdp.rewards.shape, phases, samples)), steps


def from_samples(next_states: np.ndarray) -> Bootstrap:
    """Phase i uses next_states[:, :, i] of an [S, A, ℓ, m] table of samples."""
    return lambda phase, values: values[next_states[:, :, phase]].mean(axis=-1)


# --- a plain batch ------------------------------------------------------------------------------------------------


def batch(log: Log, num_states: int, num_actions: int, gamma: float, unseen: Unseen = "pessimistic") -> Bootstrap:
    """Every phase reuses all logged samples of a pair: value iteration on the empirical model.

    A pair that never occurs has no sample. `pessimistic`: its next value is 0, the least any policy can earn, so the
    learner stays with what it has seen. `optimistic`: it is 1/(1 − γ), the most that rewards in [0, 1] allow.
    Samples that several phases use are not independent of V_i, so Lemma 3 does not hold for this source. Lemmas 1 and 2
    hold, with the realised η′.
    """
    check_discount(gamma)
    counts = log.counts(num_states, num_actions).ravel()
    rows = log.states * num_actions + log.actions
    odds = 1 / counts[rows]
    model = sparse.csr_array((odds, (rows, log.next_states)), shape=(num_states * num_actions, num_states))
    filler = np.where(counts > 0, 0.0, {"pessimistic": 0.0, "optimistic": 1 / (1 - gamma)}[unseen])
    return lambda phase, values: (model @ values + filler).reshape(num_states, num_actions)
