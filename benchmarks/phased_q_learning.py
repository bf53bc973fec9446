"""Speed of one phase of phased Q-learning, against a plain Python loop in the same run.

    python benchmarks/phased_q_learning.py [--states 1000] [--actions 10] [--samples 1000] [--json]

Worlds:
  garnet  random MDP, 10 successors per state–action
  dense   random MDP, every state a successor of every state–action
  chain   RiverSwim of 100,000 states, sparse (`ilbrl` alone: the loop would take minutes)
Contestants:
  ilbrl   `phased_q_learning` with a `generative_model`: multinomial counts of all pairs at once (garnet, chain) or
          single draws from alias tables (dense), which are built once per MDP: `set-up`
  loop    the update as it is written: for each state, each action, each sample, draw s′ with `random.choices` from
          cumulative weights prepared beforehand, and add max_a Q(s′, a). Timed on the first 20 states, then scaled
Time is processor time, of all threads together.
Goals: ilbrl well below a second per phase; at least 100 times the loop on both. The loop must agree with ilbrl.
"""

from __future__ import annotations

import argparse
import json
import random
import time

import numpy as np
from scipy import sparse

from ilbrl.tabular.mdp import FiniteMDP
from ilbrl.tabular.phased import generative_model
from ilbrl.tabular.worlds import garnet, river_swim

LOOP_STATES = 20


def vectorised(mdp: FiniteMDP, samples: int, q: np.ndarray, phases: int = 5) -> tuple[np.ndarray, float, float]:
    """[S, A] mean bootstrap over `phases`, seconds of the fastest phase (the first not counted), seconds of set-up."""
    started = time.process_time()
    bootstrap, values = generative_model(mdp, samples, np.random.default_rng(0)), q.max(axis=1)
    set_up = time.process_time() - started
    bootstrap(0, values)
    results, seconds = [], []
    for phase in range(phases):
        started = time.process_time()
        results.append(bootstrap(phase, values))
        seconds.append(time.process_time() - started)
    return np.mean(results, axis=0), min(seconds), set_up


def loop(mdp: FiniteMDP, samples: int, q: np.ndarray) -> tuple[np.ndarray, float]:
    """[LOOP_STATES, A] bootstrap and the seconds a whole phase would take."""
    rows, draws, table = sparse.csr_array(mdp.transitions), random.Random(0), q.tolist()
    successors = [rows.indices[a:b].tolist() for a, b in zip(rows.indptr[:-1], rows.indptr[1:])]
    weights = [np.cumsum(rows.data[a:b]).tolist() for a, b in zip(rows.indptr[:-1], rows.indptr[1:])]
    means = np.empty((LOOP_STATES, mdp.num_actions))
    started = time.process_time()
    for s in range(LOOP_STATES):
        for a in range(mdp.num_actions):
            row, total = s * mdp.num_actions + a, 0.0
            for _ in range(samples):
                following = draws.choices(successors[row], cum_weights=weights[row])[0]
                total += max(table[following])
            means[s, a] = total / samples
    return means, (time.process_time() - started) * mdp.num_states / LOOP_STATES


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--states", type=int, default=1_000)
    parser.add_argument("--actions", type=int, default=10)
    parser.add_argument("--samples", type=int, default=1_000)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    size, rng = (options.states, options.actions), np.random.default_rng(0)
    dense = FiniteMDP(rng.dirichlet(np.ones(size[0]), size[0] * size[1]), rng.random(size), name="dense")
    results = {}
    for name, mdp in (("garnet", garnet(*size, rng, branching=10)), ("dense", dense), ("chain", river_swim(100_000))):
        q = np.random.default_rng(1).random(mdp.rewards.shape)
        ours, seconds, set_up = vectorised(mdp, options.samples, q)
        results[name] = {"states": mdp.num_states, "actions": mdp.num_actions}
        results[name] |= {"ilbrl_seconds": seconds, "set_up_seconds": set_up}
        if name != "chain":
            theirs, loop_seconds = loop(mdp, options.samples, q)
            noise = 5 / np.sqrt(options.samples)  # values lie in [0, 1]
            np.testing.assert_allclose(theirs, ours[:LOOP_STATES], atol=noise)
            results[name] |= {"loop_seconds": loop_seconds, "ratio": loop_seconds / seconds}
    if options.json:
        print(json.dumps(results, indent=2))
        return
    for name, row in results.items():
        beside = f", loop {row['loop_seconds']:.1f} s: {row['ratio']:,.0f} times" if "ratio" in row else ""
        world = f"{name:<7} {row['states']:>7,} × {row['actions']:<2} m = {options.samples:,}"
        ours = f"{1000 * row['ilbrl_seconds']:.1f} ms per phase, set-up {row['set_up_seconds']:.2f} s"
        print(f"{world}: {ours}{beside}")


if __name__ == "__main__":
    main()
