"""Finite MDPs to experiment in: Garnet, grid world, RiverSwim, and Gymnasium's toy-text environments.

All are continuing (average-reward) processes with rewards in [0, 1]. Garnets and grid worlds are ergodic under every
policy, as Assumption 2 asks; RiverSwim is ergodic under every policy that swims.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse import csgraph

from ilbrl.base.errors import IlbrlError
from ilbrl.tabular.mdp import FiniteMDP, GridLayout

RING = 0.05  # probability a Garnet spends on the moves that make it ergodic
MOST_NUMBERS = 250_000_000  # 2 GB of transitions
NAMES = "garnet:SxA (for example garnet:20x4), grid:HxW, riverswim:N, or a Gymnasium toy-text id such as FrozenLake-v1"


def world(name: str, seed: int = 0, restart: float = 0.01) -> FiniteMDP:
    """An MDP from its name on the command line: see `NAMES`."""
    if seed < 0:
        raise IlbrlError(f"seed {seed}: a seed cannot be negative")
    if match := re.fullmatch(r"garnet:(\d{1,9})x(\d{1,9})", name):
        states, actions = int(match[1]), int(match[2])
        _require_room(name, states * actions * states)
        return garnet(states, actions, np.random.default_rng(seed))
    if match := re.fullmatch(r"grid:(\d{1,9})x(\d{1,9})", name):
        height, width = int(match[1]), int(match[2])
        _require_room(name, 4 * (height * width) ** 2)
        return grid_world(height, width)
    if match := re.fullmatch(r"riverswim:(\d{1,9})", name):
        _require_room(name, 8 * int(match[1]))  # sparse where it is large
        return river_swim(int(match[1]))
    if ":" in name:
        raise IlbrlError(f"no world {name!r}; choose {NAMES}")
    return toy_text(name, restart=restart)


def _require_room(name: str, numbers: int) -> None:
    if numbers > MOST_NUMBERS:
        raise IlbrlError(f"{name}: its transitions would be {numbers:,} numbers, at most {MOST_NUMBERS:,} are held")


def garnet(
    num_states: int, num_actions: int, rng: np.random.Generator, branching: int = 5, sparsely: bool = False
) -> FiniteMDP:
    """A random MDP (Archibald et al. 1995): each pair leads to `branching` random states, with random probabilities.

    Ergodic under every policy: `RING` of each row's probability is spent half on staying, half on s + 1 (mod S).
    Rewards are uniform on [0, 1].
    """
    if num_states < 2 or num_actions < 1 or branching < 1:
        raise IlbrlError("a Garnet needs at least 2 states, 1 action and 1 branch")
    branching, pairs = min(branching, num_states), num_states * num_actions
    if num_states <= 1_000:
        successors = np.argsort(rng.random((pairs, num_states)), axis=1)[:, :branching]
    else:  # repeated successors are rare here; their probabilities add up
        successors = rng.integers(num_states, size=(pairs, branching))
    here = np.repeat(np.arange(num_states), num_actions)
    columns = np.column_stack([successors, here, (here + 1) % num_states])
    odds = (1 - RING) * rng.dirichlet(np.ones(branching), pairs)
    odds = np.column_stack([odds, np.full((pairs, 2), RING / 2)])
    rows = np.repeat(np.arange(pairs), branching + 2)
    transitions = sparse.csr_array((odds.ravel(), (rows, columns.ravel())), shape=(pairs, num_states))
    return FiniteMDP(
        transitions if sparsely else transitions.toarray(),
        rng.random((num_states, num_actions)),
        name=f"garnet:{num_states}x{num_actions}",
    )


def grid_world(height: int, width: int, slip: float = 0.1, sparsely: bool = False) -> FiniteMDP:
    """A room with a start (top left) and a goal (bottom right); actions ↑ → ↓ ←, walls stop you.

    A move goes astray with probability `slip`, in a uniformly random direction. Any action at the goal earns 1 and
    starts over; every other reward is 0.
    """
    if height < 2 or width < 2 or not 0 < slip <= 1:
        raise IlbrlError("a grid world needs at least 2 × 2 cells and 0 < slip ≤ 1 (without slips it is not ergodic)")
    cells = np.arange(height * width)
    row, column = np.divmod(cells, width)
    moved = np.stack(
        [
            np.clip(row + dy, 0, height - 1) * width + np.clip(column + dx, 0, width - 1)
            for dy, dx in ((-1, 0), (0, 1), (1, 0), (0, -1))
        ],
        axis=1,
    )  # [S, 4] where each direction leads
    moved[-1] = 0
    odds = np.full((4, 4), slip / 4) + (1 - slip) * np.eye(4)  # [intended, actual]
    rows = np.repeat(np.arange(4 * len(cells)), 4)
    columns = np.broadcast_to(moved[:, None, :], (len(cells), 4, 4)).ravel()
    data = np.broadcast_to(odds, (len(cells), 4, 4)).ravel()
    transitions = sparse.csr_array((data, (rows, columns)), shape=(4 * len(cells), len(cells)))
    rewards = np.zeros((len(cells), 4))
    rewards[-1] = 1
    start = np.zeros(len(cells))
    start[0] = 1
    layout = GridLayout((" " * width,) * height, cells, "↑→↓←")
    dense_or_not = transitions if sparsely else transitions.toarray()
    return FiniteMDP(dense_or_not, rewards, start, f"grid:{height}x{width}", layout)


def river_swim(num_states: int, sparsely: bool | None = None) -> FiniteMDP:
    """RiverSwim (Strehl & Littman 2008): swim right against the current for 1, or drift left for 0.005.

    Left always succeeds; right moves on with 0.35, holds with 0.6 and is swept back with 0.05 (ends: 0.6 on and 0.4
    hold at the left, 0.6 hold and 0.4 back at the right). Sparse by default beyond 1,000 states.
    """
    if num_states < 2:
        raise IlbrlError("RiverSwim needs at least 2 states")
    n, last = num_states, num_states - 1
    inner = np.arange(1, last)
    drift = [(2 * np.arange(n), np.maximum(np.arange(n) - 1, 0), np.ones(n))]
    swim = [(2 * inner + 1, inner + step, np.full(len(inner), p)) for step, p in ((1, 0.35), (0, 0.6), (-1, 0.05))]
    left = [(np.array([1]), np.array([to]), np.array([p])) for to, p in ((1, 0.6), (0, 0.4))]
    right = [(np.array([2 * last + 1]), np.array([to]), np.array([p])) for to, p in ((last, 0.6), (last - 1, 0.4))]
    rows, columns, odds = (np.concatenate(part) for part in zip(*drift, *swim, *left, *right))
    transitions = sparse.csr_array((odds, (rows, columns)), shape=(2 * n, n))
    rewards = np.zeros((n, 2))
    rewards[0, 0], rewards[last, 1] = 0.005, 1.0
    start = np.zeros(n)
    start[0] = 1
    layout = GridLayout((" " * n,), np.arange(n), "←→") if n <= 100 else None
    as_sparse = n > 1_000 if sparsely is None else sparsely
    dense_or_not = transitions if as_sparse else transitions.toarray()
    return FiniteMDP(dense_or_not, rewards, start, f"riverswim:{n}", layout)


_TOY_TEXT_GLYPHS = {"FrozenLake": "←↓→↑", "CliffWalking": "↑→↓←"}


def toy_text(env_id: str, restart: float = 0.01, **options: Any) -> FiniteMDP:
    """A Gymnasium toy-text environment as a continuing, ergodic MDP, read from its table `P`.

    - A terminal state restarts at once: a move into it leads to a state drawn from the initial distribution instead,
      its reward kept. Terminal states therefore disappear, and so do states no start can reach.
    - With probability `restart` a step leads to a uniformly random state: without it an expert that never errs would
      make a chain that is not irreducible (Assumption 2).
    - Rewards are the expected r(s, a), mapped to [0, 1] by (r − min) / (max − min), which changes no optimal policy.

    The average criterion sees only the reward per step in `P`. CliffWalking pays −1 for every step, the last one too:
    there every policy that never falls is optimal, even one that never arrives.

    `origin` holds each state's number in Gymnasium. `options` go to `gymnasium.make`.
    """
    if not 0 <= restart < 1:
        raise IlbrlError(f"the restart probability must lie in [0, 1), got {restart}")
    table, initial, env = _toy_text_table(env_id, options)
    n, actions = len(table), len(table[0])
    rows, columns, odds, ends, gains = map(
        np.array,
        zip(
            *(
                (s * actions + a, int(following), float(p), bool(over), float(reward))
                for s in range(n)
                for a in range(actions)
                for p, following, reward, over in table[s][a]
            )
        ),
    )
    step = sparse.csr_array((odds * ~ends, (rows, columns)), shape=(n * actions, n)).toarray()
    step += np.bincount(rows, odds * ends, n * actions)[:, None] * initial
    rewards = np.bincount(rows, odds * gains, n * actions)
    reachable = _reachable(step.reshape(n, actions, n).max(axis=1), initial)
    kept_rows = (reachable[:, None] * actions + np.arange(actions)).ravel()
    step, rewards, initial = step[kept_rows][:, reachable], rewards[kept_rows], initial[reachable]
    step = (1 - restart) * step / step.sum(axis=1, keepdims=True) + restart / len(reachable)
    span = float(np.ptp(rewards)) or 1.0
    return FiniteMDP(
        step,
        ((rewards - rewards.min()) / span).clip(0, 1).reshape(-1, actions),
        initial / initial.sum(),
        env_id,
        _toy_text_layout(env_id, env, reachable),
        reachable,
    )


def _toy_text_table(env_id: str, options: dict[str, Any]) -> tuple[Any, np.ndarray, Any]:
    try:
        import gymnasium
    except ImportError:
        raise IlbrlError(f"{env_id} needs Gymnasium: pip install 'ilbrl[benchmark]'") from None
    try:
        env = gymnasium.make(env_id, **options).unwrapped
    except (gymnasium.error.Error, ImportError) as error:
        raise IlbrlError(f"no environment {env_id!r} ({error}); choose {NAMES}") from None
    table, initial = getattr(env, "P", None), getattr(env, "initial_state_distrib", None)
    if table is None or initial is None:
        raise IlbrlError(f"{env_id} has no transition table `P`: not a tabular toy-text environment")
    return table, np.asarray(initial, np.float64), env


def _reachable(graph: np.ndarray, initial: np.ndarray) -> np.ndarray:
    """Sorted states that some policy reaches from the initial distribution."""
    starts = np.flatnonzero(initial)
    hub = np.zeros((len(graph) + 1, len(graph) + 1))
    hub[:-1, :-1], hub[-1, starts] = graph, 1
    order = csgraph.breadth_first_order(sparse.csr_array(hub), len(graph), return_predecessors=False)
    return np.sort(order[order < len(graph)])


def _toy_text_layout(env_id: str, env: Any, reachable: np.ndarray) -> GridLayout | None:
    glyphs = next((g for prefix, g in _TOY_TEXT_GLYPHS.items() if env_id.startswith(prefix)), None)
    if glyphs is None:
        return None
    desc = getattr(env, "desc", None)
    background = (
        ["".join(c.decode() for c in row) for row in desc] if desc is not None else ["·" * env.shape[1]] * env.shape[0]
    )
    return GridLayout(tuple(background), reachable, glyphs)
